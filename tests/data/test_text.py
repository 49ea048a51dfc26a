"""Texts as data: the embedded one, files, the split, windows, what is measured, and what is refused."""

from __future__ import annotations

import builtins
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from repro import data
from repro.errors import MissingError, UserError
from repro.recipe import DataSpec

ROOT = Path("unused")


def spec(**changes: Any) -> DataSpec:
    return DataSpec(**{"name": "text", "context": 8, "batch_size": 4, "test_batch_size": 3, **changes})


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """300 bytes, of which the last tenth begins inside a character."""
    file = tmp_path / "book.txt"
    file.write_bytes(b"ab" * 134 + b"c" + "é".encode() + b"xy" * 14 + b"z")
    return file


def test_the_embedded_text_is_there_without_files() -> None:
    loaded = data.load(DataSpec(name="text"), ROOT, 0)
    assert (loaded.num_classes, loaded.image_shape) == (256, (64,))
    assert 9 * 0.95 < loaded.train_size / loaded.test_size < 9 * 1.05
    words = bytes(loaded.train_images(0).flatten().tolist()).decode(errors="replace")
    assert words.isprintable() or "\n" in words
    assert data.identity(DataSpec(name="text"), ROOT) == data.identity(DataSpec(name="text"), ROOT)


def test_a_file_is_split_by_position_at_a_character(book: Path) -> None:
    text = book.read_bytes()
    assert len(text) == 300
    assert text[270] & 0xC0 == 0x80  # where the last tenth would begin
    loaded = data.load(spec(path=str(book), context=1), ROOT, 0)
    assert (loaded.train_size, loaded.test_size) == (269 - 1, 31 - 1)


def test_windows_lie_side_by_side_and_labels_are_one_further(book: Path) -> None:
    text = book.read_bytes()[:269]
    loaded = data.load(spec(path=str(book)), ROOT, 3)
    assert loaded.train_size == (269 - 1) // 8
    seen: list[int] = []
    for batch in range(loaded.steps_per_epoch):
        tokens, labels = loaded.train_images(batch), loaded.train_labels(batch)
        assert tokens.dtype == labels.dtype == torch.int64
        assert tokens.is_contiguous()
        for i, x, y in zip(loaded.train_ids(batch), tokens, labels, strict=True):
            assert bytes(x.tolist()) == text[8 * i : 8 * i + 8]
            assert bytes(y.tolist()) == text[8 * i + 1 : 8 * i + 9]
            seen.append(int(i))
    assert sorted(seen) == list(range(loaded.train_size))
    assert seen != sorted(seen)  # in an order of its own, as images
    other = data.load(spec(path=str(book)), ROOT, 3)
    assert np.array_equal(other.train_ids(0), loaded.train_ids(0))
    later = loaded.train_ids(loaded.steps_per_epoch)
    assert not np.array_equal(later, loaded.train_ids(0))  # another epoch
    assert not np.array_equal(data.load(spec(path=str(book)), ROOT, 4).train_ids(0), loaded.train_ids(0))


def test_the_test_part_comes_in_fixed_windows(book: Path) -> None:
    text = book.read_bytes()[269:]
    loaded = data.load(spec(path=str(book)), ROOT, 0)
    tokens = torch.cat([loaded.test_images(step) for step in range(loaded.test_steps)])
    labels = torch.cat([loaded.test_labels(step) for step in range(loaded.test_steps)])
    assert bytes(tokens.flatten().tolist()) == text[:24]
    assert bytes(labels.flatten().tolist()) == text[1:25]


def test_limits_are_sequences_from_the_beginning(book: Path) -> None:
    loaded = data.load(spec(path=str(book), train_limit=5, test_limit=2), ROOT, 0)
    assert (loaded.train_size, loaded.test_size, loaded.steps_per_epoch) == (5, 2, 2)
    ids = np.concatenate([loaded.train_ids(0), loaded.train_ids(1)])
    assert sorted(ids) == [0, 1, 2, 3, 4]


def test_bits_per_byte_are_nats_over_ln_2(book: Path) -> None:
    loaded = data.load(spec(path=str(book)), ROOT, 0)
    found = loaded.scores(24 * math.log(2.0) * 3.0, 7)
    assert found == {"test_loss": pytest.approx(3 * math.log(2.0)), "test_bits_per_byte": pytest.approx(3.0)}


