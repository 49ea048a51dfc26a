"""One self-contained page: every table, every figure as inline SVG, the environment, and the commands behind each run."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from repro.report import figures, tables
from repro.report.stored.group import Group
from repro.report.stored.source import Found, Source
from repro.report.table import Column, Table, Value, grid

TITLE = "Decoupled pipeline training and gradient approximation: what the stored runs say"
ORDER = (
    "claims", "headline-pipeline", "headline-gradient", "speedup", "accuracy", "text-loss", "straggler", "memory", "engine",
    "peers",     "gradient-approximation", "kernels", "savings", "bias", "schedules",
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
    drawn, notes = _drawings(source)
    described, pictures = tables.names(), figures.names()
    found = source.find(lambda run: True)
    known = {group.recipe for group in found.groups}
    figure = {name: _figure(name, svg, pictures[name], source) for name, svg in drawn.items()}
    parts = ["".join(figure[name] for name in FIRST if name in figure)]
    for name, table in built.items():
        words = f"<p>{escape(described[name])}</p>{_table(table, known)}"
        words += f"<p class='caption'>Made by <code>{escape(_command('table', name, source))}</code></p>"
        parts.append(_section(name, name, words))
    rest = "".join(figure[name] for name in figure if name not in FIRST)
    parts.append(_section("figures", "Figures", rest + _list("Not drawn or left out", notes)))
    parts.append(_section("runs", "Runs: environment and commands", _runs(found)))
    links = "".join(f'<a href="#{n}">{n}</a> ' for n in (*built, "figures", "runs"))
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
            drawn[name] = compact(inline(encode("svg").decode(), name), name)
    return drawn, notes


def inline(svg: str, name: str) -> str:
    """An SVG file as an element of a page: no XML head, and ids of its own so that pictures do not mix."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', body)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)


def compact(svg: str, name: str) -> str:
    """The same picture in fewer bytes: hundredths of a point are enough, and looks that repeat become classes."""
    svg = re.sub(
        r"scale\([^)]*\)|(\d\.\d\d)\d+", lambda m: m[1] or m[0], svg
    )  # letters are drawn large and scaled
    count = Counter(re.findall(r' style="([^"]*)"', svg))
    classes = {look: f"{name}-{i}" for i, (look, n) in enumerate(count.most_common()) if n > 3}
    svg = re.sub(r' style="([^"]*)"', lambda m: f' class="{classes[m[1]]}"' if m[1] in classes else m[0], svg)
    rules = "".join(f".{known}{{{look}}}" for look, known in classes.items())
    start = svg.index(">") + 1
    return re.sub(r"\n\s*", "\n", f"{svg[:start]}<style>{rules}</style>{svg[start:]}")


def _table(table: Table, known: set[str]) -> str:
    """A table, its last column leading to the runs behind each row."""
    columns, cells, caption = grid(table)
    parts = []
    if cells:
        sources = [_recipes(row, known) for row in table.rows]
        linked = any(sources)
        head = "".join(f"<th{_look(c)}>{escape(c.header)}</th>" for c in columns) + "<th>runs</th>" * linked
        rows = ""
        for values, row, recipes in zip(table.rows, cells, sources, strict=True):
            whole = " ".join(str(v) for c in columns if c.once and isinstance(v := values.get(c.name), str))
            rows += f'<tr data-words="{escape(whole)}">'
            for words, c in zip(row, columns, strict=True):
                hidden = f' data-value="{escape(str(values.get(c.name)))}"' if c.once and not words else ""
                rows += f"<td{_look(c, words)}{hidden}>{_words(words)}</td>"
            links = " ".join(f'<a href="#run-{r}" title="{r}">{i + 1}</a>' for i, r in enumerate(recipes))
            rows += f"<td>{links}</td></tr>\n" if linked else "</tr>\n"
        parts.append(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>'
        )
    parts += [f"<p class='caption'>{_words(words)}</p>" for words in caption]
    parts.append(_list("Problems", [words for words in table.problems if words not in caption]))
    return "\n".join(part for part in parts if part)


def _recipes(row: Mapping[str, Value], known: set[str]) -> list[str]:
    """The recipes behind a row that have stored runs: its own, or those that its claim's command makes."""
    if row.get("claim"):
        from repro.report.claims import CLAIMS

        words = next((claim.command for claim in CLAIMS if claim.name == row["claim"]), "").split()
    else:
        words = [str(row.get("recipe"))]
    return [word for word in dict.fromkeys(words) if word in known]


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


def _runs(found: Found) -> str:
    """A row per recipe and hash: seeds, machine, versions, commit, and the command that made them."""
    rows: list[str] = []
    seen: set[str] = set()
    for group in found.groups:
        runs = group.complete or list(group.runs)
        commands = sorted({" ".join(map(str, r.environment.get("command") or ())) for r in runs} - {""})
        git = runs[0].environment.get("git") or {}
        commit = str(git.get("commit", ""))[:10] + (" (changed)" if git.get("dirty") else "")
        cells = [
            ", ".join((group.recipe, *group.variant_words)), group.profile, group.hash,
            _seeds(group), group.machine,
            group.threads, str(runs[0].environment.get("torch", "")), commit, "; ".join(commands), _again(group),
        ]  # fmt: skip
        anchor = f' id="run-{group.recipe}"' if group.recipe not in seen else ""
        seen.add(group.recipe)
        rows.append(f"<tr{anchor}>" + "".join(f"<td>{_words(c)}</td>" for c in cells) + "</tr>")
    heads = (
        "recipe",
        "profile",
        "hash",
        "seeds",
        "machine",
        "threads",
        "torch",
        "commit",
        "made by",
        "to repeat",
    )
    head = "".join(f"<th>{h}</th>" for h in heads)
    words = "".join(f"<p class='caption'>{escape(w)}</p>" for w in found.caption())
    return f'{words}<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _seeds(group: Group) -> str:
    """ "0, 1 (2/3)": the complete seeds, and how many were begun."""
    return (
        ", ".join(str(run.seed) for run in group.complete) + f" ({len(group.complete)}/{len(group.started)})"
    )


def _again(group: Group) -> str:
    """The command that makes a row's runs again."""
    changed = "".join(
        f" --set {shlex.quote(f'{k}={_value(here)}')}" for k, (_, here) in group.changed.items()
    )
    return f"repro run {group.recipe} --profile {group.profile} --seeds {len(group.started)}{changed}"


def _value(value: object) -> str:
    return "null" if value is None else str(value)


def _command(verb: str, name: str, source: Source) -> str:
    words = [f"repro {verb} {name}"]
    words += [f"--profile {source.profile}"] if source.profile else []
    words += ["--reference"] if source.reference else []
    words += [f"--runs {source.root}"] if not (source.reference or source.fallback) else []
    return " ".join(words)
