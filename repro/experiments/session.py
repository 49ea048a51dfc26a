"""One seed of one plan while it runs: where its rows go and who hears of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite, prod
from statistics import median
from typing import Any, TextIO

from repro.cores import cores
from repro.engine.processes.child import Team
from repro.engine.processes.launch import Diverged
from repro.planning.machine import machine_name
from repro.planning.partition import graph_bytes
from repro.planning.run_plan import Plan
from repro.progress import Progress
from repro.store import RunFolder, to_json
from repro.trackers import Audience
from repro.trackers.tracker import Run


@dataclass
class Session:
    """Plan, seed and folder of a run, its metrics file and its progress."""

    plan: Plan
    seed: int
    folder: RunFolder
    progress: Progress
    team: Team | None = None  # the processes of blocks on several hosts
    epochs: list[dict[str, Any]] = field(default_factory=list)
    steps: int = 0
    restarted: int = 0  # times the run went on from a checkpoint
    earlier_seconds: float = 0.0  # training seconds before the checkpoint that the run went on from
    engines: tuple[str, ...] = ()  # that carried out the parts before the checkpoint
    timed: bool = True  # whether the times of all parts are those of blocks with the machine to themselves
    still_held: Callable[[], None] = lambda: None  # raises where another process has taken the run over
    _file: TextIO | None = None
    _audience: Audience | None = None
    _place: tuple[str, int] = ("", 0)  # machine and usable cores, before any process is held to some of them

    def __post_init__(self) -> None:
        """Look at the machine, and at how the run is to be carried out."""
        import torch

        self._place = machine_name(torch.device(self.plan.devices[0])), cores()
        self.timed = self.plan.engine != "sequential" and self.plan.jobs == 1
        if self.plan.log:
            self._audience = Audience(self.plan.log, self._run, self.progress.say)

    def write(self, row: dict[str, Any]) -> None:
        """Append a row to metrics.jsonl, at once."""
        self.still_held()
        if self._file is None:
            self._file = self.folder.metrics.open("a", encoding="utf-8")
        self._file.write(to_json(row) + "\n")
        self._file.flush()
        if self._audience is not None:
            self._audience.row(row)

    def close(self) -> None:
        """Close the metrics file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def ended(self, result: Mapping[str, Any]) -> None:
        """Tell the trackers what result.json says."""
        if self._audience is not None:
            self._audience.end(result)

    def _run(self) -> Run:
        plan = self.plan
        first = self.steps if self.restarted else 0
        settings = plan.recipe.model_dump(mode="json")
        return Run(plan.title, plan.recipe.name, plan.hash, self.seed, self.folder.path, settings, first)

    def step(self, batch: int, loss: float, samples: int) -> None:
        """Record the loss of a batch; Diverged where it is not finite."""
        self.write({"kind": "step", "step": batch, "loss": loss})
        self.steps = batch + 1
        self.progress.step(batch, loss, samples)
        if not isfinite(loss):
            raise Diverged(batch, loss, self.plan.blocks - 1)

    def epoch(self, epoch: int, numbers: dict[str, float]) -> None:
        """Record an evaluation."""
        numbers = dict(numbers)
        numbers["train_seconds"] += self.earlier_seconds
        row = {"kind": "epoch", "epoch": epoch, **numbers}
        self.epochs.append(row)
        self.write(row)
        self.progress.epoch(epoch, numbers)

    def identity(self) -> dict[str, Any]:
        """The fields of result.json that name the run."""
        import torch

        plan, recipe = self.plan, self.plan.recipe
        device = torch.device(plan.devices[0])
        return {
            "recipe": recipe.name,
            "hash": plan.hash,
            "profile": recipe.profile,
            "experiment": recipe.experiment,
            "group": recipe.group,
            "seed": self.seed,
            "method": recipe.method.name,
            "label": recipe.method.label(plan.blocks),
            "model": recipe.model.name,
            "blocks": plan.blocks,
            **({"replicas": recipe.replicas} if recipe.replicas > 1 else {}),
            "cut": list(plan.cut),
            "memory_format": plan.memory_format,
            **({"format_seconds": plan.format_seconds} if plan.format_seconds else {}),
            "device": device.type,
            "machine": self._place[0],
            "cores": self._place[1],
            "threads": plan.threads,
            "engine": "+".join(dict.fromkeys((*self.engines, plan.engine))),
            "jobs": plan.jobs,
            **({"hosts": list(plan.hosts)} if plan.hosts else {}),
            "timed": self.timed,
            "data": recipe.data.name,
            "batch_size": recipe.data.batch_size,
            "num_steps": plan.num_batches,
            "oversubscribed": plan.oversubscribed,
            **({"timing_only": True} if recipe.timing_only else {}),
        }

    def scores(self) -> dict[str, Any]:
        """Last and best of what the evaluations say: test accuracy, or of a text bits per byte (and perplexity)."""
        best = (
            {"test_bits_per_byte": min, "test_perplexity": min}
            if self.plan.reads_text
            else {"test_accuracy": max}
        )
        scores: dict[str, Any] = {}
        for name, choose in best.items():
            found = [row[name] for row in self.epochs if name in row]
            if found or name != "test_perplexity":
                scores[f"{name}_last"] = found[-1] if found else None
                scores[f"{name}_best"] = choose(found) if found else None
        return {
            **scores,
            "test_loss_last": self.epochs[-1]["test_loss"] if self.epochs else None,
            "train_loss_last": self.epochs[-1]["train_loss"] if self.epochs else None,
        }


