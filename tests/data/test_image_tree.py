"""A tree of images: damaged ones found up front, and the same batches whatever the number of loader processes."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from repro import data
from repro.data import image_check
from repro.data.image_check import read_image
from repro.errors import MissingError, RunFailed
from repro.recipe.schema import DataSpec

DAMAGED = {"train/cat/half.jpg", "train/dog/empty.png", "val/dog/text.jpg"}
SPEC = DataSpec(name="imagenet", image_size=16, batch_size=4, test_batch_size=3, augment="crop-flip")


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root whose imagenet/ has 11 training and 5 test images, all sound."""
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "root"))
    for split, count in (("train", 4), ("val", 2)):
        for label in ("cat", "dog"):
            folder = tmp_path / "root" / "imagenet" / split / label
            folder.mkdir(parents=True)
            for i in range(count):
                Image.fromarray(noise(40 + i, 30, 3)).save(folder / f"{i}.JPEG")
    train = tmp_path / "root" / "imagenet" / "train"
    Image.fromarray(noise(30, 40).astype(np.uint16) * 257).save(train / "cat" / "grey16.png")
    Image.fromarray(noise(30, 40, 4), "CMYK").save(train / "dog" / "cmyk.jpg")
    Image.fromarray(noise(30, 41, 4), "RGBA").save(train / "dog" / "rgba.png")
    (tmp_path / "root" / "imagenet" / "val" / "cat" / "notes.txt").write_text("no image, no matter")
    Image.fromarray(noise(33, 33, 3)).save(tmp_path / "root" / "imagenet" / "val" / "cat" / "2.png")
    return tmp_path / "root"


