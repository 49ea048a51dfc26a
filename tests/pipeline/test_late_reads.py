"""What the host reads late on a GPU: losses, and whether values are finite; with reads that come when the test says so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from repro.engine.block.finite import LATE, FiniteCheck, NotFinite
from repro.engine.block.late_read import LateRead
from repro.engine.block.stopwatch import Stopwatch
from repro.engine.processes.losses import TOGETHER, Losses

CUDA = torch.device("cuda")


class FakeRead:
    """A copy that is here when somebody has waited for it, or has set `here`."""

    made: list[FakeRead]

    def __init__(self, tensor: torch.Tensor) -> None:
        self.content, self.here, self.waited = tensor.tolist(), False, False
        FakeRead.made.append(self)

    def values(self) -> list[float]:
        self.waited = not self.here
        return self.content  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _reads() -> None:
    FakeRead.made = []


class Reporter:
    def __init__(self) -> None:
        self.rows: list[tuple[int, float, int]] = []

    def step(self, *row: Any) -> None:
        self.rows.append(row)


def test_a_cpu_tensor_is_there_at_once() -> None:
    read = LateRead(torch.tensor([1.5, 2.5]))
    assert read.here
    assert read.values() == [1.5, 2.5]


def test_losses_come_in_one_copy_for_many_batches_and_all_at_an_evaluation() -> None:
    reporter: Any = Reporter()
    losses = Losses(reporter, CUDA, FakeRead)
    batches = 2 * TOGETHER + 3
    for batch in range(batches):
        for part in (0.1, 0.2):
            losses.add(batch, torch.tensor(batch + part))
        losses.close(batch, 4, float(batch))
        if batch == TOGETHER:
            assert not reporter.rows
            FakeRead.made[0].here = True
    assert [row[0] for row in reporter.rows] == list(range(TOGETHER))
    assert len(FakeRead.made) == 2
    assert not any(read.waited for read in FakeRead.made)
    mean = losses.end_epoch()
    assert len(FakeRead.made) == 3
    expected = [float(torch.tensor(b + 0.1)) + float(torch.tensor(b + 0.2)) for b in range(batches)]
    assert reporter.rows == [(b, loss, 4) for b, loss in enumerate(expected)]
    assert mean == pytest.approx(sum(expected) / batches)
    assert losses.times == [float(b) for b in range(batches)]


def test_on_the_cpu_every_loss_is_told_with_its_batch() -> None:
    reporter: Any = Reporter()
    losses = Losses(reporter, torch.device("cpu"))
    for batch in range(3):
        losses.add(batch, torch.tensor(1.0 + batch))
        losses.close(batch, 2, 0.0)
        assert reporter.rows[-1] == (batch, 1.0 + batch, 2)


def fed(check: FiniteCheck, layer: nn.Linear, batch: int, value: float = 0.0) -> None:
    for weight in layer.parameters():
        weight.grad = torch.zeros_like(weight)
    layer.bias.grad[1] = value  # type: ignore[index]
    check.check(batch)
    with torch.no_grad():
        for weight in layer.parameters():
            weight -= weight.grad  # type: ignore[operator]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_stops_before_the_update_of_the_batch_after_the_next(value: float) -> None:
    layer = nn.Linear(2, 2)
    check = FiniteCheck([("fc", layer)], FakeRead)
    fed(check, layer, 0)
    fed(check, layer, 1, value)
    fed(check, layer, 2)
    assert not any(read.waited for read in FakeRead.made[1:])
    with pytest.raises(NotFinite, match=r"the gradient of fc\.bias is (nan|inf) at batch 1") as found:
        fed(check, layer, 1 + LATE)
    assert found.value.batch == 1


def test_it_is_named_earlier_where_its_number_has_come() -> None:
    layer = nn.Linear(2, 2)
    check = FiniteCheck([("fc", layer)], FakeRead)
    fed(check, layer, 0, float("nan"))
    FakeRead.made[0].here = True
    with pytest.raises(NotFinite, match="at batch 0"):
        fed(check, layer, 1)


def test_an_evaluation_waits_for_all_of_them() -> None:
    layer = nn.Linear(2, 2)
    check = FiniteCheck([("fc", layer)], FakeRead)
    fed(check, layer, 0, float("nan"))
    with pytest.raises(NotFinite, match="at batch 0"):
        check.settle()


def test_a_norm_that_overflows_is_let_pass() -> None:
    layer = nn.Linear(4, 4)
    check = FiniteCheck([("fc", layer)], FakeRead)
    for weight in layer.parameters():
        weight.grad = torch.full_like(weight, 3e38)
    check.check(0)
    check.settle()
    assert FakeRead.made[0].content == [float("inf")]


def test_typical_time_on_a_gpu_takes_the_batches_that_are_done_and_waits_for_none() -> None:
    """A straggler's delay is a multiple of it."""

    class Event:
        def __init__(self, at: float, done: bool) -> None:
            self.at, self.done = at, done

        def query(self) -> bool:
            return self.done

        def elapsed_time(self, end: Event) -> float:
            return end.at - self.at

        def synchronize(self) -> None:
            raise AssertionError("nothing may wait")

    watch = Stopwatch(CUDA)
    assert watch.typical() == 0.0
    for first, last, done in ((0.0, 20.0, True), (30.0, 60.0, True), (70.0, 170.0, False)):
        watch._open = [(Event(first, True), Event(last, done))]
        watch.finish_batch()
    assert watch.typical() == pytest.approx(0.025)
