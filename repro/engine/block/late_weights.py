"""Graphs whose backward reads the weights of that time: PipeMare's, with neither stash nor replay.

Autograd saves for the backward an operation's input and its weight. Under the hooks here an activation is kept as it
is, and of a weight only which it is: the backward finds the present tensor. Autograd does no version check of what
passes through hooks; here activations are checked as it would, weights are meant to change.

What has been kept is also the part of a graph that a checkpoint can hold: made again with any weights, the graph has
the same operations, and takes the activations of then from the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from repro.planning.counted_memory import SavedBytes


@dataclass(slots=True)
class _Activation:
    tensor: Tensor
    version: int | None  # at the forward; None: a buffer, which may change


@dataclass(slots=True)
class _Weight:
    """A weight, or a view of one, by its place."""

    number: int
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


class LateWeights:
    """For the layers of one block."""

    def __init__(self, modules: nn.Module) -> None:
        self._modules = modules
        self._places = [(m, name) for m in modules.modules() for name, _ in m.named_parameters(recurse=False)]

    @contextmanager
    def graph(
        self, stored: Sequence[Tensor] | None = None, count: SavedBytes | None = None
    ) -> Iterator[list[_Activation]]:
        """While open, graphs are made that read weights late; gives the list of what is kept.

        `stored`: activations of a checkpoint in the place of the graph's own. `count` adds up what is kept.
        """
        weights = {_address(m._parameters[name]): i for i, (m, name) in enumerate(self._places)}
        buffers = {_address(b) for b in self._modules.buffers()}
        kept: list[_Activation] = []

        def pack(tensor: Tensor) -> _Activation | _Weight:
            address = _address(tensor)
            number = weights.get(address)
            if number is not None and tensor.numel():
                return _Weight(number, tensor.size(), tensor.stride(), int(tensor.storage_offset()))
            if address in buffers:  # running statistics, which no gradient in training mode reads
                return _Activation(tensor, None)
            version = tensor._version
            if stored is not None:
                then = stored[len(kept)]
                assert then.shape == tensor.shape, f"kept {tuple(then.shape)} for {tuple(tensor.shape)}"
                tensor, version = then, then._version
            if count is not None:
                count.add(tensor)
            kept.append(_Activation(tensor, version))
            return kept[-1]

        with torch.autograd.graph.saved_tensors_hooks(pack, self._unpack):
            yield kept

    def _unpack(self, packed: Any) -> Tensor:
        if isinstance(packed, _Weight):
            module, name = self._places[packed.number]
            weight = module._parameters[name]
            assert weight is not None
            return weight.detach().as_strided(packed.size, packed.stride, packed.offset)
        assert isinstance(packed, _Activation)
        if packed.version is not None and packed.tensor._version != packed.version:
            raise RuntimeError(
                f"an activation of shape {tuple(packed.tensor.shape)} has been written to between its forward and its "
                f"backward (version {packed.tensor._version}, kept at {packed.version})"
            )
        return packed.tensor


def _address(tensor: Tensor | None) -> int:
    assert tensor is not None
    return tensor.untyped_storage().data_ptr()
