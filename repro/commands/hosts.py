"""`repro run` on several hosts: what torchrun is given to start, and what each process that it has started does."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repro import paths, trackers
from repro.commands.resolve import choose_all, choose_device, choose_seeds
from repro.errors import ReproError, RunFailed, UserError
from repro.recipe import Given, Recipe, RuntimeSpec

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

    from repro.hosts.interfaces import Interface
    from repro.hosts.leader import HostsTeam
    from repro.hosts.world import World

_PR_SET_PDEATHSIG = 1


class HostLost(RunFailed):
    """The host of rank 0 has gone."""


@dataclass(frozen=True)
class Asked:
    """The options of `repro run` that a run on several hosts has."""

    names: Sequence[str]
    seeds: int | None
    seed_list: str | None
    profile: str | None
    settings: Sequence[str]
    sweeps: Sequence[str]
    runs: Path | None
    device: str
    fail_fast: bool
    fresh: bool
    engine: str
    jobs: int
    log: Sequence[str] = ()

    def words(self) -> list[str]:
        """The same as words of a command line."""
        found = list(self.names)
        for option, value in (
            ("--seeds", self.seeds),
            ("--seed-list", self.seed_list),
            ("--profile", self.profile),
            ("--runs", self.runs),
            ("--device", self.device),
        ):
            found += [] if value is None else [option, str(value)]
        for option, values in (("--set", self.settings), ("--sweep", self.sweeps), ("--log", self.log)):
            found += [word for value in values for word in (option, value)]
        return found + ["--fail-fast"] * self.fail_fast + ["--fresh"] * self.fresh + ["--engine", self.engine]

    def resolve(self) -> tuple[list[Recipe], list[Given], list[int]]:
        """Recipes, what was asked of each, and seeds; UserError where several hosts are no place for them."""
        from repro.hosts.leader import check_recipes

        seeds = choose_seeds(self.seeds, self.seed_list)
        if self.jobs != 1:
            raise UserError(
                f"--jobs {self.jobs}: a run on several hosts has all of them; leave --jobs out, or the launcher"
            )
        asked = choose_all(
            self.names, self.profile, self.settings, self.sweeps, "cpu" if self.device == "cpu" else "cuda"
        )
        recipes = [recipe for recipe, _ in asked]
        check_recipes(recipes, self.engine)
        return recipes, [given for _, given in asked], seeds


def start_on_hosts(asked: Asked, nodes: int | None, rendezvous: str | None, dry_run: bool) -> int:
    """Start this host's part through torch.distributed's launcher; returns the exit code."""
    from repro.hosts.elastic import Rendezvous, check_nodes, start

    where = Rendezvous.parse(rendezvous)
    recipes, _, _ = asked.resolve()
    each = check_nodes(nodes, recipes)
    if dry_run:
        print(
            f"{nodes} hosts meet at {where.host}:{where.port}, {each} process(es) on each: repro.worker",
            *asked.words(),
        )
        return 0
    return start(where, nodes or 0, each, recipes[0], asked.words())


def take_part(asked: Asked) -> int:
    """Be one of the processes that torchrun has started; returns the exit code, the same in all of them."""
    from repro.hosts.elastic import first_to_speak
    from repro.hosts.joining import meet, refuse, wires
    from repro.hosts.leader import HostsTeam
    from repro.hosts.world import check_size, found_world

    world = found_world()
    assert world is not None
    _end_with_agent()
    terminal = sys.stderr
    if not world.speaks:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  one voice a host
    recipes: list[Recipe] = []
    try:
        recipes, given, seeds = asked.resolve()
        check_size(world, recipes)
        device = choose_device(asked.device)
    except ReproError as error:
        refuse(world, error, recipes[0].runtime if recipes else RuntimeSpec())
    hellos, interface, store = meet(world, recipes, device)
    if world.rank == 0:
        runtime = recipes[0].runtime
        links = wires(store, world, interface, runtime)
        team = HostsTeam(world, hellos, interface, links, runtime.silence_seconds)
        return _lead(asked, team, recipes, given, seeds, device)
    try:
        return _serve(world, hellos[0].host, interface, store, recipes)
    except HostLost:  # the first to find out says so: the agent may end the others before they do
        sys.stderr = terminal if first_to_speak() else open(os.devnull, "w")  # noqa: SIM115
        raise


def _lead(
    asked: Asked,
    team: HostsTeam,
    recipes: Sequence[Recipe],
    given: Sequence[Given],
    seeds: Sequence[int],
    device: str,
) -> int:
    """Rank 0: plan, run, write the results; every other rank ends with the same code and the same words."""
    from repro.hosts.wire import WireCut
    from repro.planning.seats import Seats
    from repro.progress import progress_for_terminal
    from repro.runner import Terminated, orderly_end, plan_runs, run_all

    out = asked.runs or paths.runs()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    code, words, progress = 1, "rank 0 has ended", None
    try:
        with orderly_end():
            seats = Seats(1, device, team.threads * team.world.size, team.hellos[0].gpus, False)
            trackers.check(asked.log)  # only here: rank 0 alone has the rows
            plans = plan_runs(recipes, given, out, device, "processes", seats, asked.log)
            plans = [team.placed(plan) for plan in plans]
            team.agree(plans)
            progress = progress_for_terminal()
            progress.say(team.words(out))
            outcomes = run_all(
                plans, seeds, out, progress, fail_fast=asked.fail_fast, fresh=asked.fresh, team=team
            )
        bad = [o for o in outcomes if o.exit_code]
        done, wanted = len(outcomes) - len(bad), len(plans) * len(seeds)
        progress.say(f"{done} of {wanted} seeds complete in {out}")
        code = bad[0].exit_code if bad else 0
        words = f"{bad[0].recipe} seed {bad[0].seed}: {bad[0].status}: {bad[0].message}" if bad else ""
    except KeyboardInterrupt:
        code, words = 130, f"interrupted on {team.hosts[0]}"
    except Terminated:
        code, words = 143, f"interrupted on {team.hosts[0]}"
    except WireCut as cut:
        words = f"a host was lost before the run began: {cut}"
        raise RunFailed(words) from None
    except ReproError as error:
        code, words = error.exit_code, str(error)
        raise
    finally:
        if progress is not None:
            progress.close()
        team.close(code, words)
    return code


def _serve(
    world: World, first_host: str, interface: Interface, store: Store, recipes: Sequence[Recipe]
) -> int:
    """Another rank: run a block for rank 0 whenever it says so."""
    from repro.engine.processes import fork_server as server
    from repro.hosts.joining import wire_to_first
    from repro.hosts.member import Member
    from repro.hosts.wire import WireCut
    from repro.runner import Terminated, orderly_end

    wire = wire_to_first(store, world, first_host, recipes[0].runtime)
    try:
        with orderly_end():
            server.warm_up()
            code, words = Member(wire, first_host, interface, recipes).serve()
    except WireCut as cut:
        raise HostLost(
            f"rank {world.rank}: {first_host} (block 0, which writes the results) is lost, {cut}; the same command on all "
            "hosts goes on from the last checkpoint"
        ) from None
    except (KeyboardInterrupt, Terminated) as end:
        with suppress(WireCut):
            wire.send("leaving", "it was interrupted there")
        return 130 if isinstance(end, KeyboardInterrupt) else 143
    if words:
        print(f"repro: {words}", file=sys.stderr)
    return code


def _end_with_agent() -> None:
    """End in order when the agent that has started this process is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
