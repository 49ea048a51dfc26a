"""The direction of imports: each room uses only what lies below it (docs/architecture.md)."""

import ast
from pathlib import Path

from tests.conftest import ROOT

# From the bottom up; a room may import from its own level only itself.
LEVELS = (
    ("errors", "paths", "seeding"),
    ("schedule",),
    ("methods",),
    ("recipe",),
    ("store",),
    ("data", "models", "gradient"),
    ("pipeline",),
    ("progress",),
    ("experiments", "verification", "report"),
    ("runner", "benchmarks"),
    ("commands",),
)
LEVEL = {room: i for i, rooms in enumerate(LEVELS) for room in rooms}
# Drawing and measuring read the networks; the reports read the gradient schedules.
WITHIN_A_LEVEL = {("gradient", "models")}
WITHOUT_TORCH = ("errors", "paths", "seeding", "schedule", "methods", "recipe", "store", "report")


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


def test_rooms_import_only_what_lies_below_them() -> None:
    wrong = []
    for file in sorted((ROOT / "repro").rglob("*.py")):
        room = file.relative_to(ROOT / "repro").parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        assert room in LEVEL, f"{file}: give '{room}' a place in LEVELS"
        for name in imports(file):
            parts = name.split(".")
            if parts[0] != "repro" or len(parts) < 2 or parts[1] not in LEVEL or parts[1] == room:
                continue
            below = LEVEL[parts[1]] < LEVEL[room] or (room, parts[1]) in WITHIN_A_LEVEL
            if not below:
                wrong.append(f"{file.relative_to(ROOT)} imports {name}")
    assert not wrong, "\n".join(wrong)


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
