"""One colour and marker a method, the same in every figure: told apart by the colour-blind, and in grey by marker."""

from __future__ import annotations

import re
from collections.abc import Iterable

from repro.report.stored.group import Group

# After Okabe and Ito, with two darker ones for the second and third setting of a method.
_METHOD = {
    "bp": "#000000", "full": "#000000", "gpipe": "#7F7F7F", "dni": "#CC79A7", "fr": "#E69F00", "ddg": "#009E73",
    "fdg": "#56B4E9", "dsp": "#D55E00", "zero": "#7F7F7F", "random": "#CC79A7", "top1": "#D55E00", "sampled": "#0072B2",
    "shared-topk": "#009E73", "pipedream": "#117733", "2bw": "#0072B2", "pipemare": "#882255", "delayed": "#999933",
}  # fmt: skip
_SPARE = ("#0072B2", "#882255", "#999933", "#44AA99", "#AA4499", "#117733", "#661100", "#6699CC")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
Style = tuple[str, str]


def styles(groups: Iterable[Group]) -> dict[str, Style]:
    """{title: (colour, marker)} for all rows of a figure; a method's first setting has the method's own colour."""
    found: dict[str, Style] = {}
    used: set[str] = set()
    for group in groups:
        if group.title in found:
            continue
        gradient = group.settings.get("gradient")
        estimator = str(gradient.get("estimator", "full")) if isinstance(gradient, dict) else "full"
        wanted = _METHOD.get(estimator if estimator != "full" else group.method, _SPARE[0])
        spare = [c for c in _SPARE if c not in used]
        colour = wanted if wanted not in used else spare[0] if spare else _SPARE[len(found) % len(_SPARE)]
        used.add(colour)
        found[group.title] = (colour, MARKERS[len(found) % len(MARKERS)])
    return found


def method_colours(labels: Iterable[str]) -> dict[str, str]:
    """{label: colour} for labels that begin with a method's name ("GPipe(M=4)"); no two alike."""
    found: dict[str, str] = {}
    for label in labels:
        name = re.split(r"[^a-z0-9]", label.lower())[0]
        wanted = _METHOD.get(name, _SPARE[0])
        spare = [c for c in _SPARE if c not in found.values()]
        found[label] = wanted if wanted not in found.values() else spare[0] if spare else wanted
    return found
