"""The process of one block: builds the block, then carries out its actions in their fixed order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from repro import data, gradient, models
from repro.errors import RunFailed
from repro.pipeline import checkpoint
from repro.pipeline.block import Block
from repro.pipeline.channel import Inbox, Outbox
from repro.pipeline.memory import tensor_bytes
from repro.pipeline.message import Envelope
from repro.pipeline.network import Network
from repro.pipeline.optimizer import BlockOptimizer
from repro.pipeline.plan import Plan
from repro.pipeline.progress import Progress
from repro.pipeline.report import Reporter
from repro.pipeline.stopwatch import Stopwatch
from repro.pipeline.straggler import Straggler
from repro.pipeline.synthetic import SyntheticInterface
from repro.schedule import Action, Kind
from repro.seeding import derive

RECORDED_BATCHES = 24  # the first batches of a run are kept action by action, for the timeline figure


class Worker:
    """Block `index` of a plan, in its own process.

    `run` trains to the end (or from `checkpoint_folder`'s newest state on) and returns the block's summary.
    """

    def __init__(
        self,
        plan: Plan,
        index: int,
        seed: int,
        network: Network,
        reporter: Reporter,
        typical_seconds: float | None = None,
    ) -> None:
        self.plan, self.index, self.seed = plan, index, seed
        self.network, self.reporter = network, reporter
        self.first, self.last = index == 0, index == plan.blocks - 1
        self.device = torch.device(plan.devices[index])
        recipe = plan.recipe
        self.schedule = plan.schedule()
        self.data = data.load(recipe.data, plan.data_root, seed, plan.devices[index])
        self.block = build_block(plan, index, seed, self.schedule, self.data.image_shape)
        self.straggler = Straggler(recipe.straggler, seed, index, typical_seconds)
        self.watch = Stopwatch(self.device, keep_batches=RECORDED_BATCHES)
        self.synthetic = SyntheticInterface.build(plan, index, seed, self.device) if self.schedule.synthetic else None
        self.weights_before = [w.detach().clone() for w in self.block.optimizer.weights]
        self.losses: dict[int, float] = {}
        self.loss_times: list[float] = []
        self.epoch_loss, self.epoch_samples = 0.0, 0
        self.evaluation_seconds = 0.0
        self.peak_bytes = 0
        self.pending: list[tuple[str, Envelope, Tensor]] = []  # of a checkpoint: handed over, not yet taken
        self.neighbours: dict[int, Progress] = {}
        self.done_updates = 0
        self.order: dict[tuple[int, int], int] = {}
        self.outputs: dict[tuple[int, int], Tensor] = {}
        self.up: Outbox | None = None
        self.down: Outbox | None = None
        self.below: Inbox | None = None
        self.above: Inbox | None = None

    # -- shapes and messages ------------------------------------------------------------------------------

    def micro_sizes(self, batch: int) -> list[int]:
        """Sizes of the micro-batches of a batch; they differ by at most one."""
        size = self.data.train_batch_size(batch)
        count = self.plan.recipe.method.micro_batches(size)
        return [size // count + (j < size % count) for j in range(count)]

    def micro_slice(self, key: tuple[int, int]) -> slice:
        """Where a micro-batch lies in its batch."""
        sizes = self.micro_sizes(key[0])
        start = sum(sizes[: key[1]])
        return slice(start, start + sizes[key[1]])

    def envelope(self, stream: str, key: tuple[int, int], boundary: int, order: int = 0) -> Envelope:
        """What a message about micro-batch `key` looks like at the input of layer `boundary`."""
        shape = (self.micro_sizes(key[0])[key[1]], *self.plan.shapes[boundary])
        return Envelope(stream, key[0], key[1], shape, order=order)

    def expected(self, stream: str, boundary: int, first: int, late: list[tuple[int, int]]) -> Iterator[Envelope]:
        """All messages of a stream still to come: those of `late` batches, then every batch from `first` on."""
        for key in late:
            yield self.envelope(stream, key, boundary)
        for batch in range(first, self.plan.num_batches):
            for micro in range(len(self.micro_sizes(batch))):
                yield self.envelope(stream, (batch, micro), boundary)

    # -- the run ------------------------------------------------------------------------------------------

    def run(self, checkpoints: Path | None, resume: Path | None) -> dict[str, Any]:
        """Carry out all actions; returns the block's summary."""
        self.checkpoints = checkpoints
        if resume is not None:
            self._load(resume)
        self._connect()
        start = self.network.start_together()
        self.started = start
        for action in self._actions():
            self._act(action)
        self._drain()
        end = time.monotonic()
        self.network.finish(self.plan.num_batches)
        return self._summary(start, end)

    def _actions(self) -> Iterator[Action]:
        """The schedule's actions, from the checkpoint's place on."""
        actions = self.schedule.actions(self.index)
        if self.done_updates:
            epoch = self.plan.evaluations[self.done_updates]
            for action in actions:
                if action.kind is Kind.EVALUATE and action.batch == epoch:
                    break
        return actions

    def _connect(self) -> None:
        low, high = self.plan.layer_spans[self.index]
        done = self.done_updates
        if not self.first:
            taken = max((batch + 1 for batch, _ in self.block.in_flight), default=done)
            self.below = Inbox(self.network.link(self.index - 1, "output"), self.expected("output", low, taken, []))
            self.down = Outbox(self.network.link(self.index - 1, "gradient"))
        if not self.last:
            # Gradients of finished batches that a synthetic-gradient module still waits for come first.
            late = [] if self.synthetic is None else list(self.synthetic.stored)
            self.up = Outbox(self.network.link(self.index + 1, "output"))
            self.above = Inbox(self.network.link(self.index + 1, "gradient"), self.expected("gradient", high, done, late))
        for stream, envelope, tensor in self.pending:
            outbox = self.up if stream == "output" else self.down
            assert outbox is not None
            outbox.put(envelope, tensor.to(self.device))
        self.pending.clear()

    def _act(self, action: Action) -> None:
        kind = action.kind
        key = (action.batch, action.micro)
        if kind is Kind.EVALUATE:
            self._evaluate(action.batch)
            return
        if kind in (Kind.FORWARD, Kind.RECOMPUTE, Kind.BACKWARD) and action.micro >= len(self.micro_sizes(action.batch)):
            return  # a smaller last batch has fewer micro-batches
        if kind is Kind.FORWARD:
            self._forward(key, action)
        elif kind is Kind.RECOMPUTE:
            with self.watch.measure(action):
                self.block.replay(key)
            self._count_memory()
        elif kind is Kind.BACKWARD:
            self._backward(key, action)
        elif kind is Kind.UPDATE:
            with self.watch.measure(action):
                self.block.update()
            self.watch.finish_batch(action.batch)
        elif kind is Kind.AWAIT_GRADIENT:
            assert self.above is not None
            with self.reporter.waiting("gradient", action.batch, self.index + 1), self.watch.waiting(action):
                self.above.wait()
        elif kind is Kind.AWAIT_FORWARDS:
            with self.reporter.waiting("forwards", action.batch, self.plan.blocks - 1), self.watch.waiting(action):
                self.network.await_forward(action.batch)
        elif kind is Kind.MODULE:
            self._learn_module(key, action)

    def _forward(self, key: tuple[int, int], action: Action) -> None:
        if key[1] == 0 and self.straggler.active:
            self.straggler.sleep(key[0], self.watch)
        order = 0
        if self.first:
            with self.watch.measure(action):
                x = self._images(key)
                order = order_digest(self.data.train_ids(key[0]))
        else:
            assert self.below is not None
            with self.reporter.waiting("output", key[0], self.index - 1), self.watch.waiting(action):
                x = self.below.take()
            order = self.below.order
        labels, weight = None, 1.0
        if self.last:
            labels = self._labels(key, order)
            weight = labels.shape[0] / self.data.train_batch_size(key[0])
        with self.watch.measure(action):
            y = self.block.forward(key, x, labels, weight)
        del x
        self.order[key] = order
        if not self.last:
            assert self.up is not None
            if self.synthetic is not None:
                self.synthetic.store(key, y, self.data.train_labels(key[0]))
            _, high = self.plan.layer_spans[self.index]
            self.up.put(self.envelope("output", key, high, order), y)
            del y
            self._count_memory()
            room = self.schedule.output_room[self.index] if action.room is None else action.room
            with self.reporter.waiting("room", key[0], self.index + 1), self.watch.waiting(action):
                self.up.make_room(room)
        else:
            if not self.block.recompute:
                self._note_loss(key, y)
            self.network.announce_forward(key, len(self.micro_sizes(key[0])))
            self._count_memory()

    def _backward(self, key: tuple[int, int], action: Action) -> None:
        gradient = None
        if not self.last:
            if self.synthetic is not None:
                with self.watch.measure(action):
                    gradient = self.synthetic.predict(key)
            else:
                assert self.above is not None
                with self.reporter.waiting("gradient", key[0], self.index + 1), self.watch.waiting(action):
                    gradient = self.above.take()
        elif self.block.recompute:
            entry = self.block.in_flight[key]
            assert entry.y is not None
            self._note_loss(key, entry.y.detach())
        with self.watch.measure(action):
            below = self.block.backward(key, gradient)
        del gradient
        if self.last and key[1] == len(self.micro_sizes(key[0])) - 1:
            self._report_loss(key[0])
        order = self.order.pop(key, 0)
        if not self.first:
            assert self.down is not None
            assert below is not None
            low, _ = self.plan.layer_spans[self.index]
            self.down.put(self.envelope("gradient", key, low, order), below)
            del below
            with self.reporter.waiting("room", key[0], self.index - 1), self.watch.waiting(action):
                self.down.make_room(self.schedule.gradient_room[self.index])

    def _learn_module(self, key: tuple[int, int], action: Action) -> None:
        assert self.synthetic is not None
        assert self.above is not None
        with self.reporter.waiting("gradient", key[0], self.index + 1), self.watch.waiting(action):
            true_gradient = self.above.take()
        with self.watch.measure(action):
            self.synthetic.learn(key, true_gradient)

    # -- data and loss ------------------------------------------------------------------------------------

    def _images(self, key: tuple[int, int]) -> Tensor:
        if key[1] == 0:
            self._batch_images = self.data.train_images(key[0])
        where = self.micro_slice(key)
        whole = where == slice(0, self._batch_images.shape[0])
        return self._batch_images if whole else self._batch_images[where].contiguous()

    def _labels(self, key: tuple[int, int], order: int) -> Tensor:
        """Labels of a micro-batch, checked: the same samples as the images, and within the classes."""
        batch = key[0]
        ids = self.data.train_ids(batch)
        if order != order_digest(ids):
            raise RunFailed(f"the labels of batch {batch} belong to other samples than its images")
        labels = self.data.train_labels(batch)
        check_labels(labels, ids, batch, self.plan.num_classes)
        return labels[self.micro_slice(key)]

    def _note_loss(self, key: tuple[int, int], loss: Tensor) -> None:
        self.losses[key[0]] = self.losses.get(key[0], 0.0) + float(loss)

    def _report_loss(self, batch: int) -> None:
        loss = self.losses.pop(batch)
        samples = self.data.train_batch_size(batch)
        self.epoch_loss += loss * samples
        self.epoch_samples += samples
        now = time.monotonic()
        self.loss_times.append(now - self.evaluation_seconds)
        self.reporter.step(batch, loss, samples)

    # -- evaluation and checkpoints -----------------------------------------------------------------------

    def _evaluate(self, epoch: int) -> None:
        begin = time.monotonic()
        low, high = self.plan.layer_spans[self.index]
        total, correct = 0.0, 0
        sent: list[tuple[Any, Tensor]] = []
        with self.reporter.waiting("evaluation", epoch, max(0, self.index - 1)), self.block.evaluating():
            for step in range(self.data.test_steps):
                size = self.data.test_batch_size(step)
                if self.first:
                    x = self.data.test_images(step)
                else:
                    x = self.network.receive_now(
                        self.index - 1, Envelope("evaluation", step, 0, (size, *self.plan.shapes[low])), step
                    )
                x = self.block.evaluate(x)
                if self.last:
                    labels = self.data.test_labels(step)
                    total += float(torch.nn.functional.cross_entropy(x, labels, reduction="sum"))
                    correct += int((x.argmax(1) == labels).sum())
                else:
                    envelope = Envelope("evaluation", step, 0, (size, *self.plan.shapes[high]))
                    sent.append(self.network.send_now(self.index + 1, envelope, x, step))
                    if len(sent) > 2:  # few test batches are under way at once
                        self.network.wait(sent.pop(0), self.index + 1)
            for work in sent:
                self.network.wait(work, self.index + 1)
        if self.last:
            seconds = time.monotonic() - begin
            self.evaluation_seconds += seconds
            self.reporter.epoch(
                epoch,
                train_loss=self.epoch_loss / max(1, self.epoch_samples),
                test_loss=total / self.data.test_size,
                test_accuracy=100.0 * correct / self.data.test_size,
                train_seconds=time.monotonic() - self.started - self.evaluation_seconds,
            )
            self.epoch_loss, self.epoch_samples = 0.0, 0
        every = self.plan.recipe.runtime.checkpoint_every
        final = self.block.updates == self.plan.num_batches
        if self.checkpoints is not None and every and epoch % every == 0 and not final:
            self._save(epoch)

    def _save(self, epoch: int) -> None:
        assert self.checkpoints is not None
        pending = []
        for stream, outbox, peer in (("output", self.up, self.index + 1), ("gradient", self.down, self.index - 1)):
            if outbox is not None:
                progress = self.neighbours.setdefault(peer, Progress(self.schedule, peer))
                taken = progress.taken(stream, epoch)
                pending += [(stream, e, t.cpu()) for e, t in outbox.waiting() if (e.batch, e.micro) > taken]
        state = {
            "block": self.block.state(),
            "order": dict(self.order),
            "synthetic": None if self.synthetic is None else self.synthetic.state(),
            "pending": pending,
        }
        file, digest = checkpoint.save_block(self.checkpoints, epoch, self.index, state)
        self.reporter.saved(epoch, self.block.updates, file, digest)

    def _load(self, folder: Path) -> None:
        state = checkpoint.load_block(folder, self.index, self.device)
        self.block.load_state(state["block"])
        self.order = state["order"]
        if self.synthetic is not None:
            self.synthetic.load_state(state["synthetic"])
        self.pending = state["pending"]
        self.done_updates = self.block.updates

    # -- the end ------------------------------------------------------------------------------------------

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

    def _summary(self, start: float, end: float) -> dict[str, Any]:
        weights = self.block.optimizer.weights
        change = sum(float((a.detach() - b).pow(2).sum()) for a, b in zip(weights, self.weights_before, strict=True))
        intervals = [b - a for a, b in zip(self.loss_times[:-1], self.loss_times[1:], strict=True)]
        skip = max(self.schedule.staleness) + 5
        steady = intervals[skip:] or intervals
        busy = self.watch.busy_per_batch()
        static = self.block.static_bytes()
        peak = int(torch.cuda.max_memory_allocated(self.device)) if self.device.type == "cuda" else static + self.peak_bytes
        return {
            "start": start,
            "end": end,
            "evaluation_seconds": self.evaluation_seconds,
            "updates": self.block.updates,
            "weight_change": change**0.5,
            "seconds_per_batch": median(steady) if steady else None,
            "busy_seconds": median(busy[skip:] or busy) if busy else 0.0,
            "busy_seconds_total": sum(busy),
            "activation_bytes": self.peak_bytes,
            "static_bytes": static,
            "peak_memory_bytes": peak,
            "weights_bytes": tensor_bytes(weights),
            "graph_bytes": max(self.block.graph_bytes.values(), default=0),
            "threads": torch.get_num_threads(),
            "spans": self.watch.spans(start),
            "delays": self.straggler.count,
            "gradient": None if self.block.approximation is None else self.block.approximation.report(),
        }


def build_block(plan: Plan, index: int, seed: int, schedule: Any, image_shape: tuple[int, ...]) -> Block:
    """Build block `index` with its weights, optimiser and gradient approximation on its device."""
    recipe, device = plan.recipe, torch.device(plan.devices[index])
    factories = models.layers(recipe.model, image_shape, plan.num_classes)  # type: ignore[arg-type]
    low, high = plan.layer_spans[index]
    layers = [(f.name, f.build(seed).to(device)) for f in factories[low:high]]
    models.shared_parameters(layers)
    approximation = None
    if recipe.gradient.estimator != "full" or not isinstance(recipe.gradient.schedule, str):
        approximation = gradient.attach(
            layers,
            recipe.gradient,
            seed=seed,
            steps_per_epoch=plan.steps_per_epoch,
            epochs=recipe.epochs,
            numbers=gradient.number_convolutions([(f.name, f.build(0)) for f in factories]),
        )
    probe = torch.zeros((2, *plan.shapes[low]), device=device)
    optimizer = BlockOptimizer(layers, recipe.optimizer, plan.steps_per_epoch, recipe.method.lr_factor(index, plan.blocks))
    recompute = schedule.recompute[index]
    return Block(
        layers,
        optimizer,
        seed=seed,
        first=index == 0,
        last=index == plan.blocks - 1,
        recompute=recompute,
        stash=not recompute and schedule.staleness[index] > 0,
        clone_input=models.mutates_input(layers[0][1], probe),
        norm_statistics=recipe.norm_statistics,
        deferred=recipe.method.micro_batches(recipe.data.batch_size) > 1,
        approximation=approximation,
    )


def order_digest(ids: Any) -> int:
    """A 63-bit digest of the sample ids of a batch, in their order."""
    return derive(0, "order", ids.tobytes().hex())


def check_labels(labels: Tensor, ids: Any, batch: int, num_classes: int) -> None:
    """Raise RunFailed naming the first label that is not one of the classes."""
    wrong = ((labels < 0) | (labels >= num_classes)).nonzero()
    if wrong.numel():
        place = int(wrong[0])
        raise RunFailed(
            f"label {int(labels[place])} of training sample {int(ids[place])} (batch {batch}) is out of range: "
            f"allowed 0..{num_classes - 1}"
        )
