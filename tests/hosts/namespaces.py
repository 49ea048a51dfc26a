"""Two hosts on one machine: network namespaces joined by a virtual cable, each with a name of its own.

host-a (10.77.0.1) vxa ======== vxb (10.77.0.2) host-b
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

A, B = "10.77.0.1", "10.77.0.2"
PORT = 29511
TCP = {
    "tcp_slow_start_after_idle": "0",  # else it forgets after a pause of a fifth of a second how fast the way is
    "tcp_congestion_control": "reno",  # bbr, where it is the default, measures and slows down
}


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


def why_not() -> str:
    """Why namespaces with a cable cannot be made here; "" where they can."""
    if missing := [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]:
        return f"there is no `{missing[0]}` here (Debian: apt-get install iproute2)"
    name = f"repro-try-{os.getpid()}"
    tried = _ip("netns", "add", name)
    if not tried.returncode:
        tried = _ip("-n", name, "link", "add", "va", "type", "veth", "peer", "name", "vb")
        _ip("netns", "del", name)
    return f"no network namespace may be made here ({tried.stderr.strip()})" if tried.returncode else ""


class Hosts:
    """Both hosts; `a` and `b` are the names of their namespaces."""

    def __init__(self, a: str, b: str) -> None:
        self.a, self.b, self.between = a, b, ""

    def start(
        self, host: str, words: Sequence[str], env: Mapping[str, str] | None = None, **more: Any
    ) -> subprocess.Popen[str]:
        """Start a program on host "a" or "b", in a session of its own."""
        name = f'hostname host-{host}; exec "$@"'
        before = ["ip", "netns", "exec", self.a if host == "a" else self.b, "unshare", "-u", "sh", "-c", name]
        return subprocess.Popen(
            [*before, "sh", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(env or {})},
            **more,
        )

    def repro(self, host: str, *words: str, **more: Any) -> subprocess.Popen[str]:
        """`repro run WORDS` as one of two hosts."""
        launch = ["--launcher", "torchrun", "--nnodes", "2", "--rdzv", f"{A}:{PORT}"]
        return self.start(host, [sys.executable, str(ROOT / "cli.py"), "run", *words, *launch], **more)

    def both(
        self, *words: str, folder: Path, timeout: float = 150
    ) -> tuple[tuple[int, str], tuple[int, str]]:
        """The same command on both, each with its own disk; (exit code, stderr) of each."""
        processes = [self.repro(h, *words, "--runs", str(folder / h)) for h in "ab"]
        return ended(processes[0], timeout), ended(processes[1], timeout)

    @contextmanager
    def delayed(self, seconds: float) -> Iterator[None]:
        """Pass frames between the hosts of `long_cable`, late by `seconds`."""
        line = [sys.executable, "-m", "tests.hosts.delay_line", "wxa", "wxb", str(seconds)]
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.between, *line], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "passing\n"
            yield
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def cut(self) -> None:
        """Take the cable out: neither side hears of it."""
        _ip("-n", self.b, "link", "set", "vxb", "down")
        # a's own end must not notice either, as behind a switch that still has power
        _ip("-n", self.a, "link", "set", "vxa", "up")

    def mend(self) -> None:
        """Put the cable back."""
        _ip("-n", self.b, "link", "set", "vxb", "up")

    def kill(self, host: str) -> None:
        """End every process of a host at once, as a power failure does."""
        pids = _ip("netns", "pids", self.a if host == "a" else self.b).stdout.split()
        for number in (
            signal.SIGSTOP,
            signal.SIGKILL,
        ):  # stopped first: none may hear of another's end and speak
            for pid in pids:
                os.kill(int(pid), number)

    def processes(self) -> list[str]:
        """What still runs on either."""
        return [*_ip("netns", "pids", self.a).stdout.split(), *_ip("netns", "pids", self.b).stdout.split()]


def ended(process: subprocess.Popen[str], timeout: float) -> tuple[int, str]:
    """Exit code and stderr of a program once it has ended."""
    try:
        _, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
        raise AssertionError(f"did not end within {timeout:g} s:\n{errors}") from None
    return process.returncode, errors


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    """Make the hosts, and take them away again with all that runs on them."""
    with _namespaces("ab") as (a, b):
        _ip("-n", a, "link", "add", "vxa", "type", "veth", "peer", "name", "vxb", "netns", b)
        yield _up(a, b)


@contextmanager
def long_cable() -> Iterator[Hosts]:
    """Two hosts with a namespace between them, where `Hosts.delayed` passes what they send."""
    with _namespaces("abw") as (a, b, between):
        for host in (a, b):
            end = "a" if host == a else "b"
            peer = ["peer", "name", f"wx{end}", "netns", between]
            _ip("-n", host, "link", "add", f"vx{end}", "type", "veth", *peer)
            _ip("-n", between, "link", "set", f"wx{end}", "up")
        hosts = _up(a, b)
        hosts.between = between
        for host in (a, b):
            for name, value in TCP.items():
                words = f"echo {value} > /proc/sys/net/ipv4/{name}"
                subprocess.run(["ip", "netns", "exec", host, "sh", "-c", words], check=True)
        yield hosts


@contextmanager
def _namespaces(letters: str) -> Iterator[list[str]]:
    names = [f"repro-{letter}-{os.getpid()}" for letter in letters]
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            _ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            for pid in _ip("netns", "pids", name).stdout.split():
                os.kill(int(pid), 9)
            _ip("netns", "del", name)


def _up(a: str, b: str) -> Hosts:
    for name, device, address in ((a, "vxa", A), (b, "vxb", B)):
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
        _ip("-n", name, "link", "set", device, "up")
    return Hosts(a, b)
