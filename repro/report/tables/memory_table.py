"""Peak memory of each block beside the formula."""

from __future__ import annotations

from repro.report.measures.memory import (
    _mib,
    activation_ratio,
    peak,
    ratio,
    staleness,
)
from repro.report.stored.context import CONTEXT, HALF_WIDTH, NOTE, context, finish, note, order
from repro.report.stored.group import Group
from repro.report.stored.source import Source, experiment, pipelined
from repro.report.table import Column, Table, Value

DESCRIPTION = "peak memory of each block, counted, beside the formula (claim D5)"
NOTHING = (
    "No finished training run found. Make some with: "
    "repro run bp-resnet98 ddg-resnet98 dsp-resnet98 --seeds 5 --profile quick"
)
COLUMNS = [
    *CONTEXT,
    Column("method", "method"),
    Column("block", "block", number=True),
    Column("staleness", "m", number=True),
    Column("peak_mib", "peak MiB", number=True),
    Column("formula_mib", "formula MiB", number=True),
    Column("ratio", "peak / formula", decimals=3, number=True),
    Column("activation_ratio", "without weights", decimals=3, number=True),
    Column("rss_mib", "process MiB", decimals=0, number=True),
    NOTE,
]


def build(source: Source, select: str) -> Table:
    """A row per method and block."""
    found = source.find(lambda run: experiment(run) == "train" and pipelined(run))
    groups = [g for g in sorted(found.groups, key=order) if g.values(peak(0)) or not g.complete]
    rows = [row(group, block) for group in groups for block in range(group.blocks)]
    table = Table("memory", COLUMNS, rows)
    table.caption = [
        "Peak: on a CPU the bytes of the tensors that the block holds at its worst moment, counted by the engine; on CUDA "
        "the allocator's peak. Process: the resident size, with the interpreter and libraries in it.",
        "Formula: DSP, FR (m+1) h_in + p h_out + q h_in + G; kept graphs (m+1)(h_in + G) and m older versions of the "
        "weights; GPipe all inputs and the graphs kept; plus weights and optimiser state. 'Without weights' leaves those "
        "out on both sides: what grows with the queues.",
        HALF_WIDTH,
    ]
    return finish(table, found, nothing=NOTHING)


def row(group: Group, block: int) -> dict[str, Value]:
    """The cells of one block."""
    return {
        **context(group),
        "method": group.title,
        "block": block,
        "staleness": staleness(group, block),
        "peak_mib": group.measured(peak(block)),
        "formula_mib": group.measured(_mib("memory_formula_bytes", block)),
        "ratio": group.measured(ratio(block)),
        "activation_ratio": group.measured(activation_ratio(block)),
        "rss_mib": group.measured(_mib("rss_bytes", block)),
        "note": note(group),
    }
