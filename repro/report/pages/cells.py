"""A table as HTML: groups with a line of their own, numbers with links to their runs, columns no wider than they need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from repro.report.claims import verdicts
from repro.report.pages.behind import Behind
from repro.report.pages.unbroken import unbroken
from repro.report.table import Column, Measured, Table, Value, grid

_SHORT = 4  # lines of a list that is not folded
_NOTE = 22  # letters that a column without a width of its own has at least, where it holds sentences


def html_table(table: Table, runs: Behind) -> str:
    """The table, its captions and what is wrong with it; rows of a group stand below a line that names it."""
    columns, cells, caption = grid(table)
    parts = []
    if cells:
        shown = [c for i, c in enumerate(columns) if i == 0 or not c.head]
        head = "".join(f'<th scope="col"{_look(c)}>{escape(c.header)}</th>' for c in shown)
        bodies = "".join(_bodies(table, columns, cells, runs))
        parts.append(f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n{bodies}</table></div>')
    parts += [f"<p class='caption'>{unbroken(words)}</p>" for words in caption]
    parts.append(listed("Problems", [words for words in table.problems if words not in caption]))
    return "\n".join(part for part in parts if part)


def anchor(table: str, group: str) -> str:
    """The id of a group of rows: "claims-D1"."""
    return f"{table}-{re.sub(r'[^A-Za-z0-9]+', '-', group)}"


def listed(title: str, words: Sequence[str]) -> str:
    """A list with a title, folded where it is long; "" without words."""
    items = "".join(f"<li>{unbroken(w)}</li>" for w in words)
    state = " open" if len(words) <= _SHORT else ""
    head = f"<summary>{escape(title)} ({len(words)})</summary>"
    return f'<details class="problems"{state}>{head}<ul>{items}</ul></details>' if words else ""


def _bodies(table: Table, columns: list[Column], cells: list[list[str]], runs: Behind) -> list[str]:
    """A <tbody> per group of rows, or one where the table has no groups."""
    grouped = any(c.head for c in columns)
    width = sum(1 for i, c in enumerate(columns) if i == 0 or not c.head)
    bodies: list[str] = []
    for values, words in zip(table.rows, cells, strict=True):
        if grouped and (words[0] or not bodies):
            line = _group_line(columns, words)
            head = f'<tr class="group"><th colspan="{width}" scope="rowgroup"><div>{line}</div></th></tr>\n'
            bodies.append(f'<tbody id="{anchor(table.name, words[0])}">{head}')
        elif not bodies:
            bodies.append("<tbody>")
        bodies[-1] += _row(columns, values, words, runs)
    return [f"{body}</tbody>\n" for body in bodies]


def _group_line(columns: list[Column], words: list[str]) -> str:
    """What all rows of a group share: "D1 DSP trains faster ... published: 1.5x to 4.8x"."""
    parts = [(c.header, w) for c, w in zip(columns, words, strict=True) if c.head and w]
    return " ".join(
        escape(w) if i < 2 else f'<span class="soft">{escape(name)}: {escape(w)}</span>'
        for i, (name, w) in enumerate(parts)
    )


def _row(columns: list[Column], values: Mapping[str, Value], words: list[str], runs: Behind) -> str:
    """A row; what a blank cell repeats from above is kept for sorting and searching."""
    whole = " ".join(str(v) for c in columns if c.once and isinstance(v := values.get(c.name), str))
    parts = []
    linked = False
    for i, (word, column) in enumerate(zip(words, columns, strict=True)):
        if column.head and i:
            continue
        value = values.get(column.name)
        shown = str(value) if column.head else word
        links = runs.links(value.made_of) if isinstance(value, Measured) else ""
        linked = linked or bool(links)
        hidden = f' data-value="{escape(str(value))}"' if column.once and not shown else ""
        undecided = column.name == "verdict" and verdicts.undecided(values)
        look = ' class="undecided"' if undecided else _look(column, shown)
        text = f'<span class="whole">{escape(shown)}</span>' if column.number else unbroken(shown)
        text += "<br><small>undecided</small>" if undecided else ""
        parts.append(f"<td{look}{hidden}>{text}{links}</td>")
    if not linked and values.get("recipe"):
        parts[0] = parts[0].replace("</td>", f"{runs.links(runs.of_recipe(str(values['recipe'])))}</td>")
    return f'<tr data-words="{escape(whole)}">{"".join(parts)}</tr>\n'


def _look(column: Column, words: str | None = None) -> str:
    """Attributes of a cell: numbers to the right, verdicts told apart, wrapped columns no narrower than can be read."""
    if column.number:
        return ' class="number"'
    word = verdicts.kind(words) if words else ""
    verdict = f' class="{escape(word.replace(" ", "-"))}"' if column.name == "verdict" and word else ""
    share = 0.55 if (column.wrap or 0) > 30 else 0.4  # notes are long
    letters = share * column.wrap if column.wrap else _NOTE if column.name == "note" else 0
    return verdict + (f' style="min-width:{letters:.0f}ch"' if letters else "")
