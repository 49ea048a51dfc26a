"""The cores that this process may really use: those it is allowed on, and no more than its CPU quota.

A container is often held back by a quota (cgroup v2 `cpu.max`, v1 `cpu.cfs_quota_us` over `cpu.cfs_period_us`)
that neither os.cpu_count nor the affinity mask knows of.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def cores() -> int:
    """Usable cores: the smaller of affinity and quota (fractions rounded down), at least 1."""
    limit = quota()
    return affinity() if limit is None else max(1, min(affinity(), int(limit)))


def affinity() -> int:
    """Cores that the scheduler may put this process on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def quota(proc: Path = Path("/proc/self"), root: Path = Path("/")) -> float | None:
    """CPUs that the tightest cgroup around this process allows; None without a limit (or without cgroups).

    `root` stands before every mount point and `proc` for /proc/self, so that a test can bring its own files.
    """
    limits = [limit for folder in _groups(proc, root) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _groups(proc: Path, root: Path) -> Iterator[Path]:
    """Every cgroup folder that may limit this process: its own, and those around it as far as they are mounted."""
    for version, mounted, point in _mounts(proc):
        inside = _membership(proc, version)
        if inside is None:
            continue
        # In a container the mount may begin at the container's own group, while the membership is told from the
        # host's root: what lies outside the mount cannot be seen from here.
        below = inside.removeprefix(mounted) if mounted != "/" and inside.startswith(mounted) else inside
        top = root / point.lstrip("/")
        parts = [part for part in below.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:depth])


def _mounts(proc: Path) -> Iterator[tuple[int, str, str]]:
    """(version, group at which the mount begins, mount point) of each mounted hierarchy that holds CPU limits."""
    for line in _text(proc / "mountinfo").splitlines():
        before, separator, after = line.partition(" - ")
        fields, behind = before.split(), after.split()
        if not separator or len(fields) < 5 or not behind:
            continue
        if behind[0] == "cgroup2":
            yield 2, fields[3], _unescape(fields[4])
        elif behind[0] == "cgroup" and "cpu" in behind[-1].split(","):
            yield 1, fields[3], _unescape(fields[4])


def _membership(proc: Path, version: int) -> str | None:
    """The group of this process, as /proc/self/cgroup tells it: `0::/a/b` (v2) or `4:cpu,cpuacct:/a/b` (v1)."""
    for line in _text(proc / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (number == "0" and not controllers) if version == 2 else ("cpu" in controllers.split(",")):
            return path
    return None


def _limit(folder: Path) -> float | None:
    """CPUs that one group allows; None where it sets no limit or says nothing that can be read."""
    words = _text(folder / "cpu.max").split() or [
        *_text(folder / "cpu.cfs_quota_us").split(),
        *_text(folder / "cpu.cfs_period_us").split(),
    ]
    with suppress(ValueError, ZeroDivisionError):
        if len(words) >= 2 and (limit := float(words[0]) / float(words[1])) > 0:
            return limit  # "max" is no number, and -1 stands for no limit
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _unescape(word: str) -> str:
    return word.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
