"""One of the processes of `slow_link`: blocks that wait instead of computing, over links that rank 0 shapes with tc.

torchrun starts it on both hosts with one argument, JSON: see `slow_link.Experiment`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

from repro.engine.processes.launch import Launch
from repro.hosts.joining import meet, wire_to_first, wires
from repro.hosts.leader import HostsTeam
from repro.hosts.member import Member
from repro.hosts.world import found_world
from repro.planning.block_times import BlockTimes, duration, message_sizes, micro_batches
from repro.planning.run_plan import Plan, make_plan
from repro.recipe import Recipe, validate
from repro.schedule import Links, simulate
from tests.conftest import TINY

PAYLOAD = 1448 / 1514  # of an Ethernet frame under TCP
SEGMENT_SECONDS = 0.0003  # of a segment on the cable; frames one by one would be too many for the delay line


def main(asked: dict[str, Any]) -> None:
    """Be rank 0, which measures, or another, which serves."""
    world = found_world()
    assert world is not None
    recipes = [validate({**TINY, "method": method, "blocks": asked["blocks"]}) for method in asked["methods"]]
    hellos, interface, store = meet(world, recipes, "cpu")
    runtime = recipes[0].runtime
    if world.rank:
        wire = wire_to_first(store, world, hellos[0].host, runtime)
        Member(wire, hellos[0].host, interface, recipes).serve()
        return
    team = HostsTeam(
        world, hellos, interface, wires(store, world, interface, runtime), runtime.silence_seconds
    )
    for rate in asked["rates"]:
        segment = max(3000, int(rate * 1e6 / 8 * SEGMENT_SECONDS))
        for namespace, device in asked["ends"]:
            words = ["link", "set", device, "gso_max_size", str(segment)]
            subprocess.run(["ip", "-n", namespace, *words], check=True)
            # tbf cuts what is longer than its burst into frames
            shape = ["root", "tbf", "rate", f"{rate}mbit", "burst", str(segment + 1000), "limit", "20000000"]
            subprocess.run(["tc", "-n", namespace, "qdisc", "replace", "dev", device, *shape], check=True)
        cost = fixed_cost(team, recipes[0], asked)
        for recipe in recipes:
            print(json.dumps(measured(team, recipe, asked, rate, cost)), flush=True)
    team.close(0, "")


def fixed_cost(team: HostsTeam, bp: Recipe, asked: dict[str, Any]) -> float:
    """Seconds that a message costs on this machine besides the cable: BP without compute passes two over each boundary."""
    plan = timed_plan(bp, 1024, asked["batches"])
    idle = (BlockTimes(0.0, 0.0, 0.0),) * plan.blocks
    summaries = Launch(team.placed(plan), seed=0, block_times=idle, team=team).run()
    boundaries = plan.blocks - 1
    crossing = sum(team.hosts[k] != team.hosts[k + 1] for k in range(boundaries))
    return max(0.0, float(summaries[-1]["seconds_per_batch"]) / 2 - crossing * asked["delay"]) / boundaries


def measured(
    team: HostsTeam, recipe: Recipe, asked: dict[str, Any], rate: float, cost: float
) -> dict[str, Any]:
    """Seconds a batch, timed and simulated."""
    times = (BlockTimes(*asked["times"]),) * recipe.blocks
    plan = timed_plan(recipe, asked["message"], asked["batches"])
    summaries = Launch(team.placed(plan), seed=0, block_times=times, team=team).run()
    near = frozenset(k for k in range(plan.blocks - 1) if team.hosts[k] == team.hosts[k + 1])
    bandwidth = rate * 1e6 / 8 * PAYLOAD
    links = Links(
        message_sizes(plan), asked["delay"] + cost, bandwidth, near=near, ahead=2, near_latency=cost
    )
    simulated = simulate(plan.schedule(), duration(times, micro_batches(plan)), links).period()
    free = simulate(plan.schedule(), duration(times, micro_batches(plan))).period()
    timed = float(summaries[-1]["seconds_per_batch"])
    return {
        "method": recipe.method.label(plan.blocks),
        "blocks": plan.blocks,
        "rate_mbit": rate,
        "delay_ms": 1e3 * asked["delay"],
        "message_ms": 1e3 * cost,
        "message_bytes": int(max(message_sizes(plan))),
        "seconds_per_batch": timed,
        "simulated": simulated,
        "simulated_over_timed": simulated / timed,
        "simulated_with_free_messages": free,
    }


def timed_plan(recipe: Recipe, message: int, batches: int) -> Plan:
    """A plan whose batches are messages of `message` bytes."""
    plan = make_plan(recipe, "cpu")
    channels = max(1, message // (4 * recipe.data.batch_size))
    return replace(
        plan, shapes=tuple((channels, 1, 1) for _ in plan.shapes), num_batches=batches, evaluations={}
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
