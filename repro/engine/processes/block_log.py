"""What the libraries below a block print themselves (warnings, stack traces of C++) goes to a file, not to the terminal."""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import tempfile
from pathlib import Path

# torch appends the native stack to the text of its exceptions.
_NATIVE = re.compile(
    r"^(Exception raised from |C\+\+ CapturedTraceback|frame #\d+:|#\d+ .* from |\s*<omitting python frames>)"
)


def open_log(folder: Path | None) -> Path:
    """The log of a run's blocks: `blocks.log` in the run's folder, or a file of its own where there is none."""
    if folder is not None:
        return folder / "blocks.log"
    number, name = tempfile.mkstemp(prefix="repro-blocks-", suffix=".log")
    os.close(number)
    return Path(name)


def write_to(log: Path) -> None:
    """In a block's process: what is printed to stderr from here on, by whatever language, is appended to `log`."""
    number = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(number, 2)
    os.close(number)
    faulthandler.enable(sys.__stderr__ or 2)  # a crash in native code leaves the lines of Python here


def without_native_frames(text: str) -> str:
    """A message or traceback without the lines that torch adds about its own C++ stack."""
    return "\n".join(line for line in text.splitlines() if not _NATIVE.match(line)).strip()


def close_log(log: Path, keep: bool) -> Path | None:
    """Remove an empty log, or one that is not to be kept; returns the path if there is something to read."""
    try:
        if keep and log.stat().st_size:
            return log
        log.unlink()
    except OSError:
        return None
    return None
