"""Fashion-MNIST: wherever its files lie, plain or gzipped, and fetched where they do not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from conftest import Mirror

from repro import data
from repro.data import fashion_mnist
from repro.errors import MissingError
from repro.recipe.schema import DataSpec

SPEC = DataSpec(name="fashion-mnist", batch_size=20)


def lay(folder: Path, files: dict[str, bytes], packed: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["fashion-mnist", "FashionMNIST/raw", ".", "package"])
def test_found_wherever_they_lie(
    place: str, packed: bool, tmp_path: Path, small_fashion: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_MIRROR", str(tmp_path / "none"))
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "package")
    root = tmp_path / "root"
    lay(tmp_path / "package" if place == "package" else root / place, small_fashion, packed)
    data.prepare(SPEC, root)
    loaded = data.load(SPEC, root, 0)
    assert (loaded.train_size, loaded.test_size, loaded.image_shape) == (20, 10, (1, 28, 28))
    assert loaded.train_labels(0).tolist() == [i % 10 for i in loaded.train_ids(0)]
    first = small_fashion["t10k-images-idx3-ubyte"][16 : 16 + 784]
    found = loaded.test_images(0)[0] * fashion_mnist.FashionMnist.std[0] + fashion_mnist.FashionMnist.mean[0]
    assert found.round().flatten().tolist() == list(first)


def test_identity_is_the_same_plain_or_packed(tmp_path: Path, small_fashion: dict[str, bytes]) -> None:
    lay(tmp_path / "a", small_fashion, True)
    lay(tmp_path / "b", small_fashion, False)
    assert data.identity(SPEC, tmp_path / "a") == data.identity(SPEC, tmp_path / "b")


def test_fetched_once(tmp_path: Path, small_fashion: dict[str, bytes], mirror: Mirror) -> None:
    mirror.files = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in small_fashion.items()}
    for _ in range(2):
        data.prepare(SPEC, tmp_path)
    assert mirror.requests == dict.fromkeys(mirror.files, 1)
    assert data.load(SPEC, tmp_path, 0).train_size == 20


@pytest.mark.parametrize("packed", [True, False])
def test_damage_is_named(packed: bool, tmp_path: Path, small_fashion: dict[str, bytes]) -> None:
    lay(tmp_path, small_fashion, packed)
    name = "train-images-idx3-ubyte" + (".gz" if packed else "")
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(MissingError, match=r"damaged.*(unpacked|instead of)") as caught:
        data.prepare(SPEC, tmp_path)
    assert str(path) in str(caught.value)


def test_offline_says_how_to_get_it(
    tmp_path: Path, small_fashion: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_MIRROR", str(tmp_path / "none"))
    with pytest.raises(MissingError, match=r"train-images-idx3-ubyte\.gz is missing") as caught:
        data.prepare(SPEC, tmp_path)
    assert "dataset-fashion-mnist" in str(caught.value)
