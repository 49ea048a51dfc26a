"""How late a method's gradients are, and with what they are corrected: what losses are drawn against."""

from __future__ import annotations

from repro.report.measures.counterpart import corrections, optimizer, optimizer_name
from repro.report.stored.group import OPTIMIZER_NAMES, Group


def delay(group: Group) -> int | None:
    """Updates between a batch's forward and its own update in the block where they are most (m_0); 0 for BP and GPipe.

    None where the stored method is not known any more.
    """
    from repro.methods import stored_method

    try:
        return max(stored_method(group.settings.get("method")).schedule(group.blocks, 1, {}).staleness)
    except (ValueError, TypeError):
        return None


def synchronous(group: Group) -> bool:
    """Whether every gradient is of the present weights in every block."""
    return group.method != "dni" and delay(group) == 0


def update_words(group: Group) -> str:
    """The optimiser with what damps staleness, and the corrections: "NAdam 0.99", "SGD + prediction"."""
    name = optimizer_name(group)
    words = "SGD" if name == "sgd" else OPTIMIZER_NAMES.get(name, name)
    if name == "nadam":
        words += (
            " by block"
            if optimizer(group).get("beta1_per_block")
            else f" {optimizer(group).get('beta1', 0.9):g}"
        )
    return " + ".join([words, *corrections(group)])
