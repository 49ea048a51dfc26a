"""`repro clean`: runs that nobody will read again, listed, and removed after asking."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.commands.runs_folder import runs_to_read
from repro.errors import UserError, nearest
from repro.holding import InUse, holding
from repro.report.stored.origin import with_origin
from repro.report.stored.source import grouped
from repro.store import COMPLETE, read_runs


@dataclass(frozen=True)
class Leftover:
    """A seed's folder, and why it may go."""

    path: Path
    reason: str
    size: int  # bytes


def clean(recipes: Sequence[str], runs: Path | None, yes: bool) -> int:
    """List stale, failed and interrupted runs on stdout; remove them if the user says so (or `yes`).

    Without a terminal to ask on nothing is removed unless `yes`; a run that is under way is left alone.
    """
    folder = runs_to_read(runs)
    found = list(leftovers(folder, recipes))
    if not found:
        print(f"nothing to remove in {folder}", file=sys.stderr)
        return 0
    for leftover in found:
        print(f"{leftover.path}  {leftover.reason}  {leftover.size / 2**20:.1f} MiB")
    total = sum(leftover.size for leftover in found) / 2**20
    words = f"{len(found)} run{'s' if len(found) > 1 else ''}, {total:.1f} MiB"
    if not yes and not _agreed(words):
        return 0
    removed = sum(_remove(leftover.path) for leftover in found)
    print(f"removed {removed} of {words}", file=sys.stderr)
    return 0


def leftovers(folder: Path, recipes: Sequence[str] = ()) -> Iterator[Leftover]:
    """Seeds whose recipe has changed since, or that did not end well; of `recipes` only, where some are named."""
    groups = [with_origin(group) for group in grouped(read_runs(folder), [])]
    names = sorted({group.recipe for group in groups})
    for name in recipes:
        if name not in names:
            raise UserError(
                f"{folder} has no run of '{name}'.{nearest(name, names)} It has: {', '.join(names)}"
            )
    for group in groups:
        if recipes and group.recipe not in recipes:
            continue
        for run in group.runs:
            reason = f"stale: {group.stale}" if group.stale else ""
            if run.status != COMPLETE:
                reason = run.status if not reason else f"{run.status}, {reason}"
            if reason:
                path = run.folder.path
                yield Leftover(path, reason, sum(p.stat().st_size for p in path.rglob("*") if p.is_file()))


def _agreed(words: str) -> bool:
    if not sys.stdin.isatty():
        print(f"{words}: nothing is removed without a terminal to ask on; --yes removes", file=sys.stderr)
        return False
    print(f"Remove {words}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _remove(path: Path) -> bool:
    """Remove a seed's folder, and those above it that are empty then; False where a run is under way in it."""
    try:
        with holding(path, blocking=False, say=lambda words: print(words, file=sys.stderr)):
            shutil.rmtree(path)
    except InUse:
        print(f"{path}: left alone", file=sys.stderr)
        return False
    for above in (path.parent, path.parent.parent):
        if above.is_dir() and not any(above.iterdir()):
            above.rmdir()
    return True
