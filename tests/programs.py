"""Programs that a test starts, watches, kills and compares: what the tests of the command line share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import forked
from tests.conftest import ROOT

RUNS = "--runs"  # the option that names the folder of runs, spelled in one place
TINY = {m: str(ROOT / "tests" / "recipes_for_tests" / f"tiny-{m}.yaml") for m in ("bp", "dsp", "fr", "gpipe")}
# Processes even where there are more blocks than cores: they are what is killed here.
SMOKE = ["--profile", "smoke", "--set", "runtime.threads=1", "--engine", "processes"]


def settings(**values: object) -> list[str]:
    """`--set` words; a double underscore stands for the dot of a key."""
    return [word for key, value in values.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


def start(
    *words: str,
    env: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    cwd: Path | None = None,
    real: bool = False,
) -> subprocess.Popen[str]:
    """Start a command in a session of its own; `before`: words in front of it, such as `unshare -n`.

    It is forked (tests/forked.py), or with `before` or `real` a new interpreter.
    """
    more: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        "stdin": subprocess.DEVNULL,
        "start_new_session": True,
        "cwd": cwd,
    }
    if not before and not real and forked.can_fork(env or {}):
        return forked.Command(words, **more)
    return subprocess.Popen(
        [*before, sys.executable, str(ROOT / "cli.py"), *words],
        # where the tests run in the background of a shell, Ctrl-C is ignored, and would be by what they start
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **more,
    )


def call(*words: str, timeout: float = 120, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever its exit code; `more` as for `start`."""
    process = start(*words, **more)
    try:
        out, errors = process.communicate(timeout=timeout)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def wait_for(process: subprocess.Popen[str], *words: str, seconds: float = 90) -> str:
    """Read stderr until each of `words` has been in a line, in any order."""
    assert process.stderr is not None
    seen = ""
    missing = set(words)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        line = process.stderr.readline()
        seen += line
        missing -= {word for word in missing if word in line}
        if not missing:
            return seen
        if not line and process.poll() is not None:
            break
    raise AssertionError(f"{sorted(missing)} did not come:\n{seen}")


def finish(words: Sequence[str], folder: Path, timeout: float = 120) -> str:
    """Run a command to its end; returns what it said."""
    done = call(*words, RUNS, str(folder), timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stderr


def alive(pids: Sequence[int]) -> list[int]:
    """Those of `pids` that still run (a zombie has ended)."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found


def gone(pids: Sequence[int], seconds: float = 10) -> bool:
    """Whether all of `pids` have ended within `seconds`."""
    end = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(pids)


def children(pid: int) -> list[int]:
    """All processes below `pid`."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        below.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        for child in below.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return found


def blocks(pid: int) -> list[int]:
    """The processes of the blocks of the command `pid`, in the order of their start: what the fork server has forked."""
    found = []
    for child in children(pid):
        try:
            command = Path(f"/proc/{child}/cmdline").read_text()
            parent = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if "forkserver" in command and parent != pid:
            found.append(child)
    return sorted(found)


def results(out: Path) -> list[dict[str, object]]:
    """Every result.json below a folder of runs."""
    return [json.loads(p.read_text()) for p in sorted(out.glob("*/*/seed-*/result.json"))]


def numbers(folder: Path) -> tuple[object, ...]:
    """Everything in a run's record that must not depend on interruptions."""
    return record(next(folder.glob("*/*/seed-0")))


def record(seed: Path) -> tuple[object, ...]:
    """The same of one seed's folder."""
    rows = [json.loads(line) for line in (seed / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row.pop("train_seconds", None)
    result = json.loads((seed / "result.json").read_text())
    steps = [r for r in rows if r["kind"] == "step"]
    epochs = [r for r in rows if r["kind"] == "epoch"]
    return steps, epochs, result["weight_change"], result["test_accuracy_best"], result["updates"]
