"""Peak memory of each block beside the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro.report.context import CONTEXT, HALF_WIDTH, NOTE, context, finish, note, order
from repro.report.group import Group
from repro.report.source import Source, experiment, in_group
from repro.report.table import Column, Table, Value
from repro.store import StoredRun

DESCRIPTION = "peak memory of each block, counted, beside the formula (claim D5)"
NOTHING = (
    "No finished training run found. Make some with: "
    "repro run bp-resnet98 ddg-resnet98 dsp-resnet98 --seeds 5 --profile quick"
)
MIB = 2.0**20
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
    found = source.find(lambda run: experiment(run) == "train" and in_group(run, "dsp"))
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
        "method": group.label,
        "block": block,
        "staleness": staleness(group, block),
        "peak_mib": group.measured(peak(block)),
        "formula_mib": group.measured(_mib("memory_formula_bytes", block)),
        "ratio": group.measured(ratio(block)),
        "activation_ratio": group.measured(activation_ratio(block)),
        "rss_mib": group.measured(_mib("rss_bytes", block)),
        "note": note(group),
    }


def peak(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of a block's peak in MiB."""
    return _mib("peak_memory_bytes", block)


def formula(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of the formula's MiB for a block."""
    return _mib("memory_formula_bytes", block)


def ratio(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of peak / formula of a block."""
    return lambda run: _divide(_at(run, "peak_memory_bytes", block), _at(run, "memory_formula_bytes", block))


def activation_ratio(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of the same without weights and optimiser state."""
    return lambda run: _divide(activation_bytes(block)(run), activation_formula(block)(run))


def activation_bytes(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of the counted bytes of a block's activations, queues and graphs."""
    return lambda run: _at(run, "activation_bytes", block)


def activation_formula(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of the formula's bytes of the same."""

    def read(run: StoredRun) -> float | None:
        whole, static = _at(run, "memory_formula_bytes", block), _at(run, "static_bytes", block)
        return None if whole is None or static is None else whole - static

    return read


def staleness(group: Group, block: int) -> int | None:
    """m of a block."""
    from repro.methods import parse_method

    try:
        return parse_method(group.settings.get("method")).schedule(group.blocks, 1, {}).staleness[block]
    except (ValueError, TypeError, IndexError):
        return None


def _mib(name: str, block: int) -> Callable[[StoredRun], float | None]:
    def read(run: StoredRun) -> float | None:
        value = _at(run, name, block)
        return None if value is None else value / MIB

    return read


def _at(run: StoredRun, name: str, block: int) -> float | None:
    values: Any = (run.result or {}).get(name)
    known = isinstance(values, list) and block < len(values) and isinstance(values[block], (int, float))
    return float(values[block]) if known else None


def _divide(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
