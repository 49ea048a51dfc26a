"""Field report F36: cores are those that the process may really use, a container's CPU quota included."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from repro import cores
from tests.programs import RUNS, SMOKE, TINY, start

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
IN_DOCKER_V1 = "32 31 0:29 /docker/ab12 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
UNIFIED_BESIDE = V1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("mounts", "membership", "files", "expected"),
    [
        (V2, "0::/a/b\n", {"a/b/cpu.max": "150000 100000"}, 1.5),
        (V2, "0::/a/b\n", {"a/b/cpu.max": "max 100000"}, None),
        (V2, "0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 0.5),
        (V2, "0::/a/b\n", {"a/b/cpu.max": "400000 100000", "a/cpu.max": "300000 100000"}, 3.0),
        (V2, "0::/\n", {"cpu.max": "200000 100000"}, 2.0),
        (V2, "0::/../other\n", {"cpu.max": "200000 100000"}, 2.0),
        (V2, "0::/a\n", {}, None),
        (V2, "0::/a\n", {"a/cpu.max": ""}, None),
        (V2, "0::/a\n", {"a/cpu.max": "lots of them"}, None),
        (V2, "0::/a\n", {"a/cpu.max": "100000 0"}, None),
        (V2, "", {"cpu.max": "100000 100000"}, None),
        (
            V1,
            "4:memory:/m\n3:cpu,cpuacct:/c/d\n",
            {"cpu,cpuacct/c/d/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/c/d/cpu.cfs_period_us": "100000\n"},
            2.5,
        ),
        (
            V1,
            "3:cpu,cpuacct:/c\n",
            {"cpu,cpuacct/c/cpu.cfs_quota_us": "-1", "cpu,cpuacct/c/cpu.cfs_period_us": "100000"},
            None,
        ),
        (V1, "3:cpu,cpuacct:/c\n", {"cpu,cpuacct/c/cpu.cfs_quota_us": "100000"}, None),
        (
            IN_DOCKER_V1,
            "3:cpu:/docker/ab12\n",
            {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "50000"},
            2.0,
        ),
        (
            UNIFIED_BESIDE,
            "3:cpu,cpuacct:/c\n0::/\n",
            {"cpu,cpuacct/c/cpu.cfs_quota_us": "100000", "cpu,cpuacct/c/cpu.cfs_period_us": "100000"},
            1.0,
        ),
        ("", "0::/\n", {}, None),
        ("no such line\n", "nonsense\n", {}, None),
    ],
)
def test_quota_is_read_from_both_versions(
    mounts: str, membership: str, files: dict[str, str], expected: float | None, tmp_path: Path
) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "mountinfo").write_text(mounts)
    (proc / "cgroup").write_text(membership)
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert cores.quota(proc, tmp_path) == expected


def test_without_proc_there_is_no_limit(tmp_path: Path) -> None:
    assert cores.quota(tmp_path / "missing", tmp_path) is None


@pytest.mark.parametrize(
    ("allowed", "limit", "expected"), [(8, None, 8), (8, 2.9, 2), (8, 0.3, 1), (2, 6.0, 2), (1, 1.0, 1)]
)
def test_fractions_are_rounded_down_to_at_least_one(
    allowed: int, limit: float | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "affinity", lambda: allowed)
    monkeypatch.setattr(cores, "quota", lambda: limit)
    assert cores.cores() == expected


@pytest.fixture
def one_cpu() -> Iterator[Path]:
    """A cgroup of one CPU; removed afterwards. Skips with the reason where the test may make none."""
    made: Path | None = None
    try:
        for version, point in (
            (1, "/sys/fs/cgroup/cpu"),
            (1, "/sys/fs/cgroup/cpu,cpuacct"),
            (2, "/sys/fs/cgroup"),
        ):
            probe = Path(point) / ("cpu.cfs_quota_us" if version == 1 else "cgroup.subtree_control")
            if not probe.is_file() or (version == 2 and "cpu" not in probe.read_text().split()):
                continue
            made = Path(point) / f"repro-test-{os.getpid()}"
            made.mkdir()
            if version == 1:
                (made / "cpu.cfs_period_us").write_text("100000")
                (made / "cpu.cfs_quota_us").write_text("100000")
            else:
                (made / "cpu.max").write_text("100000 100000")
            break
    except OSError as error:
        pytest.skip(f"this test may make no cgroup ({error})")
    if made is None:
        pytest.skip("no cgroup hierarchy with CPU limits is mounted here")
    yield made
    with suppress(OSError):
        made.rmdir()


def test_a_run_under_a_quota_of_one_cpu_is_marked_and_states_no_speedup(
    one_cpu: Path, repro: Callable[..., object], tmp_path: Path
) -> None:
    """The same command under a real quota: two blocks on one CPU."""
    inside = ["sh", "-c", f'echo $$ > {one_cpu}/cgroup.procs && exec "$@"', "sh"]
    words = ["run", TINY["bp"], TINY["dsp"], "--set", "blocks=2", RUNS, str(tmp_path), *SMOKE]
    process = start(*words, before=inside)
    _, errors = process.communicate(timeout=150)
    assert process.returncode == 0, errors
    for seed in tmp_path.glob("*/*/seed-0"):
        environment = json.loads((seed / "env.json").read_text())
        assert (environment["cores"], environment["cpu_quota"]) == (1, 1.0)
        assert environment["affinity_cores"] == cores.affinity()
        assert json.loads((seed / "result.json").read_text())["oversubscribed"] is True
    assert errors.count("more blocks than cores: times are no speed-up") == 2
    table = repro("table", "speedup", "--profile", "smoke", "--format", "json", RUNS, str(tmp_path))
    rows = json.loads(table.stdout)["rows"]  # type: ignore[attr-defined]
    assert len(rows) == 2
    assert all(row["speedup"] is None for row in rows)
