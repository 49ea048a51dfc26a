"""One block of the network: its layers, optimiser and input queue, and what each action does to them.

The whole state of a block (weights, optimiser, statistics, queue entries, number of updates) lives here and
is saved and loaded by `state` / `load_state` alone. Random numbers and the order of data are functions of
(seed, batch), so they need no state.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from repro.engine.block.corrector import Corrector
from repro.engine.block.finite import FiniteCheck
from repro.engine.block.in_flight import Entry, Key, as_plain, from_plain
from repro.engine.block.late_weights import LateWeights
from repro.engine.block.norm_passes import NormPasses
from repro.engine.block.optimizer import BlockOptimizer
from repro.engine.block.weight_ring import WeightRing
from repro.gradient import Approximation
from repro.models import FLOAT32, Precision, cross_entropy, run_layer
from repro.planning.counted_memory import SavedBytes, tensor_bytes


class Block:
    """Block k of K. `recompute`: forwards keep no graph; `stash`: graphs outlive updates, so weights are renewed.

    `delay`: every batch meets the weights of that many updates ago, which are kept (None: its forward meets the
    present ones). `present_weights`: the backward through a kept graph reads the weights of now. `first_micro`: the
    number that the batch's first micro-batch here has in the whole batch, of which other replicas have the others.
    """

    def __init__(
        self,
        layers: Sequence[tuple[str, nn.Module]],
        optimizer: BlockOptimizer,
        *,
        seed: int,
        first: bool,
        last: bool,
        recompute: bool,
        stash: bool,
        clone_input: bool,
        norm_statistics: str,
        deferred: bool,
        approximation: Approximation | None = None,
        side_stream: torch.cuda.Stream | None = None,
        corrector: Corrector | None = None,
        delay: int | None = None,
        present_weights: bool = False,
        precision: Precision = FLOAT32,
        first_micro: int = 0,
    ) -> None:
        self.layers, self.optimizer, self.seed = list(layers), optimizer, seed
        self.first, self.last, self.first_micro = first, last, first_micro
        self.recompute, self.stash, self.clone_input = recompute, stash, clone_input
        self.norm_statistics, self.precision = norm_statistics, precision
        self.approximation = approximation
        self.side_stream, self.corrector = side_stream, corrector or Corrector((), None, optimizer)
        self._updated: torch.cuda.Event | None = (
            None  # after the last update: a replay needs to wait for no more
        )
        self.updates = 0
        self.in_flight: OrderedDict[Key, Entry] = OrderedDict()
        self.graph_bytes: dict[int, int] = {}  # samples in a (micro-)batch -> bytes that its graph keeps
        self._modules = nn.ModuleList([layer for _, layer in self.layers])
        self._modules.train()
        self._norms = NormPasses(self._modules, deferred)
        self._ring = None if delay is None else WeightRing(optimizer, delay)
        self._late = LateWeights(self._modules) if present_weights else None
        self._finite = FiniteCheck(self.layers)

    # -- actions ------------------------------------------------------------------------------------------

    def forward(self, key: Key, x: Tensor, labels: Tensor | None = None, weight: float = 1.0) -> Tensor:
        """Run the block on input x [n, ...] of (batch, micro); returns its output without graph (the loss at the end)."""
        entry = Entry(x.detach().requires_grad_(not self.first), labels, weight)
        self.in_flight[key] = entry
        if self.side_stream is not None:
            entry.arrived = torch.cuda.current_stream().record_event()
        entry.weights = self.corrector.predicted(key[0], self.updates)
        if self.recompute:
            counts = self.norm_statistics in ("forward", "both")
            with self._norms.counted(counts, key[0], False), self._version(key[0], entry), torch.no_grad():
                y = self._run(key, entry)
            if self._ring is None:
                entry.weights = None  # only the forward is predicted: the replay is at the weights of now
            return y
        entry.y = self._graph(key, entry, update_statistics=True)
        return entry.y.detach()

    def replay(self, key: Key) -> Tensor:
        """Run the stored input of `key` through the present weights (or its version's), keeping the graph (R)."""
        entry = self.in_flight[key]
        with self._beside(entry):
            entry.y = self._graph(key, entry, update_statistics=self.norm_statistics in ("recompute", "both"))
        return entry.y.detach()

    def backward(self, key: Key, gradient: Tensor | None) -> Tensor | None:
        """Back-propagate `gradient` [as the output] (None at the loss); returns the gradient of the input.

        The weights' gradients are added to .grad of the present weights.
        """
        entry = self.in_flight.pop(key)
        assert entry.y is not None, f"no graph for {key}"
        entry.kept = None  # the graph alone holds them now, and frees them one by one
        if self.side_stream is not None:
            torch.cuda.current_stream().wait_stream(self.side_stream)
            entry.y.record_stream(torch.cuda.current_stream())  # a loss is read there
        late = None if self._late is None else self.corrector.backward_weights()
        if entry.y.requires_grad:
            with self.optimizer.holding(late):
                torch.autograd.backward(entry.y, gradient)
        if entry.weights is not None:  # the graph ends in older tensors of the same weights
            self.corrector.taken_at(entry.weights)
            for present, older in zip(self.optimizer.weights, entry.weights, strict=True):
                present.grad = older.grad if present.grad is None else present.grad + older.grad  # type: ignore[operator]
                older.grad = None
        return entry.x.grad

    def collect(self) -> list[Tensor]:
        """The present weights, with the gradient of the batch whose update is next in their .grad."""
        if self._ring is not None:
            self._ring.gather(self.updates)
        return self.optimizer.weights

    def update(self) -> None:
        """Optimiser step with the gradients of the batch, all checked to be finite; counts the update."""
        self._norms.commit(self.updates)
        used = None if self._ring is None else self._ring.gather(self.updates)
        self.corrector.compensate(used)
        self._finite.check(self.updates)
        if self._ring is not None:
            self._ring.advance(self.updates)
        if self.stash and any(entry.weights is None for entry in self.in_flight.values()):
            before = self.optimizer.weights
            for entry in self.in_flight.values():
                if entry.weights is None:
                    entry.weights = before
            self.optimizer.renew()
        self.corrector.step(self.updates)
        self.updates += 1
        if self.side_stream is not None:
            self._updated = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._updated.record(torch.cuda.current_stream())

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> Tensor:
        """Forward in evaluation mode; touches neither statistics nor queues nor random numbers."""
        with self.precision.region(x.device.type):
            for _, layer in self.layers:
                x = layer(x)
        return x

    @contextmanager
    def evaluating(self, recalibrate: bool = False) -> Iterator[None]:
        """Evaluation mode for the block's layers, training mode afterwards.

        `recalibrate`: BN begins with no statistics and normalises by batch until `calibrated` is called.
        """
        self._finite.settle()
        with self._norms.evaluating(recalibrate):
            yield

    def calibrated(self) -> None:
        """From here on the evaluation uses the statistics of what has passed."""
        self._modules.eval()

    # -- parts of actions ---------------------------------------------------------------------------------

    def _run(self, key: Key, entry: Entry) -> Tensor:
        batch, micro = key[0], self.first_micro + key[1]
        if self.approximation is not None:
            self.approximation.set_batch(batch, micro)
        # The stored input must stay as it is for the replay: a layer that writes to its input gets a copy.
        x = entry.x.clone() if self.clone_input else entry.x
        with self.precision.region(x.device.type):
            for name, layer in self.layers:
                x = run_layer(layer, name, x, self.seed, batch, micro)
        if not self.last:
            return x
        assert entry.labels is not None
        loss = cross_entropy(x, entry.labels)
        return loss if entry.weight == 1.0 else loss * entry.weight

    def _graph(self, key: Key, entry: Entry, update_statistics: bool) -> Tensor:
        samples = entry.x.shape[0]
        with self._norms.counted(update_statistics, key[0], self.recompute), self._version(key[0], entry):
            if samples in self.graph_bytes:
                return self._late_graph(key, entry) if self._late is not None else self._run(key, entry)
            saved = SavedBytes([entry.x, *self._modules.parameters(), *self._modules.buffers()])
            if self._late is not None:
                y = self._late_graph(key, entry, saved)
            else:
                with saved:
                    y = self._run(key, entry)
            self.graph_bytes[samples] = saved.total
            return y

    def _late_graph(self, key: Key, entry: Entry, count: SavedBytes | None = None) -> Tensor:
        """A graph that reads its weights late; with the activations of a checkpoint where the entry has some."""
        assert self._late is not None
        with self._late.graph(entry.kept, count) as kept:
            y = self._run(key, entry)
        entry.kept = kept
        return y

    def _version(self, batch: int, entry: Entry) -> AbstractContextManager[None]:
        """With the weights of `batch` in their places: its version, or those that a correction has predicted."""
        if entry.weights is None and self._ring is not None:
            return self._ring.at(batch, self.updates)
        return self.optimizer.holding(entry.weights)

    @contextmanager
    def _beside(self, entry: Entry) -> Iterator[None]:
        """On CUDA with a side stream: run beside the forward that was launched before, after the last update only.

        F_i and the replay of batch i-m use the same weights and are independent of each other.
        """
        if self.side_stream is None:
            yield
            return
        if self._updated is not None:
            self.side_stream.wait_event(self._updated)
        else:
            self.side_stream.wait_stream(torch.cuda.current_stream())
        if entry.arrived is not None:
            self.side_stream.wait_event(entry.arrived)
        entry.x.record_stream(self.side_stream)
        with torch.cuda.stream(self.side_stream):
            yield

    # -- memory and state ---------------------------------------------------------------------------------

    def activation_bytes(self) -> int:
        """Bytes of the input queue, the kept graphs and older weights that the block holds now."""
        total, seen = 0, set()
        for entry in self.in_flight.values():
            total += entry.x.numel() * entry.x.element_size()
            if entry.y is not None:
                total += self.graph_bytes.get(entry.x.shape[0], 0)
            if entry.weights and id(entry.weights) not in seen:
                seen.add(id(entry.weights))
                total += tensor_bytes(entry.weights)
        total += sum(tensor_bytes(w) for w in self.corrector.upcoming.values() if id(w) not in seen)
        return total + (tensor_bytes(self._ring.tensors()) if self._ring is not None else 0)

    def static_bytes(self) -> int:
        """Bytes of weights, their gradients, statistics and the optimiser's state."""
        weights = tensor_bytes(self._modules.parameters())
        remembered = tensor_bytes(self.optimizer.state_tensors()) + self.corrector.held_bytes()
        return 2 * weights + tensor_bytes(self._modules.buffers()) + remembered

    def state(self) -> dict[str, Any]:
        """Everything that decides how the block goes on, as plain tensors and numbers."""
        versions, entries = as_plain(self.in_flight)
        return {
            "updates": self.updates,
            "layers": {name: layer.state_dict() for name, layer in self.layers},
            "optimizer": self.optimizer.state_dict(),
            "versions": versions,
            "in_flight": entries,
            "corrections": self.corrector.state(),
            "ring": {} if self._ring is None else self._ring.state(),
            "moments": self._norms.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Inverse of `state`; kept graphs are made again by replaying their forwards, bit for bit."""
        self.updates = state["updates"]
        for name, layer in self.layers:
            layer.load_state_dict(state["layers"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.corrector.load_state(state["corrections"])
        if self._ring is not None:
            self._ring.load_state(state["ring"])
        self._norms.load_state(state["moments"])
        self.in_flight.clear()
        for key, entry in from_plain(state["versions"], state["in_flight"], self.first):
            self.in_flight[key] = entry
            if self.recompute:
                continue
            entry.y = self._graph(key, entry, update_statistics=False)
