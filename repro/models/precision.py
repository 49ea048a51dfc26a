"""In which number formats layers compute: bfloat16 by autocast, TF32 inside the products of CUDA devices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from repro.models.layer import LayerFactory


@dataclass(frozen=True)
class Precision:
    """`autocast`: "none" or "bfloat16"; weights, their gradients and the optimiser stay float32 under both."""

    autocast: str = "none"
    tf32: bool = False

    @property
    def label(self) -> str:
        """What sets times and sizes apart from those of float32; "" for float32 itself."""
        return (f" {self.autocast}" if self.autocast != "none" else "") + (" tf32" if self.tf32 else "")

    def region(self, device: str) -> AbstractContextManager[object]:
        """Around the forward of a block on a device of that type; the backward belongs outside."""
        if self.autocast == "none":
            return nullcontext()
        return torch.autocast(device, torch.bfloat16)

    def use(self) -> None:
        """Let this process's CUDA products and convolutions round to TF32, or not."""
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        torch.backends.cudnn.allow_tf32 = self.tf32


FLOAT32 = Precision()


def typed(
    factories: Sequence[LayerFactory],
    precision: Precision,
    shapes: Sequence[tuple[int, ...]],
    device: torch.device,
) -> list[LayerFactory]:
    """The same layers, each knowing its precision and the type of its input under it; `shapes` of one sample.

    Which operations autocast lets compute in 16 bits differs between kinds of device, so the layers are run on `device`.
    """
    found: list[LayerFactory] = []
    known: dict[tuple[str, tuple[int, ...]], torch.dtype] = {}  # layers made alike are run once
    dtype = torch.float32
    for factory, shape in zip(factories, shapes, strict=False):
        found.append(replace(factory, precision=precision, dtype=dtype))
        if precision.autocast == "none":
            continue
        key = (f"{factory.kind} {dtype}", tuple(shape))
        if key not in known:
            with torch.random.fork_rng(devices=[]):  # constructors draw weights
                layer = factory.make().to(device).eval()
            with precision.region(device.type), torch.no_grad():
                known[key] = layer(found[-1].zeros((1, *shape), device)).dtype
        dtype = known[key]
    return found
