"""One self-contained page: every table, every figure as inline SVG, the environment, and the commands behind each run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from repro.report import figures, tables
from repro.report.stored.source import Source
from repro.report.table import Column, Table, grid

TITLE = "Decoupled pipeline training and gradient approximation: what the stored runs say"
ORDER = (
    "headline-pipeline", "headline-gradient", "claims", "speedup", "accuracy", "text-loss", "straggler", "memory", "engine",
    "peers",     "gradient-approximation", "kernels", "savings", "bias", "schedules",
)  # fmt: skip
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 78rem; margin: 0 auto; padding: 1rem 1.5rem 4rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
nav a { margin-right: 1rem; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.86rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.7rem; text-align: left; vertical-align: top; border-bottom: 1px solid #e2e2e2; }
th { border-bottom: 2px solid #888; } td.number, th.number { text-align: right; } td.number { white-space: nowrap; }
p.caption, figcaption { font-size: 0.86rem; color: #444; margin: 0.3rem 0; }
ul.problems { font-size: 0.86rem; color: #8a3800; }
td.reproduced { color: #00603c; font-weight: 600; } td.not-reproduced { color: #8a1c1c; font-weight: 600; }
td.not-testable-here, td.not-run-yet { color: #555; font-style: italic; } .whole { white-space: nowrap; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; } code { background: #f3f3f3; padding: 0 0.2em; }
@media (max-width: 700px) { body { padding: 0.5rem 0.8rem 3rem; } table { width: max-content; } td { max-width: 16rem; } }
"""


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
    drawn, notes = _drawings(source)
    described, pictures = tables.names(), figures.names()
    links = "".join(f'<a href="#{n}">{n}</a> ' for n in (*names, "figures", "runs"))
    parts = [f"<h1>{escape(TITLE)}</h1>", f"<nav>{links}</nav>"]
    for name, table in built.items():
        parts += [f'<h2 id="{name}">{name}</h2>', f"<p>{escape(described[name])}</p>", _table(table)]
        parts.append(f"<p class='caption'>Made by <code>{escape(_command('table', name, source))}</code></p>")
    parts.append('<h2 id="figures">Figures</h2>')
    for name, svg in drawn.items():
        words = f"{escape(pictures[name])}. <code>{escape(_command('figures', name, source))}</code>"
        parts.append(f'<figure id="figure-{name}">{svg}<figcaption>{words}</figcaption></figure>')
    parts.append(_list("Not drawn or left out", notes))
    parts += ['<h2 id="runs">Runs: environment and commands</h2>', _runs(source)]
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{viewport}<title>{escape(TITLE)}</title><style>{_STYLE}</style>'
    body = "\n".join(part for part in parts if part)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n', notes


def _drawings(source: Source) -> tuple[dict[str, str], list[str]]:
    drawn, notes = {}, []
    for name in figures.names():
        encode, note = figures.draw_from(name, source)
        if note:
            notes.append(f"{name}: {note}")
        if encode is not None:
            drawn[name] = inline(encode("svg").decode(), name)
    return drawn, notes


def inline(svg: str, name: str) -> str:
    """An SVG file as an element of a page: no XML head, and ids of its own so that pictures do not mix."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', body)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)


def _table(table: Table) -> str:
    columns, cells, caption = grid(table)
    parts = []
    if cells:
        head = "".join(f"<th{_look(c)}>{escape(c.header)}</th>" for c in columns)
        rows = "".join(
            "<tr>"
            + "".join(f"<td{_look(c, w)}>{_words(w)}</td>" for w, c in zip(row, columns, strict=True))
            + "</tr>\n"
            for row in cells
        )
        parts.append(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>'
        )
    parts += [f"<p class='caption'>{_words(words)}</p>" for words in caption]
    parts.append(_list("Problems", [words for words in table.problems if words not in caption]))
    return "\n".join(part for part in parts if part)


def _look(column: Column, words: str | None = None) -> str:
    """Attributes of a cell: numbers to the right, verdicts told apart, wrapped columns no narrower than can be read."""
    if column.number:
        return ' class="number"'
    verdict = f' class="{escape(words.replace(" ", "-"))}"' if column.name == "verdict" and words else ""
    width = f' style="min-width:{0.45 * column.wrap:.0f}ch"' if column.wrap else ""
    return verdict + width


def _words(words: str) -> str:
    """Escaped; recipes and options (top1-resnet20-s1, --profile) are not broken at their hyphens."""
    parts = re.split(r"([\w.]*-[-\w.=,]*\w)", words)
    return "".join(
        f'<span class="whole">{escape(p)}</span>' if i % 2 else escape(p) for i, p in enumerate(parts)
    )


def _list(title: str, words: Sequence[str]) -> str:
    items = "".join(f"<li>{_words(w)}</li>" for w in words)
    return f"<p class='caption'>{title}:</p><ul class='problems'>{items}</ul>" if words else ""


def _runs(source: Source) -> str:
    """A row per recipe and hash: seeds, machine, versions, commit, and the command that made them."""
    found = source.find(lambda run: True)
    rows = []
    for group in found.groups:
        runs = group.complete or list(group.runs)
        commands = sorted({" ".join(map(str, r.environment.get("command") or ())) for r in runs} - {""})
        git = runs[0].environment.get("git") or {}
        commit = str(git.get("commit", ""))[:10] + (" (changed)" if git.get("dirty") else "")
        cells = [
            ", ".join((group.recipe, *group.variant_words)), group.profile, group.hash,
            f"{len(group.complete)}/{len(group.started)}", group.machine,
            group.threads, str(runs[0].environment.get("torch", "")), commit, "; ".join(commands),
        ]  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{_words(c)}</td>" for c in cells) + "</tr>")
    heads = ("recipe", "profile", "hash", "seeds", "machine", "threads", "torch", "commit", "command")
    head = "".join(f"<th>{h}</th>" for h in heads)
    words = "".join(f"<p class='caption'>{escape(w)}</p>" for w in found.caption())
    return f'{words}<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _command(verb: str, name: str, source: Source) -> str:
    words = [f"repro {verb} {name}"]
    words += [f"--profile {source.profile}"] if source.profile else []
    words += ["--reference"] if source.reference else []
    words += [f"--runs {source.root}"] if not (source.reference or source.fallback) else []
    return " ".join(words)
