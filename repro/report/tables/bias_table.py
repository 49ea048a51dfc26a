"""Relative bias and cosine of the gradient estimators at untrained layers (claim G8)."""

from __future__ import annotations

from typing import Any

from repro.report.measures.bias_over_seeds import over_seeds
from repro.report.stored.group import Group
from repro.report.stored.source import Source, experiment
from repro.report.table import Column, Measured, Table, Value

DESCRIPTION = "bias and cosine of top1, random and sampled against the mean full gradient (claim G8)"
NOTHING = "No finished bias run found. Make one with: repro run bias-resnet20 --seeds 5 --profile quick"
NUMBERS = ("relative_bias", "cosine", "mean_cosine", "norm_ratio")
COLUMNS = [
    Column("model", "model", context=True),
    Column("profile", "profile", context=True),
    Column("device", "device", context=True),
    Column("pairs", "pairs", context=True, number=True),
    Column("layer", "layer"),
    Column("estimator", "estimator"),
    Column("scale", "scale", context=True),
    Column("relative_bias", "relative bias", decimals=3, ratio=True, number=True),
    Column("cosine", "cosine", decimals=3, ratio=True, number=True),
    Column("mean_cosine", "cosine of means", decimals=3, ratio=True, number=True),
    Column("norm_ratio", "norm ratio", decimals=3, ratio=True, number=True),
]


def build(source: Source, select: str) -> Table:
    """A row per layer and estimator."""
    found = source.find(lambda run: experiment(run) == "bias")
    table = Table("bias", COLUMNS, problems=list(found.problems), environment=found.environment())
    for group in found.groups:
        table.rows += rows(group)
    if not table.rows:
        table.caption = [NOTHING]
        table.problems = table.problems or [NOTHING]
        return table
    table.caption = [
        *found.caption(),
        "Relative bias: |E estimate - E full| / |E full| over random (input, dy) pairs at an untrained layer, 0 for an "
        "unbiased estimate. Cosine: of one estimate with the mean full gradient; of means: of E estimate with E full.",
        "The noise of finitely many pairs is taken out of norms, so that a cosine of means can come out above 1; it is "
        "missing where the mean estimate cannot be told from zero.",
        "Brackets: 95 % t interval over seeds (of norms: over their squares), (n/N) seeds; with one seed the jackknife "
        "interval over its pairs.",
    ]
    return table


def rows(group: Group) -> list[dict[str, Value]]:
    """All rows of one group."""
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    made: dict[tuple[str, str], list[int]] = {}
    for run in group.complete:
        for stored in (run.result or {}).get("bias") or []:
            kind = str(stored.get("layer", "")), str(stored.get("estimator", ""))
            kinds.setdefault(kind, []).append(stored)
            made.setdefault(kind, []).append(run.seed)
    found = []
    for (layer, estimator), seeds in kinds.items():
        cells: dict[str, Value] = {
            "model": ", ".join((group.model, *group.variant_words)),
            "profile": group.profile,
            "device": group.device,
            "pairs": seeds[0].get("pairs"),
            "layer": layer,
            "estimator": estimator,
            "scale": seeds[0].get("scale"),
        }
        behind = (group.behind(made[layer, estimator]),)
        cells.update(
            {name: Measured(over_seeds(seeds, name), len(group.started), behind) for name in NUMBERS}
        )
        found.append(cells)
    return found
