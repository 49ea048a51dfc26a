"""The parts of a README that are made from the reference runs, between markers such as <!-- repro:headline -->."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from repro import paths
from repro.errors import RunFailed, UserError
from repro.report import figures, tables
from repro.report.pages.formats import render
from repro.report.pages.glance import (
    claims_in_rows,
    narrow_asynchronous,
    narrow_gradient,
    narrow_pipeline,
    verdicts,
)
from repro.report.stored.source import Source
from repro.report.table import Table

FIGURE = Path("docs") / "headline.svg"  # beside the README, which embeds it
FIGURES = {"headline": FIGURE, "staleness": Path("docs") / "staleness.svg"}
_NUMBERS = {
    "headline": "headline-pipeline",
    "staleness": "staleness",
}  # the table whose numbers a figure shows
COMMAND = "repro report --readme README.md --readme docs/results.md --readme docs/asynchronous.md"
NOTHING = "No reference runs have been made yet."
BLOCK = re.compile(r"<!-- repro:([a-z-]+) -->\n(.*?)<!-- /repro:\1 -->", re.DOTALL)


def refresh(readme: Path) -> list[Path]:
    """Rewrite every block of `readme`, and its figure where it has one; returns the files whose bytes have changed.

    UserError where the file has no block, an unknown one, or one without an end; RunFailed where it cannot be
    read or written.
    """
    try:
        source = _source()
        words = fresh(readme.read_text(encoding="utf-8"), str(readme), source)
        wanted = {readme: words.encode()}
        for block, name in (("figure", "headline"), ("asynchronous-figure", "staleness")):
            if f"<!-- repro:{block} -->" in words and (picture := drawing(name, source)) is not None:
                wanted[readme.parent / FIGURES[name]] = picture
        changed = [path for path, data in wanted.items() if not path.is_file() or path.read_bytes() != data]
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted[path])
    except OSError as error:
        raise RunFailed(f"{error.filename or readme}: {error.strerror}") from None
    return changed


def fresh(words: str, name: str = "README.md", source: Source | None = None) -> str:
    """`words` with every block as the reference runs have it now; `source`: these runs, where they have been read."""
    source = source or _source()
    starts = re.findall(r"<!-- repro:([a-z-]+) -->", words)
    whole = [match.group(1) for match in BLOCK.finditer(words)]
    if not starts:
        raise UserError(
            f"{name}: no marker such as <!-- repro:headline --> found. Allowed: {', '.join(_BLOCKS)}"
        )
    for block in starts:
        if block not in _BLOCKS:
            raise UserError(f"{name}: unknown block '{block}'. Allowed: {', '.join(_BLOCKS)}")
        if block not in whole:
            raise UserError(f"{name}: block '{block}' has no end; write <!-- /repro:{block} --> behind it")

    def replaced(match: re.Match[str]) -> str:
        made = _BLOCKS[match.group(1)](source).strip("\n")
        return f"<!-- repro:{match.group(1)} -->\n{made}\n<!-- /repro:{match.group(1)} -->"

    return BLOCK.sub(replaced, words)


def drawing(name: str = "headline", source: Source | None = None) -> bytes | None:
    """A figure as SVG, with the drawing program and a digest of the numbers at its end; None without reference runs."""
    source = source or _source()
    encode, _ = figures.draw_from(name, source)
    if encode is None:
        return None
    made_by = f"<!-- matplotlib {version('matplotlib')}, numbers {digest(name, source)} -->\n"
    return bytes(encode("svg")) + made_by.encode()


def digest(name: str = "headline", source: Source | None = None) -> str:
    """A hash over the numbers that a figure shows: another matplotlib draws other bytes, never other numbers."""
    return hashlib.sha256(
        render(tables.build_from(_NUMBERS[name], source or _source()), "json").encode()
    ).hexdigest()


def _source() -> Source:
    return Source(paths.reference(), reference=True)


def _headline(source: Source) -> str:
    return _both(source, lambda table: table, lambda table: table)


def _glance(source: Source) -> str:
    return _both(source, narrow_pipeline, narrow_gradient)


def _both(source: Source, pipeline: Callable[[Table], Table], gradient: Callable[[Table], Table]) -> str:
    """The headline tables of both papers, each as its function shows it."""
    parts = {
        "Pipeline training": ("headline-pipeline", pipeline),
        "Gradient approximation": ("headline-gradient", gradient),
    }
    built = {title: shown(tables.build_from(name, source)) for title, (name, shown) in parts.items()}
    if not any(table.rows for table in built.values()):
        return NOTHING
    return "\n".join(f"**{title}**\n\n{_table(table)}" for title, table in built.items() if table.rows)


def _table(table: Table) -> str:
    """A table in Markdown, its caption in small print."""
    made = render(table, "md") if table.rows else NOTHING + "\n"
    body, _, caption = made.partition("\n\n")
    if not caption:
        return made
    words = " ".join(line.strip() for line in caption.splitlines() if line.strip())
    return f"{body}\n\n<sub>{words}</sub>\n"


def _figure(source: Source, name: str = "headline") -> str:
    encode, _ = figures.draw_from(name, source)
    if encode is None:
        return NOTHING
    return f"![{figures.names()[name]}]({FIGURES[name].as_posix()})"


def _asynchronous(source: Source) -> str:
    """Losses of the pipeline methods beside their synchronous counterpart, and how soon they reach a loss."""
    return _table(narrow_asynchronous(tables.build_from("staleness", source)))


def _claims(source: Source) -> str:
    return _judged(source, claims_in_rows, "DG")


def _verdicts(source: Source) -> str:
    return _judged(source, verdicts, "DG")


def _judged(source: Source, shown: Callable[[Table], Table], papers: str) -> str:
    """Claims whose names begin with a letter of `papers`."""
    from repro.report.claims.verdicts import NOT_RUN

    full = tables.build_from("claims", source)
    full = replace(full, rows=[row for row in full.rows if str(row["claim"])[0] in papers])
    if all(row["verdict"] == NOT_RUN for row in full.rows):
        return NOTHING
    return _table(shown(full))


_BLOCKS: dict[str, Callable[[Source], str]] = {
    "figure": _figure,
    "glance": _glance,
    "verdicts": _verdicts,
    "headline": _headline,
    "claims": _claims,
    "asynchronous": _asynchronous,
    "asynchronous-figure": partial(_figure, name="staleness"),
    "asynchronous-verdicts": partial(_judged, shown=verdicts, papers="A"),
    "asynchronous-claims": partial(_judged, shown=claims_in_rows, papers="A"),
}
