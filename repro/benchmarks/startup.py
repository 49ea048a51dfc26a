"""`repro bench startup`: how long a user waits for --help, list and a first smoke run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from repro.benchmarks.rounds import with_interval
from repro.benchmarks.turns import Turn, Turns

COMMANDS = (("--help",), ("list",), ("run", "bp-resnet98", "--profile", "smoke"))


def rows(turns: Turns) -> list[dict[str, Any]]:
    """Wall-clock seconds of each command as a process of its own."""
    cli = Path(__file__).resolve().parents[2] / "cli.py"
    start = [sys.executable, str(cli)] if cli.is_file() else [sys.executable, "-m", "cli"]
    with tempfile.TemporaryDirectory() as folder:

        def seconds(command: Sequence[str]) -> float:
            extra = ["--fresh"] if command[0] == "run" else []
            begin = time.perf_counter()
            subprocess.run([*start, *command, *extra], check=True, capture_output=True, cwd=folder)
            return time.perf_counter() - begin

        times = turns.measure(
            {" ".join(c): Turn(partial(seconds, c), 15.0 if c[0] == "run" else 0.4) for c in COMMANDS}
        )
    return [
        {"command": f"repro {name}", **with_interval("seconds", values)} for name, values in times.items()
    ]
