"""What all tables of runs share: where and on what a row was made, the order of rows, the notes behind a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from repro.report.stats import small_sample_warning
from repro.report.stored.group import Group, data_label, gradient_label, numbers_of_data, value_words
from repro.report.stored.pairing import partner
from repro.report.stored.source import Found
from repro.report.stored.variants import swept
from repro.report.table import Column, Measured, Table, Value

CONTEXT = (
    Column("model", "model", context=True),
    Column("data", "data", context=True),
    Column("profile", "profile", context=True),
    Column("device", "device", context=True),
    Column("blocks", "K", context=True, number=True),
)
PLACE = (Column("machine", "machine", context=True), Column("threads", "threads", context=True, number=True))
NOTE = Column("note", "note", context=True)
HALF_WIDTH = "± is the half-width of the 95 % t interval over seeds; (n/N): n seeds complete of N begun."
_METHODS = ("bp", "gpipe", "dni", "fr", "ddg", "fdg", "dsp", "pipedream", "2bw", "pipemare", "delayed")
_ESTIMATORS = ("full", "zero", "random", "top1", "sampled", "shared-topk")


def context(group: Group) -> dict[str, Value]:
    """The context cells of a group's row."""
    return {
        "recipe": group.recipe,
        "model": group.model,
        "data": data_label(group),
        "profile": group.profile,
        "device": group.device,
        "blocks": group.blocks,
        "machine": group.machine,
        "threads": group.threads,
    }


def order(group: Group) -> tuple[object, ...]:
    """Sort key: rows that can be compared stand together, methods in the papers' order."""
    gradient = group.settings.get("gradient", {})
    estimator = gradient.get("estimator", "full") if isinstance(gradient, dict) else "full"
    return (
        str(group.settings.get("group", "")),
        _natural(group.model),
        data_label(group),
        group.profile,
        group.device,
        group.blocks,
        group.machine,
        group.threads,
        _METHODS.index(group.method) if group.method in _METHODS else len(_METHODS),
        _ESTIMATORS.index(estimator) if estimator in _ESTIMATORS else len(_ESTIMATORS),
        _natural(group.label),
        _by_value(group),
        group.recipe,
    )


def note(group: Group, *more: str, times: bool = True) -> str:
    """The last cell of a row: its marks, seeds on several machines, seeds left out; `times`: whether the row has any."""
    words = [*more, *group.marks]
    for kind, value in (("machines", group.machine), ("thread counts", group.threads)):
        if " / " in value:
            words.append(f"mixed {kind}: {value}")
    if times and (untimed := sum(not run.timed for run in group.complete)):
        words.append(f"no times of {untimed} seed(s): sequential engine, or several runs at once")
    bad = [run.status for run in group.runs if run.status != "complete"]
    words += [f"{bad.count(status)} seed(s) {status}" for status in sorted(set(bad))]
    return "; ".join(w for w in words if w)


def finish(table: Table, found: Found, *, nothing: str) -> Table:
    """Add what every table of runs says: source, small n, problems; or, without rows, what to run."""
    table.problems += found.problems
    table.environment = found.environment()
    if not table.rows:
        table.caption = [nothing]
        table.problems = table.problems or [nothing]
        return table
    counts = [value.n for row in table.rows for value in row.values() if isinstance(value, Measured)]
    warning = small_sample_warning(counts)
    table.caption = [*found.caption(), *table.caption, *([warning] if warning else [])]
    return table


def baseline(group: Group, groups: Iterable[Group], same: Sequence[str]) -> Group | None:
    """The BP group that `group` is compared with: equal in model, data, replicas and in each attribute of `same`.

    Of several one with the same changed settings, else its recipe's own (repro/report/stored/pairing.py).
    """
    found = []
    for other in groups:
        plain = other.method == "bp" and gradient_label(other.settings) in ("", "full")
        same_place = all(getattr(other, name) == getattr(group, name) for name in ("replicas", *same))
        if plain and same_place and _alike(group, other):
            found.append(other)
    return partner(group, found)


def _alike(a: Group, b: Group) -> bool:
    """Equal in network and data, but for what a command changed of them."""
    changed = {*swept(a), *swept(b)}
    left, right = (
        {
            **{f"model.{k}": v for k, v in g.settings.get("model", {}).items()},
            **{f"data.{k}": v for k, v in numbers_of_data(g).items()},
        }
        for g in (a, b)
    )
    return all(left.get(k) == right.get(k) for k in {**left, **right} if k not in changed)


def _by_value(group: Group) -> tuple[tuple[str, bool, float, str], ...]:
    """Sort key in which lr 0.005 comes before lr 0.02, and both before words."""
    return tuple(
        (name, not number, float(value) if number else 0.0, "" if number else value_words(value))
        for name, value in group.variant
        for number in [isinstance(value, (int, float))]
    )


def _natural(words: str) -> tuple[tuple[int, str], ...]:
    """Sort key in which resnet98 comes before resnet164."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", words))
