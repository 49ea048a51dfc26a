"""`repro table`, `repro figures`, `repro diff`: what the stored runs say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from repro import paths
from repro.commands.runs_folder import check_file_can_be_written, runs_to_read, written_to
from repro.errors import UserError, nearest
from repro.recipe.load import PROFILES

TABLE_FORMATS = ("txt", "md", "csv", "latex", "json")
FIGURE_FORMATS = ("svg", "png", "pdf")


def print_table(
    name: str | None,
    format: str,
    select: str,
    profile: str | None,
    strict: bool,
    reference: bool,
    runs: Path | None,
    at: float | None = None,
) -> int:
    """Print a table on stdout and its problems on stderr; 1 under `strict` where there are problems."""
    from repro.report import tables

    if name is None:
        names = tables.names()
        print("\n".join(f"{key:<24} {text}" for key, text in names.items()))
        return 0
    one_of("--format", format, TABLE_FORMATS)
    if profile is not None:
        one_of("--profile", profile, PROFILES)

    from repro.report.pages.formats import render

    folder = runs_to_read(runs, reference)
    built = tables.build(
        name, folder, profile=profile, select=select, reference=reference, fallback=runs is None, at=at
    )
    ascii_only = format == "txt" and not prints_unicode()
    sys.stdout.write(render(built, format, ascii=ascii_only))
    sys.stdout.flush()
    if format != "txt":  # the text form lists them itself
        for problem in built.problems:
            print(f"repro: {problem}", file=sys.stderr)
    return 1 if strict and built.problems else 0


def draw_figures(
    names: Sequence[str],
    format: str,
    profile: str | None,
    reference: bool,
    runs: Path | None,
    out: Path | None,
) -> int:
    """Draw figures; their paths go to stdout, what is missing to stderr."""
    formats = [word.strip() for word in format.split(",") if word.strip()]
    for word in formats:
        one_of("--format", word, FIGURE_FORMATS)
    if profile is not None:
        one_of("--profile", profile, PROFILES)
    place, folder = written_to(out, paths.figures()), runs_to_read(runs, reference)

    from repro.report import figures

    drawn, notes = figures.draw(
        list(names),
        folder,
        place,
        formats,
        profile=profile,
        reference=reference,
        fallback=runs is None,
    )
    for path in drawn:
        print(path)
    for note in notes:
        print(f"repro: {note}", file=sys.stderr)
    return 0


def print_diff(a: str, b: str, runs: Path | None) -> None:
    """Print how two runs, or two recipes, differ."""
    from repro.report.diff import compare
    from repro.report.pages.formats import render

    sys.stdout.write(
        render(compare(a, b, runs_to_read(runs), fallback=runs is None), "txt", ascii=not prints_unicode())
    )


def write_page(
    out: Path | None, runs: Path | None, profile: str | None, reference: bool, paper: bool = False
) -> None:
    """Write the HTML page, or the `paper`; paths go to stdout, what is missing to stderr."""
    if profile is not None:
        one_of("--profile", profile, PROFILES)
    usual = paths.page().with_suffix(".tex") if paper else paths.page()
    place, folder = written_to(out, usual), runs_to_read(runs, reference)
    if paper and place.suffix != ".tex":
        raise UserError(f"--out {place}: the write-up is LaTeX, give a name that ends with .tex")
    check_file_can_be_written(place)  # it takes a while to make
    if paper:
        from repro.report.pages.paper import write

        written, notes = write(place, folder, profile=profile, reference=reference, fallback=runs is None)
    else:
        from repro.report.pages import html

        notes = html.write(place, folder, profile=profile, reference=reference, fallback=runs is None)
        written = [place]
    for path in written:
        print(path)
    for note in notes:
        print(f"repro: {note}", file=sys.stderr)


def refresh_readme(readme: Path) -> None:
    """Rewrite the generated blocks; the files that have changed go to stdout."""
    from repro.report.pages.readme import refresh

    for path in refresh(readme):
        print(path)


def one_of(option: str, value: str, allowed: Sequence[str]) -> None:
    """UserError, with the nearest match, where an option has none of the values that it may have."""
    if value not in allowed:
        raise UserError(
            f"{option} {value!r} is unknown.{nearest(value, allowed)} Allowed: {', '.join(allowed)}"
        )


def prints_unicode() -> bool:
    """Whether stdout takes more than ASCII."""
    return (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")
