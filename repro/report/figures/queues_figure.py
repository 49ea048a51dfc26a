"""A batch's way through the blocks and what the queues hold, for a DSP(p; m): the first paper's Fig. 2 and 3.

Everything follows from the algebra. With P_k = p_0 + .. + p_(k-1), when block 0 has just forwarded batch i,
block k has forwarded f_k = i - P_k and gone back through b_k = f_k - m_k. Its input queue holds b_k + 1 ..
f_k (m_k batches), the output queue f_(k+1) + 1 .. f_k (p_k), the gradient queue to block k-1 b_(k-1) + 1 ..
b_k (q_k, which is Eq. 6).
"""

from __future__ import annotations

from typing import Any

from repro.report.stored.source import Source

DESCRIPTION = "a batch's way through the blocks, and the queues of a DSP(p;m) (Fig. 2 and 3 of the DSP paper)"
SETTING = "1,1,0;4,2,0"
_UP, _DOWN = "#0072B2", "#D55E00"


def draw(source: Source) -> Any:
    """The figure for the paper's first setting; no run is needed."""
    return draw_setting(SETTING)


def draw_setting(text: str) -> Any:
    """The figure for the setting "p_0,..;m_0,.."; ValueError where it breaks Eq. 6."""
    from repro.report.figures import canvas
    from repro.schedule import Staleness

    blocks = len(text.split(";")[0].split(","))
    setting = Staleness.parse(text, blocks)
    height = 0.62 * blocks + 0.5
    total = 2 * height + 1.55
    figure = canvas.new_figure(canvas.WIDTH, total)
    way = figure.add_axes((0.1, (height + 1.15) / total, 0.86, height / total))
    _draw_way(way, setting)
    queues = figure.add_axes((0.1, 0.25 / total, 0.86, height / total))
    _draw_queues(queues, setting)
    return figure


def contents(setting: Any, newest: int) -> list[dict[str, list[int]]]:
    """Batches in each block's queues when block 0 has just forwarded batch `newest`: input, output, gradient."""
    found, before = [], 0
    for k in range(setting.blocks):
        forwarded = newest - before
        returned = forwarded - setting.m[k]
        found.append(
            {
                "input": list(range(returned + 1, forwarded + 1)),
                "output": list(range(forwarded - setting.p[k] + 1, forwarded + 1)),
                "gradient": list(range(returned - setting.q[k] + 1, returned + 1)),
            }
        )
        before += setting.p[k]
    return found


def path(setting: Any) -> tuple[list[int], list[int]]:
    """Updates after the batch entered block 0 at which it goes forward and back through each block."""
    forward = [sum(setting.p[:k]) for k in range(setting.blocks)]
    return forward, [f + m for f, m in zip(forward, setting.m, strict=True)]


def _draw_way(axes: Any, setting: Any) -> None:
    forward, back = path(setting)
    blocks, last = setting.blocks, back[0]
    for shift in range(-last, last + 3):  # the batches before and after, faintly
        x = [t + shift for t in (*forward, *reversed(back))]
        axes.plot(x, [*range(blocks), *reversed(range(blocks))], color="#DDDDDD", linewidth=0.7, zorder=0)
    axes.plot(forward, range(blocks), color=_UP, marker="o", linewidth=2)
    axes.plot(back, range(blocks), color=_DOWN, marker="s", linestyle="--", linewidth=2)
    for k in range(blocks):
        if setting.m[k]:
            arrow = {"arrowstyle": "<->", "color": "#333333", "linewidth": 0.8, "shrinkA": 6, "shrinkB": 6}
            axes.annotate("", (back[k], k), (forward[k], k), arrowprops=arrow)
        middle = (forward[k] + back[k]) / 2
        axes.text(middle, k + 0.12, f"$m_{k}$ = {setting.m[k]}", ha="center", fontsize=8)
        if k + 1 < blocks:
            side = (forward[k] + forward[k + 1]) / 2 - 0.12
            axes.text(
                side, k + 0.5, f"$p_{k}$ = {setting.p[k]}", color=_UP, ha="right", va="center", fontsize=8
            )
            side = (back[k] + back[k + 1]) / 2 + 0.12
            axes.text(
                side,
                k + 0.5,
                f"$q_{k + 1}$ = {setting.q[k + 1]}",
                color=_DOWN,
                ha="left",
                va="center",
                fontsize=8,
            )
    axes.text(forward[0] - 0.15, -0.3, "forward", color=_UP, ha="right", fontsize=8)
    axes.text(back[0] + 0.15, -0.3, "replay and backward", color=_DOWN, ha="left", fontsize=8)
    axes.set_xlim(-1.5, last + 2.5)
    axes.set_ylim(-0.5, blocks - 0.5)
    axes.set_yticks(range(blocks), [f"block {k}" for k in range(blocks)])
    axes.set_xticks(range(-1, last + 3))
    axes.set_xlabel("updates since the batch entered block 0", labelpad=2)
    axes.set_title(f"DSP({setting}): the way of one batch (grey: its neighbours)")


def _draw_queues(axes: Any, setting: Any) -> None:
    newest = setting.m[0] + 6
    found = contents(setting, newest)
    across = setting.m[0] + max(*setting.p, *setting.q) + 6.0
    for k, queues in enumerate(found):
        axes.text(0.0, k, "input", va="center", ha="left", fontsize=7.5)
        _slots(axes, 1.3, k, queues["input"], "#DDDDDD", "black", "keeps nothing: m = 0")
        if k + 1 < setting.blocks:
            x = 1.3 + setting.m[0] + 2.0
            axes.text(x - 0.15, k + 0.5, "output  ↑", va="center", ha="right", fontsize=7.5, color=_UP)
            _slots(axes, x, k + 0.5, queues["output"], "#CFE3F5", "black", "direct: p = 0")
            x += max(setting.p) + 2.6
            axes.text(x - 0.15, k + 0.5, "gradient  ↓", va="center", ha="right", fontsize=7.5, color=_DOWN)
            _slots(axes, x, k + 0.5, found[k + 1]["gradient"], "#FBE0CC", "black", "")
            across = max(across, x + max(setting.q) + 0.5)
    axes.set_xlim(-0.1, across)
    axes.set_ylim(-0.4, setting.blocks - 0.5)
    axes.set_yticks(range(setting.blocks), [f"block {k}" for k in range(setting.blocks)])
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.set_title(
        f"What the queues hold when block 0 has just forwarded batch {newest} (newest batch on the right)"
    )


def _slots(axes: Any, x: float, y: float, batches: list[int], face: str, ink: str, empty: str) -> None:
    from matplotlib.patches import Rectangle

    for i, batch in enumerate(batches):
        axes.add_patch(
            Rectangle((x + i, y - 0.17), 0.92, 0.34, facecolor=face, edgecolor="#333333", linewidth=0.7)
        )
        axes.text(x + i + 0.46, y - 0.01, str(batch), ha="center", va="center", color=ink, fontsize=7.5)
    if not batches and empty:
        axes.text(x, y, empty, va="center", fontsize=7.5, color="#666666")
