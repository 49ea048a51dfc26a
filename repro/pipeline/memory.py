"""What a block holds, counted in bytes of tensors, and the formula it is compared with (dsp.md, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


class SavedBytes:
    """Counts the distinct storages that autograd saves for the backward while the context is open.

    Parameters, buffers and the block's own input are left out: they are counted elsewhere.
    """

    def __init__(self, left_out: Iterable[Tensor]) -> None:
        self.total = 0
        self._seen = {t.untyped_storage().data_ptr() for t in left_out}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._seen:
            self._seen.add(storage.data_ptr())
            self.total += storage.nbytes()
        return tensor

    def __enter__(self) -> SavedBytes:
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)  # type: ignore[arg-type]


def graph_bytes(module: nn.Module, x: Tensor, forward: Callable[[Tensor], Tensor] | None = None) -> int:
    """Bytes that the graph of one forward of `module` keeps for x, weights and x itself left out."""
    with SavedBytes([x, *module.parameters(), *module.buffers()]) as saved:
        y = (forward or module)(x.clone() if x.requires_grad else x)  # a layer may write to its input
    del y
    return saved.total


def tensor_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Sum of the sizes of `tensors`."""
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def formula_bytes(
    *,
    staleness: int,
    recompute: bool,
    micro_batches: int,
    output_queue: int,
    gradient_queue: int,
    input_bytes: int,
    output_bytes: int,
    graph: int,
    weights: int,
) -> int:
    """Bytes that a block should hold for activations, queues and graphs.

    Recomputing methods: (m+1) h_in + p h_out + q h_in + G. Kept graphs: (m+1)(h_in + G) + p h_out + q h_in and m
    older versions of the weights. GPipe: all inputs of the batch and the graphs of the micro-batches kept (one
    with re-materialisation). h_in and h_out are one whole batch at the block's boundaries, G its graph.
    """
    queues = output_queue * output_bytes + gradient_queue * input_bytes
    if micro_batches > 1:
        return input_bytes + (graph // micro_batches if recompute else graph) + queues // micro_batches
    if recompute:
        return (staleness + 1) * input_bytes + queues + graph
    return (staleness + 1) * (input_bytes + graph) + queues + staleness * weights
