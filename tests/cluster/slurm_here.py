"""A SLURM of one's own on this machine: munge, a controller and a node, from a folder, gone when the test ends.

    partitions   low    the default; its jobs are pre-empted (warned by their signal, then requeued)
                 high   pre-empts those of low

As a program it starts one and tells how to use it: `python -m tests.cluster.slurm_here FOLDER`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
KillWait=5
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=low Nodes={host} Default=YES MaxTime=60 State=UP PriorityTier=1 GraceTime=30
PartitionName=high Nodes={host} MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing() -> str:
    """Why there can be no SLURM here, with the command that helps; "" where there can."""
    absent = [name for name in PROGRAMS if _which(name) is None]
    if absent:
        return f"no {', '.join(absent)}: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "a SLURM of one's own needs root"


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Start one in `folder`; yields the environment in which its commands find it."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(parents=True)
    (folder / "munge").chmod(0o755)
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    configuration = folder / "slurm.conf"
    controller, node = _free_ports()
    configuration.write_text(
        CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            folder=folder,
            controller=controller,
            node=node,
            cpus=os.cpu_count(),
        )
    )
    environment = {"SLURM_CONF": str(configuration)}
    try:
        munge = folder / "munge"
        _run(
            "munged", "--force", f"--key-file={key}", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
            f"--seed-file={munge}/seed", f"--log-file={munge}/log",
        )  # fmt: skip
        _run("slurmctld", "-f", str(configuration))
        _run("slurmd", "-f", str(configuration))
        _until_idle(environment)
        yield environment
    finally:
        _call(environment, "scancel", "--user=root", "--quiet")
        for file in ("slurmd.pid", "slurmctld.pid", "munge/pid"):
            _end(folder / file)


def _until_idle(environment: dict[str, str], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if _call(environment, "sinfo", "-h", "-p", "low", "-o", "%t").split() == ["idle"]:
            return
        time.sleep(0.2)
    raise RuntimeError("SLURM's node has not come up")


def _call(environment: dict[str, str], *words: str) -> str:
    return subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, timeout=30, check=False
    ).stdout


def _run(name: str, *words: str) -> None:
    subprocess.run([_which(name) or name, *words], check=True, capture_output=True, timeout=30)


def _which(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _end(file: Path) -> None:
    """End the daemon whose pid a file has, and wait for it."""
    with suppress(OSError, ValueError):
        pid = int(file.read_text())
        os.kill(pid, signal.SIGTERM)
        for _ in range(100):
            os.kill(pid, 0)
            time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


if __name__ == "__main__":
    if words := missing():
        sys.exit(words)
    with slurm(Path(sys.argv[1]).absolute()) as found:
        print(" ".join(f"{name}={value}" for name, value in found.items()), "(Ctrl-C ends it)", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
