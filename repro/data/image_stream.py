"""Batches of images that do not fit in memory: decoded ahead by loader processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from repro.data.batches import Batches
from repro.data.counters import bits
from repro.data.data_source import Shape
from repro.data.image_check import read_image
from repro.data.image_tree import ImageTree
from repro.data.pixels import Normalise
from repro.data.subset import balanced
from repro.errors import RunFailed
from repro.recipe.schema import DataSpec
from repro.seeding import derive

Key = tuple[str, int | None]  # an image's path and the seed of its augmentation; None = the centre, as it is


class _Decoder(Dataset[torch.Tensor]):
    """From a key to an image, uint8 [3, side, side]; holds no list of files, so that a loader process stays small.

    Training takes torchvision's RandomResizedCrop (and flip); test scales the shorter side to side * 256 /
    224 and takes the centre.
    """

    def __init__(self, side: int, flip: bool) -> None:
        from torchvision.transforms import (
            CenterCrop,
            Compose,
            RandomHorizontalFlip,
            RandomResizedCrop,
            Resize,
        )

        crop = RandomResizedCrop(side)
        self.random = Compose([crop, RandomHorizontalFlip()]) if flip else crop
        self.centre = Compose([Resize(round(side * 256 / 224)), CenterCrop(side)])

    def __getitem__(self, key: Key) -> torch.Tensor:
        from torchvision.transforms.functional import pil_to_tensor

        path, seed = key
        try:
            image = read_image(path)
        except (OSError, SyntaxError, ValueError) as error:
            raise RunFailed(f"{path} can no longer be read: {error}") from error
        if seed is None:
            return torch.as_tensor(pil_to_tensor(self.centre(image)))
        with torch.random.fork_rng(
            devices=[]
        ):  # a function of the seed, and the process's own numbers stay as they are
            torch.default_generator.manual_seed(seed)
            return torch.as_tensor(pil_to_tensor(self.random(image)))


class _Stream:
    """Batches 0, 1, 2, ... of `keys`, decoded ahead; starts anew where another batch than the next is asked for."""

    def __init__(
        self, decoder: _Decoder, keys: Callable[[int], list[Key]], num_workers: int, pin: bool
    ) -> None:
        self.decoder, self.keys, self.num_workers, self.pin = decoder, keys, num_workers, pin
        self.next = 0
        self.iterator: Iterator[torch.Tensor] | None = None

    def get(self, batch: int) -> torch.Tensor:
        """Images of a batch: uint8 [n, 3, side, side] on the CPU."""
        if self.iterator is None or batch != self.next:
            self.iterator = self._start(batch)
        self.next = batch + 1
        return next(self.iterator)

    def _start(self, first: int) -> Iterator[torch.Tensor]:
        several: dict[str, Any] = {}
        if self.num_workers > 0:  # spawn: a fork of a process with threads or CUDA may hang
            several = {
                "multiprocessing_context": "spawn",
                "worker_init_fn": _leave_with_parent,
                "prefetch_factor": 2,
            }
        loader = DataLoader(
            self.decoder,
            batch_sampler=_Endless(self.keys, first),
            num_workers=self.num_workers,
            pin_memory=self.pin,
            generator=torch.Generator(),  # else the loader draws from the numbers that dropout uses
            **several,
        )
        return iter(loader)


class _Endless:
    """The keys of batch `first` and all later ones."""

    def __init__(self, keys: Callable[[int], list[Key]], first: int) -> None:
        self.keys, self.first = keys, first

    def __iter__(self) -> Iterator[list[Key]]:
        batch = self.first
        while True:
            yield self.keys(batch)
            batch += 1


class StreamedImages:
    """Augmented, normalised batches of a tree of images; an image's augmentation is a function of (seed, epoch, id)."""

    def __init__(self, source: ImageTree, spec: DataSpec, batches: Batches, device: torch.device) -> None:
        self.source, self.spec, self.batches, self.device = source, spec, batches, device
        self.shape: Shape = source.image_shape

    def train(self, batch: int) -> torch.Tensor:
        """Images of a global training batch: float32 [n, 3, H, W] on the device; quick for consecutive batches."""
        return self._finish(self._train.get(batch))

    def test(self, step: int) -> torch.Tensor:
        """Images of a test batch: float32 [n, 3, H, W] on the device."""
        stream = self._test  # its batches count on over passes, so that the next pass is decoded ahead too
        passes = -(-(stream.next - step) // self.batches.test_steps)
        return self._finish(stream.get(passes * self.batches.test_steps + step))

    @cached_property
    def _normalise(self) -> Normalise:
        return Normalise(self.source.mean, self.source.std, self.device)

    @cached_property
    def _train(self) -> _Stream:
        files = self._files(True, self.spec.train_limit)

        def keys(batch: int) -> list[Key]:
            ids = self.batches.train_ids(batch)
            if self.spec.augment == "none":
                return [(files[i], None) for i in ids]
            seeds = bits(derive(self.batches.seed, "augment", self.batches.epoch(batch), "image"), ids) >> 1
            return [(files[i], int(seed)) for i, seed in zip(ids, seeds, strict=True)]

        return self._stream(keys)

    @cached_property
    def _test(self) -> _Stream:
        files = self._files(False, self.spec.test_limit)
        return self._stream(
            lambda step: [(files[i], None) for i in self.batches.test_ids(step % self.batches.test_steps)]
        )

    def _stream(self, keys: Callable[[int], list[Key]]) -> _Stream:
        decoder = _Decoder(self.shape[1], self.spec.augment == "crop-flip")
        return _Stream(decoder, keys, self.spec.num_workers, self.device.type == "cuda")

    def _files(self, train: bool, limit: int | None) -> list[str]:
        files = self.source.files(train)
        return [files[i] for i in balanced(self.source.labels(train), limit)]

    def _finish(self, images: torch.Tensor) -> torch.Tensor:
        return self._normalise(images.to(self.device, non_blocking=True))  # the loader has pinned them


def _leave_with_parent(_: int) -> None:
    """End this loader process within a second of its parent's end, however that came; Ctrl-C is the parent's affair."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent watch").start()
