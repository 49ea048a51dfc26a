"""What a run was made on: cores, processor or GPU, versions, git commit."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from repro.cores import affinity, cores, quota


@functools.lru_cache(maxsize=8)
def machine_name(device: torch.device) -> str:
    """The GPU's name, or the processor's name with the number of usable cores."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {cores()} cores"


def environment(command: list[str] | None = None) -> dict[str, Any]:
    """Versions, devices, git commit and command line, for env.json."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "repro": _version("repro"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{
            name: _version(name)
            for name in ("torch", "torchvision", "numpy", "numba", "cupy-cuda12x", "cupy-cuda13x")
        },
        "processor": machine_name(torch.device("cpu")),
        "cores": cores(),
        "affinity_cores": affinity(),
        "cpu_quota": quota(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "git": _git(),
        "command": command if command is not None else sys.argv,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git() -> dict[str, Any] | None:
    """Commit of the source tree and whether it had changes; None outside a checkout."""
    tree = Path(__file__).resolve().parents[2]
    if not (tree / ".git").exists():
        return None
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=tree, capture_output=True, text=True, timeout=10, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(changed)}
