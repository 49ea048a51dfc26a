"""What the page says where the pointer is near a point of a figure: a text for each point of a curve or mark.

The texts lie over the picture as invisible circles with a <title>, so that browsers show them without any script.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from repro.report.stats import Estimate
from repro.report.stored.curves import Curve

_RADIUS = 3.5  # points


def tell(line: Any, texts: Sequence[str]) -> None:
    """Keep a text for each point of a matplotlib line."""
    line.told = tuple(texts)


def estimate_words(e: Estimate) -> str:
    """ "1.57 [1.52, 1.61], n = 5"."""
    interval = "" if e.low is None or e.high is None else f" [{e.low:.4g}, {e.high:.4g}]"
    return f"{e.mean:.4g}{interval}, n = {e.n}"


def curve_words(name: str, axis: str, curve: Curve) -> list[str]:
    """A text for each point of a curve over `axis`: "BP, epoch 3: 0.512 [0.49, 0.53], n = 5"."""
    return [f"{name}, {axis} {x:.4g}: {estimate_words(e)}" for x, e in zip(curve.x, curve.y, strict=True)]


def overlay(figure: Any) -> str:
    """SVG elements for all texts of `figure`, to stand at the end of its picture."""
    circles = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}"><title>{escape(text)}</title></circle>\n'
        for x, y, text in _points(figure)
    )
    return f'<g class="told" fill="none" pointer-events="all">{circles}</g>' if circles else ""


def _points(figure: Any) -> Iterator[tuple[float, float, str]]:
    """(x, y) in points from the upper left corner, and the text, of the points that lie within their axes."""
    scale, height = 72.0 / figure.dpi, 72.0 * figure.get_figheight()
    for axes in figure.axes:
        inside = axes.bbox.padded(1.0)
        for line in axes.lines:
            for data, text in zip(line.get_xydata(), getattr(line, "told", ()), strict=False):
                x, y = axes.transData.transform(data)
                if inside.contains(x, y):
                    yield scale * x, height - scale * y, text
