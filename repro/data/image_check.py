"""Which image files cannot be read: found before a run, not hours into it, and only once per file."""

from __future__ import annotations

import json
import logging
import os
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

_logger = logging.getLogger(__name__)

Records = dict[
    str, tuple[int, int, str]
]  # file -> size in bytes, mtime in ns, what is wrong with it ("" = nothing)


def read_image(path: str | Path, draft: int | None = None) -> Image.Image:
    """Return the image at `path` as 8-bit RGB, decoded to its last byte.

    16-bit grey keeps its high byte (a plain conversion would clip it to white). `draft` allows a JPEG to be
    decoded at a smaller scale, down to that many pixels a side: quicker, and damage shows just the same.
    Raises OSError, SyntaxError or ValueError where the file is damaged.
    """
    with Image.open(path) as image:
        if draft is not None:
            image.draft("RGB", (draft, draft))
        image.load()
        if image.mode.startswith("I"):
            return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
        return image.convert("RGB")


def fault(path: Path) -> str:
    """Return what is wrong with an image file, in a few words, or "" where it can be read."""
    if path.stat().st_size == 0:
        return "empty file"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read_image(path, draft=32)
    except UnidentifiedImageError:
        return "not an image"
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def check(root: Path, files: Iterable[str], cache: Path) -> Records:
    """Return the records of `files` (relative to `root`), and keep them in `cache`.

    A file whose size and time of change are those in the cache is not read again. Raises OSError where the
    cache cannot be written.
    """
    known = load(cache)
    records: Records = {}
    todo = []
    for file in files:
        stat = (root / file).stat()
        old = known.get(file)
        if old is not None and tuple(old[:2]) == (stat.st_size, stat.st_mtime_ns):
            records[file] = old
        else:
            records[file] = (stat.st_size, stat.st_mtime_ns, "")
            todo.append(file)
    if todo:
        _logger.info("checking %d images under %s (once)", len(todo), root)
        said = time.monotonic()
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow decodes outside the interpreter's lock
            for done, (file, wrong) in enumerate(
                zip(todo, pool.map(lambda f: fault(root / f), todo), strict=True)
            ):
                records[file] = (*records[file][:2], wrong)
                if time.monotonic() - said > 30:
                    said = time.monotonic()
                    _logger.info("checked %d of %d images", done + 1, len(todo))
    if records != known:
        part = cache.with_name(cache.name + ".part")
        part.write_text(json.dumps(records), encoding="utf-8")
        part.replace(cache)
    return records


def load(cache: Path) -> Records:
    """Return the records kept in `cache`; none where it is missing or damaged."""
    try:
        kept = json.loads(cache.read_text(encoding="utf-8"))
        return {
            str(file): (int(size), int(changed), str(wrong)) for file, (size, changed, wrong) in kept.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
