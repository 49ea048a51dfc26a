"""Which sample is in which batch: orders, sizes, limits, and labels that belong to their images."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from repro import data
from repro.data.batches import Batches
from repro.data.counters import bits, integers, permutation
from repro.data.digits import Digits
from repro.data.subset import balanced
from repro.errors import UserError
from repro.recipe.schema import DataSpec

ROOT = Path("nowhere")
COLOURS = DataSpec(name="colours", batch_size=32, test_batch_size=64)


def order(seed: int, epoch: int, spec: DataSpec = COLOURS) -> str:
    loaded = data.load(spec, ROOT, seed)
    steps = loaded.steps_per_epoch
    ids = np.concatenate([loaded.train_ids(epoch * steps + i) for i in range(steps)])
    assert sorted(ids) == list(range(loaded.train_size))
    return hashlib.sha256(ids.tobytes()).hexdigest()


def test_every_seed_and_epoch_has_its_own_order() -> None:
    digests = {order(seed, epoch) for seed in range(5) for epoch in range(3)}
    assert len(digests) == 15
    assert order(0, 2) == order(0, 2)


def test_data_seed_takes_the_place_of_the_runs_seed_even_where_it_is_0() -> None:
    fixed = COLOURS.model_copy(update={"seed": 0})
    assert order(3, 1, fixed) == order(4, 1, fixed) == order(0, 1)


def test_order_is_known_after_a_jump_and_in_any_sequence() -> None:
    ahead, behind = data.load(COLOURS, ROOT, 1), data.load(COLOURS, ROOT, 1)
    later = ahead.train_ids(17)
    for batch in (0, 16, 3):
        behind.train_ids(batch)
    assert np.array_equal(behind.train_ids(17), later)


def test_order_stays_the_same_from_version_to_version() -> None:
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # SplitMix64 from state 0
    assert bits(0, np.arange(3)).tolist() == published
    assert integers(0, np.arange(3), 100).tolist() == [value * 100 >> 64 for value in published]
    assert permutation(0, 3).tolist() == [2, 1, 0]


@pytest.mark.parametrize(("last_batch", "steps", "final"), [("keep", 7, 11), ("drop", 6, 32)])
def test_last_batch_has_its_true_size_or_is_dropped(last_batch: str, steps: int, final: int) -> None:
    loaded = data.load(COLOURS.model_copy(update={"last_batch": last_batch}), ROOT, 0)
    assert loaded.steps_per_epoch == steps
    sizes = [loaded.train_batch_size(i) for i in range(2 * steps)]
    assert sizes == ([32] * (steps - 1) + [final]) * 2
    assert [len(loaded.train_images(i)) for i in range(steps)] == sizes[:steps]
    assert [len(loaded.train_labels(i)) for i in range(steps)] == sizes[:steps]


def test_dropping_everything_is_refused() -> None:
    with pytest.raises(UserError, match=r"last_batch.*203.*batch_size = 500"):
        data.load(DataSpec(name="colours", batch_size=500, last_batch="drop"), ROOT, 0)


@pytest.mark.parametrize("size", [1, 64, 203, 256])
def test_every_test_sample_comes_once(size: int) -> None:
    loaded = data.load(DataSpec(name="colours", test_batch_size=size), ROOT, 0)
    sizes = [loaded.test_batch_size(i) for i in range(loaded.test_steps)]
    assert sum(sizes) == loaded.test_size == 203
    assert [len(loaded.test_labels(i)) for i in range(loaded.test_steps)] == sizes
    whole = data.load(DataSpec(name="colours", test_batch_size=203), ROOT, 0)
    images = torch.cat([loaded.test_images(i) for i in range(loaded.test_steps)])
    assert torch.equal(images, whole.test_images(0))


def test_labels_belong_to_their_images() -> None:
    loaded = data.load(COLOURS, ROOT, 0)
    for batch in range(10):
        assert torch.equal(loaded.train_images(batch).mean((2, 3)).argmax(1), loaded.train_labels(batch))
    for step in range(loaded.test_steps):
        assert torch.equal(loaded.test_images(step).mean((2, 3)).argmax(1), loaded.test_labels(step))


def test_labels_belong_to_their_images_under_limits() -> None:
    loaded = data.load(COLOURS.model_copy(update={"train_limit": 50, "test_limit": 70}), ROOT, 0)
    assert (loaded.train_size, loaded.test_size) == (50, 70)
    for batch in range(loaded.steps_per_epoch):
        assert torch.equal(loaded.train_images(batch).mean((2, 3)).argmax(1), loaded.train_labels(batch))
    assert torch.equal(loaded.test_images(1).mean((2, 3)).argmax(1), loaded.test_labels(1))


def test_limits_are_balanced_nested_and_the_same_for_all_seeds() -> None:
    labels = Digits(DataSpec(name="digits"), ROOT, 0).labels(True)
    small, large = balanced(labels, 100), balanced(labels, 205)
    assert np.bincount(labels[small]).tolist() == [10] * 10
    assert set(np.bincount(labels[large])) == {20, 21}
    assert set(small) < set(large)
    assert np.array_equal(balanced(labels, None), np.arange(len(labels)))
    first, second = (
        data.load(DataSpec(name="digits", train_limit=20, batch_size=20), ROOT, s) for s in (0, 1)
    )
    in_order = [d.train_images(0)[np.argsort(d.train_ids(0))] for d in (first, second)]
    assert torch.equal(*in_order)


def test_sizes_read_no_images(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("images were read")

    monkeypatch.setattr(Digits, "images", refuse)
    loaded = data.load(DataSpec(name="digits"), ROOT, 0)
    assert loaded.train_batch_size(loaded.steps_per_epoch - 1) == 1442 % 128
    assert len(loaded.train_labels(3)) == len(loaded.train_ids(3)) == 128
    assert loaded.test_labels(1).dtype == torch.int64


def test_batches_of_one_sample() -> None:
    batches = Batches.of(DataSpec(name="colours", batch_size=1), 3, 1, 0)
    assert (batches.steps_per_epoch, batches.test_steps) == (3, 1)
    assert [batches.epoch(i) for i in range(6)] == [0, 0, 0, 1, 1, 1]
