"""Fashion-MNIST, 28x28 grey, 10 classes: four idx files, plain or gzipped, wherever they are found."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from repro.data.data_source import Labels, Shape
from repro.data.download import download, locked
from repro.errors import MissingError
from repro.recipe.schema import DataSpec

DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of Debian's package dataset-fashion-mnist
_PACKAGE = "Debian's package dataset-fashion-mnist has the files too."

# MD5 of the files' content without gzip, which is the same however they were packed.
CONTENT = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}


class FashionMnist:
    """60000 training and 10000 test images.

    Looks in the data folder itself, in its fashion-mnist/, in torchvision's FashionMNIST/raw/, and where
    Debian's package dataset-fashion-mnist puts the files; else fetches torchvision's files into
    fashion-mnist/.
    """

    num_classes = 10
    image_shape: Shape = (1, 28, 28)
    mean: tuple[float, ...] = (72.94,)  # of the training split
    std: tuple[float, ...] = (90.02,)

    def __init__(self, spec: DataSpec, root: Path, seed: int) -> None:
        self.root = Path(spec.path) if spec.path is not None else root
        self.own = self.root / "fashion-mnist"

    def prepare(self) -> None:
        """Find or fetch the four files and hold their content against its checksum."""
        if any(self._find(name) is None for name in CONTENT):
            with locked(self.own, "files"):
                self._fetch()
        for name, expected in CONTENT.items():
            path = self._path(name)
            found = hashlib.md5(self._bytes(path), usedforsecurity=False).hexdigest()
            if found != expected:
                raise MissingError(
                    f"{path} is damaged: its content has MD5 {found} instead of {expected}. "
                    "Replace it, or delete it to have it fetched again."
                )

    def digest(self) -> str:
        """Digest of the checksums, which `prepare` has held the files against."""
        return hashlib.sha256("".join(CONTENT.values()).encode()).hexdigest()

    def size(self, train: bool) -> int:
        """Number of samples of a split."""
        return len(self.labels(train))

    def labels(self, train: bool) -> Labels:
        """Class of each sample: int64 [N]."""
        return self._array("labels-idx1", train).astype(np.int64)

    def images(self, train: bool) -> torch.Tensor:
        """All images of a split: uint8 [N, 1, 28, 28]."""
        return torch.from_numpy(self._array("images-idx3", train)[:, None].copy())

    def _array(self, what: str, train: bool) -> NDArray[np.uint8]:
        path = self._path(f"{'train' if train else 't10k'}-{what}-ubyte")
        content = self._bytes(path)
        # idx: two zero bytes, the type (8 = uint8), the number of dimensions, then each length as a
        # big-endian int32
        if len(content) < 4 or content[:3] != b"\0\0\x08":
            raise MissingError(f"{path} is damaged: it does not start like an idx file of bytes. Replace it.")
        dimensions = content[3]
        shape = np.frombuffer(content, ">i4", dimensions, offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)

    def _bytes(self, path: Path) -> bytes:
        try:
            return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        except (OSError, EOFError, zlib.error) as error:
            raise MissingError(
                f"{path} is damaged: it cannot be unpacked ({error}). Replace it, or delete it to have it fetched again."
            ) from error

    def _find(self, name: str) -> Path | None:
        folders = (self.root, self.own, self.root / "FashionMNIST" / "raw", DEBIAN)
        candidates = (folder / file for folder in folders for file in (name, f"{name}.gz"))
        return next((path for path in candidates if path.is_file()), None)

    def _path(self, name: str) -> Path:
        path = self._find(name)
        if path is None:
            raise MissingError(
                f"{self.own / name}.gz is missing. Run again where there is a network. {_PACKAGE}"
            )
        return path

    def _fetch(self) -> None:
        from torchvision.datasets import FashionMNIST

        for file, expected in FashionMNIST.resources:
            if self._find(file.removesuffix(".gz")) is None:
                download(FashionMNIST.mirrors[0] + file, self.own / file, expected, _PACKAGE)
