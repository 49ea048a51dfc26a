"""Trackers: others who hear the rows that go to a run's files. Never the store, never in the way of a run."""

from repro.trackers.audience import Audience, check

__all__ = ["Audience", "check"]
