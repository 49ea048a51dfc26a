"""Systems measured in turn, round after round, within a time that is said before it begins."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LIMIT_MINUTES = 4.0
MOST_ROUNDS = 5  # without `rounds`: more tell little more


@dataclass
class Turn:
    """One system: how to measure it once, and how long that is expected to take."""

    run: Callable[[], Any]
    seconds: float


@dataclass
class Turns:
    """Takes turns until the rounds are done or the time is up; Ctrl-C ends it with what there is.

    Without `rounds` as many as fit into `minutes` (at least one, at most 5), and where not even one fits, as many
    systems of it as do, the first ones; with `rounds` exactly so many, of all.
    """

    name: str
    rounds: int | None = None
    minutes: float = LIMIT_MINUTES
    interrupted: bool = False
    _begin: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """A line on stderr."""
        print(text, file=sys.stderr, flush=True)

    def measure(
        self,
        systems: Mapping[str, Turn],
        keep: Callable[[dict[str, list[Any]]], Sequence[str]] | None = None,
    ) -> dict[str, list[Any]]:
        """Return what each system gave, round by round; `keep` names those that take part after the first round."""
        found: dict[str, list[Any]] = {name: [] for name in systems}
        expected = {name: turn.seconds for name, turn in systems.items()}
        taking_part = list(systems)
        rounds = self._announce(expected)
        number = 0
        try:
            while number < rounds:
                for place, name in enumerate(taking_part):
                    left = sum(expected[n] for n in taking_part[place:])
                    left += (rounds - number - 1) * sum(expected[n] for n in taking_part)
                    self.say(
                        f"{self.name}: round {number + 1}/{rounds}, {place + 1}/{len(taking_part)} {name}, "
                        f"about {clock(left)} left"
                    )
                    if number == 0 and place and not self._fits(expected[name]):
                        self.say(f"{self.name}: no time for {name}: --set minutes=N or rounds=1")
                        continue
                    begin = time.monotonic()
                    found[name].append(systems[name].run())
                    expected[name] = time.monotonic() - begin
                number += 1
                taking_part = [name for name in taking_part if found[name]]
                if number == 1 and keep is not None:
                    taking_part = list(keep(found))
                if self.rounds is None:
                    spare = 60 * self.minutes - (time.monotonic() - self._begin)
                    more = int(spare // max(1e-9, sum(expected[n] for n in taking_part)))
                    rounds = min(MOST_ROUNDS, number + max(0, more))
        except KeyboardInterrupt:
            self.interrupted = True
            self.say(f"{self.name}: interrupted; what follows was measured before")
        return {name: values for name, values in found.items() if values}

    def _fits(self, seconds: float) -> bool:
        left = 60 * self.minutes - (time.monotonic() - self._begin)
        return self.rounds is not None or seconds <= left

    def _announce(self, expected: Mapping[str, float]) -> int:
        once = sum(expected.values())
        fits = int((60 * self.minutes - (time.monotonic() - self._begin)) // max(1e-9, once))
        rounds = self.rounds or max(1, min(MOST_ROUNDS, fits))
        words = (
            f"{self.name}: {len(expected)} measurements a round, {rounds} round{'s' if rounds > 1 else ''}, "
        )
        most = rounds * once if self.rounds is not None else min(rounds * once, 60 * self.minutes)
        words += f"about {clock(most)}"
        self.say(words + " (more with --set rounds=N or minutes=N; Ctrl-C prints what there is)")
        if fits < 1 and self.rounds is None:
            self.say(
                f"{self.name}: one round of all takes about {clock(once)}, longer than {self.minutes:g} minutes: what does "
                "not fit is left out"
            )
        return rounds


def clock(seconds: float) -> str:
    """40 s, 3 min 20 s."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 90 else f"{whole // 60} min {whole % 60:02d} s"
