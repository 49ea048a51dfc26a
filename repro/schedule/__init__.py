"""The algebra of staleness, the schedule as data, and its simulation; plain Python, no torch."""

from repro.schedule.actions import Action, Kind, Schedule, parse_actions
from repro.schedule.links import Links
from repro.schedule.simulate import Deadlock, Span, Timeline, simulate
from repro.schedule.staleness import Staleness

__all__ = [
    "Action",
    "Deadlock",
    "Kind",
    "Links",
    "Schedule",
    "Span",
    "Staleness",
    "Timeline",
    "parse_actions",
    "simulate",
]
