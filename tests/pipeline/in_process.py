"""The sequential engine and the oracle in the test's own process: no process to start, so a case takes parts of a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from repro.engine.processes.entry import final_state
from repro.engine.processes.interleave import Interleaved
from repro.engine.processes.worker import Worker
from repro.engine.transport.exchange import Exchange, MemoryNetwork
from repro.oracle import Oracle
from repro.planning.run_plan import make_plan


@dataclass
class Outcome:
    """Losses by batch, test losses by epoch, the final tensors, and the workers where an engine made them."""

    losses: dict[int, float] = field(default_factory=dict)
    tests: dict[int, float] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    epochs: dict[int, dict[str, float]] = field(default_factory=dict)  # all that an engine's evaluations say

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Outcome)
        return (
            self.losses == other.losses
            and self.tests == other.tests
            and self.state.keys() == other.state.keys()
            and all(torch.equal(value, other.state[name]) for name, value in self.state.items())
        )

    def __hash__(self) -> int:
        return id(self)


class Listening:
    """A reporter that keeps what it is told."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def step(self, batch: int, loss: float, samples: int) -> None:
        self.outcome.losses[batch] = loss

    def epoch(self, epoch: int, **numbers: float) -> None:
        self.outcome.tests[epoch] = numbers["test_loss"]
        self.outcome.epochs[epoch] = numbers

    def saved(self, *_: Any) -> None: ...

    @contextmanager
    def waiting(self, *_: Any) -> Iterator[None]:
        yield


def engine(
    recipe: Any, seed: int = 0, checkpoints: Path | None = None, resume: Path | None = None
) -> Outcome:
    """Train with the sequential engine; `resume`: a folder `epoch-N` of an earlier run's `checkpoints`."""
    plan = make_plan(recipe, "cpu", engine="sequential")
    torch.set_num_threads(plan.threads)
    outcome, exchanges = Outcome(), [Exchange() for _ in range(recipe.replicas)]
    reporter: Any = Listening(outcome)
    outcome.workers = [
        Worker(plan, r * plan.blocks + k, seed, MemoryNetwork(k, exchange), reporter)
        for r, exchange in enumerate(exchanges)
        for k in range(plan.blocks)
    ]
    Interleaved(outcome.workers, exchanges[0]).run(checkpoints, resume)
    for worker in outcome.workers[: plan.blocks]:
        outcome.state.update(final_state(worker))
    return outcome


def oracle(recipe: Any, seed: int = 0) -> Outcome:
    """The same with the oracle."""
    plan = make_plan(recipe, "cpu", engine="sequential")
    torch.set_num_threads(plan.threads)
    found = Oracle(plan, seed).run()
    return Outcome(dict(enumerate(found.losses)), found.test_losses, found.state)


def resumed(recipe: Any, folder: Path, epoch: int = 1) -> Outcome:
    """Train, then once more from the checkpoint of `epoch`: what the second run says, with the first one's beginning."""
    whole = engine(recipe, checkpoints=folder)
    rest = engine(recipe, resume=folder / f"epoch-{epoch}")
    rest.losses = {**{b: x for b, x in whole.losses.items() if b not in rest.losses}, **rest.losses}
    rest.tests = {**{e: x for e, x in whole.tests.items() if e not in rest.tests}, **rest.tests}
    return rest


def assert_equal(recipe: Any) -> Outcome:
    """Every loss, test loss, weight and statistic of the sequential engine is the oracle's, bit for bit."""
    found, expected = engine(recipe), oracle(recipe)
    assert found.losses == expected.losses
    assert found.tests == expected.tests
    assert found.state.keys() == expected.state.keys()
    assert [n for n, value in found.state.items() if not torch.equal(value, expected.state[n])] == []
    assert recipe.max_steps is None or len(found.losses) <= recipe.max_steps  # a short run ends with its data
    assert found.losses
    assert found.tests
    assert found.state
    return found
