"""What every rank but 0 does: it runs its block as a child of its own and passes on what the child says."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from repro import data
from repro.engine.processes import fork_server as server
from repro.engine.processes.child import Child, end_all, start_child
from repro.engine.processes.launch import Launch
from repro.engine.transport.meeting import Meeting
from repro.errors import ReproError, UserError
from repro.hosts.agreement import digest, settings
from repro.hosts.interfaces import Interface
from repro.hosts.wire import Wire
from repro.planning.block_times import BlockTimes
from repro.planning.run_plan import Plan, data_root
from repro.recipe import Recipe, StragglerSpec, run_hash

QUIET_SECONDS = 5.0  # without a word of the child: say what it waits for
_LOG_BYTES = 1 << 16  # of what libraries said, the end is passed on


@dataclass
class Member:
    """A rank that serves rank 0 over `wire` until told to quit."""

    wire: Wire
    first_host: str
    interface: Interface
    recipes: Sequence[Recipe]

    def serve(self) -> tuple[int, str]:
        """Do what rank 0 asks; returns the exit code and words with which the command ends. WireCut if rank 0 goes."""
        while True:
            kind, *values = self.wire.receive()
            if kind == "plans":
                self._resolve(values[0])
            elif kind == "run":
                self._run(values[0])
            elif kind == "quit":
                return int(values[0]), str(values[1])
            # "end" for a block that has just ended by itself

    def _resolve(self, plans: Sequence[dict[str, Any]]) -> None:
        """Prepare the data of all plans here, and see that each run would have the same name on this host."""
        try:
            for plan in plans:
                recipe = self._recipe(plan["recipe"])
                data.prepare(recipe.data, data_root(recipe))
                self._compare(plan, recipe)
        except ReproError as error:
            self.wire.send("refused", str(error), error.exit_code)
            return
        self.wire.send("ready")

    def _compare(self, plan: dict[str, Any], recipe: Recipe) -> None:
        identity = data.identity(recipe.data, data_root(recipe))
        number = run_hash(
            recipe,
            device=plan["device"],
            data_identity=identity,
            cut=tuple(plan["cut"]),
            memory_format=plan["memory_format"],
        )
        if number != plan["hash"]:
            raise UserError(
                f"{recipe.name} is run {plan['hash']} on {self.first_host} (data {plan['data_identity']}) and {number} "
                f"here (data {identity}): all hosts need the same data and code"
            )

    def _recipe(self, name: str, straggler: dict[str, Any] | None = None) -> Recipe:
        """This host's own recipe with these settings; with `straggler` the name leaves the delays out."""
        for recipe in self.recipes:
            if straggler is None and digest(settings(recipe)) == name:
                return recipe
            calm = recipe.model_copy(update={"straggler": StragglerSpec()})
            if straggler is not None and digest(settings(calm)) == name:
                return recipe.model_copy(update={"straggler": StragglerSpec(**straggler)})
        raise UserError(f"no recipe here has the settings {name} of {self.first_host}")

    def _run(self, job: dict[str, Any]) -> None:
        """Run a block to its end, or until rank 0 wants it ended."""
        scratch = Path(tempfile.mkdtemp(prefix="repro-block-"))
        try:
            self._watch(*self._start(job, scratch), scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _start(self, job: dict[str, Any], scratch: Path) -> tuple[Child, Any, int]:
        recipe = self._recipe(job["recipe"], job["straggler"])
        plan = Plan(**job["plan"], recipe=recipe, data_root=data_root(recipe), costs=None)
        rank, resume = int(job["rank"]), None
        if job["resume"] is not None:
            resume = scratch / "resume"
            resume.mkdir()
            (resume / f"block-{rank}.pt").write_bytes(job["resume"])
        times = job["block_times"]
        meeting = replace(Meeting(**job["meeting"]), interface=self.interface.name)
        status = server.context(plan.devices[rank]).RawArray("q", 3 * plan.ranks)
        launch = Launch(
            plan,
            job["seed"],
            checkpoints=scratch if job["saves"] else None,
            resume=resume,
            typical_seconds=job["typical_seconds"],
            block_times=None if times is None else tuple(BlockTimes(**t) for t in times),
        )
        own = launch.job((rank,), meeting, scratch / "blocks.log")
        return start_child((rank,), plan.devices[rank], own, status), status, rank

    def _watch(self, child: Child, status: Any, rank: int, scratch: Path) -> None:
        known: list[int] = []
        try:
            while not child.closed:
                sources: list[Any] = [child.connection, self.wire]
                ready: list[Any] = list(wait(sources, timeout=QUIET_SECONDS))
                if self.wire in ready:  # only "end" can come now, or the end of rank 0
                    self.wire.receive()
                    break
                if child.connection in ready:
                    self._pass_on(child, scratch)
                elif (waits := list(status[3 * rank : 3 * rank + 3])) != known:
                    known = waits
                    self.wire.send("waits", waits)
        finally:
            end_all([child])
        child.process.join()
        self.wire.send("gone", child.process.exitcode, child.process.pid, _said(scratch / "blocks.log"))

    def _pass_on(self, child: Child, scratch: Path) -> None:
        """One message of the child, with the file of a checkpoint."""
        try:
            message = child.connection.recv()
        except (EOFError, OSError):
            child.closed = True
            return
        content = b""
        if message[0] == "saved":
            file = scratch / message[4]
            content = file.read_bytes()
            file.unlink()
        elif message[0] == "done":
            child.summaries[message[1]] = {}
        elif message[0] == "failed":
            _, rank, trace, text, secondary, code = message
            message = ("failed", rank, trace, f"{text} (on {socket.gethostname()})", secondary, code)
        self.wire.send("told", message, content)


def _said(log: Path) -> str:
    try:
        return log.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
    except OSError:
        return ""
