"""What safety costs: `python -m tests.faults.costs [RECIPE] [--profile P] [--epochs N]` (a quiet machine, please).

Prints the share of checkpoints in the training time at the default interval, and of the check for values that are not
finite in a step of each block.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

from repro.engine.block.build import build_block
from repro.engine.processes.entry import prepare
from repro.engine.processes.launch import Launch, Listener
from repro.planning.run_plan import Plan, make_plan
from repro.recipe import load


def checkpoints(plan: Plan) -> float:
    """Seconds of the slowest block in checkpoints over the seconds of training."""
    epochs: list[float] = []
    with tempfile.TemporaryDirectory(prefix="repro-costs-") as folder:
        blocks = Launch(plan, 0, checkpoints=Path(folder)).run(
            Listener(epoch=lambda epoch, numbers: epochs.append(numbers["train_seconds"]))
        )
    return max(float(b["checkpoint_seconds"]) for b in blocks) / epochs[-1]


def finite_check(plan: Plan, repeats: int = 20) -> list[float]:
    """For each block: seconds of the check over seconds of a forward, a backward and an update."""
    prepare(plan, 0)
    shares = []
    for index, (low, _high) in enumerate(plan.layer_spans):
        block = build_block(plan, index, 0, plan.schedule())
        n = plan.recipe.data.batch_size
        x = torch.randn((n, *plan.shapes[low]))
        labels = torch.zeros(n, dtype=torch.int64) if block.last else None
        steps, checks = [], []
        for batch in range(repeats):
            begin = time.perf_counter()
            y = block.forward((batch, 0), x, labels)
            if block.recompute:
                block.replay((batch, 0))
            block.backward((batch, 0), None if block.last else torch.full_like(y, 1e-4))
            middle = time.perf_counter()
            block._finite.check(batch)
            end = time.perf_counter()
            block.update()
            steps.append(
                middle - begin + time.perf_counter() - end - (end - middle)
            )  # `update` checks once more
            checks.append(end - middle)
        shares.append(median(checks) / median(steps))
    return shares


def main() -> None:
    """Measure and print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="dsp-resnet98-k2")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--epochs", type=int, default=3)
    chosen = parser.parse_args()
    recipe = load(chosen.recipe, chosen.profile, {"epochs": chosen.epochs, "optimizer.milestones": []})
    plan = make_plan(recipe, "cpu")
    shares = ", ".join(f"{100 * share:.2f} %" for share in finite_check(plan))
    print(f"{chosen.recipe} ({chosen.profile}): the finite check takes {shares} of a step (block by block)")
    print(f"checkpoints take {100 * checkpoints(plan):.2f} % of the training time")


if __name__ == "__main__":
    main()
