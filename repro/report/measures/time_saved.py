"""Time per step of approximated gradients beside the full gradient's."""

from __future__ import annotations

from repro.report import stats
from repro.report.stored.group import Group, gradient_label, shares_start
from repro.report.stored.made_of import made_of
from repro.report.stored.pairing import partner
from repro.report.table import Measured
from repro.store import StoredRun

SAME = ("data", "profile", "device", "blocks", "replicas")


def full_of(group: Group, groups: list[Group]) -> Group | None:
    """The run with full gradients that `group` is compared with: of the same network; ResNet-20's for ResNet-14.

    One from the same machine and thread count where there is one, so that times can be compared too.
    """
    if gradient_label(group.settings) == "full":
        if group.model != "resnet14":
            return None
        model = "resnet20"
    else:
        model = group.model
    found = []
    for other in sorted(groups, key=lambda g: (g.machine, g.threads) != (group.machine, group.threads)):
        same = other.model == model and all(getattr(other, name) == getattr(group, name) for name in SAME)
        if same and gradient_label(other.settings) == "full" and other.length == group.length:
            found.append(other)
    return partner(group, found)


def time_saved(group: Group, base: Group) -> Measured:
    """Percent of `base`'s time per batch that `group` saves."""
    own, others = group.values(seconds_per_step), base.values(seconds_per_step)
    found = stats.ratio(own, others, paired=shares_start(group, base))
    behind = made_of(found, (group, own), (base, others))
    if found is None:
        return Measured(None, len(group.started), behind)
    return Measured(found.moved(lambda x: 100.0 * (1.0 - x)), len(group.started), behind)


def seconds_per_step(run: StoredRun) -> float | None:
    """Training seconds / batches: the mean, because some schedules act on every 4th batch only and a median hides them.

    Without what came before the first evaluation, where there is a later one: kernels are loaded and memory
    is first touched there, which would count against whoever brings a kernel.
    """
    result = run.result or {}
    seconds, steps = result.get("train_seconds"), result.get("num_steps")
    if not seconds or not steps or seconds <= 0:
        return None
    ends = [
        (r["epoch"], float(r["train_seconds"]))
        for r in run.epochs()
        if isinstance(r.get("train_seconds"), (int, float))
    ]
    if len(ends) > 1 and ends[-1][1] > ends[0][1]:
        share = 1.0 - ends[0][0] / ends[-1][0]
        return (ends[-1][1] - ends[0][1]) / (int(steps) * float(share))
    return float(seconds) / int(steps)
