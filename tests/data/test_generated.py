"""The sets that need no files: digits, colours, synthetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from repro import data
from repro.data.colours import Colours
from repro.data.digits import Digits
from repro.errors import UserError
from repro.recipe.schema import DataSpec
from tests import conftest

ROOT = Path("nowhere")


@pytest.mark.parametrize(
    ("name", "shape", "classes", "sizes"),
    [
        ("digits", (1, 8, 8), 10, (1442, 355)),
        ("colours", (3, 16, 16), 3, (203, 203)),
        ("synthetic", (3, 32, 32), 10, (1024, 256)),
    ],
)
def test_shapes_and_scale(name: str, shape: tuple[int, ...], classes: int, sizes: tuple[int, int]) -> None:
    spec = DataSpec(name=name)
    data.prepare(spec, ROOT)
    loaded = data.load(spec, ROOT, 0)
    assert (loaded.image_shape, loaded.num_classes) == (shape, classes)
    assert (loaded.train_size, loaded.test_size) == sizes
    images, labels = loaded.train_images(0), loaded.train_labels(0)
    assert images.shape == (128, *shape)
    assert images.is_contiguous()
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert abs(images.mean()) < 0.05
    assert abs(images.std() - 1) < 0.05
    assert set(labels.tolist()) == set(range(classes))


def test_digits_split_is_stratified_and_complete() -> None:
    digits = Digits(DataSpec(name="digits"), ROOT, 0)
    for train in (True, False):
        assert len(digits.labels(train)) == len(digits.images(train)) == digits.size(train)
    train, test = np.bincount(digits.labels(True)), np.bincount(digits.labels(False))
    assert (train + test).sum() == 1797
    assert ((test / (train + test) > 0.19) & (test / (train + test) <= 0.2)).all()
    assert digits.images(True).max() == 255


def test_colours_break_the_sample_that_is_asked_for() -> None:
    broken = Colours(DataSpec(name="colours", bad_label=0), ROOT, 0)
    whole = Colours(DataSpec(name="colours"), ROOT, 0)
    assert np.flatnonzero(broken.labels(True) != whole.labels(True)).tolist() == [0]
    assert broken.labels(True)[0] == broken.num_classes == 3
    assert np.array_equal(broken.labels(False), whole.labels(False))
    with pytest.raises(UserError, match="bad_label = 203"):
        data.load(DataSpec(name="colours", bad_label=203), ROOT, 0)


def test_synthetic_follows_its_settings_and_seed() -> None:
    spec = DataSpec(
        name="synthetic", image_size=20, channels=1, classes=7, train_limit=50, test_limit=9, batch_size=50
    )
    loaded = data.load(spec, ROOT, 0)
    assert (loaded.train_size, loaded.test_size, loaded.num_classes) == (50, 9, 7)
    assert loaded.train_images(0).shape == (50, 1, 20, 20)
    assert loaded.test_images(0).shape == (9, 1, 20, 20)
    assert torch.equal(loaded.train_images(0), data.load(spec, ROOT, 0).train_images(0))
    assert not torch.equal(loaded.test_images(0), data.load(spec, ROOT, 1).test_images(0))


def test_identity_names_what_is_used_and_is_stable() -> None:
    plain, limited = DataSpec(name="digits"), DataSpec(name="digits", train_limit=100)
    assert data.identity(plain, ROOT) == "digits train=1442 test=355 digest=b2f783b8669e62af"
    assert data.identity(limited, ROOT).startswith("digits train=100 test=355 ")
    assert data.identity(plain, ROOT) == data.identity(
        plain.model_copy(update={"num_workers": 3}), Path("elsewhere")
    )
    broken = DataSpec(name="colours", bad_label=4)
    assert data.identity(broken, ROOT) != data.identity(DataSpec(name="colours"), ROOT)


@pytest.mark.parametrize(
    "setting", [{"bad_label": 0}, {"channels": 1}, {"classes": 5}, {"skip_corrupt": True}]
)
def test_settings_of_other_sets_are_refused(setting: dict[str, object]) -> None:
    with pytest.raises(UserError, match=rf"data\.{next(iter(setting))} = .* only, not for digits"):
        data.prepare(DataSpec(name="digits", **setting), ROOT)


def test_digits_are_scikit_learns_read_without_it() -> None:
    """Importing scikit-learn takes longer than a smoke run's training; its file gives the same numbers."""
    import subprocess
    import sys

    from sklearn.datasets import load_digits

    from repro.data.digits import _table

    theirs = load_digits()
    assert np.array_equal(_table()[:, -1], theirs.target)
    assert np.array_equal(_table()[:, :-1].reshape(-1, 8, 8), theirs.images)
    code = "import sys; from repro.data.digits import _table; _table(); sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=conftest.ROOT, timeout=60).returncode == 0
