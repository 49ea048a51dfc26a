"""Watches a block for values that are not finite: weight gradients and BatchNorm statistics, once a batch.

All tensors are reduced to their norms by one fused call and the norms to one number; only where that is not finite
is each tensor looked at, to name it. Nothing is written, so no bit of the training changes.
On the CPU the vectors, which BatchNorm has many of, are first laid end to end: for so few numbers a call costs most.

On the CPU a batch's number is looked at before its update. On CUDA it is copied to the host beside the compute and
looked at when it is there, at the latest in the update of the batch after the next: a batch b whose values are not
finite stops the block before update b + 2, so that no step waits for the device and no more than two updates are lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import isfinite, isnan

import torch
from torch import Tensor, nn

from repro.engine.block.late_read import LateRead, Read
from repro.errors import RunFailed

LATE = 2  # updates that a batch's number may be read behind its own, on CUDA


class NotFinite(RunFailed):
    """A tensor of a block holds a value that is not finite; carries the batch, the tensor's name and the value."""

    def __init__(self, batch: int, tensor: str, value: float) -> None:
        super().__init__(f"{tensor} is {value} at batch {batch}")
        self.batch, self.tensor, self.value = batch, tensor, value


class FiniteCheck:
    """For the layers [(name, module)] of one block.

    `read`: how a device's number comes to the host; None: at once, as on the CPU.
    """

    def __init__(
        self, layers: Sequence[tuple[str, nn.Module]], read: Callable[[Tensor], Read] | None = None
    ) -> None:
        # The modules are looked up once; their tensors each time, since weights may be renewed.
        self._weights: list[tuple[nn.Module, str, str]] = []
        self._statistics: list[tuple[nn.Module, str, str]] = []
        for layer_name, layer in layers:
            for path, module in layer.named_modules(prefix=layer_name):
                for name, _ in module.named_parameters(recurse=False):
                    self._weights.append((module, name, f"the gradient of {path}.{name}"))
                for name, buffer in module.named_buffers(recurse=False):
                    if buffer.is_floating_point():
                        self._statistics.append((module, name, f"the statistic {path}.{name}"))
        on_gpu = any(p.is_cuda for _, layer in layers for p in layer.parameters())
        self._read = LateRead if read is None and on_gpu else read
        self._under_way: deque[tuple[int, list[str], Tensor, Read]] = (
            deque()
        )  # batch, names, norms, their sum

    @torch.no_grad()
    def check(self, batch: int) -> None:
        """Look at the gradients and statistics of `batch`, before its update; raises NotFinite, of an earlier one too."""
        found = self._tensors()
        if not found:
            return
        if self._read is None:
            if not _all_finite([tensor for _, tensor in found]):
                self._name(batch)
            return
        norms = torch.stack(torch._foreach_norm([tensor for _, tensor in found]))
        total = norms.sum()
        self._under_way.append((batch, [name for name, _ in found], norms, self._read(total[None])))
        self._look(LATE)

    def settle(self) -> None:
        """Look at what is still under way, waiting for it; raises NotFinite."""
        self._look(0)

    def _look(self, late: int) -> None:
        """Read the numbers that have come, and wait for all but the newest `late`."""
        while self._under_way and (len(self._under_way) > late or self._under_way[0][3].here):
            batch, names, norms, read = self._under_way.popleft()
            if not isfinite(read.values()[0]):
                self._name_late(batch, names, norms.tolist())

    def _tensors(self) -> list[tuple[str, Tensor]]:
        """Gradients and statistics with their names."""
        found = [
            (words, weight.grad)
            for module, name, words in self._weights
            if (weight := module._parameters[name]) is not None and weight.grad is not None
        ]
        found += [(words, b) for m, name, words in self._statistics if (b := m._buffers[name]) is not None]
        return found

    def _name(self, batch: int) -> None:
        """Raise for the first tensor that is not finite; a norm may overflow where each value is finite."""
        for words, tensor in self._tensors():
            bad = tensor[~torch.isfinite(tensor)]
            if bad.numel():
                raise NotFinite(batch, words, float(bad.flatten()[0]))

    def _name_late(self, batch: int, names: Sequence[str], norms: Sequence[float]) -> None:
        """The same some updates later, from the norms of then.

        A norm that is no number comes of a value that is none. An infinite one may have overflowed: then neither the
        weights that have learned from the gradient nor the statistics are infinite now.
        """
        now: dict[str, Tensor | None] = {words: m._parameters[name] for m, name, words in self._weights}
        now.update({words: m._buffers[name] for m, name, words in self._statistics})
        for words, norm in zip(names, norms, strict=True):
            if isfinite(norm):
                continue
            tensor = now[words]
            if isnan(norm) or (tensor is not None and not bool(torch.isfinite(tensor).all())):
                raise NotFinite(batch, words, norm)


def _all_finite(tensors: Sequence[Tensor]) -> bool:
    """Whether all values are finite; False also where a norm overflows."""
    vectors = [t for t in tensors if t.dim() == 1]
    parts = [t for t in tensors if t.dim() != 1]
    if vectors:
        parts.append(torch.cat(vectors))
    return bool(torch.isfinite(torch.stack(torch._foreach_norm(parts)).sum()))
