"""`--runs DIR`: where runs lie, in every verb; `--out` is what is written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from repro import paths
from repro.errors import UserError, nearest


def runs_to_read(runs: Path | None, reference: bool = False) -> Path:
    """The folder that a verb reads: `runs` as given, else the default, where none need be.

    UserError where a given folder is not there or holds no run: nothing else is shown in its place.
    """
    if runs is None:
        return paths.runs()
    if reference:
        raise UserError("--runs and --reference exclude each other: give one of them")
    if not runs.is_dir():
        close = nearest(runs.name, [p.name for p in _beside(runs)]) if runs.name else ""
        raise UserError(f"--runs {runs}: there is no such folder.{close}")
    if not holds_runs(runs):
        close_by = next(
            (p for p in (*_below(runs), *list(runs.absolute().parents)[:3]) if holds_runs(p)), None
        )
        words = f" Did you mean --runs {close_by}?" if close_by else ""
        makes = f"`repro run RECIPE --runs {runs}` makes one"
        raise UserError(f"--runs {runs}: the folder holds no run (<recipe>/<hash>/seed-<s>); {makes}.{words}")
    return runs


def written_to(out: Path | None, default: Path) -> Path:
    """The place that a verb writes to; UserError where it holds runs."""
    if out is not None and holds_runs(out):
        raise UserError(
            f"--out {out}: this folder holds runs and --out is what is written: give --runs {out}"
        )
    return out or default


def check_file_can_be_written(file: Path) -> None:
    """OSError, before any work, where `file` cannot be written: a folder, or below what is none or may not be changed."""
    above = next(p for p in file.absolute().parents if p.exists())
    for wrong, place, number in (
        (file.is_dir(), file, errno.EISDIR),
        (not above.is_dir(), above, errno.ENOTDIR),
        (not os.access(above, os.W_OK), above, errno.EACCES),
    ):
        if wrong:
            raise OSError(number, os.strerror(number), str(place))


def refuse_out(out: Path | None) -> None:
    """Runs were once given by --out; UserError names the option that they have now."""
    if out is not None:
        raise UserError(f"--out {out}: the folder of runs is given by --runs: write --runs {out}")


def holds_runs(folder: Path) -> bool:
    """Whether any run, finished or not, lies there."""
    return any(folder.glob("*/*/seed-*/recipe.yaml"))


def _beside(folder: Path) -> list[Path]:
    parent = folder.absolute().parent
    return [p for p in sorted(parent.iterdir()) if p.is_dir() and holds_runs(p)] if parent.is_dir() else []


def _below(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.iterdir()) if p.is_dir()]
