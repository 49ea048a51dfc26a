"""The verdicts at a glance: how many claims were reproduced, not, in part, equal or undecided, each a link to its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from repro.report.claims.verdicts import (
    EQUAL,
    NOT_REPRODUCED,
    NOT_RUN,
    NOT_TESTABLE,
    REPRODUCED,
    UNDECIDED,
    decides,
    kind,
    undecided,
)
from repro.report.pages.cells import anchor
from repro.report.table import Table, Value

# Outcome of a claim -> what it means; in this order.
IN_PART = "in part"
MEANING = {
    REPRODUCED: "every part keeps its rule",
    IN_PART: "some parts keep their rule, others do not or cannot be tested here",
    UNDECIDED: "no part keeps its rule, of some the interval includes its limit: more seeds might turn it",
    NOT_REPRODUCED: "no part keeps its rule, and more seeds would not turn it",
    EQUAL: "no difference where one was claimed: equal within the margin that its rows name",
    NOT_TESTABLE: "its blocks need more cores or devices than this machine has",
    NOT_RUN: "its row names the command",
}


def outcome(rows: Sequence[Mapping[str, Value]]) -> str:
    """One word for a claim from the verdicts of its parts; parts that have not run do not count beside others."""
    kinds = {
        UNDECIDED if undecided(row) else kind(str(row["verdict"]))
        for row in rows
        if decides(row) and row["verdict"] != NOT_RUN
    }
    if not kinds:
        return NOT_RUN
    if REPRODUCED in kinds:
        return REPRODUCED if len(kinds) == 1 else IN_PART
    return next(word for word in (UNDECIDED, NOT_REPRODUCED, EQUAL, NOT_TESTABLE) if word in kinds)


def outcomes(claims: Table) -> dict[str, list[tuple[str, str]]]:
    """{outcome: [(claim, statement)]} of the table of claims, in the order of MEANING, without empty ones."""
    found: dict[str, list[tuple[str, str]]] = {word: [] for word in MEANING}
    for name in dict.fromkeys(str(row["claim"]) for row in claims.rows):
        rows = [row for row in claims.rows if row["claim"] == name]
        found[outcome(rows)].append((name, str(rows[0]["statement"])))
    return {word: members for word, members in found.items() if members}


def glance(claims: Table) -> str:
    """A box per outcome: its number, its name, and the claims."""
    boxes = ""
    for word, members in outcomes(claims).items():
        links = " ".join(
            f'<a href="#{anchor(claims.name, name)}" title="{escape(statement)}">{escape(name)}</a>'
            for name, statement in members
        )
        look = word.replace(" ", "-")
        boxes += (
            f'<li class="{look}"><b>{len(members)}</b> {word}<br>{links}'
            f'<p class="caption">{escape(MEANING[word])}</p></li>'
        )
    total = len({row["claim"] for row in claims.rows})
    words = "Small numbers behind a value (r1) lead to the runs that it is made of, and to the command that repeats them."
    return f'<p>Of {total} claims of the papers:</p><ul class="glance">{boxes}</ul><p class="caption">{words}</p>'