def timings(summaries: list[dict[str, Any]], plan: Plan, samples: int) -> dict[str, Any]:
    """Wall-clock, busy time and memory fields of result.json from the summaries of all ranks.

    What is said of each block is said of replica 0's.
    """
    from repro.planning.counted_memory import formula_bytes, older_versions

    end, start = max(s["end"] for s in summaries), max(s["start"] for s in summaries)
    summaries = summaries[: plan.blocks]
    last = summaries[-1]
    seconds = end - start - last["evaluation_seconds"]
    schedule = plan.schedule()
    batch = plan.recipe.shard_size
    micro = plan.recipe.method.micro_batches(batch)
    # Long enough for every block to hold its most, whatever the run's own length.
    fill = plan.recipe.method.schedule(plan.blocks, max(schedule.staleness) + 3, {})
    formulas = []
    for k, (low, high) in enumerate(plan.layer_spans):
        formulas.append(
            formula_bytes(
                recompute=schedule.recompute[k],
                micro_batches=max(1, micro),
                in_flight=fill.most_in_flight(k),
                versions=older_versions(schedule, k),
                output_queue=schedule.output_room[k] if k < plan.blocks - 1 else 0,
                gradient_queue=schedule.gradient_room[k] if k > 0 else 0,
                input_bytes=batch * prod(plan.shapes[low]) * plan.dtype(low).itemsize,
                output_bytes=batch * prod(plan.shapes[high]) * plan.dtype(high).itemsize,
                graph=_graph(plan, low, high, summaries[k], micro),
                weights=summaries[k]["weights_bytes"],
            )
        )
    return {
        "updates": [s["updates"] for s in summaries],
        "weight_change": [s["weight_change"] for s in summaries],
        "train_seconds": seconds,
        "seconds_per_batch": last["seconds_per_batch"],
        **rates(plan, samples, seconds),
        "checkpoint_seconds": [s["checkpoint_seconds"] for s in summaries],
        "busy_seconds": [s["busy_seconds"] for s in summaries],
        "busy_seconds_total": [s["busy_seconds_total"] for s in summaries],
        "peak_memory_bytes": [s["peak_memory_bytes"] for s in summaries],
        "activation_bytes": [s["activation_bytes"] for s in summaries],
        "static_bytes": [s["static_bytes"] for s in summaries],
        "memory_formula_bytes": [
            f + s["static_bytes"] + s["predictor_bytes"] for f, s in zip(formulas, summaries, strict=True)
        ],
        "rss_bytes": [s["rss_bytes"] for s in summaries],
        "typical_busy_seconds": median(s["busy_seconds"] for s in summaries),
    }


def rates(plan: Plan, samples: int, seconds: float) -> dict[str, float | None]:
    """Images per second, or tokens of a text."""
    per_sample = plan.shapes[0][0] if plan.reads_text else 1
    name = "tokens_per_second" if plan.reads_text else "images_per_second"
    return {name: samples * per_sample / seconds if seconds > 0 else None}


def _graph(plan: Plan, low: int, high: int, summary: dict[str, Any], micro: int) -> int:
    """G_k: from the layers' measured sizes where there are some, else as counted in the block itself."""
    if plan.costs is not None:
        return graph_bytes(plan.costs[low:high])
    return int(summary["graph_bytes"]) * micro
