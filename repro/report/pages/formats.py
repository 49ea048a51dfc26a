"""One table in every format: txt, md, csv, latex, json; the same numbers and the same order in all of them."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable

from repro.errors import UserError, nearest
from repro.report.pages.latex import latex
from repro.report.pages.plain import plain
from repro.report.table import Column, Table, flat, grid, text

_WRAP = 118  # columns of a caption
FORMATS = ("txt", "md", "csv", "latex", "json")


def render(table: Table, format: str, *, ascii: bool = False) -> str:
    """Return `table` as text that ends with a newline; `ascii` replaces what a plain terminal cannot print.

    UserError for an unknown format.
    """
    writers = {"txt": _txt, "md": _markdown, "csv": _csv, "latex": latex, "json": _json}
    if format not in writers:
        raise UserError(
            f"--format {format!r} is unknown.{nearest(format, FORMATS)} Allowed: {', '.join(FORMATS)}"
        )
    if ascii and format == "txt":
        return plain(_txt(table, plain))  # cells first: their widths change
    written = writers[format](table)
    return plain(written) if ascii else written


def _txt(table: Table, clean: Callable[[str], str] = str) -> str:
    columns, body, caption = grid(table)
    body = [[clean(word) for word in row] for row in body]
    heads = [_heading(columns, row) for row in body]
    kept = [i for i, c in enumerate(columns) if not c.head]
    columns, body = [columns[i] for i in kept], [[row[i] for i in kept] for row in body]
    lines = []
    if body:
        broken = [[_broken(word, c) for word, c in zip(row, columns, strict=True)] for row in body]
        widths = [
            max(len(c.header), *(len(w) for row in broken for w in row[i])) for i, c in enumerate(columns)
        ]

        def line(words: list[str]) -> str:
            parts = [
                w.rjust(n) if c.number else w.ljust(n) for w, n, c in zip(words, widths, columns, strict=True)
            ]
            return "  ".join(parts).rstrip()

        lines = [line([c.header for c in columns]), line(["-" * n for n in widths])]
        for head, row in zip(heads, broken, strict=True):
            lines += ["", *textwrap.wrap(head, _WRAP, subsequent_indent="    ")] if head else []
            depth = max(map(len, row))
            lines += [line([cell[i] if i < len(cell) else "" for cell in row]) for i in range(depth)]
        lines.append("")
    for words in caption:
        lines += textwrap.wrap(
            words, _WRAP, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    if table.problems:
        lines += ["", "Problems:", *(f"  {problem}" for problem in table.problems)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _heading(columns: list[Column], row: list[str]) -> str:
    """The line above a row that begins a new group: its `head` columns, all but the first two with their names."""
    parts = [(c.header, words) for c, words in zip(columns, row, strict=True) if c.head and words]
    return "  ".join(words if i < 2 else f"({name}: {words})" for i, (name, words) in enumerate(parts))


def _broken(words: str, column: Column) -> list[str]:
    """A cell as lines of at most the column's width."""
    if column.wrap is None:
        return [words]
    return textwrap.wrap(words, column.wrap, break_long_words=False, break_on_hyphens=False) or [""]


def _markdown(table: Table) -> str:
    columns, body, caption = grid(table)

    def safe(words: str) -> str:
        for character in "\\|*<`":
            words = words.replace(character, "\\" + character)
        return words.replace("\n", " ")

    def line(words: list[str]) -> str:
        return "| " + " | ".join(words) + " |"

    lines = []
    if body:
        rule = ["---:" if c.number else "---" for c in columns]
        lines = [line([safe(c.header) for c in columns]), line(rule)]
        lines += [line([safe(word) for word in row]) for row in body] + [""]
    lines += [safe(words) + "  " for words in caption]
    if table.problems:
        lines += ["", "Problems:", "", *(f"* {safe(problem)}" for problem in table.problems)]
    return "\n".join(lines).rstrip("\n ") + "\n"


def _csv(table: Table) -> str:
    """Rounded as in the other formats; a measured column is followed by _low, _high and _n."""
    rows = [flat(row, table.columns) for row in table.rows]
    by_name = {c.name: c for c in table.columns}
    names: list[str] = []
    for row in rows:
        names += [name for name in row if name not in names]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names or [c.name for c in table.columns])
    for row in rows:
        cells = []
        for name in names:
            base = by_name.get(name) or by_name.get(name.removesuffix("_low").removesuffix("_high"))
            value = row.get(name)
            cells.append("" if value is None else text(value, base or Column(name, name)))
        writer.writerow(cells)
    return stream.getvalue()


def _json(table: Table) -> str:
    from repro.store import to_json

    environment = {
        "table": table.name,
        "caption": table.caption,
        "problems": table.problems,
        **table.environment,
    }
    document = {"rows": [flat(row, table.columns) for row in table.rows], "environment": environment}
    return to_json(document, indent=1) + "\n"
