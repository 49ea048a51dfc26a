"""The verdicts at a glance: how many claims were reproduced, not, in part, or are undecided, each a link to its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from repro.report.pages.cells import anchor
from repro.report.table import Table, Value

# Outcome of a claim -> what it means; in this order.
MEANING = {
    "reproduced": "every part keeps its rule",
    "in part": "some parts keep their rule, others do not or cannot be tested here",
    "undecided": "no part keeps its rule, of some the interval includes its limit: more seeds might turn it",
    "not reproduced": "the interval of no part keeps or includes the limit of its rule",
    "not testable here": "its blocks need more cores or devices than this machine has",
    "not run yet": "its row names the command",
}


def outcome(rows: Sequence[Mapping[str, Value]]) -> str:
    """One word for a claim from the verdicts of its parts; parts that have not run do not count beside others."""
    verdicts = [
        "undecided" if "undecided" in str(row.get("note")) else str(row["verdict"])
        for row in rows
        if row["verdict"] != "not run yet"
    ]
    kinds = set(verdicts)
    if not kinds:
        return "not run yet"
    if "reproduced" in kinds:
        return "reproduced" if len(kinds) == 1 else "in part"
    return next(word for word in ("undecided", "not reproduced", "not testable here") if word in kinds)


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
