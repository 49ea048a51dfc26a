"""Hand-made result folders in the layout of a real run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from repro.recipe import load
from repro.store import to_json

DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # ten times as fast
MACHINE = "Test processor, 4 cores"


def make_run(
    root: Path,
    recipe: str,
    seed: int = 0,
    *,
    profile: str = "smoke",
    status: str = "complete",
    number: str = "0123456789ab",
    epochs: Sequence[Mapping[str, float]] = (),
    steps: int = 4,
    settings: Mapping[str, Any] | None = None,
    command: Sequence[str] = ("repro", "run"),
    extra_rows: Sequence[Mapping[str, Any]] = (),
    timeline: Sequence[Sequence[Any]] | None = None,
    begun: float | None = None,
    recorded: bool = True,
    given: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Path:
    """Write one seed of `recipe`; `fields` replace fields of result.json, `status` "unfinished" writes none.

    `begun`: seconds since 1970, in env.json, or (not `recorded`) as the time of recipe.yaml alone. `given`: what the
    command asked for, as a run records it.
    """
    loaded = load(recipe, profile, dict(settings or {}))
    folder = root / loaded.name / number / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(
        yaml.dump(loaded.model_dump(mode="json"), Dumper=DUMPER, sort_keys=False)
    )
    environment: dict[str, Any] = {
        "processor": MACHINE,
        "torch": "2.9.0",
        "git": {"commit": "c0ffee", "dirty": False},
        "command": [*command],
        **({"given": dict(given)} if given is not None else {}),
    }
    if begun is not None and recorded:
        environment["started"] = datetime.fromtimestamp(begun, UTC).isoformat(timespec="seconds")
    elif begun is not None:
        os.utime(folder / "recipe.yaml", (begun, begun))
    (folder / "env.json").write_text(json.dumps(environment))
    rows: list[Mapping[str, Any]] = [{"kind": "step", "step": i, "loss": 2.0 / (i + 1)} for i in range(steps)]
    last = float(epochs[-1].get("train_seconds", 0.0)) if epochs else 0.0
    scale = fields.get("train_seconds", last) / last if last else 1.0  # the last evaluation ends the training
    for e, row in enumerate(epochs, start=1):
        rows.append(
            {"kind": "epoch", "epoch": e, **row, "train_seconds": scale * row.get("train_seconds", 0.0)}
        )
    rows += list(extra_rows)
    (folder / "metrics.jsonl").write_text("".join(to_json(row) + "\n" for row in rows))
    if timeline is not None:
        (folder / "timeline.json").write_text(
            to_json({"blocks": loaded.blocks, "spans": list(timeline)}) + "\n"
        )
    if status == "unfinished":
        return folder
    result = {
        "recipe": loaded.name, "hash": number, "profile": profile, "seed": seed, "experiment": loaded.experiment,
        "group": loaded.group, "method": loaded.method.name, "label": loaded.method.label(loaded.blocks),
        "model": loaded.model.name, "blocks": loaded.blocks, "device": "cpu", "machine": MACHINE, "cores": 4, "threads": 1,
        "data": loaded.data.name, "num_steps": steps, "oversubscribed": False, "status": status,
    }  # fmt: skip
    if status == "complete":
        accuracies = [row["test_accuracy"] for row in epochs if "test_accuracy" in row]
        result |= {
            "train_seconds": 10.0,
            "seconds_per_batch": 0.2,
            "busy_seconds": [0.1] * loaded.blocks,
            "peak_memory_bytes": [3_000_000] * loaded.blocks,
            "memory_formula_bytes": [2_900_000] * loaded.blocks,
            "activation_bytes": [2_000_000] * loaded.blocks,
            "static_bytes": [1_000_000] * loaded.blocks,
            "rss_bytes": [200_000_000] * loaded.blocks,
            "test_accuracy_last": accuracies[-1] if accuracies else None,
            "test_accuracy_best": max(accuracies) if accuracies else None,
        }
    elif status != "interrupted":
        result["error"] = "block 1 failed: a reason"
    (folder / "result.json").write_text(to_json({**result, **fields}, indent=1) + "\n")
    return folder


def training(
    count: int = 6, *, start: float = 2.0, speed: float = 0.5, noise: float = 0.0, best: float = 92.0
) -> list[dict]:
    """Epoch rows of a run that learns: loss falls exponentially, accuracy rises to `best`."""
    rows = []
    for e in range(1, count + 1):
        left = math.exp(-speed * e)
        rows.append(
            {
                "train_loss": start * left + 0.02 + noise * 0.01,
                "test_loss": start * left + 0.15 + noise * 0.02,
                "test_accuracy": best * (1 - left) + noise,
                "train_seconds": 1.5 * e,
            }
        )
    return rows


def write_bench(runs: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """A stored benchmark beside the runs."""
    file = runs / "bench" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"rows": rows, "environment": {}}))


def write_benches(runs: Path) -> None:
    """The stored benchmarks that figures and tables are made of."""
    write_bench(runs, "peers", [
        {"system": "repro", "method": "BP", "model": "m", "images_per_second": 9.0, "grown_bytes": 1 << 20},
        {"system": "PyTorch loop", "method": "loop", "threads": 2, "model": "m", "images_per_second": 8.0, "grown_bytes": 1},
    ])  # fmt: skip
    write_bench(runs, "pipeline", [
        {"part": "scaling", "model": "m", "batch_size": 8, "method": "DSP(1,0;2,0)", "blocks": k, "speedup": 0.8 * k,
         "simulated_seconds": 1 / k, "bp_seconds_per_batch": 1.0} for k in (2, 4)
    ])  # fmt: skip
    write_bench(runs, "growth", [
        {"part": part, "value": v, "method": "BP", "seconds_per_batch": 0.1 * v, "largest_block_bytes": v << 20}
        for part in ("blocks", "depth", "batch_size") for v in (2, 4)
    ])  # fmt: skip
    write_bench(runs, "gradient", [
        {"recipe": f"{e}-resnet20{s}", "model": "resnet20", "estimator": e, "schedule": s[1:] or "none", "seconds": t,
         "seconds_rounds": [t, 1.01 * t, 1.02 * t], "data": "fashion-mnist", "batch_size": 128, "threads": 1}
        for e, s, t in (("full", "", 0.2), ("top1", "-s1", 0.19))
    ])  # fmt: skip
    write_bench(runs, "methods", [
        {"part": "real", "system": name, "method": label, "model": "m", "blocks": 2, "seconds_per_batch": t,
         "speedup_over_bp": 0.3 / t, "bound": 0.3 / t, "seconds_rounds": [t, 1.01 * t]}
        for name, label, t in (("bp", "BP", 0.3), ("dsp", "DSP(1,0;2,0)", 0.2))
    ])  # fmt: skip
    write_bench(runs, "delays", [
        {"system": name, "method": label, "model": "m", "blocks": k, "slack": slack, "probability": 0.1, "delay": d,
         "slowdown_percent": 10.0 * d - slack, "slowdown_percent_low": 9.0 * d - slack, "slowdown_percent_high": 11.0 * d,
         "slowdown_percent_n": 3, "slowdown_rounds": [10.0 * d - slack]}
        for name, label, slack in (("bp", "BP", 0), ("fr-mailbox", "FR (mailbox)", 1), ("dsp", "DSP(1,0;2,0)", 2))
        for k in (2, 4) for d in (1.0, 3.0)
    ])  # fmt: skip
