"""`repro bench peers`: our methods beside what a user would run instead, on the same layers, weights and batches.

A user's choices are a plain PyTorch loop (with one thread, or with all of them) and the schedules of
torch.distributed.pipelining with a process a block. All take turns in the same rounds; torch's schedules are
tried with every number of micro-batches in the first round, and go on with their fastest. Every system is cut by
the same measured layer times for its own kind of work (a block that recomputes gets fewer layers).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

from repro import models
from repro.benchmarks import torch_pipeline
from repro.benchmarks.engine import START_SECONDS, EngineBench, expected_seconds
from repro.benchmarks.rounds import ratios, with_interval
from repro.benchmarks.torch_pipeline import Measured, Peer
from repro.benchmarks.turns import Turn, Turns
from repro.cores import cores
from repro.engine.processes.launch import Launch
from repro.errors import UserError, nearest
from repro.planning.partition import best_cut
from repro.planning.run_plan import Plan, bound
from repro.recipe import ModelSpec

OURS: dict[str, dict[str, Any]] = {
    "bp": {"name": "bp"},
    "gpipe": {"name": "gpipe", "micro": 4},
    "gpipe-kept": {"name": "gpipe", "micro": 4, "rematerialise": False},
    "fr": {"name": "fr", "locking": "free"},
    "ddg": {"name": "ddg", "locking": "free"},
    "fdg": {"name": "fdg"},
    "dsp": {"name": "dsp"},
    "pipedream": {"name": "pipedream"},
    "2bw": {"name": "2bw", "micro": 4},
    "pipemare": {"name": "pipemare"},
}
PAPER = ("bp", "gpipe", "gpipe-kept", "fr", "ddg", "fdg", "dsp")  # by default; PipeDream is DDG (free)
SCHEDULES = {"ScheduleGPipe": 1, "Schedule1F1B": 1, "ScheduleInterleaved1F1B": 2}  # stages a process
TORCH = "torch.distributed.pipelining"
LOOP = "PyTorch loop"


@dataclass
class PeersBench:
    """Settings of the benchmark, each to be given as `--set name=value`."""

    model: str = "resnet98"  # several, separated by commas, share the minutes
    image_size: int = 32
    batch_size: int = 64
    blocks: int = 2
    steps: int = 12  # of which torch's 5 first ones, and ours until the queues are full, are left out
    methods: str = ",".join(PAPER)
    schedules: str | None = ",".join(SCHEDULES)
    micro: str | int = "2,4,8"
    memory_format: str = "contiguous"
    layers: int = 8  # these three: of model=gpt
    width: int = 256
    context: int = 64
    rounds: int | None = None
    minutes: float = 4.0
    turns: Turns = field(default_factory=lambda: Turns("peers"))

    def rows(self) -> list[dict[str, Any]]:
        """Measure; a row a system of each model."""
        names = [word.strip() for word in self.model.split(",")]
        for name in names:  # a wrong one is refused before the first is measured
            shape = (self.context,) if name == "gpt" else (3, self.image_size, self.image_size)
            models.layers(ModelSpec(name=name), shape, 10)
        rows: list[dict[str, Any]] = []
        for i, model in enumerate(names):
            if self.turns.interrupted:
                break
            words = "peers" if len(names) == 1 else f"peers of {model}, {i + 1}/{len(names)}"
            one = replace(self, model=model, minutes=self.minutes / len(names), turns=Turns(words))
            rows += one._measure()
            self.turns.interrupted = one.turns.interrupted
        return rows

    def _measure(self) -> list[dict[str, Any]]:
        sizes = self._micro_batches()
        bench = EngineBench(
            model=self.model,
            image_size=self.image_size,
            batch_size=self.batch_size,
            steps=self.steps,
            memory_format=self.memory_format,
            layers=self.layers,
            width=self.width,
            context=self.context,
        )
        methods = ["bp", *_words(self.methods, OURS, "methods")]
        self._plans = {name: bench.plan(name, self.blocks, OURS[name]) for name in dict.fromkeys(methods)}
        base = self._plans["bp"]
        self._threads = sorted({1, cores()})
        self._peers = {
            f"loop, {t} thread{'s' if t > 1 else ''}": Peer(None, threads=t) for t in self._threads
        }
        for schedule in _words(self.schedules, SCHEDULES, "schedules"):
            for micro in sizes:
                self._peers[f"{schedule} M={micro}"] = Peer(schedule, micro, SCHEDULES[schedule])
        systems = {
            name: Turn(partial(_ours, plan), expected_seconds(plan)) for name, plan in self._plans.items()
        }
        for name, peer in self._peers.items():
            seconds = expected_seconds(base) - START_SECONDS
            faster = peer.threads if peer.schedule is None else 0.75 * self.blocks
            run = partial(torch_pipeline.run, peer, base, self._cut(base, peer))
            systems[name] = Turn(run, START_SECONDS + seconds / faster)
        self.turns.rounds, self.turns.minutes = self.rounds, self.minutes
        return self._rows(self.turns.measure(systems, keep=self._fastest))

    def _micro_batches(self) -> list[int]:
        words = [w.strip() for w in str(self.micro).split(",")]
        if not all(w.isdigit() and self.blocks <= int(w) <= self.batch_size for w in words):
            raise UserError(
                f"micro = '{self.micro}': give numbers of micro-batches from blocks = {self.blocks} to "
                f"batch_size = {self.batch_size} separated by commas, for example 2,4,8"
            )
        return [int(w) for w in words]

    def _cut(self, base: Plan, peer: Peer) -> tuple[int, ...]:
        assert base.costs is not None
        return best_cut(base.costs, (False,) * (self.blocks * peer.stages))

    def _fastest(self, found: dict[str, list[Measured]]) -> list[str]:
        """All systems but the slower numbers of micro-batches of each of torch's schedules."""
        best: dict[str, str] = {}
        for name, peer in self._peers.items():
            if peer.schedule is not None and found.get(name):
                held = best.setdefault(peer.schedule, name)
                if _seconds(found[name]) < _seconds(found[held]):
                    best[peer.schedule] = name
        return [
            n for n in found if n not in self._peers or self._peers[n].schedule is None or n in best.values()
        ]

    def _rows(self, found: dict[str, list[Measured]]) -> list[dict[str, Any]]:
        times = {name: [m.seconds_per_batch for m in runs] for name, runs in found.items()}
        torchs = [n for n in times if n in self._peers and self._peers[n].schedule is not None]
        best = min(torchs, key=lambda n: median(times[n]), default=None)
        loop = next(
            (n for n in times if n in self._peers and self._peers[n].threads == max(self._threads)), None
        )
        rows = []
        for name, own in times.items():
            speedups = ratios(times.get("bp", []), own)
            limit = self._bound(name)
            row: dict[str, Any] = {
                **self._who(name),
                "model": self.model,
                **self._size(),
                "batch_size": self.batch_size,
                "memory_format": self._plans["bp"].memory_format,
                **with_interval("images_per_second", [self.batch_size / t for t in own]),
                **with_interval("ratio_to_bp", speedups),
                **with_interval("ratio_to_best_peer", ratios(times[best], own) if best else []),
                **with_interval("ratio_to_loop", ratios(times[loop], own) if loop else []),
                "best_peer": name == best,
                "grown_bytes": round(median(m.grown_bytes for m in found[name])),
                "bound": limit,
                **with_interval("share_of_bound", [s / limit for s in speedups]),
            }
            rows.append(row)
        return rows

    def _size(self) -> dict[str, int]:
        if self.model != "gpt":
            return {"image_size": self.image_size}
        return {"layers": self.layers, "width": self.width, "context": self.context}

    def _who(self, name: str) -> dict[str, Any]:
        if name in self._plans:
            method = self._plans[name].recipe.method
            return {
                "system": "repro",
                "method": method.label(self.blocks),
                "micro_batches": method.micro_batches(self.batch_size),
                "threads": 1,
                "blocks": self.blocks,
            }
        peer = self._peers[name]
        return {
            "system": LOOP if peer.schedule is None else TORCH,
            "method": "loop" if peer.schedule is None else peer.schedule,
            "micro_batches": peer.micro_batches,
            "threads": peer.threads,
            "blocks": 1 if peer.schedule is None else self.blocks,
        }

    def _bound(self, name: str) -> float:
        """Speed-up over BP if messages and updates were free and threads shared a layer's work without loss.

        Ours: simulated on the measured layers. torch's: K M / (M + (K-1)/v) for v equal stages a process, the
        bubble of arXiv 2104.04473, section 2.2.
        """
        if name in self._plans:
            plan = self._plans[name]
            assert plan.costs is not None
            return sum(c.forward + c.backward for c in plan.costs) / bound(plan, plan.costs)
        peer = self._peers[name]
        if peer.schedule is None:
            return float(peer.threads)
        micro = peer.micro_batches
        return self.blocks * micro / (micro + (self.blocks - 1) / peer.stages)


def _words(text: str | None, known: Iterable[str], name: str) -> list[str]:
    words = [word.strip() for word in str(text).split(",") if word.strip() not in ("", "none", "None")]
    for word in words:
        if word not in known:
            raise UserError(
                f"{name} = '{text}': '{word}' is unknown.{nearest(word, known)} Allowed: {', '.join(known)}"
            )
    return words


def _ours(plan: Plan) -> Measured:
    summaries = Launch(plan, seed=0).run()
    grown = sum(int(s["rss_bytes"]) - int(s["rss_before_bytes"]) for s in summaries)
    return Measured(float(summaries[-1]["seconds_per_batch"]), grown)


def _seconds(runs: list[Measured]) -> float:
    return median(m.seconds_per_batch for m in runs)
