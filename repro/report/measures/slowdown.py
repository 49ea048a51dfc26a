"""How much random delays slow a method down, and the slack of its queues."""

from __future__ import annotations

from repro.report import stats
from repro.report.stored.group import Group
from repro.report.stored.made_of import made_of
from repro.report.table import Measured
from repro.store import StoredRun


def slowdown_percent(group: Group) -> Measured:
    """The slow-down over seeds, from the logarithms of the ratios."""
    slow = group.values(lambda run: _field(run, "delayed_seconds"))
    fast = group.values(lambda run: _field(run, "clean_seconds"))
    slow, fast = ({s: v for s, v in side.items() if v > 0} for side in (slow, fast))
    found = stats.ratio(slow, fast, paired=True)
    percent = None if found is None else found.scaled(100.0, -100.0)
    return Measured(percent, len(group.started), made_of(found, (group, slow), (group, fast)))


def slowdown(run: StoredRun) -> float | None:
    """Slow-down of one seed in percent."""
    slow, fast = _field(run, "delayed_seconds"), _field(run, "clean_seconds")
    return 100.0 * (slow / fast - 1.0) if slow and fast else None


def slack(group: Group) -> int | None:
    """m_0 - m_1; None for one block or a method whose blocks are not bounded by staleness."""
    from repro.methods import stored_method

    try:
        schedule = stored_method(group.settings.get("method")).schedule(group.blocks, 1, {})
    except (ValueError, TypeError):
        return None
    m = schedule.staleness
    return m[0] - m[1] if len(m) > 1 and not schedule.kept_versions else None


def _field(run: StoredRun, name: str) -> float | None:
    found = ((run.result or {}).get("straggler") or {}).get(name)
    return float(found) if isinstance(found, (int, float)) else None


def delays(group: Group) -> str:
    """The random delays in words."""
    settings = group.settings.get("straggler", {})
    return f"probability {settings.get('probability')}, length {settings.get('delay')} x compute"
