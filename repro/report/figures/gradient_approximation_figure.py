"""Loss curves of the approximated-gradient runs, a panel a network: the second paper's training curves."""

from __future__ import annotations

from typing import Any

from repro.report.figures.loss_figure import draw_groups
from repro.report.stored.source import Source, experiment, in_group

DESCRIPTION = "train and test loss per estimator and schedule, with bands (gradient approximation)"
COMMAND = (
    "repro run full-resnet20 zero-resnet20-s1 random-resnet20-s1 top1-resnet20-s1 full-resnet14 "
    "--seeds 5 --profile quick"
)


def draw(source: Source) -> Any:
    """The figure, or what is missing."""
    found = source.find(lambda run: experiment(run) == "train" and in_group(run, "gradient-approximation"))
    return draw_groups(found.groups, found.reference, COMMAND)
