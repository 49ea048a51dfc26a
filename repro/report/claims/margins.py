"""How much counts as no difference: the margins of all claims on time and accuracy, fixed before any run that they judge.

Two sides are equal within a margin where two one-sided tests at 5 % each find so (TOST): the 90 % interval lies inside
it. Rules with a margin of their own ("not below BP by more than half a point") use the same numbers and ask for no
second test.
"""

from __future__ import annotations

from dataclasses import dataclass

TIME = 2.0  # per cent of a time
ACCURACY = 0.5  # points of accuracy


@dataclass(frozen=True)
class Margin:
    """`low` and `high` around no difference, in the finding's unit; `words` name the size for readers."""

    words: str
    low: float
    high: float

    @property
    def equal(self) -> str:
        """The verdict."""
        return f"equal within {self.words}"


_TIME = f"{TIME:g} %"
TIMES = Margin(_TIME, 1.0 / (1.0 + TIME / 100.0), 1.0 + TIME / 100.0)  # of a ratio of times
SHARE_OF_TIME = Margin(
    _TIME, -TIME, TIME
)  # of per cent of a time: time saved, a difference of two slow-downs
POINTS = Margin(f"{ACCURACY:g} points", -ACCURACY, ACCURACY)  # of a difference of accuracies
MARGINS = (TIMES, SHARE_OF_TIME, POINTS)
