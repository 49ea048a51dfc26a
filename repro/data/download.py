"""One file from the network: verified before it takes its name, fetched once however many commands ask."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

from filelock import FileLock

from repro.errors import MissingError

_PATIENCE = 10.0  # seconds without an answer or a byte, then the network counts as gone
_logger = logging.getLogger(__name__)


def md5(path: Path) -> str:
    """Return the MD5 of a file, in hexadecimal: the checksum that the sets' publishers give."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


@contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock `name` of `folder`, made where it is missing; other commands wait, and a dead one holds nothing.

    Raises MissingError where the folder cannot be written, then or inside the block.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{name}.lock"):
            yield
    except OSError as error:
        raise MissingError(
            f"{folder} cannot be written ({error.strerror or error}); set REPRO_DATA to a folder that can."
        ) from error


def mirrored(url: str) -> str:
    """Return `url`, or the same file name under REPRO_MIRROR (a URL or a folder) where that is set."""
    mirror = os.environ.get("REPRO_MIRROR")
    if not mirror:
        return url
    base = mirror if "://" in mirror else Path(mirror).resolve().as_uri()
    return f"{base.rstrip('/')}/{url.rsplit('/', 1)[-1]}"


def download(url: str, path: Path, expected: str, otherwise: str = "") -> None:
    """Fetch `url` (or its mirror) to `path`, which appears only once its MD5 is `expected`.

    The caller holds the lock of the folder (`locked`). Raises MissingError, after seconds, where the network
    does not answer, and where what came is not the file; nothing is left behind then. `otherwise` is one more
    way to get it.
    """
    url = mirrored(url)
    part = path.with_name(path.name + ".part")
    by_hand = f"Fetch it where there is a network and put it at {path}, or set REPRO_MIRROR to a folder that has it."
    if otherwise:
        by_hand += f" {otherwise}"
    _logger.info("fetching %s to %s", url, path)
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE) as answer, part.open("wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)
        found = md5(part)
        if found == expected:
            part.replace(path)
            return
        with part.open("rb") as file:
            page = file.read(512).lstrip()[:1] == b"<"
        what = "a web page, not the file (a proxy or a login page?)" if page else "cut or altered"
        raise MissingError(
            f"{path} is missing, and what {url} sent is {what}: checksum {found} (MD5, {part.stat().st_size} bytes) "
            f"instead of {expected}; it was not kept. Run again, or: {by_hand}"
        )
    except (OSError, HTTPException) as error:
        reason = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
        raise MissingError(f"{path} is missing, and {url} cannot be fetched ({reason}). {by_hand}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
