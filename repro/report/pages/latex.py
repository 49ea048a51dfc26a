"""A table in LaTeX: small print, broken headers, wrapped words, and scaled to the text width where it is still wider.

It needs graphicx and nothing else. A table with too many lines for one page becomes several.
"""

from __future__ import annotations

import math
import re
import textwrap

from repro.report.pages.plain import plain
from repro.report.table import Column, Measured, Table, grid

PACKAGES = r"\usepackage{graphicx}"
_LONG, _WRAP = 34, 26  # characters of a cell from which a column is wrapped, and to how many
_BUDGET = 115  # characters in a row that are still readable once scaled
_LINES = 46  # of small print that leave room for a caption
_CAPTION = 58  # letters of a caption that take the height of a line of small print
_NOTES = 105  # letters of small print in a line
_SHORT_CAPTION = 10  # lines for which there is room anyway
_LONG_CAPTION = 900  # letters from which all but the first of its sentences become small print below it
_HEADER = 11  # characters of a header's line above numbers, at least
_EM = 0.47  # width of a character
_LINE, _SEVERAL = 64.0, 3  # em of a line for columns of words, where there are so many
_FIT = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"
_ESCAPED = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "→": r"$\rightarrow$",
    "Δ": r"$\Delta$", "‖": r"$\Vert$", "–": "--", "—": "---", "[": "{[}", "]": "{]}",
}  # fmt: skip


def latex(table: Table, *, in_place: bool = False) -> str:
    """`table` as table environments; its problems are comments below.

    `in_place` (needs the package float): where the text has it, and columns of words, if there are several, share what
    a line has room for.
    """
    columns, body, caption = grid(table)
    if not body:
        return "".join(f"% {plain(words)}\n" for words in [*caption, *table.problems])
    body, count = _without_common_count(table, columns, body)
    widths = _widths(columns, body)
    heading, notes = _notes([*caption, *([f"In every cell {count}."] if count else [])])
    pages = _pages(body, widths, len(heading) / _CAPTION + len(notes) / _NOTES)
    lines = []
    for i, page in enumerate(pages):
        words = escape(heading) if i == 0 else f"Continued from table~\\ref{{tab:{table.name}}}."
        label = table.name if i == 0 else f"{table.name}-{i + 1}"
        lines += _environment(columns, widths, page, words, label, escape(notes) if i == 0 else "", in_place)
    lines += [f"% {plain(problem)}" for problem in table.problems]
    return "\n".join([*lines, f"% needs {PACKAGES}"]) + "\n"


def escape(words: str) -> str:
    """`words` so that LaTeX prints them as they are; the two hyphens of an option do not become a dash."""

    def part(text: str) -> str:
        escaped = "".join(_ESCAPED.get(character, character) for character in text)
        return escaped if escaped.isascii() else plain(escaped)

    return "-{}-".join(map(part, words.split("--")))


def _notes(caption: list[str]) -> tuple[str, str]:
    """What stands in the caption, and what below it in small print so that rows have room beside it."""
    if len(" ".join(caption)) < _LONG_CAPTION:
        return " ".join(caption), ""
    return caption[0], " ".join(caption[1:])


def _environment(
    columns: list[Column],
    widths: list[int | None],
    page: list[list[str]],
    caption: str,
    label: str,
    notes: str,
    in_place: bool,
) -> list[str]:
    wrapped = sum(width is not None for width in widths)
    share = _LINE / wrapped if in_place and wrapped >= _SEVERAL else None
    kinds = [_kind(c, width, share) for c, width in zip(columns, widths, strict=True)]
    head = [_head(c, [row[i] for row in page], widths[i]) for i, c in enumerate(columns)]
    rows = [" & ".join(_cell(w, c, n) for w, c, n in zip(row, columns, widths, strict=True)) for row in page]
    return [
        r"\begin{table}" + ("[H]" if in_place else ""),
        r"\centering\scriptsize\setlength{\tabcolsep}{3pt}\renewcommand{\arraystretch}{1.2}", _FIT,
        rf"\begin{{tabular}}{{{''.join(kinds)}}}", r"\hline", " & ".join(head) + r" \tabularnewline", r"\hline",
        *(row + r" \tabularnewline" for row in rows),
        r"\hline", r"\end{tabular}}", rf"\caption{{{caption}}}", rf"\label{{tab:{label}}}",
        *([rf"\par\scriptsize\raggedright {notes}"] if notes else []), r"\end{table}",
    ]  # fmt: skip


