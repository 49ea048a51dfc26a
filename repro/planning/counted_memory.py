"""What a block holds, counted in bytes of tensors, and the formula it is compared with (dsp.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from repro.schedule import Schedule


class SavedBytes:
    """Counts the distinct storages that autograd saves for the backward while the context is open.

    `left_out`: tensors that are counted elsewhere (parameters, buffers, the block's own input).
    """

    def __init__(self, left_out: Iterable[Tensor]) -> None:
        self.sizes: dict[int, int] = {}  # address of a storage -> bytes
        self._alive: list[Tensor] = []  # an address must not be used twice while counting
        self._left_out = {t.untyped_storage().data_ptr() for t in left_out}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)

    @property
    def total(self) -> int:
        """Bytes of everything saved so far."""
        return sum(self.sizes.values())

    def _pack(self, tensor: Tensor) -> Tensor:
        self.add(tensor)
        return tensor

    def add(self, tensor: Tensor) -> None:
        """Count what is saved by other means; the context need not be open."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in self._left_out and address not in self.sizes:
            self.sizes[address] = storage.nbytes()
            self._alive.append(tensor.detach())

    def __enter__(self) -> SavedBytes:
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)
        self._alive.clear()


def saved_by_layer(module: nn.Module, x: Tensor) -> tuple[int, int, int]:
    """Bytes that one forward of `module` keeps for its backward: (inner, its input, its output)."""
    source = x.clone()  # a layer may write to its input
    with SavedBytes([*module.parameters(), *module.buffers()]) as saved:
        y = module(source)
        place_in, place_out = (t.untyped_storage().data_ptr() for t in (source, y))
    own_input = saved.sizes.pop(place_in, 0)
    own_output = saved.sizes.pop(place_out, 0) if place_out != place_in else 0
    return saved.total, own_input, own_output


def tensor_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Sum of the sizes of `tensors`."""
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def older_versions(schedule: Schedule, block: int) -> int:
    """Versions of the weights that `block` keeps beside the present one: m where graphs or a ring hold them."""
    stashed = not schedule.recompute[block] and not schedule.present_weights
    return schedule.staleness[block] if stashed or schedule.kept_versions else 0


def formula_bytes(
    *,
    recompute: bool,
    micro_batches: int,
    in_flight: int,
    versions: int,
    output_queue: int,
    gradient_queue: int,
    input_bytes: int,
    output_bytes: int,
    graph: int,
    weights: int,
) -> int:
    """Bytes that a block should hold for activations, queues and graphs.

    Recomputing methods: n h_in + p h_out + q h_in + G. Kept graphs: n (h_in + G) + p h_out + q h_in. Both: the
    `versions` of older weights. n is what is `in_flight` at most: m+1 batches in the papers' methods. h_in and
    h_out are what one message carries at the block's boundaries, G its graph: a whole batch's over M where it is
    cut into M micro-batches. GPipe has all M of a batch in flight, 2BW K-k of them.
    """
    queues = output_queue * output_bytes + gradient_queue * input_bytes
    graphs = (1 if recompute else in_flight) * graph // micro_batches
    return in_flight * input_bytes // micro_batches + graphs + queues // micro_batches + versions * weights
