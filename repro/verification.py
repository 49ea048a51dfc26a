"""Engine and oracle side by side: every loss, every test loss, every weight and statistic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from repro.engine.processes.entry import prepare
from repro.engine.processes.launch import Launch, Listener
from repro.oracle import Oracle
from repro.planning.gradient_plan import check_gradient
from repro.planning.run_plan import Plan, make_plan
from repro.recipe import Recipe


@dataclass
class Comparison:
    """Pairs (engine, oracle) of losses, and the final tensors by name."""

    plan: Plan
    losses: list[tuple[float, float]] = field(default_factory=list)
    test_losses: list[tuple[float, float]] = field(default_factory=list)
    tensors: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def differences(self) -> dict[str, tuple[int, int, float]]:
        """For losses, test losses and tensors: how many there are, how many differ, the largest relative difference."""
        found = {}
        for name, pairs in (("losses", self.losses), ("test losses", self.test_losses)):
            gaps = [abs(a - b) / max(abs(b), 1e-30) for a, b in pairs]
            found[name] = (len(pairs), sum(a != b for a, b in pairs), max(gaps, default=0.0))
        unequal = [n for n, (a, b) in self.tensors.items() if not torch.equal(a, b)]
        gaps = [float((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-30))
                for a, b in (self.tensors[n] for n in unequal)]  # fmt: skip
        found["final weights and statistics"] = (len(self.tensors), len(unequal), max(gaps, default=0.0))
        return found

    def holds(self, tolerance: float) -> bool:
        """Whether everything is there and equal: bit for bit (tolerance 0), or within a relative tolerance."""
        if self.missing or not self.losses or not self.tensors:
            return False
        rows = self.differences().values()
        return (
            all(unequal == 0 for _, unequal, _ in rows)
            if tolerance == 0
            else all(g <= tolerance for *_, g in rows)
        )

    def lines(self, tolerance: float) -> list[str]:
        """What was compared and what came out, in words."""
        lines = []
        for name, (number, unequal, largest) in self.differences().items():
            verdict = (
                "equal bit for bit"
                if unequal == 0
                else f"{unequal} differ, by at most {largest:.3g} (relative)"
            )
            lines.append(f"{number} {name}: {verdict}")
        lines += [f"missing: {name}" for name in self.missing]
        how = "bit for bit" if tolerance == 0 else f"within {tolerance:g}"
        lines.append(
            f"engine and oracle agree {how}" if self.holds(tolerance) else f"engine and oracle DIFFER ({how})"
        )
        return lines


def compare(
    recipe: Recipe, seed: int, device: str, folder: Path, engine: str = "processes", beside: str | None = None
) -> Comparison:
    """Train with the engine and with the oracle from the same seed; `folder` takes the engine's weights.

    The oracle runs on the device of the first block, or on `beside`: on another kind of device rounding alone makes
    the two drift apart, step by step.
    """
    plan = make_plan(recipe, device, engine=engine)
    check_gradient(plan)
    engine_losses: dict[int, float] = {}
    engine_tests: dict[int, float] = {}
    Launch(plan, seed, final_weights=folder).run(
        Listener(
            step=lambda batch, loss, samples: engine_losses.__setitem__(batch, loss),
            epoch=lambda epoch, numbers: engine_tests.__setitem__(epoch, numbers["test_loss"]),
        )
    )
    before = torch.get_num_threads()
    prepare(plan, 0)
    try:
        oracle = Oracle(plan, seed, device=beside or plan.devices[0]).run()
    finally:
        torch.set_num_threads(before)
    found: dict[str, Tensor] = {}
    for k in range(plan.blocks):
        found.update(torch.load(folder / f"block-{k}.pt", weights_only=True))
    wanted = oracle.state | _of_other_replicas(plan, folder, oracle.weights, oracle.state, found)
    comparison = Comparison(plan)
    comparison.losses = [(engine_losses.get(i, float("nan")), loss) for i, loss in enumerate(oracle.losses)]
    comparison.test_losses = [
        (engine_tests.get(e, float("nan")), loss) for e, loss in oracle.test_losses.items()
    ]
    comparison.missing = sorted(set(found) ^ set(wanted))
    comparison.tensors = {n: (found[n], t.cpu()) for n, t in wanted.items() if n in found}
    return comparison


def _of_other_replicas(
    plan: Plan, folder: Path, weights: set[str], state: Mapping[str, Tensor], found: dict[str, Tensor]
) -> dict[str, Tensor]:
    """What the weights of replicas 1.. should be, the oracle's; what they are is added to `found`.

    Their BN statistics are of their own shards, and go nowhere.
    """
    wanted = {}
    for rank in range(plan.blocks, plan.ranks):
        there = torch.load(folder / f"block-{rank}.pt", weights_only=True)
        for name in weights & there.keys():
            key = f"{name} (replica {rank // plan.blocks})"
            wanted[key], found[key] = state[name], there[name]
    return wanted
