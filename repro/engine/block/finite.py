"""Watches a block for values that are not finite: weight gradients and BatchNorm statistics, once a batch.

All tensors are reduced to their norms by one fused call and the norms to one number; only where that is not finite
is each tensor looked at, to name it. Nothing is written, so no bit of the training changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from repro.errors import RunFailed


class NotFinite(RunFailed):
    """A tensor of a block holds a value that is not finite; carries the batch, the tensor's name and the value."""

    def __init__(self, batch: int, tensor: str, value: float) -> None:
        super().__init__(f"{tensor} is {value} at batch {batch}")
        self.batch, self.tensor, self.value = batch, tensor, value


class FiniteCheck:
    """For the layers [(name, module)] of one block.

    On CUDA the number is fetched one batch later, so that no step waits for the device; the tensors are then those of
    that batch, where what is not finite has stayed so.
    """

    def __init__(self, layers: Sequence[tuple[str, nn.Module]]) -> None:
        self._layers = list(layers)
        # The modules are looked up once; their tensors each time, since weights may be renewed.
        self._weights = [
            (module, name)
            for _, layer in layers
            for module in layer.modules()
            for name, _ in module.named_parameters(recurse=False)
        ]
        self._statistics = [
            (module, name)
            for _, layer in layers
            for module in layer.modules()
            for name, buffer in module.named_buffers(recurse=False)
            if buffer.is_floating_point()
        ]
        self._earlier: tuple[int, Tensor] | None = None

    @torch.no_grad()
    def check(self, batch: int) -> None:
        """Raise NotFinite if a gradient or a statistic of `batch` is not finite. Called before the update."""
        tensors = [
            weight.grad
            for module, name in self._weights
            if (weight := module._parameters[name]) is not None and weight.grad is not None
        ]
        tensors += [b for module, name in self._statistics if (b := module._buffers[name]) is not None]
        if not tensors:
            return
        total = torch.stack(torch._foreach_norm(tensors)).sum()
        if total.device.type == "cpu":
            if not bool(torch.isfinite(total)):
                self._name(batch)
            return
        earlier, self._earlier = self._earlier, (batch, total)
        if earlier is not None and not bool(torch.isfinite(earlier[1])):
            self._name(earlier[0])

    def _name(self, batch: int) -> None:
        """Raise for the first tensor that is not finite; a norm may overflow where each value is finite."""
        for name, tensor in self._named():
            bad = tensor[~torch.isfinite(tensor)]
            if bad.numel():
                raise NotFinite(batch, name, float(bad.flatten()[0]))

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        for layer_name, layer in self._layers:
            for name, weight in layer.named_parameters():
                if weight.grad is not None:
                    yield f"the gradient of {layer_name}.{name}", weight.grad
            for name, buffer in layer.named_buffers():
                if buffer.is_floating_point():
                    yield f"the statistic {layer_name}.{name}", buffer
