"""How two runs, or two recipes, differ: settings, environment, losses, final numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from repro.errors import UserError
from repro.report import stats
from repro.report.stored.group import Group, shares_start
from repro.report.stored.origin import flatten
from repro.report.stored.pairing import partner
from repro.report.stored.source import Source, on_text
from repro.report.table import Column, Measured, Table, Value
from repro.store import RunFolder, read_metrics

COLUMNS = [
    Column("part", "part", once=True, wrap=30),
    Column("what", "what", wrap=44),
    Column("a", "A", wrap=44),
    Column("b", "B", wrap=44),
    Column("change", "B - A"),
]
_NUMBERS = (
    "status", "num_steps", "train_seconds", "seconds_per_batch", "images_per_second", "tokens_per_second", "busy_seconds",
    "peak_memory_bytes",
    "test_accuracy_last", "test_accuracy_best", "test_bits_per_byte_last", "test_bits_per_byte_best",
    "oversubscribed", "device", "machine", "threads", "cut",
)  # fmt: skip


@dataclass
class _Side:
    name: str
    settings: dict[str, Any]
    environment: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    is_run: bool = False
    recipe: str = ""


def compare(a: str, b: str, runs_root: Path, *, fallback: bool = True) -> Table:
    """Compare two runs (a seed's folder, or `<recipe>/<hash>/seed-<s>` under `runs_root`) or two recipes (name or YAML).

    Only what differs gets a row. UserError where a word is neither a run nor a recipe, or one is a run and
    one a recipe.
    """
    left, right = _read(a, runs_root), _read(b, runs_root)
    if left.is_run != right.is_run:
        raise UserError(
            f"'{a}' is a {_kind(left)} and '{b}' is a {_kind(right)}: give two runs or two recipes"
        )
    table = Table("diff", COLUMNS)
    settings = _different("settings", flatten(left.settings), flatten(right.settings))
    table.rows += settings
    table.caption = [f"A: {left.name}", f"B: {right.name}"]
    if not settings:
        table.caption.append("All settings are the same.")
    if left.is_run:
        environment = _different("environment", flatten(left.environment), flatten(right.environment))
        table.rows += environment
        if not environment:
            table.caption.append("The environments are the same.")
        table.rows += _losses(left, right)
        table.rows += _different(
            "result", {k: left.result.get(k) for k in _NUMBERS}, {k: right.result.get(k) for k in _NUMBERS}
        )
    else:
        table.rows += _means(left, right, Source(runs_root, fallback=fallback))
    return table


def _means(a: _Side, b: _Side, source: Source) -> list[dict[str, Value]]:
    """Final numbers of two recipes, where both have finished runs in the same profile and on the same device."""
    found = source.find(lambda run: run.recipe_name in (a.recipe, b.recipe))
    rows: list[dict[str, Value]] = []
    whose = "the project's reference" if found.reference else "your"
    one, two = ([g for g in found.groups if g.recipe == side.recipe and g.complete] for side in (a, b))
    for left, right in _pairs(one, two):
        score = "test_bits_per_byte" if all(map(on_text, (left.runs[0], right.runs[0]))) else "test_accuracy"
        for name in (f"{score}_last", f"{score}_best", "seconds_per_batch"):
            change = difference(left=right, right=left, name=name)
            values = {"a": left.measured(name), "b": right.measured(name), "change": change}
            part = f"{whose} runs, profile {left.profile}, {left.device}"
            if left.variant or right.variant:
                part += f"; {left.title} and {right.title}"
            if name == "seconds_per_batch" and (left.oversubscribed or right.oversubscribed):
                part += "; blocks share cores or devices: no speed-up can be read"
            rows.append({"part": part, "what": name, **values})
    return rows


def _pairs(one: list[Group], two: list[Group]) -> list[tuple[Group, Group]]:
    """Each group of either recipe beside the other's of the same changed settings, else of its own ones."""

    def alike(group: Group, others: list[Group]) -> list[Group]:
        place = (group.profile, group.device, group.data)
        return [g for g in others if (g.profile, g.device, g.data) == place]

    found = [(g, other) for g in one if (other := partner(g, alike(g, two))) is not None]
    found += [(other, g) for g in two if (other := partner(g, alike(g, one))) is not None]
    return [pair for i, pair in enumerate(found) if pair not in found[:i]]


def difference(left: Group, right: Group, name: str) -> Measured:
    """`left` minus `right` over seeds, in pairs where that is real."""
    paired = shares_start(left, right)
    return Measured(stats.difference(left.values(name), right.values(name), paired=paired), len(left.started))


def _read(word: str, root: Path) -> _Side:
    for path in (Path(word), root / word):
        if (path / "recipe.yaml").is_file():
            return _run(path)
        if _is_recipe(word):  # a recipe's name means the recipe, however many runs it has
            continue
        seeds = sorted(path.glob("seed-*/recipe.yaml")) or sorted(path.glob("*/seed-*/recipe.yaml"))
        if path.is_dir() and len(seeds) == 1:
            return _run(seeds[0].parent)
        if path.is_dir() and seeds:
            found = ", ".join(str(s.parent) for s in seeds[:3])
            raise UserError(f"'{word}' holds {len(seeds)} runs: name one of them, for example {found}")
    from repro.recipe import load

    try:
        recipe = load(word)
    except UserError as error:
        raise UserError(
            f"'{word}' is neither the folder of a run (looked in . and {root}) nor a recipe: {error}"
        ) from None
    return _Side(
        f"recipe {recipe.name} (settings of profile paper)",
        recipe.model_dump(mode="json"),
        recipe=recipe.name,
    )


def _is_recipe(word: str) -> bool:
    from repro.recipe import is_recipe

    return is_recipe(word)


def _run(path: Path) -> _Side:
    folder = RunFolder(path)
    settings: Any = {}
    environment: Any = {}
    with suppress(OSError, ValueError, yaml.YAMLError):
        settings = yaml.safe_load((path / "recipe.yaml").read_text(encoding="utf-8"))
        environment = yaml.safe_load((path / "env.json").read_text(encoding="utf-8"))
    if not isinstance(settings, dict) or not settings:
        raise UserError(f"{path / 'recipe.yaml'} cannot be read")
    result = folder.read_result() or {"status": "unfinished"}
    environment = environment if isinstance(environment, dict) else {}
    return _Side(f"run {path}", settings, environment, result, read_metrics(folder.metrics), True)


def _kind(side: _Side) -> str:
    return "run" if side.is_run else "recipe"


def _different(part: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = []
    for key in dict.fromkeys([*a, *b]):
        old, new = a.get(key), b.get(key)
        if old != new:
            change = new - old if _is_number(old) and _is_number(new) else None
            rows.append(
                {"part": part, "what": key, "a": _short(old), "b": _short(new), "change": _short(change)}
            )
    return rows


def _losses(a: _Side, b: _Side) -> list[dict[str, Value]]:
    """Where the step losses part, and by how much; and the last epochs."""
    first, second = _steps(a), _steps(b)
    common = sorted(set(first) & set(second))
    apart = [s for s in common if first[s] != second[s]]
    rows: list[dict[str, Value]] = []
    words = f"{len(common)} steps in both"
    if common and not apart:
        rows.append({"part": "losses", "what": words, "a": "equal", "b": "equal bit for bit", "change": "0"})
    elif apart:
        step = apart[0]
        change = first[step], second[step]
        rows.append(
            {"part": "losses", "what": f"{words}; first difference at step {step}", **_pair(*change)}
        )  # fmt: skip
        worst = max(apart, key=lambda s: abs(second[s] - first[s]))
        rows.append(
            {
                "part": "losses",
                "what": f"largest difference, step {worst}",
                **_pair(first[worst], second[worst]),
            }
        )
        last = common[-1]
        rows.append(
            {"part": "losses", "what": f"last common step, {last}", **_pair(first[last], second[last])}
        )
    return rows + _epochs(a, b)


def _epochs(a: _Side, b: _Side) -> list[dict[str, Value]]:
    ends = [[r for r in side.rows if r.get("kind") == "epoch"] for side in (a, b)]
    if not all(ends):
        return []
    one, two = ends[0][-1], ends[1][-1]
    scores = ("test_accuracy", "test_bits_per_byte", "test_perplexity")
    keys = ("epoch", "train_loss", "test_loss", *scores, "train_seconds")
    return _different("last epoch", {k: one.get(k) for k in keys}, {k: two.get(k) for k in keys})


def _steps(side: _Side) -> dict[int, float]:
    rows = (r for r in side.rows if r.get("kind") == "step" and _is_number(r.get("loss")))
    return {int(r["step"]): float(r["loss"]) for r in rows if math.isfinite(r["loss"])}


def _pair(old: float, new: float) -> dict[str, Value]:
    return {"a": _short(old), "b": _short(new), "change": _short(new - old)}


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _short(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(_short(v) for v in value)
    return str(value)
