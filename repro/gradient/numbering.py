"""The convolutions of a network: their names, numbers in forward order, and shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from repro.gradient.geometry import ConvShape, Geometry, counted

Layers = Iterable[tuple[str, nn.Module]]


def named_convolutions(layers: Layers) -> Iterator[tuple[str, nn.Conv2d]]:
    """Every counted convolution (3x3 and larger) with its full name: "<layer>.<path in the layer>"."""
    for layer, module in layers:
        for path, part in module.named_modules():
            if counted(part):
                assert isinstance(part, nn.Conv2d)
                yield f"{layer}.{path}" if path else layer, part


def number_convolutions(layers: Layers) -> dict[str, int]:
    """Number the whole network's convolutions in forward order, starting with 1.

    Modules must be registered in the order in which they run; `trace` follows a real forward and shows it.
    """
    return {name: number for number, (name, _) in enumerate(named_convolutions(layers), start=1)}


def trace(
    layers: Sequence[tuple[str, nn.Module]], image_shape: tuple[int, ...], batch: int = 1
) -> dict[str, ConvShape]:
    """Names and shapes of the counted convolutions in the order of a real forward of one image [C, H, W].

    The shapes are stated for `batch` images. Runs in evaluation mode without graph and leaves the mode as it
    was.
    """
    found: dict[str, ConvShape] = {}
    names = {id(module): name for name, module in named_convolutions(layers)}
    modes = [(part, part.training) for _, module in layers for part in module.modules()]

    def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(module, nn.Conv2d)
        _, channels, height, width = inputs[0].shape
        # Only the output's size counts here, so padding that has no geometry of its own is given as what it
        # does.
        kernel = (module.kernel_size[0], module.kernel_size[1])
        dilation = (module.dilation[0], module.dilation[1])
        stride = (module.stride[0], module.stride[1])
        if isinstance(module.padding, str):
            padding = tuple(
                d * (k - 1) // 2 if module.padding == "same" else 0
                for k, d in zip(kernel, dilation, strict=True)
            )
        else:
            padding = module.padding
        geometry = Geometry(kernel, stride, (padding[0], padding[1]), dilation, module.groups)
        found[names[id(module)]] = ConvShape(batch, channels, height, width, module.out_channels, geometry)

    hooks = [module.register_forward_hook(note) for _, module in named_convolutions(layers)]
    try:
        with torch.no_grad():
            x = torch.zeros((1, *image_shape))
            for _, module in layers:
                x = module.eval()(x)
    finally:
        for hook in hooks:
            hook.remove()
        for part, mode in modes:
            part.training = mode
    return found
