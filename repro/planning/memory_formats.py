"""`memory_format: auto`: which layout trains a network faster here, measured per machine, network and batch shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from repro.models import LayerFactory
from repro.planning.layer_costs import measured_costs

FORMATS = ("contiguous", "channels_last")
LEAST_GAIN = 0.03  # a smaller one is within what two measurements of the same differ by: contiguous stays


@dataclass(frozen=True)
class Choice:
    """The layout taken, and seconds of a batch (forward and backward) in each as measured."""

    memory_format: str
    seconds: dict[str, float]

    @property
    def gain(self) -> float:
        """How much faster channels_last is: 0.2 = a fifth more batches in the same time."""
        return self.seconds["contiguous"] / self.seconds["channels_last"] - 1


def choose(
    layers: Callable[[str], Sequence[LayerFactory]],
    inputs: Sequence[tuple[int, ...]],
    device: torch.device,
    threads: int,
    folder: Path,
    machine: str,
    *,
    measure: bool = True,
) -> Choice:
    """Measure the layers that `layers(format)` gives on inputs of these shapes, in both layouts; keep the faster.

    The times are the files that blocks are cut by, so that the choice stays the same from run to run. Without
    `measure` what is not known yet is contiguous.
    """
    seconds = {}
    for name in FORMATS:
        costs = measured_costs(layers(name), inputs, device, threads, folder, machine, measure=measure)
        if costs is None:
            return Choice("contiguous", {})
        seconds[name] = sum(c.forward + c.backward for c in costs)
    choice = Choice("channels_last", seconds)
    return choice if choice.gain >= LEAST_GAIN else Choice("contiguous", seconds)
