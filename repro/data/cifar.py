"""CIFAR-10 and CIFAR-100, 3x32x32: the publisher's Python archive, in the folder that torchvision would use too."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repro.data.data_source import Labels, Shape
from repro.data.download import download, locked, md5
from repro.errors import MissingError
from repro.recipe.schema import DataSpec


class _Arrays(pickle.Unpickler):
    """Reads what the publisher's files hold (dicts, lists, text, arrays) and calls nothing else, whatever they say."""

    def find_class(self, module: str, name: str) -> Any:
        """The few names that arrays are made of; UnpicklingError for any other."""
        if (module.replace("_core", "core"), name) not in _OF_ARRAYS:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a file of images")
        return super().find_class(module, name)


_OF_ARRAYS = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


def plain_members(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """For `extractall`: files and folders below `folder` alone; TarError for links, devices and ways out."""
    kept = tarfile.data_filter(member, folder)
    if not (member.isfile() or member.isdir()):
        raise tarfile.TarError(f"{member.name} in it is neither a file nor a folder")
    return kept


class Cifar10:
    """50000 training and 10000 test images; URL, checksums and names of the files are torchvision's."""

    num_classes = 10
    image_shape: Shape = (3, 32, 32)
    mean: tuple[float, ...] = (125.3, 123.0, 113.9)
    std: tuple[float, ...] = (63.0, 62.1, 66.7)

    folder_name = "cifar-10-batches-py"
    archive_name = "cifar-10-python.tar.gz"  # here too, since torchvision takes seconds to import
    train_files: tuple[str, ...] = tuple(f"data_batch_{i}" for i in range(1, 6))
    test_files: tuple[str, ...] = ("test_batch",)
    label_key = "labels"

    def __init__(self, spec: DataSpec, root: Path, seed: int) -> None:
        self.root = Path(spec.path) if spec.path is not None else root
        self.folder = self.root / self.folder_name

    @staticmethod
    def published() -> Any:
        """torchvision's class, for its table of checksums."""
        from torchvision.datasets import CIFAR10

        return CIFAR10

    def checksums(self) -> dict[str, str]:
        """MD5 of each extracted file that is read."""
        table = self.published()
        return dict([*table.train_list, *table.test_list])

    def prepare(self) -> None:
        """Verify the extracted files; where there is no folder, unpack the archive, or fetch it first."""
        if not self.folder.is_dir():
            with locked(self.root, self.folder_name):
                if not self.folder.is_dir():  # nobody else made it while we waited
                    self._unpack(self._archive())
        self._verify(self.folder)

    def digest(self) -> str:
        """Digest of the published checksums, which `prepare` has held the files against."""
        return hashlib.sha256("".join(sorted(self.checksums().values())).encode()).hexdigest()

    def size(self, train: bool) -> int:
        """Number of samples of a split, counted in the files."""
        return len(self.labels(train))

    def labels(self, train: bool) -> Labels:
        """Class of each sample: int64 [N]."""
        return np.concatenate([np.asarray(b[self.label_key], dtype=np.int64) for b in self._read(train)])

    def images(self, train: bool) -> torch.Tensor:
        """All images of a split: uint8 [N, 3, 32, 32]."""
        data = np.concatenate([b["data"] for b in self._read(train)])
        return torch.from_numpy(np.ascontiguousarray(data, dtype=np.uint8).reshape(-1, *self.image_shape))

    def _read(self, train: bool) -> list[dict[str, Any]]:
        batches = []
        for name in self.train_files if train else self.test_files:
            try:
                with (self.folder / name).open("rb") as file:
                    batches.append(_Arrays(file, encoding="latin1").load())
            except FileNotFoundError:
                raise self._missing(self.folder / name) from None
        return batches

    def _archive(self) -> Path:
        table = self.published()
        archive = self.root / self.archive_name
        if not archive.exists():
            download(table.url, archive, table.tgz_md5)
        found = md5(archive)
        if found != table.tgz_md5:
            raise MissingError(
                f"{archive} is damaged: MD5 {found} ({archive.stat().st_size} bytes) instead of {table.tgz_md5}. "
                "Replace it, or delete it to have it fetched again."
            )
        return archive

    def _unpack(self, archive: Path) -> None:
        scratch = self.root / f".{self.folder_name}.part"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(scratch, filter=plain_members)
            self._verify(scratch / self.folder_name)
            (scratch / self.folder_name).rename(self.folder)
        except tarfile.TarError as error:
            raise MissingError(f"{archive} is damaged: {error}. Replace it, or delete it.") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _verify(self, folder: Path) -> None:
        for name, expected in self.checksums().items():
            path = folder / name
            if not path.is_file():
                raise self._missing(path)
            found = md5(path)
            if found != expected:
                raise MissingError(
                    f"{path} is damaged: MD5 {found} ({path.stat().st_size} bytes) instead of {expected}. "
                    f"Replace it, or delete the folder {folder} to have it unpacked again."
                )

    def _missing(self, path: Path) -> MissingError:
        return MissingError(
            f"{path} is missing. Put it there, or delete the folder {path.parent} to have it unpacked again from "
            f"{self.root / self.archive_name} (fetched where it is missing too)."
        )


class Cifar100(Cifar10):
    """The same images' sister set with 100 fine classes; normalised by the same constants, as the papers do."""

    num_classes = 100
    folder_name = "cifar-100-python"
    archive_name = "cifar-100-python.tar.gz"
    train_files = ("train",)
    test_files = ("test",)
    label_key = "fine_labels"

    @staticmethod
    def published() -> Any:
        """torchvision's class, for its table of checksums."""
        from torchvision.datasets import CIFAR100

        return CIFAR100
