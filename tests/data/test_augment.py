"""Crops, flips, sizes and normalisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from repro.data.augment import Windows, centre_windows, cut, random_windows
from repro.data.batches import Batches
from repro.data.in_memory import MemoryImages
from repro.data.pixels import Normalise, resize
from repro.recipe.schema import DataSpec

CPU = torch.device("cpu")


class Copies:
    """203 copies of one asymmetric image of 3x16x16."""

    num_classes = 2
    image_shape = (3, 16, 16)
    mean = (0.0, 0.0, 0.0)
    std = (1.0, 1.0, 1.0)
    image = torch.arange(1, 3 * 16 * 16 + 1).remainder(251).add(1).to(torch.uint8).reshape(3, 16, 16)

    def prepare(self) -> None: ...

    def digest(self) -> str:
        return ""

    def size(self, train: bool) -> int:
        return 203

    def labels(self, train: bool) -> np.ndarray:
        return np.zeros(203, dtype=np.int64)

    def images(self, train: bool) -> torch.Tensor:
        return self.image.expand(203, -1, -1, -1)


def images(seed: int = 0, **settings: object) -> tuple[MemoryImages, Batches]:
    spec = DataSpec(name="colours", **{"augment": "crop-flip", "batch_size": 32, **settings})
    batches = Batches.of(spec, 203, 203, seed)
    return MemoryImages(Copies(), spec, batches, CPU), batches


def epoch(seed: int, number: int, **settings: object) -> torch.Tensor:
    """One epoch's images, by sample id."""
    made, batches = images(seed, **settings)
    steps = range(number * batches.steps_per_epoch, (number + 1) * batches.steps_per_epoch)
    ids = np.concatenate([batches.train_ids(b) for b in steps])
    return torch.cat([made.train(b) for b in steps])[np.argsort(ids)]


def test_copies_differ_within_and_between_epochs_and_a_seed_repeats() -> None:
    first = epoch(0, 0)
    assert len(torch.unique(first.flatten(1), dim=0)) > 80  # of 162 windows, 203 draws
    assert not torch.equal(first, epoch(0, 1))
    assert not torch.equal(first, epoch(1, 0))
    assert torch.equal(first, epoch(0, 0))
    sums = [images()[0].train(b).sum().item() for b in range(14)]
    assert len(set(sums)) == 14


def test_a_samples_augmentation_does_not_depend_on_its_batch() -> None:
    assert torch.equal(epoch(3, 2, batch_size=32), epoch(3, 2, batch_size=7))


def test_windows_are_uniform_and_mirror_half() -> None:
    windows = random_windows(np.arange(9000), 0, 0, (8, 8), True)
    for corner in (windows.top, windows.left):
        assert np.bincount(corner).min() > 850
        assert corner.max() == 8
    assert 4300 < windows.mirrored.sum() < 4700
    assert abs(np.corrcoef(windows.top, windows.left)[0, 1]) < 0.05
    assert not random_windows(np.arange(9), 0, 0, (8, 8), False).mirrored.any()


def test_cut_equals_slicing() -> None:
    pictures = torch.randint(
        0, 256, (5, 3, 10, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    windows = Windows(
        np.array([0, 1, 2, 3, 4]), np.array([5, 4, 3, 2, 0]), np.array([0, 1, 0, 1, 1], dtype=bool)
    )
    found = cut(pictures, windows, (6, 7))
    for i in range(5):
        top, left = windows.top[i], windows.left[i]
        wanted = pictures[i, :, top : top + 6, left : left + 7]
        assert torch.equal(found[i], wanted.flip(-1) if windows.mirrored[i] else wanted)
    assert centre_windows(2, (5, 4)).top.tolist() == [2, 2]


def test_padding_is_black_and_as_wide_as_asked() -> None:
    source = Copies.image.float()
    for picture in epoch(0, 0, augment="crop", crop_padding=2):
        rows, columns = ((picture == 0).all(0).all(d).sum().item() for d in (1, 0))
        assert rows <= 2
        assert columns <= 2
    assert any(torch.equal(p, source) for p in epoch(0, 0, augment="crop", crop_padding=1))
    assert torch.equal(epoch(0, 0, augment="crop", crop_padding=0), source.expand(203, -1, -1, -1))


def test_no_augmentation_changes_nothing() -> None:
    assert torch.equal(epoch(0, 0, augment="none"), Copies.image.float().expand(203, -1, -1, -1))


def test_crop_below_the_sets_size_cuts_windows_and_the_centre_in_test() -> None:
    made, _ = images(augment="crop", image_size=12)
    assert made.shape == (3, 12, 12)
    whole = Copies.image.float()
    places = {whole[:, t : t + 12, l : l + 12].numpy().tobytes() for t in range(5) for l in range(5)}
    trained = epoch(0, 0, augment="crop", image_size=12)
    assert {picture.contiguous().numpy().tobytes() for picture in trained} == places
    assert torch.equal(made.test(0)[0], whole[:, 2:14, 2:14])


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_image_size_resizes_otherwise(augment: str) -> None:
    made, _ = images(augment=augment, image_size=12)
    assert made.shape == (3, 12, 12)
    assert made.train(0).shape == (32, 3, 12, 12)
    assert torch.equal(made.test(0)[0], resize(Copies.image[None], 12)[0].float())


def test_resize_keeps_flat_images_and_bytes() -> None:
    flat = torch.full((2, 1, 8, 8), 200, dtype=torch.uint8)
    assert torch.equal(resize(flat, 13), torch.full((2, 1, 13, 13), 200, dtype=torch.uint8))
    assert resize(flat, 8) is flat


def test_normalise_per_channel_contiguous_float32() -> None:
    bright = torch.full((2, 4, 4, 3), 255, dtype=torch.uint8).permute(0, 3, 1, 2)
    found = Normalise((125.3, 123.0, 113.9), (63.0, 62.1, 66.7), CPU)(bright)
    assert found.dtype == torch.float32
    assert found.is_contiguous()
    expected = [(255 - 125.3) / 63.0, (255 - 123.0) / 62.1, (255 - 113.9) / 66.7]
    assert found[0, :, 0, 0].tolist() == pytest.approx(expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_device_changes_no_bit() -> None:
    here, _ = images()
    there = MemoryImages(Copies(), here.spec, here.batches, torch.device("cuda"))
    assert torch.equal(here.train(5), there.train(5).cpu())


def test_own_random_numbers_are_left_alone() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    epoch(0, 0)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # type: ignore[index]


def test_only_bytes_cross_to_the_device_and_are_augmented_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images as uint8 and uncut; with them where to cut: three whole numbers a sample."""
    from repro.data import augment, in_memory

    crossed: list[tuple[torch.dtype, tuple[int, ...]]] = []

    def upload(values: torch.Tensor, device: torch.device) -> torch.Tensor:
        crossed.append((values.dtype, tuple(values.shape)))
        return values

    monkeypatch.setattr(in_memory, "upload", upload)
    monkeypatch.setattr(augment, "upload", upload)
    made, _ = images()
    assert made.train(3).dtype == torch.float32
    assert crossed == [(torch.uint8, (32, 3, 16, 16)), (torch.int64, (3, 32))]
