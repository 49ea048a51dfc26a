"""Invented runs of stale pipelines on a text: a loss per recipe, seeds a little apart and alike in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.report.factory import make_run

SYNCHRONOUS = {
    "bp-gpt": 2.00,
    "gpipe-gpt": 2.00,
    "bp-gpt-muon": 1.90,
    "bp-gpt-sgd": 2.40,
    "bp-gpt-nadam": 1.95,
}
STALE = {
    "pipedream-gpt-k2": 2.05, "pipedream-gpt": 2.15, "pipedream-gpt-nadam": 1.98, "2bw-gpt": 2.08, "2bw-gpt-muon": 1.91,
    "fr-gpt": 2.06, "dsp-gpt": 2.09, "pipedream-gpt-predicted": 2.07, "pipedream-gpt-rescheduled": 2.08,
    "pipedream-gpt-compensated": 2.10,
}  # fmt: skip
DELAYED = {
    f"delayed-gpt{delay}{optimizer}": base + cost * late
    for delay, late in (("", 1), ("-d2", 2), ("-d4", 4), ("-d8", 8))
    for optimizer, base, cost in (("", 2.0, 0.04), ("-muon", 1.9, 0.01))
}


def write_stale(
    root: Path,
    losses: Mapping[str, float] | None = None,
    *,
    seeds: int = 3,
    profile: str = "reference",
    **fields: Any,
) -> None:
    """Runs of four evaluations that end at the given losses; each seed and recipe a little off."""
    for name, loss in (losses or {**SYNCHRONOUS, **STALE, **DELAYED}).items():
        for seed in range(seeds):
            end = loss + 0.05 * seed + 0.0003 * seed * (len(name) % 7)
            rows = [
                {"train_loss": x, "test_loss": x * 0.693, "test_bits_per_byte": x, "train_seconds": 1.0}
                for x in (end + 1.0, end + 0.5, end + 0.2, end)
            ]
            more = {"timed": False, "engine": "sequential", **fields}
            make_run(root, name, seed, profile=profile, epochs=rows, steps=500, begun=1e9 + seed, **more)
