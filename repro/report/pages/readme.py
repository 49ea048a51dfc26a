"""The parts of a README that are made from the reference runs, between markers such as <!-- repro:headline -->."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from repro import paths
from repro.errors import RunFailed, UserError
from repro.report import figures, tables
from repro.report.pages.formats import render
from repro.report.stored.source import Source
from repro.report.table import Column, Measured, Table, Value, text

FIGURE = Path("docs") / "headline.svg"  # beside the README, which embeds it
COMMAND = "repro report --readme README.md"
NOTHING = "No reference runs have been made yet."
BLOCK = re.compile(r"<!-- repro:([a-z-]+) -->\n(.*?)<!-- /repro:\1 -->", re.DOTALL)
_COLUMNS = [
    Column("claim", "claim"),
    Column("statement", "statement"),
    Column("verdict", "verdict"),
    Column("measured", "measured"),
    Column("published", "published"),
]


def refresh(readme: Path) -> list[Path]:
    """Rewrite every block of `readme` and the figure beside it; returns the files whose bytes have changed.

    UserError where the file has no block, an unknown one, or one without an end; RunFailed where it cannot be
    read or written.
    """
    try:
        wanted = {readme: fresh(readme.read_text(encoding="utf-8"), str(readme)).encode()}
        if (picture := drawing()) is not None:
            wanted[readme.parent / FIGURE] = picture
        changed = [path for path, data in wanted.items() if not path.is_file() or path.read_bytes() != data]
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted[path])
    except OSError as error:
        raise RunFailed(f"{error.filename or readme}: {error.strerror}") from None
    return changed


def fresh(words: str, name: str = "README.md") -> str:
    """`words` with every block as the reference runs have it now."""
    blocks = {"headline": _headline, "figure": _figure, "claims": _claims}
    starts = re.findall(r"<!-- repro:([a-z-]+) -->", words)
    whole = [match.group(1) for match in BLOCK.finditer(words)]
    if not starts:
        raise UserError(
            f"{name}: no marker such as <!-- repro:headline --> found. Allowed: {', '.join(blocks)}"
        )
    for block in starts:
        if block not in blocks:
            raise UserError(f"{name}: unknown block '{block}'. Allowed: {', '.join(blocks)}")
        if block not in whole:
            raise UserError(f"{name}: block '{block}' has no end; write <!-- /repro:{block} --> behind it")

    def replaced(match: re.Match[str]) -> str:
        made = blocks[match.group(1)]().strip("\n")
        return f"<!-- repro:{match.group(1)} -->\n{made}\n<!-- /repro:{match.group(1)} -->"

    return BLOCK.sub(replaced, words)


def drawing() -> bytes | None:
    """The figure as SVG, with the drawing program and a digest of the numbers at its end; None without reference runs."""
    encode, _ = figures.draw_from("headline", _source())
    if encode is None:
        return None
    return (
        bytes(encode("svg")) + f"<!-- matplotlib {version('matplotlib')}, numbers {digest()} -->\n".encode()
    )


def digest() -> str:
    """A hash over the numbers that the figure shows: another matplotlib draws other bytes, never other numbers."""
    return hashlib.sha256(
        render(tables.build_from("headline-pipeline", _source()), "json").encode()
    ).hexdigest()


def _source() -> Source:
    return Source(paths.reference(), reference=True)


def _headline() -> str:
    parts = {"Pipeline training": "headline-pipeline", "Gradient approximation": "headline-gradient"}
    built = {title: tables.build_from(name, _source()) for title, name in parts.items()}
    if not any(table.rows for table in built.values()):
        return NOTHING
    return "\n".join(f"**{title}**\n\n{_table(table)}" for title, table in built.items() if table.rows)


def _table(table: Table) -> str:
    """A table in Markdown, its caption in small print."""
    made = render(table, "md") if table.rows else NOTHING + "\n"
    body, _, caption = made.partition("\n\n")
    return (
        f"{body}\n\n<sub>{' '.join(line.strip() for line in caption.splitlines() if line.strip())}</sub>\n"
        if caption
        else made
    )


def _figure() -> str:
    encode, _ = figures.draw_from("headline", _source())
    if encode is None:
        return NOTHING
    return f"![{figures.names()['headline']}]({FIGURE.as_posix()})"


def _claims() -> str:
    """A row per claim: how many of its parts came out how, and the first number of each verdict."""
    from repro.report.claims.claim import NOT_RUN

    full = tables.build_from("claims", _source())
    table = Table("claims", _COLUMNS)
    if all(row["verdict"] == NOT_RUN for row in full.rows):
        return NOTHING
    for name in dict.fromkeys(str(row["claim"]) for row in full.rows):
        rows = [row for row in full.rows if row["claim"] == name]
        count = Counter(map(_verdict, rows))
        verdict = ", ".join(v if len(count) == 1 else f"{v}: {n} of {len(rows)}" for v, n in count.items())
        firsts = [next(row for row in rows if _verdict(row) == v) for v in count]
        numbers = [
            f"{row['what']}: {text(row['measured'], _MEASURED)} {row['unit']}".strip()
            for row in firsts
            if isinstance(row["measured"], Measured) and row["measured"].estimate is not None
        ]
        cells = {key: rows[0][key] for key in ("claim", "statement", "published")}
        table.rows.append({**cells, "verdict": verdict, "measured": "; ".join(numbers) or "-"})
    table.caption = [
        "Computed from the reference runs by the rules of repro table claims, which shows every part; of each verdict the "
        "first number. Undecided: the 95 % interval includes the limit of the rule, more seeds might turn it.",
    ]
    return _table(table)


def _verdict(row: Mapping[str, Value]) -> str:
    """The verdict; one that more seeds might turn says so."""
    return str(row["verdict"]) + (" (undecided)" if "undecided" in str(row["note"]) else "")


_MEASURED = Column("measured", "measured", ratio=True)
