"""The figures, one file each: `DESCRIPTION` and `draw(source)`. A new file here is a new figure.

`draw` returns a matplotlib Figure, or a sentence that says what is missing and which command makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.errors import RunFailed, UserError, nearest
from repro.report.folder import Folder
from repro.report.stored.source import Source

FORMATS = ("svg", "png", "pdf")
_figures = Folder(__name__, __file__, "figure")


def names() -> dict[str, str]:
    """Every figure's name and what it shows, in one line; imports nothing heavy."""
    return _figures.descriptions()


def draw(
    names: Sequence[str],
    runs_root: Path,
    out: Path,
    formats: Sequence[str] = ("svg", "png"),
    *,
    profile: str | None = None,
    reference: bool = False,
    fallback: bool = True,
) -> tuple[list[Path], list[str]]:
    """Draw figures (all without `names`) into `out`; returns the files, and notes about what could not be drawn.

    UserError for an unknown figure or format, before anything is drawn; RunFailed where `out` cannot be
    written.
    """
    wanted = list(dict.fromkeys(names)) or list(_figures.names)
    for name in wanted:
        _figures.module(name)
    for format in formats:
        if format not in FORMATS:
            raise UserError(
                f"--format {format!r} is unknown.{nearest(format, FORMATS)} Allowed: {', '.join(FORMATS)}"
            )
    source = Source(runs_root, profile, reference, fallback)
    paths: list[Path] = []
    notes: list[str] = []
    for name in wanted:
        files, note = draw_from(name, source)
        if note:
            notes.append(f"{name}: {note}")
        try:
            out.mkdir(parents=True, exist_ok=True)
            for format in dict.fromkeys(formats) if files is not None else ():
                paths.append(out / f"{name}.{format}")
                paths[-1].write_bytes(files(format))
        except OSError as error:
            raise RunFailed(f"{out}: the figures cannot be written there ({error.strerror})") from None
    return paths, notes


def draw_from(name: str, source: Source) -> tuple[Any, str]:
    """Draw one figure: a function from format to bytes (None where it cannot be drawn), and a note or ""."""
    from repro.report.figures import canvas

    with canvas.settings():
        drawn = _figures.module(name).draw(source)
    if isinstance(drawn, str):
        return None, drawn
    figure, note = drawn if isinstance(drawn, tuple) else (drawn, "")
    return (lambda format: canvas.encode(figure, format)), note
