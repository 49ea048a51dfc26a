"""Test loss at the end against how late the gradients are: methods, optimisers, corrections; and what the delay costs."""

from __future__ import annotations

from repro.report.measures.accuracy import difference
from repro.report.measures.counterpart import corrections, synchronous_of, training_of
from repro.report.measures.lateness import delay, synchronous, update_words
from repro.report.measures.time_to_loss import BITS, last, loss_name
from repro.report.stored.context import CONTEXT, HALF_WIDTH, NOTE, context, finish, note
from repro.report.stored.group import Group
from repro.report.stored.source import Found, Source, experiment, in_group
from repro.report.table import Column, Table, Value

DESCRIPTION = "test loss at the end against the delay of gradients, per method, optimiser and correction"
NOTHING = (
    "No finished run of a stale pipeline found. Make some with: repro run bp-gpt delayed-gpt-d2 pipedream-gpt "
    "--seeds 5 --profile quick"
)
COLUMNS = [
    *CONTEXT,
    Column("method", "method"),
    Column("updates", "optimiser + corrections"),
    Column("delay", "delay, updates", number=True),
    Column("final_loss", "test loss at the end", decimals=3, number=True),
    Column("gap", "against synchronous", decimals=3, number=True),
    Column("steps", "updates trained", number=True, hidden=True),
    NOTE,
]


def build(source: Source, select: str) -> Table:
    """A row per method, optimiser and corrections, ordered by the delay."""
    found = stale_runs(source)
    groups = sorted(found.groups, key=_order)
    table = Table("staleness", COLUMNS, [row(group, groups) for group in groups])
    unit = "bits per byte" if any(loss_name(g) == BITS for g in groups) else "cross-entropy"
    table.caption = [
        f"Test loss ({unit}) of the last evaluation. Delay: updates between a batch's forward and its own update, in the "
        "block where they are most (m of block 0); Delayed(d) has it in the whole network, 2BW one in every block.",
        "Against synchronous: the loss minus that of GPipe of the same K, else of BP (whose numbers do not depend on K), "
        "with the same optimiser, in pairs by seed; above 0 the delay costs.",
        HALF_WIDTH,
    ]  # fmt: skip
    return finish(table, found, nothing=NOTHING)


def stale_runs(source: Source) -> Found:
    """Training runs of the recipes on asynchronous pipelines."""
    return source.find(lambda run: experiment(run) == "train" and in_group(run, "asynchronous"))


def row(group: Group, groups: list[Group]) -> dict[str, Value]:
    """The cells of one method."""
    name = loss_name(group)
    base = None if synchronous(group) else synchronous_of(group, groups)
    words = "" if base is not None or synchronous(group) else "no synchronous run of the same optimiser"
    return {
        **context(group),
        "method": str(group.fact("label") or group.label),
        "updates": update_words(group),
        "delay": delay(group),
        "final_loss": group.measured(last(name)),
        "gap": None if base is None else difference(group, base, last(name)),
        "steps": int(group.fact("num_steps", 0) or 0),
        "note": note(group, words, times=False),
    }


def _order(group: Group) -> tuple[object, ...]:
    kind = 0 if synchronous(group) else 1 if group.method == "delayed" else 2
    first = repr(training_of(group)), update_words(group).split(" + ")[0], kind
    return *first, delay(group) or 0, group.blocks, group.method, corrections(group), group.recipe
