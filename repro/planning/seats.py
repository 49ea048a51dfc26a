"""What each of several runs at once has of the machine: its own cores, or its own GPUs, and no more."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import torch

from repro.cores import cores
from repro.errors import UserError
from repro.planning.engine_choice import about_time
from repro.planning.run_plan import Plan


@dataclass(frozen=True)
class Seats:
    """`jobs` equal shares of the machine. With one job a run has all of it and is checked for nothing."""

    jobs: int
    device: str
    cores: int  # a run
    gpus: int  # a run; 0 on CPU
    force: bool

    @classmethod
    def on(cls, device: str, jobs: int, force: bool) -> Seats:
        """Divide the machine. UserError for more jobs than cores (or GPUs), unless `force`."""
        total = torch.cuda.device_count() if device == "cuda" else cores()
        what = "GPU" if device == "cuda" else "core"
        if jobs < 1:
            raise UserError(f"--jobs {jobs}: give a whole number >= 1")
        if jobs > total and not force:
            have = f"{total} {what}{'' if total == 1 else 's'}"
            raise UserError(
                f"--jobs {jobs}: there are {have} to use, so give 1..{total}, or --force to let runs share them"
            )
        gpus = max(1, total // jobs) if device == "cuda" else 0
        return cls(jobs, device, max(1, cores() // jobs), gpus, force)

    @property
    def places(self) -> int:
        """Cores, or GPUs, that a run's blocks may take."""
        return self.gpus or self.cores

    def checked(self, plan: Plan) -> Plan:
        """The plan, marked with the number of jobs. UserError where it needs more than its share, unless `force`."""
        if self.jobs == 1:
            return plan
        if plan.engine == "sequential" or plan.engine == "oracle":
            needed = 1 if self.gpus else plan.threads
        else:
            needed = plan.ranks if self.gpus else plan.ranks * plan.threads
        if about_time(plan.recipe) and not self.force:
            raise UserError(
                f"--jobs {self.jobs}: the result of {plan.recipe.name} is a time, which runs beside it would change; "
                "leave --jobs out, or --force to run it all the same without reading its times"
            )
        what = "GPUs" if self.gpus else "cores"
        if needed > self.places and not self.force:
            raise UserError(
                f"--jobs {self.jobs} leaves {self.places} of the machine's {what} to a run, but {plan.recipe.name} "
                f"(engine {plan.engine}, {plan.ranks} block(s), {plan.threads} thread(s) each) takes {needed}: "
                "give fewer jobs or threads, --engine sequential, or --force"
            )
        return replace(plan, jobs=self.jobs)

    def seated(self, plan: Plan, seat: int) -> Plan:
        """The plan on the cores or GPUs of seat 0..jobs-1. Forced runs that share cores are held to none."""
        if self.gpus:
            count = torch.cuda.device_count()
            mine = [(seat * self.gpus + i) % count for i in range(self.gpus)]
            used = mine[:1] if plan.engine != "processes" else mine
            return replace(plan, devices=tuple(f"cuda:{used[k % len(used)]}" for k in range(plan.ranks)))
        usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if self.jobs * self.cores > len(usable):
            return plan
        return replace(plan, pinned=tuple(usable[seat * self.cores : (seat + 1) * self.cores]))
