"""Test loss of language models in bits per byte, last and best, and its difference to BP."""

from __future__ import annotations

from repro.report.measures.accuracy import difference
from repro.report.measures.text_loss import bits_per_byte, perplexity
from repro.report.stored.context import CONTEXT, HALF_WIDTH, NOTE, baseline, context, finish, note, order
from repro.report.stored.group import Group
from repro.report.stored.pairing import pairing_note
from repro.report.stored.source import Source, experiment, on_text
from repro.report.table import Column, Measured, Table, Value

DESCRIPTION = "test loss of language models in bits per byte, last and best epoch, and the difference to BP"
NOTHING = "No finished run on a text found. Make some with: repro run bp-gpt fr-gpt dsp-gpt --seeds 5 --profile quick"


def build(source: Source, select: str) -> Table:
    """A row per recipe; `select` decides which loss comes first and enters the difference."""
    found = source.find(lambda run: experiment(run) == "train" and on_text(run))
    groups = sorted(found.groups, key=order)
    rows = [row(group, groups, select) for group in groups]
    other = "best" if select == "last" else "last"
    columns = [
        *CONTEXT,
        Column("method", "method"),
        Column(f"bits_per_byte_{select}", f"test loss, bits per byte ({select})", decimals=3, number=True),
        Column(f"bits_per_byte_{other}", f"({other})", decimals=3, number=True),
        Column("difference", f"against BP, bits per byte ({select})", decimals=3, number=True),
        Column(f"perplexity_{select}", f"perplexity ({select})", decimals=1, number=True),
        NOTE,
    ]
    if not any(
        _known(cells.get(f"perplexity_{select}")) for cells in rows
    ):  # bytes are the tokens everywhere
        columns = [column for column in columns if not column.name.startswith("perplexity")]
    table = Table("text-loss", columns, rows)
    table.caption = [
        f"Loss on the test part of the text, of the {select} epoch ({other} beside it), in bits per byte of the text: less "
        "is better. 'Best' is the smallest over epochs on the test part itself, and flatters every method.",
        HALF_WIDTH,
        "Difference to BP of the same network, text, K, profile and length: in pairs by seed where initial weights and "
        "data order are shared, else Welch.",
    ]
    return finish(table, found, nothing=NOTHING)


def row(group: Group, groups: list[Group], select: str) -> dict[str, Value]:
    """The cells of one recipe."""
    base = baseline(group, groups, ("profile", "device", "blocks", "length"))
    compared: Value = None
    if base is not None and base is not group:
        compared = difference(group, base, bits_per_byte(select))
    return {
        **context(group),
        "method": group.title,
        **{f"bits_per_byte_{which}": group.measured(bits_per_byte(which)) for which in ("last", "best")},
        **{f"perplexity_{which}": group.measured(perplexity(which)) for which in ("last", "best")},
        "difference": compared,
        "note": note(group, pairing_note(group, base)),
    }


def _known(value: Value) -> bool:
    return isinstance(value, Measured) and value.estimate is not None
