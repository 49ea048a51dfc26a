"""One block at work: carries out the block's actions in their fixed order, and meets its neighbours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from repro.engine.block.build import build_parts
from repro.engine.block.predictor import SyntheticInterface
from repro.engine.block.samples import Key
from repro.engine.block.share import ShareRow
from repro.engine.block.stopwatch import Stopwatch
from repro.engine.processes.delays import Straggler
from repro.engine.processes.evaluation import Evaluation
from repro.engine.processes.losses import Losses
from repro.engine.processes.neighbour import Progress
from repro.engine.processes.replica_update import own_row, take_sum
from repro.engine.processes.reporter import Reporter
from repro.engine.processes.snapshot import load, save
from repro.engine.processes.summary import summary
from repro.engine.transport.message import Envelope
from repro.engine.transport.ports import BlockNetwork, ReceivingEnd, SendingEnd
from repro.planning.block_times import BlockTimes
from repro.planning.run_plan import Plan
from repro.schedule import Action, Kind

RECORDED_BATCHES = 24  # the first batches of a run are kept action by action, for the timeline figure
_COMPUTE = (Kind.FORWARD, Kind.RECOMPUTE, Kind.BACKWARD)


class Worker:
    """Block `index` of a plan's `replica`: in its own process (`run`), or one of several that a process runs in turn.

    Only the ends of its queues (`ports`) know whether a neighbour is another process.
    """

    def __init__(
        self,
        plan: Plan,
        rank: int,
        seed: int,
        network: BlockNetwork,
        reporter: Reporter,
        typical_seconds: float | None = None,
        block_times: BlockTimes | None = None,
    ) -> None:
        self.plan, self.rank = plan, rank
        self.replica, self.index = divmod(rank, plan.blocks)
        self.network, self.reporter, index = network, reporter, self.index
        self.first, self.last = index == 0, index == plan.blocks - 1
        self.low, self.high = plan.layer_spans[index]
        self.device = torch.device(plan.devices[rank])
        self.schedule = plan.schedule()
        self.straggler = Straggler(plan.recipe.straggler, seed, index, typical_seconds)
        self.watch = Stopwatch(self.device, keep_batches=RECORDED_BATCHES)
        self.samples, self.block = build_parts(plan, rank, seed, self.schedule, block_times, self.watch)
        self.synthetic = (
            SyntheticInterface.build(plan, index, seed, self.device) if self.schedule.synthetic else None
        )
        self.share = ShareRow(self.replica, plan.recipe.replicas)
        self.losses = Losses(None if self.replica else reporter, self.device)
        self.weights_before = [w.detach().clone() for w in self.block.optimizer.weights]
        self.evaluation_seconds = 0.0
        self.checkpoint_seconds = 0.0
        self.peak_bytes = 0
        self.predictor_bytes = 0
        self.order: dict[Key, int] = {}  # digest of the sample ids of each batch in flight
        self.pending: list[tuple[Envelope, Tensor]] = []  # of a checkpoint: handed over, not yet taken
        self.neighbours: dict[int, Progress] = {}
        self.up: SendingEnd | None = None
        self.down: SendingEnd | None = None
        self.below: ReceivingEnd | None = None
        self.above: ReceivingEnd | None = None

    def run(self, checkpoints: Path | None, resume: Path | None) -> dict[str, Any]:
        """Train to the end, from the state in `resume` where there is one; returns the block's summary."""
        for action in self.begin(checkpoints, resume):
            self.act(action)
        return self.end()

    def begin(self, checkpoints: Path | None, resume: Path | None) -> Iterator[Action]:
        """Load the state, meet the neighbours; returns the actions that are left."""
        self.checkpoints = checkpoints
        if resume is not None:
            load(self, resume)
        done = self.block.updates
        self._connect(done)
        self.samples.warm_up(self.first, self.last)
        self.started = self.network.start_together()
        return self._actions(done)

    def end(self) -> dict[str, Any]:
        """Wait for the neighbours after the last action; returns the block's summary."""
        self._drain()
        self.watch.settle()
        end = time.monotonic()
        self.network.finish(self.plan.num_batches)
        return summary(self, end)

    # -- before the first action ----------------------------------------------------------------------------

    def _actions(self, done: int) -> Iterator[Action]:
        """The schedule's actions, from behind the evaluation where the checkpoint was made."""
        actions = self.schedule.actions(self.index)
        if done:
            epoch = self.plan.evaluations[done]
            for action in actions:
                if action.kind is Kind.EVALUATE and action.batch == epoch:
                    break
        return actions

    def _connect(self, done: int) -> None:
        if not self.first:
            batch, micro = max(self.block.in_flight, default=(done, -1))  # the newest that was taken
            expected = self._expected("output", self.low, (batch, micro + 1), [])
            self.below = self.network.inbox(self.index - 1, "output", expected)
            self.down = self.network.outbox(self.index - 1, "gradient")
        if not self.last:
            # Gradients of finished batches that a synthetic-gradient module still waits for come first.
            late = [] if self.synthetic is None else list(self.synthetic.stored)
            self.up = self.network.outbox(self.index + 1, "output")
            expected = self._expected("gradient", self.high, (done, 0), late)
            self.above = self.network.inbox(self.index + 1, "gradient", expected)
        for envelope, tensor in self.pending:
            outbox = self.up if envelope.stream == "output" else self.down
            assert outbox is not None
            outbox.put(envelope, tensor.to(self.device))
        self.pending.clear()

    def _expected(self, stream: str, boundary: int, first: Key, late: list[Key]) -> Iterator[Envelope]:
        """All messages of a stream still to come: those of `late` batches, then every micro-batch from `first` on."""
        for key in late:
            yield self.samples.envelope(stream, key, boundary)
        for batch in range(first[0], self.plan.num_batches):
            for micro in range(first[1] * (batch == first[0]), len(self.samples.micro_sizes(batch))):
                yield self.samples.envelope(stream, (batch, micro), boundary)

    # -- actions --------------------------------------------------------------------------------------------

    def act(self, action: Action) -> None:
        """Carry out one action, waiting for what it needs."""
        kind, key = action.kind, (action.batch, action.micro)
        if self.skips(action):
            return
        if kind is Kind.FORWARD:
            self._forward(key, action)
        elif kind is Kind.RECOMPUTE:
            with self.watch.measure(action):
                self.block.replay(key)
            self._count_memory()
        elif kind is Kind.BACKWARD:
            self._backward(key, action)
        elif kind is Kind.UPDATE:
            if (add_up := self.network.sum_replicas) is not None:
                row = own_row(self, action)
                with self.reporter.waiting("replicas", action.batch, self.index), self.watch.waiting(action):
                    row = add_up(row)
                take_sum(self, action, row)
            with self.watch.measure(action):
                self.block.update()
            self.watch.finish_batch()
        elif kind is Kind.EVALUATE:
            self._evaluate(action.batch)
        elif kind is Kind.AWAIT_GRADIENT:
            assert self.above is not None
            with self.reporter.waiting("gradient", action.batch, self.index + 1), self.watch.waiting(action):
                self.above.wait()
        elif kind is Kind.AWAIT_FORWARDS:
            with (
                self.reporter.waiting("forwards", action.batch, self.plan.blocks - 1),
                self.watch.waiting(action),
            ):
                self.network.await_forward(action.batch)
        elif kind is Kind.MODULE:
            assert self.synthetic is not None
            true_gradient = self._take(self.above, "gradient", key, self.index + 1, action)
            with self.watch.measure(action):
                self.synthetic.learn(key, true_gradient)

    def skips(self, action: Action) -> bool:
        """Whether there is nothing to do: a smaller last batch has fewer micro-batches."""
        return action.kind in _COMPUTE and action.micro >= len(self.samples.micro_sizes(action.batch))

    def _forward(self, key: Key, action: Action) -> None:
        if key[1] == 0 and self.straggler.active:
            self.straggler.sleep(key[0], self.watch)
        if self.first:
            with self.watch.measure(action):
                x = self.samples.images(key)
                order = self.samples.order(key[0])
        else:
            x = self._take(self.below, "output", key, self.index - 1, action)
            assert self.below is not None
            order = self.below.order
        self.order[key] = order
        labels, weight = (
            (self.samples.labels(key, order), self.samples.share(key)) if self.last else (None, 1.0)
        )
        with self.watch.measure(action):
            y = self.block.forward(key, x, labels, weight)
        del x
        if self.last:
            if not self.block.recompute:
                self.losses.add(key[0], y)
            if self.samples.is_last_micro(key):
                self.network.announce_forward(key[0])
            self._count_memory()
            return
        if self.synthetic is not None:
            self.synthetic.store(key, y, self.samples.data.train_labels(key[0]))
        room = self.schedule.output_room[self.index] if action.room is None else action.room
        self._hand_over(
            self.up, self.samples.envelope("output", key, self.high, order), y, room, self.index + 1, action
        )

    def _backward(self, key: Key, action: Action) -> None:
        gradient = None
        if self.synthetic is not None:
            with self.watch.measure(action):
                gradient = self.synthetic.predict(key)
        elif not self.last:
            gradient = self._take(self.above, "gradient", key, self.index + 1, action)
        elif self.block.recompute:
            replayed = self.block.in_flight[key].y
            assert replayed is not None
            self.losses.add(key[0], replayed.detach())
        with self.watch.measure(action):
            below = self.block.backward(key, gradient)
        del gradient
        if self.last and self.samples.is_last_micro(key) and self.plan.recipe.replicas == 1:
            self.close_losses(key[0])
        order = self.order.pop(key)
        if not self.first:
            assert below is not None
            room = self.schedule.gradient_room[self.index]
            self._hand_over(
                self.down,
                self.samples.envelope("gradient", key, self.low, order),
                below,
                room,
                self.index - 1,
                action,
            )

    def close_losses(self, batch: int) -> None:
        """Last block: the losses of all micro-batches of `batch` are known."""
        now = time.monotonic() - self.evaluation_seconds
        self.losses.close(batch, self.samples.data.whole_batch_size(batch), now)

    def _take(self, inbox: ReceivingEnd | None, what: str, key: Key, peer: int, action: Action) -> Tensor:
        assert inbox is not None
        with self.reporter.waiting(what, key[0], peer), self.watch.waiting(action):
            return inbox.take()

    def _hand_over(
        self, box: SendingEnd | None, envelope: Envelope, y: Tensor, room: int, peer: int, action: Action
    ) -> None:
        assert box is not None
        box.put(envelope, y)
        del y
        self._count_memory()
        with self.reporter.waiting("room", envelope.batch, peer), self.watch.waiting(action):
            box.make_room(room)

    # -- evaluations and checkpoints ------------------------------------------------------------------------

    def _evaluate(self, epoch: int) -> None:
        begin, evaluation = time.monotonic(), self.evaluation()
        with self.reporter.waiting("evaluation", epoch, max(0, self.index - 1)):
            for _ in evaluation.batches():
                pass
        self.evaluated(epoch, evaluation, begin)

    def evaluation(self) -> Evaluation:
        """The block's part in an evaluation now."""
        return Evaluation(self.plan, self.rank, self.block, self.samples, self.network)

    def evaluated(self, epoch: int, evaluation: Evaluation, begin: float) -> None:
        """An evaluation begun at `begin` (monotonic seconds) is over: report it, and save a checkpoint if it is time."""
        if (found := evaluation.result) is not None:
            end = time.monotonic()
            self.evaluation_seconds += end - begin
            self.reporter.epoch(
                epoch,
                train_loss=self.losses.end_epoch(),
                **found,
                train_seconds=end - self.started - self.evaluation_seconds,
            )
        every = self.plan.recipe.runtime.checkpoint_every
        if (
            self.checkpoints is not None
            and every
            and epoch % every == 0
            and self.block.updates < self.plan.num_batches
        ):
            begin = time.monotonic()
            save(self, self.checkpoints, epoch)
            self.checkpoint_seconds += time.monotonic() - begin

    # -- the end --------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        for outbox, peer in ((self.up, self.index + 1), (self.down, self.index - 1)):
            if outbox is not None:
                with self.reporter.waiting("room", self.plan.num_batches - 1, peer):
                    outbox.make_room(0)
        for inbox in (self.below, self.above):
            if inbox is not None:
                inbox.finish()

    def _count_memory(self) -> None:
        boxes = sum(box.held_bytes for box in (self.up, self.down, self.below, self.above) if box is not None)
        extra = 0 if self.synthetic is None else self.synthetic.held_bytes()
        self.peak_bytes = max(self.peak_bytes, self.block.activation_bytes() + boxes + extra)
        self.predictor_bytes = max(self.predictor_bytes, extra)