def _kind(column: Column, width: int | None, share: float | None) -> str:
    """`width` [characters] of a column of words; `share` [em] in its place."""
    if width is not None:
        return f"p{{{share or _EM * width:.1f}em}}"
    return "r" if column.number else "l"


def _head(column: Column, words: list[str], width: int | None) -> str:
    """A header; above numbers it is broken into lines about as wide as they are."""
    if width is not None:
        return r"\raggedright " + escape(column.header)
    widest = max(_HEADER, *(len(w) for w in words))
    parts = textwrap.wrap(column.header, widest, break_long_words=False, break_on_hyphens=False)
    if len(parts) < 2:
        return escape(column.header)
    stacked = r"\\".join(map(escape, parts))
    return rf"\shortstack[{'r' if column.number else 'l'}]{{{stacked}}}"


def _cell(words: str, column: Column, width: int | None) -> str:
    escaped = escape(words)
    if column.number:
        return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped)
    return rf"\raggedright {escaped}" if width is not None and words else escaped


def _widths(columns: list[Column], body: list[list[str]]) -> list[int | None]:
    """Characters a line of each column of words, None for the others; together narrow enough to be read on paper."""
    wanted = [_wrapped(c, [row[i] for row in body]) for i, c in enumerate(columns)]
    fixed = sum(max(len(row[i]) for row in body) for i, n in enumerate(wanted) if n is None)
    share = (_BUDGET - fixed) / max(1, sum(n for n in wanted if n is not None))
    longest = [
        max(len(word) for row in body for word in (row[i] or "-").split()) for i in range(len(columns))
    ]
    return [None if n is None else max(longest[i] + 2, min(n, int(n * share))) for i, n in enumerate(wanted)]


def _wrapped(column: Column, words: list[str]) -> int | None:
    """Characters a line of a column of words, None where it needs no wrapping."""
    longest = max(len(w) for w in words)
    if column.number or longest <= _LONG:
        return min(column.wrap, longest) if column.wrap and not column.number else None
    return column.wrap or _WRAP


def _without_common_count(
    table: Table, columns: list[Column], body: list[list[str]]
) -> tuple[list[list[str]], str]:
    """Cells without their "(5/5)" where it is the same in all of them, and what it was."""
    measured = [
        v for row in table.rows for c in columns if isinstance(v := row.get(c.name), Measured) and v.n
    ]
    counts = {(v.n, v.started) for v in measured}
    if len(counts) != 1 or len(measured) < 2:
        return body, ""
    n, started = counts.pop()
    return [[w.removesuffix(f" ({n}/{started})") for w in row] for row in body], f"({n}/{started})"


def _pages(body: list[list[str]], widths: list[int | None], caption: float) -> list[list[list[str]]]:
    """Rows cut into pages, before a row that begins a new group (its first cell is filled) where that is near.

    The first page also holds the caption, of so many lines.
    """
    room = max(_LINES // 4, _LINES - max(0, math.ceil(caption) - _SHORT_CAPTION))
    depths = [
        max(
            len(textwrap.wrap(w, n, break_long_words=False)) or 1 if n else 1
            for w, n in zip(row, widths, strict=True)
        )
        for row in body
    ]
    pages: list[list[list[str]]] = []
    start, used, group = 0, 0, 0
    for i, depth in enumerate(depths):
        if body[i][0]:
            group = i
        if used + depth > room and i > start:
            room = _LINES
            cut = group if group > start else i
            pages.append(body[start:cut])
            start, used = cut, sum(depths[cut:i])
        used += depth
    return [*pages, body[start:]]
