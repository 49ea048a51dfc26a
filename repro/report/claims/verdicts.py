"""The words of verdicts, and what readers of a row of the claims table ask of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.report.claims.margins import MARGINS

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
NOT_TESTABLE = "not testable here"
NOT_RUN = "not run yet"
CONTEXT = "context"  # a number beside one that decides
EQUAL = "equal"  # the kind of all that begin with it: "equal within 2 %"
EQUALS = tuple(dict.fromkeys(margin.equal for margin in MARGINS))
VERDICTS = (REPRODUCED, *EQUALS, NOT_REPRODUCED, NOT_TESTABLE, NOT_RUN, CONTEXT)
UNDECIDED = "undecided"


def kind(verdict: str) -> str:
    """The verdict without the size of its margin."""
    return EQUAL if verdict in EQUALS else verdict


def decides(row: Mapping[str, Any]) -> bool:
    """Whether a row of the claims table counts among the parts of its claim."""
    return bool(row["verdict"] != CONTEXT)


def undecided(row: Mapping[str, Any]) -> bool:
    """Whether the row's rule does not hold only because its interval is too wide to tell."""
    return row.get("verdict") == NOT_REPRODUCED and UNDECIDED in str(row.get("note"))
