"""Field report F37 and its kind: no usable loopback, nothing heard elsewhere, waits that end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.engine.processes.block_log import without_native_frames
from repro.engine.transport import loopback
from repro.engine.transport.meeting import Meeting
from repro.engine.transport.process_group import Network
from repro.errors import MissingError, UserError
from repro.recipe import RuntimeSpec
from tests.programs import (
    RUNS,
    SMOKE,
    TINY,
    blocks,
    children,
    gone,
    numbers,
    results,
    settings,
    start,
    wait_for,
)

NO_NAMESPACE = ""
if shutil.which("unshare") is None:
    NO_NAMESPACE = "there is no `unshare` here"
elif (
    tried := subprocess.run(["unshare", "-n", "true"], capture_output=True, text=True, check=False)
).returncode:
    NO_NAMESPACE = f"no network namespace may be made here ({tried.stderr.strip()})"
needs_namespace = pytest.mark.skipif(bool(NO_NAMESPACE), reason=NO_NAMESPACE)
WORDS = ["run", TINY["dsp"], "--set", "blocks=3", *SMOKE]
# Routing rules stand in for a packet filter: what goes to these ports is dropped.
BLOCKED = (
    "ip link set lo up && ip rule add pref 100 from all lookup local && ip rule del pref 0 && "
    'ip rule add pref 50 ipproto tcp dport 40000-40010 blackhole && exec "$@"'
)


@needs_namespace
@pytest.mark.alone
@pytest.mark.parametrize(
    ("prepare", "more"),
    [('exec "$@"', []), (BLOCKED, ["--set", "runtime.port=40005"])],
    ids=["lo is down", "blocked ports"],
)
def test_without_a_usable_loopback_one_sentence_and_exit_3(
    prepare: str, more: list[str], tmp_path: Path
) -> None:
    begin = time.monotonic()
    process = start(*WORDS, *more, RUNS, str(tmp_path), before=["unshare", "-n", "sh", "-c", prepare, "sh"])
    output, errors = process.communicate(timeout=60)
    if "ip: " in errors or "RTNETLINK" in errors:
        pytest.skip(f"the rules of this namespace cannot be changed: {errors.strip()}")
    assert process.returncode == 3, errors
    assert time.monotonic() - begin < 10
    assert len(errors.splitlines()) == 1
    assert "127.0.0.1, which cannot be used here" in errors
    assert output == ""
    assert not list(tmp_path.iterdir()), "said before anything is written"
    assert not children(process.pid)


@needs_namespace
def test_the_loopback_is_all_the_network_that_a_run_needs(tmp_path: Path) -> None:
    only = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    process = start(*WORDS, RUNS, str(tmp_path), before=only)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    assert results(tmp_path)[0]["status"] == "complete"
    assert "frame #" not in errors
    assert "[W" not in errors


def listening(pids: list[int]) -> set[str]:
    """The addresses at which these processes listen, as the kernel writes them."""
    sockets = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(entry)
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        file = Path("/proc/net") / table
        for line in file.read_text().splitlines()[1:] if file.exists() else []:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(fields[1].partition(":")[0])
    return found


def test_nothing_listens_on_another_address(tmp_path: Path) -> None:
    """Not the store where the blocks meet, nor gloo, even where the environment sends it elsewhere."""
    other = next((name for _, name in socket.if_nameindex() if not name.startswith("lo")), "eth0")
    process = start(*WORDS, "--set", "epochs=30", RUNS, str(tmp_path), env={"GLOO_SOCKET_IFNAME": other})
    wait_for(process, "epoch 1")
    try:
        found = listening([process.pid, *children(process.pid)])
    finally:
        process.kill()
        process.communicate()
    assert found, "the store and gloo listen somewhere"
    ours = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert found <= ours


def test_a_stopped_block_is_named_and_costs_nothing_but_time(tmp_path: Path) -> None:
    long = ["run", TINY["dsp"], *settings(blocks=3, epochs=8, runtime__stall_seconds=1), *SMOKE]
    process = start(*long, RUNS, str(tmp_path / "stopped"))
    wait_for(process, "epoch 2")
    stopped = blocks(process.pid)[1]
    os.kill(stopped, signal.SIGSTOP)
    try:
        said = wait_for(process, "nothing for 1 s")
        assert "waits for" in said
        assert "block 1)" in said
    finally:
        os.kill(stopped, signal.SIGCONT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    untouched = start(*long, RUNS, str(tmp_path / "untouched"))
    assert untouched.communicate(timeout=60) is not None
    assert numbers(tmp_path / "stopped") == numbers(tmp_path / "untouched")


def test_a_block_that_stays_silent_ends_the_run_after_the_time_that_was_set(tmp_path: Path) -> None:
    more = settings(epochs=30, runtime__stall_seconds=1, runtime__message_seconds=3)
    process = start(*WORDS, *more, RUNS, str(tmp_path))
    wait_for(process, "epoch 1")
    below = children(process.pid)
    os.kill(blocks(process.pid)[1], signal.SIGSTOP)
    _, errors = process.communicate(timeout=40)
    assert process.returncode == 1, errors
    assert "waited longer than runtime.message_seconds for block 1" in errors
    assert "frame #" not in errors
    assert "C++" not in errors
    assert gone(below)
    assert results(tmp_path)[0]["status"] == "failed"


def test_who_meets_nobody_says_so_in_time() -> None:
    with loopback.listen() as free:
        port = free.getsockname()[1]
    begin = time.monotonic()
    with pytest.raises(MissingError, match="block 0 could not reach the others"):
        Network(0, 2, ("cpu", "cpu"), Meeting(port), False, RuntimeSpec(rendezvous_seconds=1.0))
    assert time.monotonic() - begin < 15


def test_who_waits_for_a_block_that_never_comes_says_so_in_time() -> None:
    from repro.engine.processes.launch import rendezvous

    store = rendezvous(0)
    begin = time.monotonic()
    with pytest.raises(MissingError, match=r"within 1 s \(runtime\.rendezvous_seconds\)"):
        Network(0, 2, ("cpu", "cpu"), Meeting(store.port), False, RuntimeSpec(rendezvous_seconds=1.0))
    assert time.monotonic() - begin < 15


def test_a_port_that_swallows_connections_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def swallowed(*_: object, **__: object) -> socket.socket:
        raise TimeoutError("timed out")

    monkeypatch.setattr(loopback.socket, "create_connection", swallowed)
    with pytest.raises(MissingError, match="timed out"):
        loopback.listen()
    assert loopback.ANSWER_SECONDS < 10


def test_a_taken_port_is_the_users_to_change() -> None:
    with loopback.listen() as taken, pytest.raises(UserError, match=r"runtime\.port = "):
        loopback.listen(taken.getsockname()[1])


@pytest.mark.parametrize("name", ["rendezvous_seconds", "message_seconds", "stall_seconds"])
def test_a_time_that_is_none_is_refused(name: str, repro: Callable[..., object], tmp_path: Path) -> None:
    done = repro(*WORDS, "--set", f"runtime.{name}=0", RUNS, str(tmp_path))
    assert done.returncode == 2  # type: ignore[attr-defined]
    assert f"runtime.{name}" in done.stderr  # type: ignore[attr-defined]


def test_native_stacks_are_taken_out_of_a_message() -> None:
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1\nRuntimeError: reset by peer\n'
        "Exception raised from handleEof at pair.cc:12 (most recent call first):\n"
        "frame #0: c10::Error::Error() + 0x9 (0x7f in libc10.so)\nframe #1: <unknown> + 0x1"
    )
    assert without_native_frames(text) == text[: text.index("\nException raised")]
