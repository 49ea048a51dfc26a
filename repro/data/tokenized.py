"""A text as tokens of a tokenizer's file, made once and kept: a large text takes minutes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro import paths
from repro.data.download import locked
from repro.data.text_parts import text_files, text_parts
from repro.errors import MissingError, UserError

CHUNK = 1 << 20  # bytes tokenised at once, up to the end of a line
_VERSION = 1  # of the kept files
Tokens = NDArray[np.int32]


class Tokenized(NamedTuple):
    """Tokens of both parts, the bytes of the text up to each test token's end, and the number of different tokens."""

    train: Tokens
    test: Tokens
    test_ends: NDArray[np.int64]
    vocabulary: int


def tokenized(path: str | None, tokenizer: str) -> Tokenized:
    """The text at `path` in tokens of the file `tokenizer`, from the data root's cache where it is known there.

    MissingError without the package or the file, UserError for a file that is no tokenizer.
    """
    made = _tokenizer(tokenizer)
    vocabulary = int(made.get_vocab_size())
    kept = paths.data_root() / ".tokens" / _key(path, tokenizer)
    names = ("train", "test", "test_ends")
    with locked(kept.parent, kept.name):
        if not all((kept / f"{name}.npy").is_file() for name in names):
            kept.mkdir(parents=True, exist_ok=True)
            train, test = text_parts(path)
            _keep(kept, "train", _encode(made, train)[0])
            ids, ends = _encode(made, test)
            _keep(kept, "test", ids)
            _keep(kept, "test_ends", ends)
    train_ids, test_ids, ends = (np.load(kept / f"{name}.npy", mmap_mode="r") for name in names)
    return Tokenized(train_ids, test_ids, ends, vocabulary)


def _keep(folder: Path, name: str, values: NDArray[np.int32] | NDArray[np.int64]) -> None:
    part = folder / f".{name}.part.npy"
    np.save(part, values)
    part.replace(folder / f"{name}.npy")


def _tokenizer(file: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingError(
            f"data.tokenizer = '{file}' needs the package tokenizers, which is not installed: pip install 'repro[text]' "
            "(or pip install tokenizers)"
        ) from None
    if not Path(file).is_file():
        raise MissingError(
            f"data.tokenizer = '{file}': there is no such file; give the tokenizer.json of a tokenizer, or leave it out "
            "(bytes are the tokens then)"
        )
    try:
        return Tokenizer.from_file(file)
    except Exception as error:  # the package raises plain Exceptions
        raise UserError(f"data.tokenizer = '{file}' is no file of the package tokenizers: {error}") from None


def _encode(tokenizer: Any, text: bytes) -> tuple[Tokens, NDArray[np.int64]]:
    """Ids of a text's tokens, and how many of its bytes lie before each token's end."""
    ids, ends, before = [np.empty(0, np.int32)], [np.empty(0, np.int64)], 0
    for chunk in _chunks(text):
        words = chunk.decode()
        found = tokenizer.encode(words, add_special_tokens=False)
        sizes = np.frombuffer(words.encode("utf-32-le"), np.uint32)
        widths = 1 + (sizes > 0x7F).astype(np.int64) + (sizes > 0x7FF) + (sizes > 0xFFFF)
        places = np.concatenate([[0], np.cumsum(widths)])  # bytes before each character
        ids.append(np.asarray(found.ids, dtype=np.int32))
        ends.append(before + places[np.asarray([end for _, end in found.offsets], dtype=np.int64)])
        before += len(chunk)
    return np.concatenate(ids), np.concatenate(ends)


def _chunks(text: bytes) -> list[bytes]:
    """Parts of about CHUNK bytes that end with a line's end."""
    parts, start = [], 0
    while start < len(text):
        end = text.find(b"\n", start + CHUNK)
        end = len(text) if end < 0 else end + 1
        parts.append(text[start:end])
        start = end
    return parts


def _key(path: str | None, tokenizer: str) -> str:
    """Names the cache by the files' contents as far as size and time of change tell."""
    digest = hashlib.sha256(f"{_VERSION} {CHUNK}".encode())
    digest.update(Path(tokenizer).read_bytes())
    if path is None:
        digest.update(text_parts(None)[0])
    else:
        for file in text_files(path):
            state = file.stat()
            digest.update(f"{file.resolve()} {state.st_size} {state.st_mtime_ns}".encode())
    return digest.hexdigest()[:24]
