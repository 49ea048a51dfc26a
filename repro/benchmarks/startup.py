"""`repro bench startup`: how long a user waits for --help, list and a first smoke run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from repro.benchmarks.rounds import with_interval

COMMANDS = (("--help",), ("list",), ("run", "bp-resnet98", "--profile", "smoke"))


def rows(rounds: int = 5) -> list[dict[str, Any]]:
    """Wall-clock seconds of each command as a process of its own."""
    cli = Path(__file__).resolve().parents[2] / "cli.py"
    start = [sys.executable, str(cli)] if cli.is_file() else [sys.executable, "-m", "cli"]
    times: dict[str, list[float]] = {" ".join(c): [] for c in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for command in COMMANDS:
                extra = ["--runs", f"{folder}/{number}"] if command[0] == "run" else []
                begin = time.perf_counter()
                subprocess.run([*start, *command, *extra], check=True, capture_output=True)
                times[" ".join(command)].append(time.perf_counter() - begin)
    return [
        {"command": f"repro {name}", **with_interval("seconds", values)} for name, values in times.items()
    ]
