"""`make soak`: many tiny runs, each hit by a random fault; every one must end with the bits of an untouched run.

    python -m tests.soak [--runs 200] [--seed 0] [--folder DIR]

Which fault hits which run, and when, is a function of (seed, number of the run). Results stay in the folder, so that
the same command goes on where it was cut off. Exit 1 if anything was lost.

"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cli
import repro.engine.processes.preload
import repro.runner  # noqa: F401
from repro.engine.processes import fork_server as server
from tests.programs import RUNS, SMOKE, TINY, children, gone, record, settings

METHODS: dict[str, list[str]] = {
    "bp": ["run", TINY["bp"]],
    "dsp": ["run", TINY["dsp"]],
    "dsp-long": ["run", TINY["dsp"], *settings(staleness="p=4 q=3")],
    "fr": ["run", TINY["fr"]],
    "gpipe": ["run", TINY["gpipe"]],
    "ddg": ["run", TINY["bp"].replace("tiny-bp", "tiny-ddg")],
    "fdg": ["run", TINY["bp"].replace("tiny-bp", "tiny-fdg")],
    "dni": ["run", TINY["bp"].replace("tiny-bp", "tiny-dni")],
    "2bw": ["run", TINY["bp"], *settings(method__name="2bw")],
    "delayed": ["run", TINY["bp"], *settings(method__name="delayed", method__delay=2)],
    "pipemare-corrected": [
        "run",
        TINY["bp"],
        *settings(method__name="pipemare", corrections="[rescheduling, discrepancy]"),
    ],
    "ddg-corrected-nadam": [
        "run",
        TINY["bp"].replace("tiny-bp", "tiny-ddg"),
        *settings(optimizer="{name: nadam, lr: 0.003}", corrections="[prediction, compensation]"),
    ],
    "fr-muon": [
        "run",
        TINY["fr"],
        *settings(optimizer__name="muon", optimizer__lr=0.01, optimizer__filters="flatten"),
    ],
}
EPOCHS = 3
FAULTS = (
    "kill parent", "kill one block", "kill all", "terminate", "interrupt", "stop and go on", "full disk",
    "second writer", "clock jump", "cut file",
)  # fmt: skip
PATIENCE = 120.0


@dataclass
class Case:
    """Run number `number`: what is run, and what happens to it."""

    number: int
    seed: int
    method: str = ""
    blocks: int = 1
    fault: str = ""
    draw: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.draw = random.Random(f"{self.seed} {self.number}")
        self.fault = FAULTS[self.number % len(FAULTS)]  # each equally often
        self.method = self.draw.choice(sorted(METHODS))
        self.blocks = self.draw.choice((1, 2, 3))

    @property
    def words(self) -> list[str]:
        """The command, without the folder of runs."""
        return [*METHODS[self.method], *settings(blocks=self.blocks, epochs=EPOCHS), *SMOKE]


class Forked:
    """A command in a process forked from this one, which has imported everything: 200 runs import nothing again.

    Its blocks are forked from it in turn (the program itself takes a fork server, which the suite's tests go through).
    """

    def __init__(self, words: list[str], out: Path, before: Callable[[], None] = lambda: None) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._code: int | None = None
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(words, out, before)

    def _run(self, words: list[str], out: Path, before: Callable[[], None]) -> None:
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            said = os.open(out / "said.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            for number in (1, 2):
                os.dup2(said, number)
            server.warm_up = lambda: None
            server.context = lambda device: multiprocessing.get_context("fork")
            sys.argv = ["repro", *words, RUNS, str(out)]
            before()
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        """The exit code, or None while it runs; minus the signal's number where one has ended it."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self) -> int:
        """The exit code; after PATIENCE the run is ended and counts as lost."""
        end = time.monotonic() + PATIENCE
        while self.poll() is None:
            if time.monotonic() > end:
                for pid in [*children(self.pid), self.pid]:
                    kill(pid, signal.SIGKILL)
            time.sleep(0.005)
        assert self._code is not None
        return self._code


begin = Forked


def finish(words: list[str], out: Path) -> int:
    """Run the same command to its end."""
    return begin(words, out).wait()


def steps(out: Path) -> int:
    """Lines that the run has written so far."""
    found = [p.read_bytes().count(b"\n") for p in out.glob("*/*/seed-0/metrics.jsonl")]
    return max(found, default=0)


def wait_until(process: Forked, out: Path, lines: int) -> bool:
    """Wait until the run has written `lines` lines; False where it ended before."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if steps(out) >= lines:
            return True
        time.sleep(0.005)
    return False


def kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def hit(case: Case, out: Path) -> tuple[bool, str]:
    """Run the case once with its fault; (whether the fault came before the run's end, what was wrong)."""
    lines = case.draw.randint(1, 7 * EPOCHS + EPOCHS - 1)
    if case.fault == "full disk":
        return full_disk(case, out)
    if case.fault == "second writer":
        first, second = begin(case.words, out), begin(case.words, out)
        codes = [first.wait(), second.wait()]
        return True, "" if codes == [0, 0] else f"two writers ended with {codes}"
    jump = case.draw.choice((-86400.0, 3600.0, 86400.0)) if case.fault == "clock jump" else 0.0
    process = begin(case.words, out, lambda: jump_later(jump))
    hurt = wait_until(process, out, lines)
    tree = [process.pid, *children(process.pid)]
    workers = children(process.pid)
    strike(case, process, workers)
    if case.fault in ("stop and go on", "clock jump"):
        code = process.wait()
        return hurt, "" if code == 0 else f"ended with {code}"
    process.wait()
    return hurt, "" if gone(tree) else "processes were left running"


def strike(case: Case, process: Forked, workers: list[int]) -> None:
    """The fault itself."""
    fault = case.fault
    if fault in ("kill parent", "cut file"):
        kill(process.pid, signal.SIGKILL)
    elif fault == "kill one block" and workers:
        kill(case.draw.choice(workers), signal.SIGKILL)
    elif fault == "kill all":
        for pid in [process.pid, *workers]:
            kill(pid, signal.SIGKILL)
    elif fault == "terminate":
        kill(process.pid, signal.SIGTERM)
    elif fault == "interrupt":
        kill(process.pid, signal.SIGINT)
    elif fault == "stop and go on":
        stopped = case.draw.choice([process.pid, *workers])
        kill(stopped, signal.SIGSTOP)
        time.sleep(case.draw.uniform(0.05, 0.5))
        kill(stopped, signal.SIGCONT)


def jump_later(seconds: float) -> None:
    """Make this process's wall clock jump 0.3 s from now."""
    true, start = time.time, time.monotonic()
    time.time = lambda: true() + (seconds if time.monotonic() - start > 0.3 else 0.0)


def full_disk(case: Case, out: Path) -> tuple[bool, str]:
    """No file of the run may grow beyond a limit: what a disk does that fills up while it is written."""
    limit = case.draw.choice((1, 2, 8, 64)) * 1024

    def before() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write itself fails then
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = begin(case.words, out, before)
    code = process.wait()
    return code != 0, ""


def damage(case: Case, out: Path) -> None:
    """Cut a few bytes off one of the files that a killed run has left."""
    files = [p for p in sorted(out.glob("*/*/seed-0/**/*")) if p.is_file() and p.stat().st_size > 8]
    if files:
        file = case.draw.choice(files)
        file.write_bytes(file.read_bytes()[: -case.draw.choice((1, 7, file.stat().st_size // 2))])


def one(case: Case, out: Path, reference: Callable[[Case], Any]) -> dict[str, Any]:
    """Hit, finish, compare; returns the line that is kept."""
    shutil.rmtree(out, ignore_errors=True)
    hurt, wrong = hit(case, out)
    if case.fault == "cut file":
        damage(case, out)
    code = finish(case.words, out)
    if code != 0 and not wrong:
        wrong = f"the second run ended with {code}"
    if not wrong:
        seeds = list(out.glob("*/*/seed-0"))
        if len(seeds) != 1 or record(seeds[0]) != reference(case):
            wrong = "the numbers differ from an untouched run"
    if not wrong:
        shutil.rmtree(out, ignore_errors=True)
    return {
        "number": case.number, "method": case.method, "blocks": case.blocks, "fault": case.fault,
        "hurt": hurt, "wrong": wrong,
    }  # fmt: skip


def main() -> int:
    """Run what is missing, print the figures; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "repro-soak")
    parser.add_argument("--fresh", action="store_true", help="begin again")
    chosen = parser.parse_args()
    folder = chosen.folder / f"seed-{chosen.seed}"
    if chosen.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("REPRO_CACHE", str(folder / "cache"))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    known: dict[tuple[str, int], Any] = {}

    def reference(case: Case) -> Any:
        """The record of an untouched run of the same command, made once."""
        key = (case.method, case.blocks)
        if key not in known:
            out = folder / f"untouched-{case.method}-{case.blocks}"
            if finish(case.words, out) != 0:
                raise SystemExit(f"an untouched run of {key} failed: {out / 'said.txt'}")
            known[key] = record(next(out.glob("*/*/seed-0")))
        return known[key]

    kept = folder / "lines.jsonl"
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {line["number"] for line in lines}
    started = time.monotonic()
    for number in range(chosen.runs):
        if number in done:
            continue
        case = Case(number, chosen.seed)
        line = one(case, folder / f"run-{number}", reference)
        lines.append(line)
        with kept.open("a") as file:
            file.write(json.dumps(line) + "\n")
        lost = sum(bool(row["wrong"]) for row in lines)
        print(
            f"{len(lines)}/{chosen.runs}  {case.method} K={case.blocks}: {case.fault}"
            f"{'' if line['hurt'] else ' (after its end)'}  {line['wrong'] or 'survived'}  lost {lost}",
            flush=True,
        )
    return report(lines, time.monotonic() - started)


def report(lines: list[dict[str, Any]], seconds: float) -> int:
    """Faults injected, survived, lost."""
    injected = Counter(row["fault"] for row in lines)
    early = Counter(row["fault"] for row in lines if row["hurt"])
    lost = Counter(row["fault"] for row in lines if row["wrong"])
    print(f"\n{'fault':<16} {'injected':>8} {'in time':>8} {'survived':>8} {'lost':>5}")
    for fault in FAULTS:
        survived = injected[fault] - lost[fault]
        print(f"{fault:<16} {injected[fault]:>8} {early[fault]:>8} {survived:>8} {lost[fault]:>5}")
    total = sum(lost.values())
    print(
        f"{'all':<16} {len(lines):>8} {sum(early.values()):>8} {len(lines) - total:>8} {total:>5}   {seconds:.0f} s"
    )
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
