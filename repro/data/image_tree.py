"""ImageNet, or any set in its layout: train/<class>/<image> and val/<class>/<image>, which the user has."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from repro import paths
from repro.data.data_source import Labels, Shape
from repro.data.download import locked
from repro.data.image_check import Records, check, load
from repro.errors import MissingError
from repro.recipe.schema import DataSpec

_DEFAULT_SIDE = 224


class _Listing(NamedTuple):
    classes: list[str]
    train: list[tuple[str, int]]  # file relative to the tree, label
    test: list[tuple[str, int]]


class ImageTree:
    """A folder tree of images; classes are the folders' names in sorted order, as torchvision's ImageFolder has it.

    `prepare` reads every image once (records of size and time of change spare the next command the work) and stops
    at damaged ones; with `skip_corrupt` they are left out, and `skipped` names them.
    """

    mean: tuple[float, ...] = (123.675, 116.28, 103.53)  # the usual ImageNet constants x 255
    std: tuple[float, ...] = (58.395, 57.12, 57.375)

    def __init__(self, spec: DataSpec, root: Path) -> None:
        self.spec = spec
        self.folder = Path(spec.path) if spec.path is not None else root / "imagenet"
        side = spec.image_size or _DEFAULT_SIDE
        self.image_shape: Shape = (3, side, side)
        name = hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:12]
        self._cache = paths.data_root() / ".checked" / f"{name}.json"  # never in the user's tree

    @property
    def num_classes(self) -> int:
        """Number of class folders."""
        return len(self._listing.classes)

    @cached_property
    def skipped(self) -> tuple[str, ...]:
        """Damaged files that are left out, relative to the folder; after `prepare`."""
        return tuple(sorted(_bad(load(self._cache)))) if self.spec.skip_corrupt else ()

    def prepare(self) -> None:
        """Read every image that has not been read before. Raises MissingError that names all damaged ones."""
        names = [file for file, _ in (*self._listing.train, *self._listing.test)]
        with locked(self._cache.parent, self._cache.stem):
            bad = _bad(check(self.folder, names, self._cache))
        if bad and not self.spec.skip_corrupt:
            listed = "".join(f"\n  {self.folder / file}: {wrong}" for file, wrong in sorted(bad.items()))
            raise MissingError(
                f"{len(bad)} of {len(names)} images under {self.folder} cannot be read; repair or delete them, or set "
                f"data.skip_corrupt=true to leave them out (count and names are then stored with the run):{listed}"
            )

    def digest(self) -> str:
        """Digest of the list of files with their sizes, less what is skipped; no image is read."""
        records = load(self._cache)
        left_out = set(self.skipped)
        text = "\n".join(f"{file} {records[file][0]}" for file in sorted(records) if file not in left_out)
        return hashlib.sha256(text.encode()).hexdigest()

    def size(self, train: bool) -> int:
        """Number of samples of a split."""
        return len(self._samples(train))

    def labels(self, train: bool) -> Labels:
        """Class of each sample: int64 [N]."""
        return np.array([label for _, label in self._samples(train)], dtype=np.int64)

    def files(self, train: bool) -> list[str]:
        """Path of each sample's image."""
        return [str(self.folder / file) for file, _ in self._samples(train)]

    def _samples(self, train: bool) -> list[tuple[str, int]]:
        samples = self._listing.train if train else self._listing.test
        if not self.skipped:
            return samples
        left_out = set(self.skipped)
        return [sample for sample in samples if sample[0] not in left_out]

    @cached_property
    def _listing(self) -> _Listing:
        from torchvision.datasets import ImageFolder

        splits = []
        for split in ("train", "val"):
            folder = self.folder / split
            try:
                splits.append(ImageFolder(str(folder)))
            except OSError as error:
                raise MissingError(
                    f"{folder} has no images in folders named by class ({error}). Put ImageNet (licensed from its "
                    f"owners) at {self.folder} as train/<class>/*.JPEG and val/<class>/*.JPEG, or name the folder that "
                    "has them by data.path."
                ) from error
        if splits[0].classes != splits[1].classes:
            odd = sorted(set(splits[0].classes) ^ set(splits[1].classes))
            raise MissingError(f"train and val under {self.folder} differ in classes: {', '.join(odd)}.")
        train, test = (
            [(Path(f).relative_to(self.folder).as_posix(), c) for f, c in s.samples] for s in splits
        )
        return _Listing(splits[0].classes, train, test)


def _bad(records: Records) -> dict[str, str]:
    return {file: wrong for file, (_, _, wrong) in records.items() if wrong}
