"""One colour and one marker a method, in every figure and on the page; settings of a method are shades of its colour.

A style follows from the method's name and the setting in its label, never from a row's place in a figure, so that a
method looks the same everywhere. Only where two rows of one figure would look alike the later one gets another shade.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from repro.report.stored.group import Group, gradient_label

Style = tuple[str, str]  # colour, marker

# Hues after Okabe and Ito, and Tol: told apart by the colour-blind; in grey the marker tells.
METHODS: dict[str, Style] = {
    "bp": ("#000000", "o"), "gpipe": ("#7F7F7F", "s"), "dni": ("#CC79A7", "^"), "fr": ("#E69F00", "v"),
    "ddg": ("#009E73", "D"), "fdg": ("#56B4E9", "P"), "dsp": ("#D55E00", "X"), "pipedream": ("#117733", "<"),
    "2bw": ("#0072B2", ">"), "pipemare": ("#882255", "p"), "delayed": ("#999933", "h"),
}  # fmt: skip
ESTIMATORS: dict[str, Style] = {
    "full": ("#222222", "d"), "zero": ("#44AA99", "s"), "random": ("#AA4499", "^"), "top1": ("#CC3311", "X"),
    "sampled": ("#332288", "P"), "shared-topk": ("#DDAA33", "D"),
}  # fmt: skip
PEERS: dict[str, Style] = {  # what a user would run instead; drawn open
    "loop": ("#888888", "*"), "torch GPipe": ("#AA4499", "s"), "torch 1F1B": ("#AA4499", "d"), "torch": ("#AA4499", "8"),
}  # fmt: skip
OWN: Style = ("#6699CC", "*")  # a method of the user's
# What a word of a label does to the colour: towards white above 0, towards black below.
_WORDS = {
    "free": -0.4, "barrier": 0.45, "kept": -0.45, "re-materialised": -0.45, "cdni": -0.4, "nadam": -0.35, "muon": -0.62,
    "threads": -0.5,
}  # fmt: skip


def styles(groups: Iterable[Group]) -> dict[str, Style]:
    """{title: (colour, marker)} for the rows of one panel; no two alike."""
    return _apart({group.title: (_of_group(group), _tint(group.title)) for group in groups})


def label_styles(labels: Iterable[str]) -> dict[str, Style]:
    """The same for labels that begin with a method's name, as benchmarks have them ("GPipe(M=4)", "torch 1F1B, M = 4")."""
    return _apart({label: (_of_label(label), _tint(label)) for label in labels})


def shade(colour: str, tint: float) -> str:
    """`colour` mixed with white (`tint` up to 1) or black (down to -1); black itself only becomes lighter."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    if max(parts) < 0x40:
        tint = abs(tint)
    goal = 255 if tint > 0 else 0
    return "#" + "".join(f"{round(part + (goal - part) * abs(tint)):02X}" for part in parts)


def _of_group(group: Group) -> Style:
    gradient = group.settings.get("gradient")
    estimator = str(gradient.get("estimator", "full")) if isinstance(gradient, dict) else "full"
    if estimator != "full" or gradient_label(group.settings) == "full":
        return ESTIMATORS.get(estimator, OWN)
    return METHODS.get(group.method, OWN)


def _of_label(label: str) -> Style:
    for name, style in PEERS.items():
        if label.startswith(name):
            return style
    return METHODS.get(re.split(r"[^a-z0-9]", label.lower())[0].removeprefix("c"), OWN)


def _tint(label: str) -> float:
    """Which shade a label's setting asks for: the longer DSP's queues the darker."""
    if queues := re.match(r"DSP\((\d+)", label):
        p = int(queues.group(1))
        return -min(0.7, 0.25 * math.log2(p)) if p else 0.4
    words = re.findall(r"[a-z-]+", label.lower())
    return next((_WORDS[word] for word in words if word in _WORDS), 0.0)


def _apart(wanted: dict[str, tuple[Style, float]]) -> dict[str, Style]:
    found: dict[str, Style] = {}
    used: set[Style] = set()
    for title, ((colour, marker), tint) in wanted.items():
        looks = ((shade(colour, t), marker) for t in _tints(tint))
        found[title] = next(look for look in looks if look not in used)
        used.add(found[title])
    return found


def _tints(first: float) -> Iterator[float]:
    """The wanted tint, then others ever closer to each other: as many as a figure needs."""
    yield first
    count = 2
    while count < 200:
        for i in range(1, count):
            yield 0.75 * (i / count if i % 2 else -i / count)
        count *= 2
