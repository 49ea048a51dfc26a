"""Who may run a seed: locks on one host, heartbeats between hosts."""

import errno
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import filelock
import pytest

from repro.errors import ReproError
from repro.holding import InUse, TakenOver, holder, holding
from repro.holding.holder import Holder

PERIOD = 0.02


@pytest.fixture
def said() -> list[str]:
    return []


def elsewhere(folder: Path, silent: float, **more: Any) -> Holder:
    """A run of another host whose last heartbeat was `silent` seconds ago."""
    there = replace(Holder.here(10.0), host="node7", place="another kernel", pid=4711, token="t7", **more)
    (folder / ".holder").write_text(json.dumps(asdict(there)))
    os.utime(folder / ".holder", (time.time() - silent,) * 2)
    return there


def hold(folder: Path, said: list[str], **more: Any) -> Any:
    return holding(folder, blocking=False, say=said.append, period=PERIOD, **more)


def test_the_holder_tells_who_and_beats_and_goes_with_the_run(tmp_path: Path, said: list[str]) -> None:
    with hold(tmp_path, said, batches=40):
        first = holder.read(tmp_path)
        assert first is not None
        assert (first.holder.pid, first.holder.batches) == (os.getpid(), 40)
        os.utime(tmp_path / ".holder", (0, 0))
        end = time.monotonic() + 5
        while holder.read(tmp_path).beat == 0:  # type: ignore[union-attr]
            assert time.monotonic() < end, "no heartbeat"
            time.sleep(PERIOD / 2)
    assert holder.read(tmp_path) is None
    assert said == []


def test_a_second_one_is_told_who_has_it(tmp_path: Path, said: list[str]) -> None:
    with hold(tmp_path, said), pytest.raises(InUse), hold(tmp_path, said):
        pass
    assert f"in use by pid {os.getpid()} on " in said[0]


def test_a_fresh_heartbeat_of_another_host_is_respected_where_locks_do_not_reach_it(
    tmp_path: Path, said: list[str]
) -> None:
    elsewhere(tmp_path, silent=30, job="12_3")
    with pytest.raises(InUse), hold(tmp_path, said):
        pass
    assert "in use by pid 4711 on node7 since 20" in said[0]
    assert "job 12_3" in said[0]
    assert (tmp_path / ".holder").is_file()


@pytest.mark.parametrize("server_keeps_the_lock", [False, True])
def test_an_old_heartbeat_of_another_host_is_taken_over_with_a_warning(
    server_keeps_the_lock: bool, tmp_path: Path, said: list[str]
) -> None:
    elsewhere(tmp_path, silent=61)  # six beats of ten seconds
    dead = filelock.FileLock(tmp_path / ".lock")
    if server_keeps_the_lock:
        dead.acquire()
    with hold(tmp_path, said):
        assert holder.read(tmp_path).holder.pid == os.getpid()  # type: ignore[union-attr]
        with pytest.raises(InUse), hold(tmp_path, said):
            pass
    assert "taken over from pid 4711 on node7" in said[0]
    assert "no sign of life for 61 s" in said[0]
    dead.release()


def test_a_dead_process_of_this_host_is_followed_at_once(tmp_path: Path, said: list[str]) -> None:
    process = multiprocessing.get_context("fork").Process(target=lambda: None)
    process.start()
    process.join()
    gone = replace(Holder.here(10.0), pid=process.pid or 0, born="1", token="gone")
    (tmp_path / ".holder").write_text(json.dumps(asdict(gone)))
    with hold(tmp_path, said):
        pass
    assert said == []


def test_a_zombie_of_this_host_is_dead(tmp_path: Path, said: list[str]) -> None:
    """In a container whose first process reaps nobody, a killed run keeps its pid."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    assert child.pid is not None
    its = replace(Holder.here(10.0), pid=child.pid, born=holder._born(child.pid), token="z")
    (tmp_path / ".holder").write_text(json.dumps(asdict(its)))
    with pytest.raises(InUse), hold(tmp_path, said):
        pass
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and still there
    with hold(tmp_path, said):
        assert holder._runs(os.getpid())
    child.join()


def test_without_locks_the_holder_alone_keeps_runs_apart(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", refused)
    with hold(tmp_path, said):
        mine = holder.read(tmp_path)
        assert mine is not None
        other = replace(mine.holder, pid=os.getppid(), born=holder._born(os.getppid()), token="other")
        (tmp_path / ".holder").write_text(json.dumps(asdict(other)))
        with pytest.raises(InUse), hold(tmp_path, said):
            pass
    assert "has no locks" in said[0]


def test_of_many_takers_one_has_it(tmp_path: Path) -> None:
    """Without locks at all: the takeover itself lets one through."""
    elsewhere(tmp_path, silent=1000)
    context = multiprocessing.get_context("fork")
    go, won, end = context.Event(), context.Value("i", 0), context.Event()

    def take() -> None:
        filelock.FileLock.acquire = _no_locks  # type: ignore[assignment,method-assign]
        go.wait()
        try:
            with holding(tmp_path, blocking=False, say=lambda words: None, period=1.0):
                with won.get_lock():
                    won.value += 1
                end.wait(20)
        except InUse:
            pass

    takers = [context.Process(target=take) for _ in range(8)]
    for taker in takers:
        taker.start()
    go.set()
    deadline = time.monotonic() + 20
    while sum(taker.is_alive() for taker in takers) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert won.value == 1
    end.set()
    for taker in takers:
        taker.join()


def _no_locks(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSYS, "none")


def test_who_has_lost_its_run_ends_and_leaves_the_others_file(tmp_path: Path, said: list[str]) -> None:
    with hold(tmp_path, said) as mine:
        mine.check()
        elsewhere(tmp_path, silent=0)
        assert "taken over by pid 4711 on node7" in _raised(mine.check, TakenOver)
    assert holder.read(tmp_path).holder.host == "node7"  # type: ignore[union-attr]


def _raised(check: Callable[[], None], error: type[ReproError]) -> str:
    """What it raises within five seconds, in words."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            check()
        except error as found:
            return str(found)
        time.sleep(PERIOD)
    raise AssertionError("nothing was raised")


def test_who_waits_gets_it_when_the_other_ends(tmp_path: Path, said: list[str]) -> None:
    other = filelock.FileLock(tmp_path / ".lock")
    other.acquire()
    waited: list[str] = []

    def say(words: str) -> None:
        waited.append(words)
        other.release()

    with holding(tmp_path, blocking=True, say=say, period=PERIOD):
        pass
    assert "waiting for it to end" in waited[0]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x", "host": 1}', '{"host": "a"}'])
def test_an_unreadable_holder_is_waited_for_while_new_and_then_ignored(
    content: str, tmp_path: Path, said: list[str]
) -> None:
    (tmp_path / ".holder").write_text(content)
    with pytest.raises(InUse), holding(tmp_path, blocking=False, say=said.append, period=5.0):
        pass
    os.utime(tmp_path / ".holder", (time.time() - 100,) * 2)
    with hold(tmp_path, said):
        pass
