"""Test accuracy of a group of runs, and its difference to another in pairs by seed."""

from __future__ import annotations

from collections.abc import Callable

from repro.report import stats
from repro.report.stored.group import Group, shares_start
from repro.report.stored.made_of import made_of
from repro.report.table import Measured
from repro.store import StoredRun


def difference(group: Group, base: Group, read: Callable[[StoredRun], float | None]) -> Measured:
    """`group` minus `base`, by seed where that is real."""
    own, others = group.values(read), base.values(read)
    change = stats.difference(own, others, paired=shares_start(group, base))
    return Measured(change, len(group.started), made_of(change, (group, own), (base, others)))


def accuracy(select: str) -> Callable[[StoredRun], float | None]:
    """Reader of a run's last or best test accuracy in percent: from its result, else from its epochs."""

    def read(run: StoredRun) -> float | None:
        value = (run.result or {}).get(f"test_accuracy_{select}")
        if isinstance(value, (int, float)):
            return float(value)
        found = [
            row["test_accuracy"] for row in run.epochs() if isinstance(row.get("test_accuracy"), (int, float))
        ]
        if not found:
            return None
        return float(found[-1] if select == "last" else max(found))

    return read
