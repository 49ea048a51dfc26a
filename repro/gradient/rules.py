"""The rules of a schedule, read: which convolutions, batches and epochs each one covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from repro.errors import UserError, nearest
from repro.recipe.schema import GradientRule


@dataclass(frozen=True)
class Stride:
    """start, start + step, ... below stop (None: without end)."""

    start: int
    stop: int | None
    step: int

    def __contains__(self, number: object) -> bool:
        assert isinstance(number, int)
        below = self.stop is None or number < self.stop
        return below and number >= self.start and (number - self.start) % self.step == 0

    @property
    def everything(self) -> bool:
        """True if nothing is left out."""
        return self == Stride(0, None, 1)


@dataclass(frozen=True)
class Rule:
    """A GradientRule with its slices read and its layers as numbers."""

    layers: frozenset[int]
    batches: Stride
    epochs: Stride
    estimator: str


def read(rule: GradientRule, place: str, default: str, numbers: Mapping[str, int]) -> Rule:
    """Read one rule; `place` names it in errors ("gradient.schedule[0]"), `default` is the recipe's estimator.

    `numbers` maps the names of the whole network's convolutions to their numbers. UserError for a slice that
    cannot be read and for a layer that is not there.
    """
    return Rule(
        _layers(rule.layers, f"{place}.layers", numbers),
        read_stride(rule.batches, f"{place}.batches"),
        read_stride(rule.epochs, f"{place}.epochs"),
        rule.estimator or default,
    )


def read_stride(text: str, field: str) -> Stride:
    """Read "start:stop:step" as Python does, without negative numbers; "7" is 7 alone. UserError otherwise."""
    parts = text.split(":")
    try:
        values = [int(part) if part.strip() else None for part in parts]
    except ValueError:
        values = []
    if (
        not 1 <= len(values) <= 3
        or any(v is not None and v < 0 for v in values)
        or (len(values) == 3 and values[2] == 0)
    ):
        raise UserError(
            f"{field} = '{text}' is not a slice \"start:stop:step\" of numbers from 0 (a step from 1)."
        )
    if len(values) == 1:
        if values[0] is None:
            raise UserError(f"{field} is empty; ':' means all.")
        return Stride(values[0], values[0] + 1, 1)
    return Stride(values[0] or 0, values[1], (values[2] if len(values) == 3 else None) or 1)


def _layers(given: str | tuple[str | int, ...], field: str, numbers: Mapping[str, int]) -> frozenset[int]:
    found: set[int] = set()
    if not given:
        raise UserError(f"{field} is empty; ':' means all.")
    for item in (given,) if isinstance(given, str) else given:
        if isinstance(item, int) or item.strip().isdecimal():
            found.add(_existing(int(item), field, numbers))
        elif ":" in item:
            stride = read_stride(item, field)
            chosen = {number for number in numbers.values() if number in stride}
            if not chosen:
                raise UserError(
                    f"{field} = '{item}' covers none of the network's {len(numbers)} convolutions."
                )
            found |= chosen
        else:
            found |= _named(item, field, numbers)
    return frozenset(found)


def _existing(number: int, field: str, numbers: Mapping[str, int]) -> int:
    if number not in numbers.values():
        raise UserError(
            f"{field} names convolution {number}, but the network's are numbered 1 to {len(numbers)}."
        )
    return number


def _named(name: str, field: str, numbers: Mapping[str, int]) -> set[int]:
    """The convolution of that name, or all that lie inside the layer of that name."""
    inside = {number for full, number in numbers.items() if full == name or full.startswith(name + ".")}
    if not inside:
        raise UserError(
            f"{field} names '{name}', which is not a convolution (3x3 or larger) of the network."
            f"{nearest(name, numbers)} See them with: repro show RECIPE."
        )
    return inside
