"""From the name of a data set to its source, and the three things that the suite asks of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from repro.data.batches import Batches
from repro.data.cifar import Cifar10, Cifar100
from repro.data.colours import Colours
from repro.data.data_source import MemorySource, Sized
from repro.data.dataset import Data
from repro.data.digits import Digits
from repro.data.fashion_mnist import FashionMnist
from repro.data.image_stream import StreamedImages
from repro.data.image_tree import ImageTree
from repro.data.in_memory import MemoryImages
from repro.data.random_images import Synthetic
from repro.data.sequences import Sequences
from repro.data.text import Text
from repro.errors import UserError
from repro.recipe.schema import DataSpec

_IN_MEMORY: dict[str, Callable[[DataSpec, Path, int], MemorySource]] = {
    "digits": Digits,
    "fashion-mnist": FashionMnist,
    "cifar10": Cifar10,
    "cifar100": Cifar100,
    "synthetic": Synthetic,
    "colours": Colours,
}
# Settings that only some sets understand; elsewhere they are refused rather than ignored.
_SPECIAL = {
    "channels": "synthetic",
    "classes": "synthetic",
    "bad_label": "colours",
    "skip_corrupt": "imagenet",
    "context": "text",
    "tokenizer": "text",
}
_OF_IMAGES = ("image_size", "augment", "crop_padding")


def prepare(spec: DataSpec, root: Path) -> None:
    """Fetch and verify the files of `spec` under `root`; call once, in the parent, before workers start.

    Raises MissingError where they cannot be had, with the path looked at and the way out; UserError where
    `spec` makes no sense.
    """
    _source(spec, root, 0).prepare()


def identity(spec: DataSpec, root: Path) -> str:
    """Return short stable text that names the data: set, samples used, digest of the content; after `prepare`."""
    source = _source(spec, root, 0)
    train, test = _sizes(source, spec)
    return f"{spec.name} train={train} test={test} digest={source.digest()[:16]}"


def load(spec: DataSpec, root: Path, seed: int, device: str = "cpu", shard: tuple[int, int] = (0, 1)) -> Data:
    """Return the batches of `spec` for a run's `seed`, on `device`; reads no images yet.

    `spec.seed`, where given, takes the place of the run's seed in order and augmentation. `shard` (i, n): of every
    training batch the i-th of n parts. Raises UserError where no
    batch is left, MissingError where files are missing.
    """
    data_seed = spec.seed if spec.seed is not None else seed
    source = _source(spec, root, data_seed)
    batches = Batches.of(spec, *_sizes(source, spec), data_seed, shard)
    where = torch.device(device)
    if isinstance(source, Text):
        return Sequences(source, batches, spec, where)
    if isinstance(source, ImageTree):
        return Data(source, StreamedImages(source, spec, batches, where), batches, spec, where)
    return Data(source, MemoryImages(source, spec, batches, where), batches, spec, where)


def _source(spec: DataSpec, root: Path, seed: int) -> ImageTree | MemorySource | Text:
    for setting, owner in _SPECIAL.items():
        if spec.name != owner and getattr(spec, setting) != DataSpec.model_fields[setting].default:
            raise UserError(
                f"data.{setting} = {getattr(spec, setting)} is for {owner} only, not for {spec.name}."
            )
    if spec.name == "text":
        for setting in _OF_IMAGES:
            if (given := getattr(spec, setting)) != (default := DataSpec.model_fields[setting].default):
                raise UserError(f"data.{setting} = {given} is for images, not for text: give {default}.")
        return Text(spec)
    return ImageTree(spec, root) if spec.name == "imagenet" else _IN_MEMORY[spec.name](spec, root, seed)


def _sizes(source: Sized, spec: DataSpec) -> tuple[int, int]:
    train, test = source.size(True), source.size(False)
    return min(train, spec.train_limit or train), min(test, spec.test_limit or test)
