"""Speed-up against K of every method: waits of measured length in real processes, beside the simulator."""

from __future__ import annotations

from typing import Any

from repro.report.figures import scaling_panel
from repro.report.figures.panels import source_words
from repro.report.stored.source import Source

DESCRIPTION = (
    "speed-up against the number of blocks, timing only, beside the simulator (repro bench pipeline)"
)


def draw(source: Source) -> Any:
    """The figure, or what is missing."""
    stored, reference = source.bench("pipeline")
    rows = [
        row for row in (stored or {}).get("rows", []) if row.get("part") == "scaling" and row.get("speedup")
    ]
    if not rows:
        return "no stored benchmark 'pipeline'; make it with: repro bench pipeline"
    lines: dict[str, dict[str, list[tuple[int, float]]]] = {}
    dots: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for row in rows:
        title = f"{row['model']}, batch {row['batch_size']}, blocks wait instead of computing"
        method = "DSP(p=1 q=1)" if str(row["method"]).startswith("DSP") else str(row["method"])
        point = (int(row["blocks"]), float(row["bp_seconds_per_batch"]) / float(row["simulated_seconds"]))
        lines.setdefault(title, {}).setdefault(method, []).append(point)
        dots.setdefault(title, {}).setdefault(method, []).append((int(row["blocks"]), float(row["speedup"])))
    words = (
        "mark: timing-only run (real processes and messages), line: simulator with this machine's messages; dotted: K "
        "times one device. Where K exceeds the cores all waits are stretched, so that messages weigh less than they would."
    )
    return scaling_panel.figure(lines, dots, words + source_words(reference))
