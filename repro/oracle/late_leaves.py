"""PipeMare's gradient, module by module: a vector-Jacobian product at the module's input then and its weights now.

The engine keeps autograd's graph and lets it find other weights; here every module that owns weights is a function of
its own, which at the backward runs again from its stored input with the weights of now, and is differentiated there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from repro.oracle.net import Weights


def differentiate_late(net: nn.Module, now: Callable[[], Weights]) -> None:
    """Change the modules of `net` that own weights; `now` gives the present weights by name.

    ValueError where such a module has parts with weights of their own: what is its input would not be clear.
    """
    for path, module in net.named_modules():
        own = [name for name, _ in module.named_parameters(recurse=False)]
        if not own:
            continue
        if len(list(module.parameters())) != len(own):
            raise ValueError(f"module {path} owns weights beside those of its parts")
        module.forward = partial(_Leaf(module, path, own, now), module.forward)


class _Leaf:
    def __init__(self, module: nn.Module, path: str, names: list[str], now: Callable[[], Weights]) -> None:
        self.module, self.path, self.names, self.now = module, path, names, now
        self.inside = False

    def __call__(self, plain: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if self.inside or not torch.is_grad_enabled():
            return plain(x)
        y: Tensor = _LateProduct.apply(self, plain, x, *(getattr(self.module, name) for name in self.names))
        return y

    def again(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Output at the weights of now, and those."""
        weights = self.now()
        own = {name: weights[f"{self.path}.{name}"] for name in self.names}
        self.inside = True
        try:
            return functional_call(self.module, own, (x,)), list(own.values())
        finally:
            self.inside = False


class _LateProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, leaf: _Leaf, plain: Callable[[Tensor], Tensor], x: Tensor, *then: Tensor) -> Tensor:
        ctx.leaf = leaf
        ctx.save_for_backward(x)
        return plain(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2]
        with torch.enable_grad():
            x = x.detach().requires_grad_(wanted)
            y, weights = ctx.leaf.again(x)
        found = torch.autograd.grad(y, [*weights, *([x] if wanted else [])], dy)
        return None, None, (found[-1] if wanted else None), *found[: len(weights)]