def test_a_folder_has_its_own_split(tmp_path: Path) -> None:
    (tmp_path / "wiki.train.raw").write_text("a" * 50)
    (tmp_path / "wiki.test.raw").write_text("b" * 20)
    (tmp_path / "wiki.valid.raw").write_text("c" * 20)
    loaded = data.load(spec(path=str(tmp_path)), ROOT, 0)
    assert (loaded.train_size, loaded.test_size) == (49 // 8, 19 // 8)
    assert set(loaded.test_images(0).flatten().tolist()) == {ord("b")}


def test_identity_is_of_the_content(book: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_bytes(book.read_bytes())
    before = data.identity(spec(path=str(book)), ROOT)
    assert data.identity(spec(path=str(copy)), ROOT) == before
    copy.write_bytes(b"A" + book.read_bytes()[1:])
    assert data.identity(spec(path=str(copy)), ROOT) != before


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"context": 270}, UserError, "data.context = 270 is longer than the training part of the text, 269 tokens"),
        ({"context": 31}, UserError, "longer than the test part of the text, 31 tokens .*give at most 30"),
        ({"path": "nowhere.txt"}, MissingError, "'nowhere.txt': there is no such file or folder"),
        ({"image_size": 8}, UserError, "data.image_size = 8 is for images, not for text"),
        ({"augment": "crop"}, UserError, "data.augment = crop is for images"),
        ({"name": "digits"}, UserError, "data.context = 8 is for text only, not for digits"),
        ({"name": "digits", "context": None, "tokenizer": "t"}, UserError, "data.tokenizer = t is for text only"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    changes: dict[str, Any], error: type[Exception], words: str, book: Path
) -> None:
    wanted = spec(**{"path": str(book), **changes})
    with pytest.raises(error, match=words):
        data.prepare(wanted, ROOT)


def test_bad_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "latin.txt"
    file.write_bytes(b"caf\xe9 au lait")
    with pytest.raises(UserError, match=r"latin.txt is no UTF-8 text \(byte 0xe9 at position 3\)"):
        data.prepare(spec(path=str(file)), ROOT)
    file.write_bytes(b"")
    with pytest.raises(UserError, match=r"0 tokens .*give a longer text"):
        data.prepare(spec(path=str(file)), ROOT)
    with pytest.raises(MissingError, match=r"one file with 'train' in its name.*it has latin.txt"):
        data.prepare(spec(path=str(tmp_path)), ROOT)


@pytest.fixture
def subwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A text and a byte-level BPE of 300 tokens trained on it."""
    tokenizers = pytest.importorskip("tokenizers")
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "data"))
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat; the naïve cat sat on the hat\n" * 60, encoding="utf-8")
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator([text.read_text(encoding="utf-8")], vocab_size=300, show_progress=False)
    file = tmp_path / "tokenizer.json"
    made.save(str(file))
    return text, file


def test_a_tokenizers_tokens_are_scored_per_byte(subwords: tuple[Path, Path], tmp_path: Path) -> None:
    text, file = subwords
    wanted = spec(path=str(text), tokenizer=str(file))
    data.prepare(wanted, ROOT)
    loaded = data.load(wanted, ROOT, 0)
    assert 256 < loaded.num_classes <= 300
    import tokenizers

    whole = text.read_bytes()
    test = whole[len(whole) - len(whole) // 10 :].decode()
    ids = tokenizers.Tokenizer.from_file(str(file)).encode(test).ids
    shown = torch.cat([loaded.test_images(i) for i in range(loaded.test_steps)]).flatten().tolist()
    assert shown == ids[: len(shown)]
    decoded = tokenizers.Tokenizer.from_file(str(file)).decode(ids[1 : len(shown) + 1])
    bits = loaded.scores(100.0, 0)["test_bits_per_byte"]
    assert bits == pytest.approx(100.0 / math.log(2.0) / len(decoded.encode()))
    assert loaded.scores(100.0, 0)["test_perplexity"] == pytest.approx(math.exp(100.0 / len(shown)))
    assert list((tmp_path / "data" / ".tokens").glob("*/train.npy"))  # kept for the next process


def test_a_missing_or_wrong_tokenizer_is_named(
    subwords: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, file = subwords
    with pytest.raises(MissingError, match=r"there is no such file; give the tokenizer\.json"):
        data.prepare(spec(path=str(text), tokenizer=str(tmp_path / "none.json")), ROOT)
    (tmp_path / "wrong.json").write_text("{}")
    with pytest.raises(UserError, match="is no file of the package tokenizers"):
        data.prepare(spec(path=str(text), tokenizer=str(tmp_path / "wrong.json")), ROOT)
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "tokenizers":
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingError, match=r"pip install 'repro\[text\]'"):
        data.prepare(spec(path=str(text), tokenizer=str(file)), ROOT)
