"""The tables of a README's first pages: at most seven columns, what they leave out stands in their captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from repro.report.claims.verdicts import UNDECIDED, decides, undecided
from repro.report.table import Column, Measured, Table, Value, text

PIPELINE = ("blocks", "method", "test_accuracy_best", "difference", "speedup", "bound", "published")
ASYNCHRONOUS = ("method", "updates", "delay", "final_loss", "gap")
GRADIENT = ("model", "gradient", "test_accuracy_best", "difference", "time_saved", "published")
# The README has no room for what the full table explains at length.
_SHORT = {"test_accuracy_best": "best test accuracy %", "bound": "bound", "published": "published"}


def narrow_pipeline(table: Table) -> Table:
    """One row per K and method that was trained; machines and epochs go into the caption."""
    rows = [row for row in table.rows if row.get("test_accuracy_best") is not None]
    caption = [
        line for line in table.caption if not line.startswith("Slow-down")
    ]  # a column that is left out
    trained = replace(table, rows=rows, caption=caption)
    return _narrow(trained, PIPELINE, fold=("machine", "epochs"))


def narrow_gradient(table: Table) -> Table:
    """One row per network and filter gradient; the data sets go into the caption."""
    return _narrow(table, GRADIENT, fold=("data",))


def narrow_asynchronous(table: Table) -> Table:
    """The methods of pipelines, one row each, as long as they were trained; the sweep of the delay is the figure's."""
    pipelines = [row for row in table.rows if not str(row["method"]).startswith("Delayed")]
    longest: dict[tuple[Value, ...], int] = {}
    for row in pipelines:
        key = _setting(row)
        longest[key] = max(_steps(row), longest.get(key, 0))
    rows = [row for row in pipelines if _steps(row) == longest[_setting(row)]]
    return _narrow(replace(table, rows=rows), ("blocks", *ASYNCHRONOUS), fold=())


def _setting(row: Mapping[str, Value]) -> tuple[Value, ...]:
    return tuple(row.get(name) for name in ("model", "data", "profile", "blocks", "method", "updates"))


def _steps(row: Mapping[str, Value]) -> int:
    return int(str(row["steps"]))


def _narrow(table: Table, names: Sequence[str], fold: Sequence[str]) -> Table:
    """Columns `names`; a column of `fold` that depends on the first one alone is told in the caption, else it stays."""
    by = next(column for column in table.columns if column.name == names[0])
    told: dict[Value, list[str]] = {}
    kept = set(names)
    for column in (c for c in table.columns if c.name in fold):
        pairs = {(row.get(by.name), row.get(column.name)) for row in table.rows}
        if len({value for _, value in pairs}) == 1:
            kept.add(column.name)  # the same in all rows: the caption says so anyway
        elif len(pairs) == len({key for key, _ in pairs}):
            for key, value in sorted(pairs, key=str):
                told.setdefault(key, []).append(
                    f"{value} {column.name}" if column.number else text(value, column)
                )
        else:
            kept.add(column.name)
    columns = [replace(c, header=_SHORT.get(c.name, c.header)) for c in table.columns]
    chosen = [c for c in columns if c.name in kept or (c.context and c.name not in fold)]
    chosen.sort(key=lambda c: names.index(c.name) if c.name in names else -1)
    lead = f"{by.header} = " if by.number else ""
    words = [f"{lead}{text(key, by)}: {', '.join(parts)}" for key, parts in told.items()]
    return replace(
        table, columns=chosen, caption=[*([f"{'; '.join(words)}."] if words else []), *table.caption]
    )


def claims_in_rows(full: Table) -> Table:
    """A row per claim: how many of its parts came out how, and the first number of each verdict.

    Context does not count: a number beside one that decides.
    """
    table = Table(
        "claims", [Column(name, name) for name in ("claim", "statement", "verdict", "measured", "published")]
    )
    for name in dict.fromkeys(str(row["claim"]) for row in full.rows):
        rows = [row for row in full.rows if row["claim"] == name and decides(row)]
        count = Counter(map(_verdict, rows))
        verdict = ", ".join(v if len(count) == 1 else f"{v}: {n} of {len(rows)}" for v, n in count.items())
        firsts = [next(row for row in rows if _verdict(row) == v) for v in count]
        numbers = [
            f"{row['what']}: {text(row['measured'], _MEASURED)} {row['unit']}".strip() + _enough(row)
            for row in firsts
            if isinstance(row["measured"], Measured) and row["measured"].estimate is not None
        ]
        cells = {key: rows[0][key] for key in ("claim", "statement", "published")}
        table.rows.append({**cells, "verdict": verdict, "measured": "; ".join(numbers) or "-"})
    table.caption = [
        "Computed from the reference runs by the rules of repro table claims, which shows every part; of each verdict the "
        "first number. Undecided: the 95 % interval includes the limit of the rule, more seeds might turn it.",
    ]
    return table


def verdicts(full: Table) -> Table:
    """The same without numbers: claim, statement, verdict."""
    rows = claims_in_rows(full)
    caption = (
        "Computed by the rules of repro table claims. Undecided: the 95 % interval includes the limit of the rule. "
        + _EQUAL
    )
    return replace(rows, columns=rows.columns[:3], caption=[caption])


def _verdict(row: Mapping[str, Value]) -> str:
    """The verdict; one that more seeds might turn says so."""
    return str(row["verdict"]) + (f" ({UNDECIDED})" if undecided(row) else "")


def _enough(row: Mapping[str, Value]) -> str:
    return f", {row['enough']} would decide" if row.get("enough") else ""


_EQUAL = "Equal: no difference beyond a margin fixed beforehand (two one-sided tests at 5 %)."


_MEASURED = Column("measured", "measured", ratio=True)
