"""`memory_format: auto`: which layout trains a network faster here, measured per machine, network and batch shape."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from repro.models import LayerFactory
from repro.planning.layer_costs import keep, known_costs, measure_in_turn
from repro.store import to_json, write_atomically

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
    """Measure the layers that `layers(format)` gives on inputs of these shapes, both layouts in turn; keep the faster.

    What was measured stays in a file of `folder`, so that the choice stays the same from run to run; layers whose times
    are not known yet get the file that blocks are cut by, too. Without `measure` what is not known is contiguous.
    """
    networks = [layers(name) for name in FORMATS]
    known = [known_costs(network, inputs, device, threads, folder, machine) for network in networks]
    path = folder / ("format-" + "-".join(file.stem for _, file in known) + ".json")
    seconds = _read(path)
    if seconds is None:
        if not measure:
            return Choice("contiguous", {})
        found = measure_in_turn(networks, inputs, device, threads)
        for costs, (before, file) in zip(found, known, strict=True):
            if before is None:  # else blocks have been cut by it: it stays
                keep(file, costs, machine, threads)
        sums = [sum(c.forward + c.backward for c in costs) for costs in found]
        seconds = dict(zip(FORMATS, sums, strict=True))
        with suppress(OSError):  # without a cache folder the next run measures again
            write_atomically(
                path, to_json({"machine": machine, "threads": threads, "seconds": seconds}) + "\n"
            )
    choice = Choice("channels_last", seconds)
    return choice if choice.gain >= LEAST_GAIN else Choice("contiguous", seconds)


def _read(path: Path) -> dict[str, float] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["seconds"]
        seconds = {name: float(found[name]) for name in FORMATS}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return seconds if all(math.isfinite(s) and s > 0 for s in seconds.values()) else None