def damage(root: Path) -> None:
    tree = root / "imagenet"
    whole = (tree / "train/cat/0.JPEG").read_bytes()
    (tree / "train/cat/half.jpg").write_bytes(whole[: len(whole) // 2])
    (tree / "train/dog/empty.png").write_bytes(b"")
    (tree / "val/dog/text.jpg").write_text("this is text")


def test_damaged_images_stop_the_run_before_it_starts(root: Path) -> None:
    damage(root)
    with pytest.raises(MissingError, match=r"3 of 19 images.*skip_corrupt") as caught:
        data.prepare(SPEC, root)
    for file in DAMAGED:
        assert str(root / "imagenet" / file) in str(caught.value)
    assert "empty file" in str(caught.value)
    assert "truncated" in str(caught.value)


def test_skipped_images_are_counted_and_named(root: Path) -> None:
    damage(root)
    spec = SPEC.model_copy(update={"skip_corrupt": True})
    data.prepare(spec, root)
    for seed in range(2):
        loaded = data.load(spec, root, seed)
        assert set(loaded.skipped) == DAMAGED
        assert (loaded.train_size, loaded.test_size) == (11, 5)
        assert sum(len(loaded.train_images(i)) for i in range(loaded.steps_per_epoch)) == 11


def test_checked_once_until_a_file_changes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(image_check, "fault", lambda path: read.append(path.name) or "")
    data.prepare(SPEC, root)
    assert len(read) == 16
    data.prepare(SPEC, root)
    assert len(read) == 16
    os.utime(root / "imagenet/val/dog/1.JPEG", (1, 1))
    data.prepare(SPEC, root)
    assert read[16:] == ["1.JPEG"]
    assert {path.name for path in (root / "imagenet").iterdir()} == {"train", "val"}


def test_a_lost_or_cut_cache_costs_time_only(root: Path) -> None:
    data.prepare(SPEC, root)
    before = data.identity(SPEC, root)
    (cache,) = (root / ".checked").glob("*.json")
    cache.write_text(cache.read_text()[:50])
    data.prepare(SPEC, root)
    assert data.identity(SPEC, root) == before


def test_identity_changes_with_the_files(root: Path) -> None:
    data.prepare(SPEC, root)
    before = data.identity(SPEC, root)
    assert before.startswith("imagenet train=11 test=5 digest=")
    file = root / "imagenet/train/cat/0.JPEG"
    file.write_bytes(file.read_bytes() + b"\0")
    data.prepare(SPEC, root)
    assert data.identity(SPEC, root) != before


def test_every_mode_becomes_rgb(root: Path) -> None:
    train = root / "imagenet" / "train"
    grey = np.asarray(read_image(train / "cat" / "grey16.png"))
    assert np.array_equal(grey, np.repeat(noise(30, 40)[:, :, None], 3, axis=2))  # not clipped to white
    assert np.array_equal(np.asarray(read_image(train / "dog" / "rgba.png")), noise(30, 41, 4)[:, :, :3])
    assert read_image(train / "dog" / "cmyk.jpg").mode == "RGB"


def run(root: Path, workers: int, first: int = 0, **settings: object) -> list[torch.Tensor]:
    """Images of training batches `first`..5 (two epochs), of the test set and again of the test set."""
    loaded = data.load(SPEC.model_copy(update={"num_workers": workers, **settings}), root, 0)
    trained = [loaded.train_images(i) for i in range(first, 6)]
    return [*trained, *(loaded.test_images(i) for _ in range(2) for i in range(loaded.test_steps))]


def test_number_of_workers_changes_no_bit(root: Path) -> None:
    alone = run(root, 0)
    assert [len(images) for images in alone] == [4, 4, 3, 4, 4, 3, 3, 2, 3, 2]
    assert alone[0].shape == (4, 3, 16, 16)
    assert torch.equal(alone[6], alone[8])
    assert torch.equal(alone[7], alone[9])
    one, two = (data.load(SPEC.model_copy(update={"num_workers": n}), root, 0) for n in (1, 2))
    assert all(torch.equal(alone[i], two.train_images(i)) for i in range(6))
    assert all(torch.equal(alone[6 + i], one.test_images(i % 2)) for i in range(4))


def test_a_resumed_run_goes_on_with_the_same_images(root: Path) -> None:
    whole, resumed = run(root, 0), run(root, 0, first=4)
    assert all(torch.equal(a, b) for a, b in zip(whole[4:], resumed, strict=True))


def test_augmentation_differs_between_epochs_and_repeats_with_the_seed(root: Path) -> None:
    first, second = run(root, 0, batch_size=11)[:2]
    order = [
        np.argsort(data.load(SPEC.model_copy(update={"batch_size": 11}), root, 0).train_ids(e))
        for e in (0, 1)
    ]
    assert not torch.equal(first[order[0]], second[order[1]])
    assert torch.equal(first, run(root, 0, batch_size=11)[0])
    plain = run(root, 0, batch_size=11, augment="none")
    assert torch.equal(plain[0][order[0]], plain[1][order[1]])


def test_own_random_numbers_are_left_alone(root: Path) -> None:
    before = torch.get_rng_state()
    run(root, 0)
    assert torch.equal(before, torch.get_rng_state())


def test_labels_and_limits_follow_the_folders(root: Path) -> None:
    loaded = data.load(SPEC.model_copy(update={"train_limit": 6, "batch_size": 6}), root, 0)
    assert loaded.num_classes == 2
    assert sorted(loaded.train_labels(0).tolist()) == [0, 0, 0, 1, 1, 1]
    assert torch.cat([loaded.test_labels(i) for i in range(2)]).tolist() == [0, 0, 0, 1, 1]


def test_an_image_lost_during_the_run_is_named(root: Path) -> None:
    data.prepare(SPEC, root)
    (root / "imagenet/val/cat/0.JPEG").write_bytes(b"")
    with pytest.raises(RunFailed, match=r"val/cat/0\.JPEG can no longer be read"):
        data.load(SPEC, root, 0).test_images(0)


def _hold(root: Path, found: object) -> None:
    loaded = data.load(SPEC.model_copy(update={"num_workers": 1}), root, 0)
    loaded.train_images(0)
    found.send([child.pid for child in multiprocessing.active_children()])  # type: ignore[attr-defined]
    time.sleep(600)  # until it is killed


def test_loader_processes_end_with_their_parent(root: Path) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    parent = context.Process(target=_hold, args=(root, there))
    parent.start()
    try:
        assert here.poll(180), "a cold start on a busy machine takes long, but not so long"
        (pid,) = here.recv()
        assert _alive(pid)
    finally:
        parent.kill()
        parent.join()
    deadline = (
        time.monotonic() + 90
    )  # a loader looks for its parent every few seconds; an orphan would stay for ever
    while time.monotonic() < deadline and _alive(pid):
        time.sleep(0.1)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_missing_tree_says_where_to_put_it(root: Path) -> None:
    with pytest.raises(MissingError, match=r"train/<class>") as caught:
        data.prepare(SPEC, root / "elsewhere")
    assert str(root / "elsewhere" / "imagenet" / "train") in str(caught.value)


def test_classes_must_agree(root: Path) -> None:
    (root / "imagenet/val/dog").rename(root / "imagenet/val/wolf")
    with pytest.raises(MissingError, match="dog, wolf"):
        data.prepare(SPEC, root)
