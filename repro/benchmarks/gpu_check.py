"""`make gpu-check`: everything that needs a GPU, in under 8 minutes, the most important first, written as it comes.

1. tests     the tests marked `gpu`; what fails is a row at once
2. oracle    the engine with 2, 3 and 4 blocks on one GPU against the one-process oracle on the same GPU, one of them with
             channels_last, one under autocast, one with two streams; and its first batches against the oracle on the CPU
3. loop      the engine with one block against a bare PyTorch loop, in float32 and under autocast
4. kernels   top1's kernels against the reference (error) and cuDNN's dense filter gradient (CUDA events), on every
             convolution shape of ResNet-20 and VGG-19
Each part's rows are in results/bench/gpu-check.json as soon as it has them, so that a machine that is taken away
leaves what was measured. With `--device cpu` the same parts run small, to try the script itself.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from repro import data, models, paths
from repro.engine.block.late_read import LateRead
from repro.engine.block.optimizer import BlockOptimizer
from repro.engine.processes.launch import Launch
from repro.errors import MissingError, ReproError
from repro.gradient import kernel_benchmark
from repro.gradient.geometry import ConvShape
from repro.gradient.numbering import trace
from repro.planning.machine import environment
from repro.planning.run_plan import Plan, make_plan
from repro.recipe import ModelSpec, Recipe, validate
from repro.store import to_json, write_atomically
from repro.verification import compare

Row = dict[str, Any]
TOLERANCE = {"cuda": 1e-4, "cpu": 0.0}  # relative, of losses and weights, as `repro verify`
AUTOCAST_TOLERANCE = 1e-2  # the same under autocast on a GPU: bfloat16 has 8 bits
CPU_TOLERANCE = 1e-3  # of the first losses, between a GPU and the CPU
MOST_ERROR = 1e-4  # relative, of a kernel against the reference
NETWORKS = ("resnet20", "vgg19")
WARM_UP = 5  # batches
LEAST_SECONDS = 30.0  # that the tests get
VERDICTS = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS")  # of pytest
CASES: tuple[tuple[int, str, Row], ...] = (  # blocks, method, settings beside the usual ones
    (2, "dsp", {}),
    (2, "dsp", {"autocast": "bfloat16"}),
    (4, "dsp", {}),
    (3, "fdg", {}),
    (3, "gpipe", {}),
    (2, "dsp", {"memory_format": "channels_last"}),
    (2, "dsp", {"two_streams": True}),
    (2, "2bw", {}),
)


class GpuCheck:
    """The parts, the rows so far and the time that is left."""

    def __init__(self, device: str, minutes: float, file: Path) -> None:
        self.device, self.file = device, file
        self.begin, self.end = time.monotonic(), time.monotonic() + 60 * minutes
        self.rows: list[Row] = []
        self.skipped: list[str] = []

    def run(self) -> int:
        """All parts in order; 0 if every check held, 1 if one did not or was not reached."""
        parts: dict[str, Callable[[], Iterator[Row]]] = {
            "tests": self._tests,
            "oracle": self._oracle,
            "loop": self._loop,
            "kernels": self._kernels,
        }
        for name, part in parts.items():
            if self.left() <= 5:
                self.skipped.append(name)
                continue
            print(f"gpu-check: {name}, {self.left():.0f} s left", file=sys.stderr, flush=True)
            try:
                for row in part():
                    self._add({"part": name, **row})
            except (ReproError, RuntimeError, subprocess.SubprocessError, OSError) as error:
                self._add({"part": name, "holds": False, "words": f"{type(error).__name__}: {error}"})
        for name in self.skipped:
            self._add({"part": name, "holds": False, "words": "not reached: no time left"})
        bad = sum(row["holds"] is False for row in self.rows)
        print(f"{len(self.rows) - bad} of {len(self.rows)} rows hold; written to {self.file}")
        return int(bad > 0)

    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()

    def _add(self, row: Row) -> None:
        """Print a row and write all rows: what comes after may never come."""
        row["at_seconds"] = time.monotonic() - self.begin
        self.rows.append(row)
        verdict = {True: "holds", False: "FAILS", None: "     "}[row["holds"]]
        print(f"{row['part']:<8} {verdict}  {row['words']}", flush=True)
        document = {"name": "gpu-check", "rows": self.rows, "environment": environment()}
        write_atomically(self.file, to_json(document, indent=1) + "\n")

    # -- parts ---------------------------------------------------------------------------------------------------

    def _tests(self) -> Iterator[Row]:
        words = ["-m", "gpu", "tests"] if self.device == "cuda" else ["tests/schedule"]
        limit = min(180.0, max(LEAST_SECONDS, self.left() - 120))
        command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-v", "-p", "no:cacheprovider", *words]
        counts: Counter[str] = Counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as running:
            late = threading.Timer(limit, running.kill)
            late.start()
            assert running.stdout is not None
            for line in running.stdout:  # tests/room/test_x.py::test_y PASSED [ 5%]
                name, _, verdict = line.partition(" ")
                verdict = verdict.split(" ")[0].strip()
                if "::" in name and verdict in VERDICTS:
                    counts[verdict] += 1
                    if verdict in ("FAILED", "ERROR"):
                        yield {"holds": False, "words": f"{verdict} {name}"}
            code = running.wait()
            cut_off = not late.is_alive()
            late.cancel()
        found = ", ".join(f"{number} {verdict.lower()}" for verdict, number in sorted(counts.items()))
        end = f"; cut off after {limit:.0f} s" if cut_off else ""
        yield {"holds": code == 0, **counts, "words": f"{found or f'no test, exit code {code}'}{end}"}

    def _oracle(self) -> Iterator[Row]:
        for blocks, method, settings in CASES:
            if self.left() < 20:
                self.skipped.append("oracle, in part")
                return
            yield from self._guarded(self._against_oracle, blocks, method, settings)
        if self.device == "cuda":
            yield from self._guarded(self._against_cpu)

    def _guarded(self, check: Callable[..., Row], *arguments: Any) -> Iterator[Row]:
        """One row, also where the check cannot be made: the cases behind it are still of interest."""
        try:
            yield check(*arguments)
        except (ReproError, RuntimeError, OSError) as error:
            words = " ".join(map(str, arguments))
            yield {"holds": False, "words": f"{words}: {type(error).__name__}: {error}".lstrip(": ")}

    def _against_oracle(self, blocks: int, method: str, settings: Row) -> Row:
        """Engine and oracle on one device; autocast on a GPU may round a sum that two kernels order differently."""
        recipe = self._recipe(method, blocks, steps=12, size=32, **settings)
        tolerance = TOLERANCE[self.device]
        if recipe.autocast != "none" and tolerance:
            tolerance = AUTOCAST_TOLERANCE
        with tempfile.TemporaryDirectory() as folder:
            found = compare(recipe, 0, self.device, Path(folder))
        gaps = {name: gap for name, (_, _, gap) in found.differences().items()}
        label = recipe.method.label(blocks)
        words = ", ".join([label, f"K = {blocks}", *map(str, settings.values())])
        return {
            "holds": found.holds(tolerance),
            "method": label,
            "blocks": blocks,
            "settings": settings,
            "tolerance": tolerance,
            "differences": gaps,
            "words": f"{words}: largest relative difference {max(gaps.values()):.3g} (allowed {tolerance:g})",
        }

    def _against_cpu(self) -> Row:
        """The losses of the first batches, before rounding has grown: a kernel that is wrong is so at once."""
        recipe = self._recipe("bp", 2, steps=3, size=32)
        with tempfile.TemporaryDirectory() as folder:
            found = compare(recipe, 0, self.device, Path(folder), beside="cpu")
        gap = max(abs(a - b) / max(abs(b), 1e-30) for a, b in found.losses)
        words = f"first {len(found.losses)} losses against the oracle on the CPU: largest relative difference {gap:.3g}"
        return {"holds": gap <= CPU_TOLERANCE, "tolerance": CPU_TOLERANCE, "difference": gap, "words": words}

    def _loop(self) -> Iterator[Row]:
        for autocast in ("none", "bfloat16"):
            if self.left() < 20:
                self.skipped.append("loop, in part")
                return
            plan = make_plan(self._recipe("bp", 1, 30, 128, autocast=autocast), self.device, measure=False)
            engine, loop = [], []
            for _ in range(3):
                engine.append(float(Launch(plan, seed=0).run()[-1]["seconds_per_batch"]))
                loop.append(bare_loop(plan, self.device))
                if self.left() < 20:
                    break
            ratio = median(e / b for e, b in zip(engine, loop, strict=True))
            times = f"{1e3 * median(engine):.2f} ms a batch, bare loop {1e3 * median(loop):.2f}"
            yield {
                "holds": None,  # a time: no right or wrong
                "autocast": autocast,
                "seconds_per_batch": median(engine),
                "bare_loop_seconds": median(loop),
                "overhead": ratio,
                "words": f"K = 1, autocast {autocast}: {times}, ratio {ratio:.3f}",
            }

    def _kernels(self) -> Iterator[Row]:
        models.FLOAT32.use()  # the library's gradient in the same float32
        for shape in network_shapes(128 if self.device == "cuda" else 2):
            if self.left() < 15:
                self.skipped.append("kernels, in part")
                return
            repeats = 21 if self.device == "cuda" else 3
            for row in kernel_benchmark.rows(self.device, shapes=[shape], repeats=repeats):
                words = f"{row['shape']} {row['layout']} {row['kernel']}: {row['ms']:.3f} ms, dense {row['dense_ms']:.3f}, "
                yield {
                    **row,
                    "holds": row["error"] <= MOST_ERROR,
                    "words": words + f"ratio {row['ratio']:.2f}, error {row['error']:.2g}",
                }

    def _recipe(self, method: str, blocks: int, steps: int, size: int, **settings: Any) -> Recipe:
        if self.device == "cpu":
            steps, size = min(steps, 8), 8
        found: Recipe = validate(
            {
                "name": f"gpu-check-{method}",
                "group": "dsp",
                "reproduces": "a check",
                "model": {"name": "resnet20"},
                "data": {"name": "synthetic", "batch_size": size, "image_size": 16, "test_limit": size,
                         "train_limit": size * steps},
                "method": {"name": method},
                "blocks": blocks,
                "cut": "estimated",
                "optimizer": {"lr": 0.01, "momentum": 0.9},
                "runtime": {"threads": 1, "two_streams": settings.pop("two_streams", False)},
                **settings,
            }
        )  # fmt: skip
        return found


def network_shapes(batch: int) -> list[ConvShape]:
    """The distinct shapes of the counted convolutions of both networks at 32x32."""
    found: dict[ConvShape, None] = {}
    for name in NETWORKS:
        layers = [(f.name, f.build(0)) for f in models.layers(ModelSpec(name=name), (3, 32, 32), 10)]
        found.update(dict.fromkeys(trace(layers, (3, 32, 32), batch).values()))
    return list(found)


def bare_loop(plan: Plan, device: str) -> float:
    """Median seconds per batch of plain PyTorch on `device`, a batch's end waited for one later: it never idles."""
    batches = data.load(plan.recipe.data, plan.data_root, 0, device)
    factories = models.layers(plan.recipe.model, batches.image_shape, plan.num_classes, plan.memory_format)
    layers = [(f.name, f.build(0).to(device)) for f in factories]
    net = torch.nn.Sequential(*(layer for _, layer in layers)).train()
    (sgd,) = BlockOptimizer(layers, plan.recipe.optimizer, plan.steps_per_epoch).parts
    plan.precision.use()
    times: list[float] = [time.perf_counter()]
    late: deque[LateRead] = deque()
    for i in range(plan.num_batches):
        with plan.precision.region(device):
            scores = net(batches.train_images(i))
        loss = models.cross_entropy(scores, batches.train_labels(i))
        sgd.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        sgd.step()
        late.append(LateRead(loss.detach()[None]))
        if len(late) > 1:
            late.popleft().values()
        times.append(time.perf_counter())
    intervals = [b - a for a, b in pairwise(times)]
    return median(intervals[WARM_UP:] or intervals)


def main() -> int:
    """Parse the options and check; 3 where there is no GPU."""
    parser = argparse.ArgumentParser(description="All checks that need a GPU, the most important first.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=7.5)
    parser.add_argument("--out", type=Path, default=paths.bench(Path("results")) / "gpu-check.json")
    options = parser.parse_args()
    if options.device == "cuda" and torch.cuda.device_count() == 0:
        words = "this machine has no CUDA device; `--device cpu` tries the script without one"
        print(f"gpu-check: {words}", file=sys.stderr)
        return MissingError.exit_code
    return GpuCheck(options.device, options.minutes, options.out).run()


if __name__ == "__main__":
    sys.exit(main())
