"""The write-up: claims, main tables and figures, and what they do not say, as one LaTeX file made from stored runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repro.errors import RunFailed
from repro.report import figures, tables
from repro.report.claims.verdicts import EQUALS, NOT_RUN, NOT_TESTABLE, undecided
from repro.report.pages.glance import claims_in_rows, narrow_asynchronous, narrow_gradient, narrow_pipeline
from repro.report.pages.latex import escape, latex
from repro.report.stored.source import Source
from repro.report.table import Table, Value

TITLE = "Decoupled and stale pipelines, and approximated gradients: what the stored runs say"
SHOWN = ("headline", "loss", "staleness", "straggler", "gradient-gap", "gradient-approximation")  # figures
ENGINES = ("pdflatex", "xelatex", "tectonic")
_HEAD = r"""\documentclass[10pt,a4paper]{article}
\usepackage[T1]{fontenc}
\usepackage[margin=2.2cm]{geometry}
\usepackage{graphicx}
\usepackage{float}
"""


def write(
    out: Path, runs_root: Path, *, profile: str | None = None, reference: bool = False, fallback: bool = True
) -> tuple[list[Path], list[str]]:
    """Write `out` (.tex), its figures beside it, and the PDF where a TeX engine is; the files, and notes.

    RunFailed where nothing has been run, or TeX fails; OSError where the files cannot be written.
    """
    source = Source(runs_root, profile, reference, fallback)
    if not source.find(lambda run: True).groups:
        raise RunFailed(
            f"{runs_root}: no runs to write about; make some with: repro run bp-resnet98-k2 dsp-resnet98-k2"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = out.parent / f"{out.stem}-figures"
    drawn, notes = _drawings(source, folder)
    out.write_text(
        document(source, {name: f"{folder.name}/{path.name}" for name, path in drawn.items()}, notes)
    )
    pdf = _compiled(out)
    if pdf is None:
        return [out], [*notes, f"no PDF: no TeX engine on PATH ({', '.join(ENGINES)})"]
    return [out, pdf], notes


def document(source: Source, pictures: dict[str, str], notes: list[str]) -> str:
    """The LaTeX; `pictures`: figure -> file."""
    found = source.find(lambda run: True)
    claims = tables.build_from("claims", source)
    parts = [
        _HEAD, rf"\title{{{escape(TITLE)}}}", rf"\author{{repro report -{{}}-paper}}\date{{{_when(source)}}}",
        r"\begin{document}\maketitle",
        r"\section{Verdicts}", _table(_named(claims_in_rows(claims), "verdicts")),
        r"\section{Main tables}",
    ]  # fmt: skip
    for name, narrow in (
        ("headline-pipeline", narrow_pipeline), ("headline-gradient", narrow_gradient), ("staleness", narrow_asynchronous),
    ):  # fmt: skip
        table = tables.build_from(name, source)
        if table.rows:
            parts.append(_table(_named(narrow(table), name)))
    parts.append(r"\section{Figures}")
    for name, file in pictures.items():
        words = escape(figures.names()[name])
        parts.append(
            rf"\begin{{figure}}[H]\centering\includegraphics[width=\linewidth,height=0.7\textheight,keepaspectratio]{{{file}}}"
            rf"\caption{{{words}. {_typewriter(f'repro figures {name}')}}}\end{{figure}}"
        )
    parts += [r"\clearpage\section{How each claim is tested}", _tests(claims)]
    parts += [r"\section{What these runs do not say}", _items([*_limits(claims), *found.caption(), *notes])]
    parts += [r"\section{Machines and versions}", _items(_environment(source)), r"\end{document}", ""]
    return "\n".join(parts)


def _limits(claims: Table) -> list[str]:
    """Claims that were not run or cannot be tested, and everything that is wrong with the runs."""
    words = []
    for verdict in (NOT_RUN, NOT_TESTABLE, *EQUALS):
        words += _named_claims(verdict, [row for row in claims.rows if row["verdict"] == verdict])
    words += _named_claims(
        "undecided, the interval includes the limit of the rule", [r for r in claims.rows if undecided(r)]
    )
    known = [line for line in claims.caption if line.startswith(("Only profile paper", "Not judged"))]
    return [*words, *known, *claims.problems]


def _named_claims(words: str, rows: Sequence[Mapping[str, Value]]) -> list[str]:
    """ "not run yet: D1, G7"; of undecided ones with the n that would decide."""
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(str(row["claim"]), []).extend([str(row["enough"])] if row.get("enough") else [])
    told = [
        f"{name} ({', '.join(dict.fromkeys(ns))} would decide)" if ns else name for name, ns in names.items()
    ]
    return [f"{words}: {', '.join(told)}"] if told else []


def _tests(claims: Table) -> str:
    rows = {str(row["claim"]): row for row in claims.rows}
    return _items([f"{name} ({row['source']}): {row['statistic']}." for name, row in rows.items()])


def _environment(source: Source) -> list[str]:
    facts = source.find(lambda run: True).environment()
    named = (
        ("machines", "machines"),
        ("torch", "torch"),
        ("threads", "threads a block"),
        ("commits", "commits"),
    )
    return [f"{words}: {', '.join(facts[key])}" for key, words in named if facts[key]]


def _when(source: Source) -> str:
    """The day of the newest run; the file is the same whenever it is made."""
    started = [
        str(r.environment.get("started", ""))
        for g in source.find(lambda run: True).groups
        for r in g.complete
    ]
    return escape(max(started, default="")[:10])


def _drawings(source: Source, folder: Path) -> tuple[dict[str, Path], list[str]]:
    drawn: dict[str, Path] = {}
    notes = []
    for name in SHOWN:
        encode, note = figures.draw_from(name, source)
        notes += [f"{name}: {note}"] if note else []
        if encode is not None:
            folder.mkdir(parents=True, exist_ok=True)
            drawn[name] = folder / f"{name}.pdf"
            drawn[name].write_bytes(encode("pdf"))
    return drawn, notes


def _named(table: Table, name: str) -> Table:
    return replace(table, name=name)


def _table(table: Table) -> str:
    return re.sub(r"^%.*\n", "", latex(table, in_place=True), flags=re.MULTILINE)


def _items(words: list[str]) -> str:
    items = "\n".join(rf"\item {escape(w)}" for w in words)
    return rf"\begin{{itemize}}\small\raggedright {items}\end{{itemize}}" if words else ""


def _typewriter(words: str) -> str:
    return rf"\texttt{{{escape(words)}}}"


def _compiled(out: Path) -> Path | None:
    """The PDF; None without a TeX engine. RunFailed with TeX's own words where it does not compile."""
    engine = next((path for name in ENGINES if (path := shutil.which(name))), None)
    if engine is None:
        return None
    words = [
        engine,
        *([] if "tectonic" in engine else ["-interaction=nonstopmode", "-halt-on-error"]),
        out.name,
    ]
    for _ in range(1 if "tectonic" in engine else 2):  # references need the second pass
        done = subprocess.run(
            words, cwd=out.parent, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            reason = next((line for line in done.stdout.splitlines() if line.startswith("!")), "see its log")
            raise RunFailed(f"{out}: {Path(engine).name} cannot compile it ({reason})")
    for ending in (".aux", ".log", ".out"):
        out.with_suffix(ending).unlink(missing_ok=True)
    return out.with_suffix(".pdf")
