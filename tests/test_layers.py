"""The direction of imports: each room uses only what lies below it (docs/architecture.md)."""

import ast
from pathlib import Path

from tests.conftest import ROOT

# From the bottom up; a room may import from its own level only itself. A folder inside a room may be a room
# of its own.
LEVELS = (
    ("errors", "paths", "seeding", "cores", "own_classes"),
    ("schedule",),
    ("methods", "corrections"),
    ("recipe",),
    ("store", "holding"),
    ("models", "report.stats", "report.rounding", "report.folder", "cluster"),
    ("data", "gradient", "report.table", "standing"),
    ("planning", "report.stored"),
    ("engine.transport", "report.measures"),
    ("engine.block", "report.claims"),
    ("engine.processes", "oracle", "report.tables", "report.figures"),
    ("progress", "report.pages", "report.diff", "hosts", "trackers"),
    ("experiments", "verification"),
    ("runner",),
    ("side_by_side",),
    ("benchmarks",),
    ("commands",),
    ("worker",),
)
LEVEL = {room: i for i, rooms in enumerate(LEVELS) for room in rooms}
WITHOUT_TORCH = (
    "errors",
    "paths",
    "seeding",
    "cores",
    "own_classes",
    "schedule",
    "methods",
    "corrections",
    "recipe",
    "store",
    "holding",
    "cluster",
    "standing",
    "report",
)


def imports(file: Path) -> set[str]:
    """Full names of the modules that a file imports anywhere, type-checking blocks left out."""
    tree = ast.parse(file.read_text())
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def room_of(name: str) -> str | None:
    """The room of a module `repro.a.b.c`: "a.b" where that is one, else "a"; None for a folder that only holds rooms."""
    parts = name.split(".")[1:]
    return next((room for n in (2, 1) if (room := ".".join(parts[:n])) in LEVEL), None)


def test_rooms_import_only_what_lies_below_them() -> None:
    wrong = []
    for file in sorted((ROOT / "repro").rglob("*.py")):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        room = room_of(name)
        if room is None:
            assert not imports(file), f"{file}: give it a place in LEVELS"
            continue
        for imported in imports(file):
            other = room_of(imported) if imported.startswith("repro.") else None
            if other is not None and other != room and LEVEL[other] >= LEVEL[room]:
                wrong.append(f"{file.relative_to(ROOT)} imports {imported}")
    assert not wrong, "\n".join(wrong)


def test_a_name_is_one_file() -> None:
    """A name says where one is: no two modules share it, but for a verb of the command line and what it runs.

    A user types repro.worker, too: torchrun starts it.
    """
    typed = ROOT / "repro" / "worker.py"
    places: dict[str, list[str]] = {}
    for file in sorted((ROOT / "repro").rglob("*.py")):
        if file.stem != "__init__" and file.parent.name != "commands" and file != typed:
            places.setdefault(file.stem, []).append(str(file.relative_to(ROOT)))
    assert [found for found in places.values() if len(found) > 1] == []


def test_recipes_and_reports_need_no_torch() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}"
        for room in WITHOUT_TORCH
        for file in [*(ROOT / "repro").glob(f"{room}.py"), *(ROOT / "repro" / room).rglob("*.py")]
        if any(name.split(".")[0] in ("torch", "torchvision") for name in imports(file))
    ]
    assert not wrong, "\n".join(wrong)


def test_modules_stay_small() -> None:
    long = [
        f"{file.relative_to(ROOT)}: {count} lines"
        for file in sorted((ROOT / "repro").rglob("*.py"))
        if (count := len(file.read_text().splitlines())) > 320
    ]
    assert not long, "\n".join(long)
