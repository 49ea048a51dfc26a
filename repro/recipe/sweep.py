"""`--sweep key=v1,v2`: every combination of values as the overrides that `--set` would have given.

Commas between values split, commas inside brackets do not. Where a value holds commas itself (staleness, cut,
milestones), or where a key is given more than once, each option is one whole value:

    --sweep lr=0.01,0.02                                        two values
    --sweep lr=0.01,0.02 --sweep momentum=0,0.9                 four combinations
    --sweep staleness="1,1,0;4,2,0" --sweep staleness="p=2 q=1" two values
    --sweep optimizer.milestones=[3,6],[4,8]                    two values
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from repro.errors import UserError
from repro.recipe.load import ALIASES, parse_overrides

# Settings whose values hold commas: bare commas belong to the value.
WHOLE = frozenset(
    {"method.staleness", "cut", "optimizer.milestones", "optimizer.weight_decay_layers", "gradient.schedule"}
)
_OPEN, _CLOSE = "[{(", "]})"


@dataclass(frozen=True)
class Given:
    """What a command asked of a recipe: its name or file, what was changed, and which of it was swept."""

    recipe: str
    overrides: dict[str, Any] = field(default_factory=dict)
    swept: tuple[str, ...] = ()

    def title(self, name: str) -> str:
        """The recipe's `name` and the swept values: "dsp-resnet98, lr 0.02"."""
        words = (f"{key.split('.')[-1]} {self.overrides[key]}" for key in self.swept)
        return ", ".join((name, *words))

    def record(self) -> dict[str, Any]:
        """For env.json, so that no report has to read it from the command line."""
        return {"recipe": self.recipe, "overrides": dict(self.overrides), "swept": list(self.swept)}


def combinations(settings: Sequence[str], sweeps: Sequence[str]) -> tuple[list[list[str]], tuple[str, ...]]:
    """All combinations of the swept values, each as `key=value` words after `settings`; and the swept keys.

    The first key changes slowest. UserError where a sweep has no value or a key is also set.
    """
    asked = parse_overrides(settings)
    values = _values(sweeps)
    for key in values:
        if key in asked:
            raise UserError(f"{key} is in --set and in --sweep: leave it out of one of them")
    words = [[f"{key}={value}" for value in found] for key, found in values.items()]
    return [[*settings, *chosen] for chosen in itertools.product(*words)], tuple(values)


def _values(sweeps: Sequence[str]) -> dict[str, list[str]]:
    """{dotted key: the texts of its values}."""
    given: dict[str, list[str]] = {}
    for word in sweeps:
        key, separator, text = word.partition("=")
        if not separator or not key or not text.strip():
            example = f"{key}=VALUE,VALUE" if key else "lr=0.01,0.02"
            raise UserError(f"--sweep {word!r} names no value: give --sweep {example}")
        given.setdefault(ALIASES.get(key, key), []).append(text.strip())
    return {key: _split(key, texts) for key, texts in given.items()}


def _split(key: str, texts: list[str]) -> list[str]:
    if len(texts) > 1 or (_holds_commas(key, texts[0]) and texts[0][0] not in _OPEN):
        return texts
    parts = split_commas(texts[0])
    if not all(parts):
        raise UserError(f"--sweep {key}={texts[0]}: there is nothing between two commas, or at an end")
    return parts


def _holds_commas(key: str, text: str) -> bool:
    """Whether bare commas of this text belong to one value; named schedules (s1,s2) are values of their own."""
    return key in WHOLE and (key != "gradient.schedule" or text[0] in _OPEN)


def split_commas(text: str) -> list[str]:
    """Parts between the commas that stand outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPEN + _CLOSE:
            depth += 1 if letter in _OPEN else -1
        elif letter == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]
