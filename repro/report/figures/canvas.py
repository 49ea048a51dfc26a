"""How every figure looks and is written: fixed fonts, sizes and colours; the same input gives the same bytes."""

from __future__ import annotations

import io
import os
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from repro.report.figures.told import overlay

WIDTH = 7.0  # inches
_CAPTION_LETTER = 0.0625  # inches that a letter of a caption takes on the average, rounded up
_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": False,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "lines.linewidth": 1.4,
    "hatch.linewidth": 0.6,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "figure.constrained_layout.use": False,
    "svg.hashsalt": "repro",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "path.simplify": True,
}
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "repro"},
    "png": {"Software": "repro"},
    "pdf": {"CreationDate": None, "Creator": "repro", "Producer": "repro"},
}


@contextmanager
def settings() -> Iterator[None]:
    """Matplotlib's defaults plus our style, whatever the user's configuration says; needs no display and no home."""
    _find_config_folder()
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(cast(Any, _STYLE))
        yield


def encode(figure: Any, format: str) -> bytes:
    """The figure as the bytes of an svg, png or pdf file; "page": an svg whose letters are text, with `told` over it."""
    stream = io.BytesIO()
    with settings():
        if format != "page":
            figure.savefig(stream, format=format, metadata=_METADATA[format])
            return stream.getvalue()
        import matplotlib

        matplotlib.rcParams["svg.fonttype"] = "none"
        figure.savefig(stream, format="svg", metadata=_METADATA["svg"])
    picture, end, _ = stream.getvalue().decode().rpartition("</svg>")
    return f"{picture}{overlay(figure)}{end}".encode()


def new_figure(width: float, height: float) -> Any:
    """An empty figure of a fixed size in inches, on the Agg canvas."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def caption(figure: Any, words: str) -> None:
    """What the marks mean, below everything; broken into lines where the figure is too narrow for it."""
    width = figure.get_figwidth() - 0.3
    lines = textwrap.wrap(words, int(width / _CAPTION_LETTER))
    figure.text(
        0.2 / figure.get_figwidth(),
        0.08 / figure.get_figheight(),
        "\n".join(lines),
        fontsize=7.5,
        va="bottom",
    )


Label = tuple[float, str, str, str]  # height in data, text, colour, marker


def direct_labels(axes: Any, labels: Sequence[Label], *, gap: float = 0.052, x: float = 1.03) -> None:
    """Write labels right of the axes at the heights of their curves' ends, moved apart where they would overlap.

    The curve's marker stands before its label, for readers without colour. `gap`: least distance of two
    labels, as a share of the axes' height.
    """
    if not labels:
        return
    to_axes = axes.transData + axes.transAxes.inverted()
    left = axes.get_xlim()[0]
    wanted: list[Label] = sorted(
        (float(to_axes.transform((left, y))[1]), text, c, mark) for y, text, c, mark in labels
    )
    heights = [label[0] for label in wanted]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + gap)
    too_high = max(0.0, heights[-1] - 1.0)
    heights[-1] -= too_high
    for i in range(len(heights) - 2, -1, -1):
        heights[i] = min(heights[i], heights[i + 1] - gap)
    inches = axes.get_position().width * axes.figure.get_figwidth()
    here = {"transform": axes.transAxes, "clip_on": False}
    for (y, text, colour, marker), height in zip(wanted, heights, strict=True):
        if abs(y - height) > 0.01:
            axes.plot([1.0, x - 0.012], [y, height], color=colour, linewidth=0.5, **here)
        axes.plot([x], [height], marker=marker, color=colour, markersize=3.5, linestyle="none", **here)
        axes.text(
            x + 0.07 / inches,
            height,
            text,
            color=colour,
            va="center",
            ha="left",
            fontsize=7.5 if len(text) <= 30 else 6.0,  # long ones must stay on the paper
            transform=axes.transAxes,
        )


def log_axis(axis: Any, subs: tuple[float, ...] = (1.0, 2.0, 5.0)) -> None:
    """A logarithmic axis with plain numbers (0.2, 0.5, 1, 2) instead of powers; `subs` within a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis._set_axes_scale("log")
    axis.set_major_locator(LogLocator(10, subs=subs, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def whole_numbers(axis: Any) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def _find_config_folder() -> None:
    """Give matplotlib a folder to write to where the user's own cannot be: it would warn on every call."""
    if os.environ.get("MPLCONFIGDIR"):
        return
    home = Path(
        os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.environ.get("HOME") or "/nonexistent", ".config")
    )
    place = next((p for p in (home, *home.parents) if p.exists()), None)
    if place is None or not os.access(place, os.W_OK):
        os.environ["MPLCONFIGDIR"] = str(Path(tempfile.gettempdir()) / f"repro-matplotlib-{os.getuid()}")
