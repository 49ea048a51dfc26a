"""How much of the filter gradients each schedule really approximates."""

from __future__ import annotations

from typing import Any

from repro.report.measures.named_schedules import PUBLISHED, RULES, named_schedules, realised
from repro.report.stats import mean_interval
from repro.report.stored.group import Group
from repro.report.stored.source import Source, experiment, in_group
from repro.report.table import Column, Measured, Table, Value

DESCRIPTION = "share of the filter gradients that each schedule approximates, by layers and by FLOPs"
COLUMNS = [
    Column("model", "model"),
    Column("schedule", "schedule"),
    Column("rule", "rule"),
    Column("origin", "origin"),
    Column("convolutions", "convolutions", number=True),
    Column("fraction_layers", "% of layers", decimals=1, number=True),
    Column("fraction_flops", "% of FLOPs", decimals=1, number=True),
    Column("realised", "% of uses in runs", decimals=1, number=True),
]


def build(source: Source, select: str) -> Table:
    """A row per network and schedule of the recipes, in the profile asked for (paper by default)."""
    found = source.find(lambda run: experiment(run) == "train" and in_group(run, "gradient-approximation"))
    table = Table("schedules", COLUMNS, environment=found.environment(), problems=list(found.problems))
    for (model, schedule), recipe in named_schedules(source.profile or "paper").items():
        table.rows.append(row(model, schedule, recipe, found.groups))
    table.caption = [
        *found.caption(),
        f"Shares of the (convolution, batch) pairs of a whole run in profile {source.profile or 'paper'}; FLOPs: each "
        "convolution weighs as much as its dense filter gradient. Convolutions of 3x3 and larger only.",
        "Filter gradients are about a third of a convolution's training cost: a quarter of them by FLOPs can save 1/12 = "
        "8.3 % at most, and a schedule whose share by FLOPs is larger a third of that share.",
        "Uses in runs: what stored runs counted (all estimators on that schedule); fall-backs to the full gradient included "
        "as full. ± is the half-width of the 95 % t interval over runs.",
    ]
    return table


def row(model: str, schedule: str, recipe: Any, groups: list[Group]) -> dict[str, Value]:
    """The cells of one schedule on one network."""
    from repro.gradient.drawing import fraction
    from repro.report.stored.gradient_network import schedule_of

    built, shapes = schedule_of(recipe)
    share = fraction(built, shapes)
    used = [g for g in groups if (g.model, _schedule(g)) == (model, schedule)]
    runs = [run for g in used for run in g.complete]
    uses = [value for run in runs if (value := realised(run.result or {})) is not None]
    behind = tuple(g.behind(run.seed for run in g.complete) for g in used if g.complete)
    return {
        "model": model,
        "schedule": schedule,
        "rule": RULES.get(schedule, schedule),
        "origin": PUBLISHED.get(schedule, "ours"),
        "convolutions": len(built.numbers),
        "fraction_layers": None if share is None else 100.0 * share.layers,
        "fraction_flops": None if share is None or share.flops is None else 100.0 * share.flops,
        "realised": Measured(mean_interval(uses), len(runs), behind) if runs else None,
    }


def _schedule(group: Group) -> str:
    gradient = group.settings.get("gradient") or {}
    return str(gradient.get("schedule")) if gradient.get("estimator", "full") != "full" else ""
