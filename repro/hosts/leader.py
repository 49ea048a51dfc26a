"""Rank 0's side of a run on several hosts: hands blocks to the other ranks, and hears of them as of its own child."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from repro.engine.processes import checkpoint
from repro.engine.processes.child import Child, ending
from repro.engine.transport.meeting import Meeting
from repro.errors import UserError
from repro.hosts.agreement import Hello, digest, placement, settings
from repro.hosts.interfaces import Interface
from repro.hosts.joining import Refused
from repro.hosts.wire import Wire, WireCut
from repro.hosts.world import World
from repro.planning.run_plan import Plan

_KEPT = ("recipe", "data_root", "given", "costs")  # of a plan: each host has its own, or needs none


@dataclass
class HostsTeam:
    """All ranks of a run. `wires`: to every other rank; `lost`: words about the first one that went away."""

    world: World
    hellos: Sequence[Hello]
    interface: Interface
    wires: dict[int, Wire]
    silence: float
    lost: str = ""
    _runs: int = 0

    @property
    def ranks(self) -> list[int]:
        """torchrun's rank for each rank of the run (block k of replica r is number r * K + k)."""
        return placement(self.hellos)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host that has each rank of the run."""
        return tuple(self.hellos[rank].host for rank in self.ranks)

    @property
    def unit(self) -> str:
        """What is counted through the hosts: blocks, or where a recipe has several replicas of them, ranks."""
        several = any(recipe.get("replicas", 1) > 1 for recipe in self.hellos[0].recipes)
        return "rank" if several else "block"

    @property
    def threads(self) -> int:
        """A block's threads where the host that is worst off shares its cores among its blocks."""
        return max(1, min(h.cores // self.hosts.count(h.host) for h in self.hellos))

    def words(self, out: Path) -> str:
        """Who has which blocks, who writes the results, and what of the machines may show in the last bits."""
        shares = {
            host: [str(k) for k, h in enumerate(self.hosts) if h == host]
            for host in dict.fromkeys(self.hosts)
        }
        said = "; ".join(f"{self.unit}s {', '.join(ranks)} on {host}" for host, ranks in shares.items())
        processors = {h.processor for h in self.hellos}
        mixed = (
            ""
            if len(processors) == 1
            else f"; processors differ ({', '.join(sorted(processors))}): so may bits"
        )
        return f"{said}; results in {out} on {self.hosts[0]}{mixed}"

    def placed(self, plan: Plan) -> Plan:
        """The plan with its blocks on these hosts, each on a GPU of its own there while there are enough."""
        members = [self.hellos[rank] for rank in self.ranks]
        devices = plan.devices
        if plan.devices[0] != "cpu":
            devices = tuple(f"cuda:{h.local_rank % max(1, h.gpus)}" for h in members)
        crowded = any(
            self.hosts.count(h.host) * (1 if h.gpus else plan.threads) > (h.gpus or h.cores) for h in members
        )
        return replace(plan, devices=devices, hosts=self.hosts, crowded=crowded)

    def agree(self, plans: Sequence[Plan]) -> None:
        """Let every rank prepare its data and resolve the plans; Refused where one finds another identity."""
        for wire in self.wires.values():
            wire.send("plans", [_identity(plan) for plan in plans])
        for rank, wire in sorted(self.wires.items()):
            answer = wire.receive()
            if answer[0] == "refused":
                raise Refused(f"{self.hellos[rank].host}: {answer[1]}", int(answer[2]))

    def meeting(self) -> Meeting:
        """Where the blocks of the next run meet: under a prefix of its own in torchrun's store."""
        self._runs += 1
        world, prefix = self.world, f"{self.world.prefix}/run-{self._runs}"
        return Meeting(world.port, world.address, self.interface.name, prefix, self.hosts)

    def start(self, rank: int, plan: Plan, job: dict[str, Any], status: Any) -> Child:
        """Have the run's rank `rank` started by the process that has it."""
        there = self.ranks[rank]
        resume: Path | None = job["resume"]
        meeting: Meeting = job["meeting"]
        far = FarBlock(self, rank, there, self.wires[there], job["checkpoints"], job["log"], status)
        far.send(
            "run",
            {
                "recipe": digest(settings(plan.recipe.model_copy(update={"straggler": _no_delays(plan)}))),
                "straggler": plan.recipe.straggler.model_dump(mode="json"),
                "plan": {f.name: getattr(plan, f.name) for f in fields(plan) if f.name not in _KEPT},
                "rank": rank,
                "seed": job["seed"],
                "meeting": asdict(meeting),
                "saves": job["checkpoints"] is not None,
                "resume": None if resume is None else (resume / f"block-{rank}.pt").read_bytes(),
                "typical_seconds": job["typical_seconds"],
                "block_times": None
                if job["block_times"] is None
                else [asdict(t) for t in job["block_times"]],
            },
        )
        return Child((rank,), far, far)

    def close(self, code: int, words: str) -> None:
        """Tell every rank how the command ends; they end so too."""
        for wire in self.wires.values():
            with suppress(WireCut):
                wire.send("quit", code, words)
            wire.close()


class FarBlock:
    """Stands in for the process of a block (a rank of the run) on another host, and for the pipe to it.

    `there`: the number of that process among those that torchrun has started.
    """

    def __init__(
        self,
        team: HostsTeam,
        rank: int,
        there: int,
        wire: Wire,
        checkpoints: Path | None,
        log: Path,
        status: Any,
    ) -> None:
        self._team, self._rank, self._wire = team, rank, wire
        self._host = team.hellos[there].host
        self._checkpoints, self._log, self._status = checkpoints, log, status
        self._gone = False
        self.end_words = ""
        self.exitcode: int | None = None
        self.pid = 0

    # -- as a connection ------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """For multiprocessing.connection.wait."""
        return self._wire.fileno()

    def send(self, kind: str, *values: Any) -> None:
        """Send something to the block's rank; a wire that is cut is found when it is read."""
        with suppress(WireCut):
            self._wire.send(kind, *values)

    def recv(self) -> tuple[Any, ...]:
        """The block's next message; EOFError once it has ended, or its host is lost."""
        try:
            kind, *values = self._wire.receive()
        except WireCut as cut:
            self._lose(str(cut))
            raise EOFError from None
        if kind == "told":
            message, content = values
            if message[0] == "saved" and self._checkpoints is not None:
                checkpoint.write(self._checkpoints / message[4], content)
            return tuple(message)
        if kind == "waits":
            self._status[3 * self._rank : 3 * self._rank + 3] = values[0]
            return ("waits",)
        if kind == "gone":
            self._end(*values)
        elif kind == "leaving":
            self._lose(values[0])
        raise EOFError

    def close(self) -> None:
        """The wire is kept for the next run."""

    # -- as a process ---------------------------------------------------------------------------------------

    def is_alive(self) -> bool:
        """Whether the block's process may still run."""
        return not self._gone

    def terminate(self) -> None:
        """Have it ended, and killed where it does not end soon."""
        self.send("end")

    kill = terminate

    def join(self, seconds: float | None = None) -> None:
        """Wait until it has ended, leaving nothing of it on the wire; its last messages are dropped."""
        end = time.monotonic() + (self._team.silence if seconds is None else seconds)
        while not self._gone and self._wire.poll(max(0.0, end - time.monotonic())):
            with suppress(EOFError):
                self.recv()
        if not self._gone and seconds is None:
            self._lose(f"it has not ended its block within {self._team.silence:g} s")

    def _end(self, code: int | None, pid: int, said: str) -> None:
        self._gone, self.exitcode, self.pid = True, code, pid
        self.end_words = f"its process (pid {pid} on {self._host}) {ending(code)}"
        if said:
            with suppress(OSError), self._log.open("a", encoding="utf-8") as log:
                log.write(said)

    def _lose(self, words: str) -> None:
        self._gone = True
        there = ", ".join(str(k) for k, host in enumerate(self._team.hosts) if host == self._host)
        ranks = f"{self._team.unit}{'s' if ',' in there else ''} {there}"
        self.end_words = (
            f"{self._host} ({ranks}) is lost, {words}; the same command on all hosts "
            "goes on from the last checkpoint"
        )
        self._team.lost = self._team.lost or self.end_words


def _identity(plan: Plan) -> dict[str, Any]:
    """What a rank needs to find its own name for a run, and to compare."""
    return {
        "recipe": digest(settings(plan.recipe)),
        "hash": plan.hash,
        "cut": plan.cut,
        "memory_format": plan.memory_format,
        "device": plan.devices[0].split(":")[0],
        "data_identity": plan.data_identity,
        "blocks": plan.blocks,
    }


def _no_delays(plan: Plan) -> Any:
    """The straggler experiment runs a recipe without its delays first: the rest names the recipe."""
    return type(plan.recipe.straggler)()


def check_recipes(recipes: Sequence[Any], engine: str) -> None:
    """Raise UserError where a recipe, or the engine asked for, has no blocks on several hosts."""
    if engine == "sequential":
        raise UserError(
            "--engine sequential carries out all blocks in one process, so it cannot be spread over hosts: leave "
            "--engine or the launcher out. Allowed: processes, auto"
        )
    for recipe in recipes:
        if recipe.experiment in ("gradient-gap", "bias"):
            raise UserError(
                f"{recipe.name} ({recipe.experiment}) is one program in one process, so it cannot be spread over hosts: "
                "run it without the launcher"
            )
