"""One self-contained page: every table, every figure as inline SVG, the environment, and the commands behind each run."""

from __future__ import annotations

from html import escape
from pathlib import Path

from repro.report import figures, tables
from repro.report.pages.behind import Behind, behind
from repro.report.pages.cells import html_table, listed
from repro.report.pages.outcome import glance
from repro.report.pages.picture import compact, inline
from repro.report.stored.source import Source
from repro.report.table import Table

TITLE = "Decoupled pipeline training and gradient approximation: what the stored runs say"
ORDER = (
    "claims", "headline-pipeline", "headline-gradient", "speedup", "accuracy", "text-loss", "methods", "straggler", "delays",
    "memory", "engine", "peers", "gradient-approximation", "gradient-steps", "kernels", "savings", "bias", "schedules",
)  # fmt: skip
FIRST = ("headline", "staleness")  # figures that stand at the top
_HERE = Path(__file__).parent


def write(
    out: Path,
    runs_root: Path,
    *,
    profile: str | None = None,
    reference: bool = False,
    fallback: bool = True,
    select: str = "last",
) -> list[str]:
    """Write the page to `out`; returns notes about what could not be drawn. OSError where it cannot be written."""
    text, notes = page(runs_root, profile=profile, reference=reference, fallback=fallback, select=select)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    return notes


def page(
    runs_root: Path,
    *,
    profile: str | None = None,
    reference: bool = False,
    fallback: bool = True,
    select: str = "last",
) -> tuple[str, list[str]]:
    """The page as text, and the notes."""
    source = Source(runs_root, profile, reference, fallback)
    names = [*ORDER, *(name for name in tables.names() if name not in ORDER)]
    built = {name: tables.build_from(name, source, select) for name in names}
    runs = behind(built.values(), source)
    drawn, notes = _drawings(source)
    pictures = figures.names()
    figure = {name: _figure(name, svg, pictures[name], source) for name, svg in drawn.items()}
    filled = [name for name in names if built[name].rows]
    parts = [
        glance(built["claims"]),
        *(figure[name] for name in FIRST if name in figure),
        *(_table(name, built[name], runs, source) for name in filled),
        _section("figures", "figures", _rest(figure, notes)),
        _section("empty", "not run yet", _empty({name: built[name] for name in names if name not in filled})),
        _section("runs", "runs: environment and commands", _runs(runs, source)),
    ]
    places = {**{n: n for n in filled}, "figures": "figures", "empty": "not run yet", "runs": "runs"}
    links = "".join(f'<a href="#{place}">{words}</a> ' for place, words in places.items())
    style, script = (
        (_HERE / name).read_text(encoding="utf-8").replace("</", "<\\/") for name in ("page.css", "page.js")
    )
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{viewport}<title>{escape(TITLE)}</title><style>{style}</style>'
    body = "\n".join(part for part in parts if part)
    body = (
        f'<h1>{escape(TITLE)}</h1><div class="sides"><nav aria-label="sections">{links}</nav>'
        f'<main><div class="bar"></div>{body}</main></div><script id="page">{script}</script>'
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n', notes


def _table(name: str, table: Table, runs: Behind, source: Source) -> str:
    words = f"<p>{escape(tables.names()[name])}</p>{html_table(table, runs)}"
    return _section(
        name,
        name,
        f"{words}<p class='caption'>Made by <code>{escape(_command('table', name, source))}</code></p>",
    )


def _rest(figure: dict[str, str], notes: list[str]) -> str:
    return "".join(figure[name] for name in figure if name not in FIRST) + listed(
        "Not drawn or left out", notes
    )


def _empty(found: dict[str, Table]) -> str:
    """What each table without rows says: usually the command that fills it."""
    lines = [f"{name} ({tables.names()[name]}): {' '.join(table.caption)}" for name, table in found.items()]
    return listed("Tables without rows", lines) or "<p>Every table has rows.</p>"


def _runs(runs: Behind, source: Source) -> str:
    caption = [
        "Small numbers behind a value lead here: to the runs that it is made of.",
        *source.find(lambda run: True).caption(),
    ]
    return "".join(f"<p class='caption'>{escape(w)}</p>" for w in caption) + runs.rows()


def _section(name: str, title: str, words: str) -> str:
    """A part of the page that folds; unfolded at first, so that it reads without scripts."""
    return f'<section id="{name}"><details open><summary><h2>{escape(title)}</h2></summary>{words}</details></section>'


def _figure(name: str, svg: str, described: str, source: Source) -> str:
    words = f"{escape(described)}. <code>{escape(_command('figures', name, source))}</code>"
    return f'<figure id="figure-{name}">{svg}<figcaption>{words}</figcaption></figure>'


def _drawings(source: Source) -> tuple[dict[str, str], list[str]]:
    drawn, notes = {}, []
    for name in figures.names():
        encode, note = figures.draw_from(name, source)
        if note:
            notes.append(f"{name}: {note}")
        if encode is not None:
            drawn[name] = compact(inline(encode("page").decode(), name), name)
    return drawn, notes


def _command(verb: str, name: str, source: Source) -> str:
    words = [f"repro {verb} {name}"]
    words += [f"--profile {source.profile}"] if source.profile else []
    words += ["--reference"] if source.reference else []
    words += [f"--runs {source.root}"] if not (source.reference or source.fallback) else []
    return " ".join(words)
