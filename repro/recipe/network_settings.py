"""Settings that only some networks have (`model.width` of gpt and mlp, ..): defaults, and what is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What a network has when nothing is said; networks that are not here have no size to give.
DEFAULTS: dict[str, dict[str, Any]] = {
    "gpt": {"layers": 4, "width": 128, "heads": 4, "positions": "learned", "tied": False},
    "mlp": {"layers": 3, "width": 128},
}
NAMES = tuple(dict.fromkeys(name for sizes in DEFAULTS.values() for name in sizes))


def completed(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a network with the defaults of its kind; ValueError names the first that does not belong."""
    name = given.get("name")
    if "context" in given:
        raise ValueError(
            f"context = {given['context']!r} is no setting of a network: give data.context, the length of its sequences"
        )
    sizes = DEFAULTS.get(str(name), {})
    for setting in NAMES:
        if given.get(setting) is not None and setting not in sizes:
            owners = [owner for owner, own in DEFAULTS.items() if setting in own]
            raise ValueError(
                f"{setting} = {given[setting]!r} is for {' and '.join(owners)} only, not for {name}: leave it out"
            )
    return {**given, **{key: given[key] if given.get(key) is not None else sizes[key] for key in sizes}}


def check(name: str, width: int | None, heads: int | None, positions: str | None, tied: bool | None) -> None:
    """Raise ValueError for sizes of gpt that do not fit each other."""
    if name != "gpt" or width is None or heads is None:
        return
    if width % heads:
        near = [n for n in range(1, width + 1) if width % n == 0]
        raise ValueError(
            f"width = {width} does not divide among heads = {heads}: give heads in {', '.join(map(str, near[:8]))}"
            + (", .." if len(near) > 8 else "")
        )
    if positions == "rotary" and (width // heads) % 2:
        raise ValueError(
            f"positions = 'rotary' turns pairs of numbers, and width = {width} with heads = {heads} gives each head "
            f"{width // heads} of them: give a width that is a multiple of {2 * heads}, or positions = learned"
        )
    if tied:
        raise ValueError(
            "tied = true: the embedding is the network's first layer and the head its last; in two blocks of a pipeline "
            "their copies of one weight would drift apart, and layers share no weights in one block either: give false"
        )
