"""CIFAR from the publisher's archive: fetched once, verified, unpacked whole or not at all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Mirror, SmallCifar, md5

from repro import data
from repro.data.cifar import Cifar10, Cifar100
from repro.errors import MissingError
from repro.recipe.schema import DataSpec

SPEC = DataSpec(name="cifar10", batch_size=8)
ARCHIVE = "cifar-10-python.tar.gz"
FOLDER = "cifar-10-batches-py"
FORK = multiprocessing.get_context("fork")


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def unpacked(root: Path, small: SmallCifar) -> Path:
    folder = root / FOLDER
    folder.mkdir(parents=True)
    for name, content in small.files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("kind", [Cifar10, Cifar100])
def test_the_archive_has_torchvisions_name(kind: type[Cifar10]) -> None:
    assert kind.archive_name == kind.published().filename
    assert kind.folder_name == kind.published().base_folder


def test_fetched_once_then_read_as_published(tmp_path: Path, mirror: Mirror, small_cifar: SmallCifar) -> None:
    mirror.files[ARCHIVE] = small_cifar.archive
    for _ in range(2):
        data.prepare(SPEC, tmp_path)
    assert mirror.requests == {ARCHIVE: 1}
    assert visible(tmp_path) == {ARCHIVE, FOLDER}
    loaded = data.load(SPEC, tmp_path, 0)
    assert (loaded.train_size, loaded.test_size, loaded.num_classes) == (40, 7, 10)
    ids = loaded.train_ids(2)
    assert loaded.train_labels(2).tolist() == [small_cifar.labels[i] for i in ids]
    mean, std = (np.array(v).reshape(3, 1, 1) for v in (Cifar10.mean, Cifar10.std))
    assert np.allclose(loaded.train_images(2).numpy(), (small_cifar.images[ids] - mean) / std, atol=1e-5)
    assert data.identity(SPEC, tmp_path).startswith("cifar10 train=40 test=7 digest=")


def test_folder_of_a_user_is_taken_by_path(tmp_path: Path, small_cifar: SmallCifar) -> None:
    unpacked(tmp_path / "mine", small_cifar)
    spec = SPEC.model_copy(update={"path": str(tmp_path / "mine")})
    data.prepare(spec, tmp_path / "root")
    assert data.load(spec, tmp_path / "root", 0).train_size == 40


def test_two_commands_at_once_fetch_once(tmp_path: Path, mirror: Mirror, small_cifar: SmallCifar) -> None:
    mirror.files[ARCHIVE] = small_cifar.archive
    mirror.stall = threading.Event()
    commands = [FORK.Process(target=data.prepare, args=(SPEC, tmp_path)) for _ in range(2)]
    for command in commands:
        command.start()
    time.sleep(0.3)
    mirror.stall.set()
    for command in commands:
        command.join(20)
        assert command.exitcode == 0
    assert mirror.requests == {ARCHIVE: 1}
    assert visible(tmp_path) == {ARCHIVE, FOLDER}


def test_killed_midway_leaves_nothing_that_counts(
    tmp_path: Path, mirror: Mirror, small_cifar: SmallCifar
) -> None:
    mirror.files[ARCHIVE] = small_cifar.archive
    mirror.stall = threading.Event()
    command = FORK.Process(target=data.prepare, args=(SPEC, tmp_path))
    command.start()
    while not mirror.requests:
        time.sleep(0.01)
    time.sleep(0.2)
    assert command.pid is not None
    os.kill(command.pid, signal.SIGKILL)
    command.join()
    mirror.stall.set()
    assert visible(tmp_path) <= {f"{ARCHIVE}.part"}
    data.prepare(SPEC, tmp_path)  # takes the dead one's lock over
    assert visible(tmp_path) == {ARCHIVE, FOLDER}


@pytest.mark.parametrize(
    ("sent", "reason"),
    [("half", "cut or altered"), ("flipped", "cut or altered"), ("page", "web page"), ("nothing", "404")],
)
def test_bad_answers_are_named_and_not_kept(
    sent: str, reason: str, tmp_path: Path, mirror: Mirror, small_cifar: SmallCifar
) -> None:
    good = small_cifar.archive
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    answers = {
        "half": good[: len(good) // 2],
        "flipped": bytes(flipped),
        "page": b"<html>Please log in</html>",
    }
    if sent in answers:
        mirror.files[ARCHIVE] = answers[sent]
    with pytest.raises(MissingError, match=reason) as caught:
        data.prepare(SPEC, tmp_path)
    assert str(tmp_path / ARCHIVE) in str(caught.value)
    if sent in answers:
        assert md5(answers[sent]) in str(caught.value)
        assert md5(good) in str(caught.value)
    assert visible(tmp_path) == set()
    mirror.files[ARCHIVE] = good
    data.prepare(SPEC, tmp_path)


def test_offline_fails_in_seconds_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_cifar: SmallCifar
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("REPRO_MIRROR", f"http://127.0.0.1:{free.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(MissingError, match="put it at") as caught:
            data.prepare(SPEC, tmp_path)
    assert time.monotonic() - started < 5
    assert str(tmp_path / ARCHIVE) in str(caught.value)
    assert caught.value.exit_code == 3
    (tmp_path / ARCHIVE).write_bytes(small_cifar.archive)  # the way out
    data.prepare(SPEC, tmp_path)


def test_mirror_may_be_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_cifar: SmallCifar
) -> None:
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / ARCHIVE).write_bytes(small_cifar.archive)
    monkeypatch.setenv("REPRO_MIRROR", str(tmp_path / "shelf"))
    data.prepare(SPEC, tmp_path / "root")


def test_archive_cut_by_hand_is_named(tmp_path: Path, mirror: Mirror, small_cifar: SmallCifar) -> None:
    archive, half = tmp_path / ARCHIVE, small_cifar.archive[:1000]
    archive.write_bytes(half)
    with pytest.raises(
        MissingError, match=f"{md5(half)}.*instead of {md5(small_cifar.archive)}.*delete it"
    ) as caught:
        data.prepare(SPEC, tmp_path)
    assert str(archive) in str(caught.value)
    archive.write_bytes(small_cifar.archive)
    data.prepare(SPEC, tmp_path)
    assert not mirror.requests


@pytest.mark.parametrize("fault", ["flipped", "missing"])
def test_extracted_files_are_verified(fault: str, tmp_path: Path, small_cifar: SmallCifar) -> None:
    path = unpacked(tmp_path, small_cifar) / "data_batch_3"
    good = small_cifar.files["data_batch_3"]
    if fault == "missing":
        path.unlink()
    else:
        path.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
    wanted = "is missing" if fault == "missing" else f"instead of {md5(good)}"
    with pytest.raises(MissingError, match=wanted) as caught:
        data.prepare(SPEC, tmp_path)
    assert str(path) in str(caught.value)
    path.write_bytes(good)
    data.prepare(SPEC, tmp_path)


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MissingError, match="REPRO_DATA"):
        data.prepare(SPEC, tmp_path / "file" / "data")


def test_cifar100_reads_fine_labels(tmp_path: Path) -> None:
    import pickle

    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for name, count in (("train", 12), ("test", 5)):
        batch = {
            "data": np.zeros((count, 3072), np.uint8),
            "fine_labels": [99] * count,
            "coarse_labels": [1] * count,
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    loaded = data.load(DataSpec(name="cifar100"), tmp_path, 0)
    assert (loaded.train_size, loaded.test_size, loaded.num_classes) == (12, 5, 100)
    assert torch.equal(loaded.test_labels(0), torch.full((5,), 99))
