"""The training and the test part of a text: Python's own documentation, a file cut in two, or a folder of two files."""

from __future__ import annotations

import importlib
from functools import lru_cache
from pathlib import Path

from repro.errors import MissingError, UserError

TEST_SHARE = 10  # of a single text the last tenth of its bytes is the test part
OWN = "give data.path, a UTF-8 file, or a folder with one file that has 'train' in its name and one that has 'test'"


def text_parts(path: str | None) -> tuple[bytes, bytes]:
    """Training and test part, both whole UTF-8. None: the texts of the standard library's pydoc_data.topics.

    MissingError where there is nothing to read, UserError where it is no UTF-8.
    """
    if path is None:
        return _split(embedded())
    files = _files(Path(path))
    state = tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return _read(state)


def text_files(path: str) -> tuple[Path, ...]:
    """The file at `path`, or the two of a folder; for a cache's name."""
    return _files(Path(path))


@lru_cache(maxsize=1)
def embedded() -> bytes:
    """The topics of `help()` in the order of the file, an empty line between them; ASCII but for some signs."""
    try:
        topics = importlib.import_module("pydoc_data.topics").topics
    except ImportError:
        raise MissingError(
            f"this Python comes without pydoc_data.topics, the embedded text of data.name = 'text'; {OWN}"
        ) from None
    return "\n\n".join(topics.values()).encode()


@lru_cache(maxsize=2)
def _read(state: tuple[tuple[Path, int, int], ...]) -> tuple[bytes, bytes]:
    """The parts of files in this state (size, time of change), read once a process."""
    texts = [_checked(file) for file, *_ in state]
    return _split(texts[0]) if len(texts) == 1 else (texts[0], texts[1])


def _files(path: Path) -> tuple[Path, ...]:
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise MissingError(f"data.path = '{path}': there is no such file or folder; {OWN}")
    found = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    parts = [[file for file in found if word in file.name.lower()] for word in ("train", "test")]
    if [len(files) for files in parts] != [1, 1]:
        names = ", ".join(file.name for file in found[:5]) or "nothing"
        raise MissingError(
            f"data.path = '{path}' is a folder and must have one file with 'train' in its name and one with 'test'; "
            f"it has {names}"
        )
    return parts[0][0], parts[1][0]


def _checked(file: Path) -> bytes:
    try:
        text = file.read_bytes()
        text.decode()
    except OSError as error:
        raise MissingError(f"data.path: {file} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"data.path: {file} is no UTF-8 text (byte {error.object[error.start]:#04x} at position {error.start}): "
            "give a text in UTF-8"
        ) from None
    return text


def _split(text: bytes) -> tuple[bytes, bytes]:
    """By position, at the beginning of a character."""
    place = len(text) - len(text) // TEST_SHARE
    while 0 < place < len(text) and text[place] & 0xC0 == 0x80:  # inside a character
        place -= 1
    return text[:place], text[place:]
