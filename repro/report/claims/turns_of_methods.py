"""D1, D3 and the first half of D7 from what `repro bench methods` and `repro bench delays` measured in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from repro.report.claims import in_turn
from repro.report.claims.claim import Finding, Rule, above, at_least, below
from repro.report.claims.evidence import Evidence
from repro.report.claims.in_turn import Row
from repro.report.claims.margins import SHARE_OF_TIME, TIMES
from repro.report.stats import holm
from repro.report.table import Measured

LOCKING = ("mailbox", "barrier", "free")
LESS = Rule("mean below 0, Holm p < 0.05", lambda e: False, 0.0, SHARE_OF_TIME)
DELAY = (0.1, 3.0)  # probability and length that decide: those of the straggler recipes; the sweep has others
DSP = ("dsp", "dsp-2-1", "dsp-5-2")  # from the shortest queues to the longest
BASE = "fr-mailbox"
_REAL = "repro bench methods: training in turn; (n/N): rounds"
_TIMED = "repro bench methods: timing only, blocks wait and train nothing; (n/N): rounds"
_DELAYED = "repro bench delays: timing only, in turn, the same draws for all in a round; (n/N): rounds"


def speeds_in_turn(evidence: Evidence) -> list[Finding]:
    """D1: DSP over BP and over FR; K = 2 with real training decides, larger K with blocks that wait are context."""
    rows, machine = in_turn.rows(evidence, "methods")
    findings = []
    for part, blocks in sorted({(str(r.get("part")), int(r.get("blocks") or 0)) for r in rows}):
        here = {r["system"]: r for r in rows if (r.get("part"), r.get("blocks")) == (part, blocks)}
        own = here.get("dsp")
        if own is None or own.get("oversubscribed"):
            continue
        others = ("bp", *(f"fr-{rule}" for rule in LOCKING))
        real = part == "real"
        decides = real and all(name in here for name in others)  # a part of the claim does not stand for it
        for name in (n for n in others if n in here):
            rule = at_least(1.5, 1.0) if name == "bp" else above(1.0, TIMES)
            value = in_turn.ratio(here[name], own, "seconds", "methods")
            what = f"{own['method']} over {here[name]['method']}, {'in turn' if real else 'timing only'}"
            words = _REAL if real else _TIMED
            findings.append(
                Finding(what, _where(own, machine), value, "x", rule, words=words, context=not decides)
            )
    return findings


def slowdowns_in_turn(evidence: Evidence) -> list[Finding]:
    """D3: slow-down of each DSP setting less that of FR (mailbox) at each K; Holm over all of them."""
    rows, machine = in_turn.rows(evidence, "delays")
    pairs = [
        (here[name], here[BASE]) for here in _by_blocks(rows) if BASE in here for name in DSP if name in here
    ]
    changes = [in_turn.difference(own, base, "slowdown", "delays") for own, base in pairs]
    return [
        _slowdown(own, base, change, LESS, machine, holds, words)
        for (own, base), change, (holds, words) in zip(pairs, changes, holm_family(changes), strict=True)
    ]


def longest_in_turn(evidence: Evidence) -> list[Finding]:
    """D7, first half: slow-down of DSP's longest queues less that of its shortest at each K."""
    rows, machine = in_turn.rows(evidence, "delays")
    findings = []
    for here in _by_blocks(rows):
        found = [here[name] for name in DSP if name in here]
        if len(found) > 1:
            change = in_turn.difference(found[-1], found[0], "slowdown", "delays")
            findings.append(_slowdown(found[-1], found[0], change, below(0.0, SHARE_OF_TIME), machine))
    return findings


def holm_family(changes: Sequence[Measured]) -> list[tuple[bool, str]]:
    """Whether each mean of a family is below 0 with an adjusted p below 0.05, and its p in words."""
    raw = [None if c.estimate is None else c.estimate.p for c in changes]
    adjusted = holm([1.0 if p is None else p for p in raw])
    found = []
    for change, known, p in zip(changes, raw, adjusted, strict=True):
        less = change.estimate is not None and change.estimate.mean < 0
        found.append((known is not None and less and p < 0.05, "" if known is None else f"Holm p = {p:.2g}"))
    return found


def _by_blocks(rows: Iterable[Row]) -> list[dict[str, Row]]:
    """{method: row} of each K, under the delays that decide."""
    kept = [r for r in rows if (r.get("probability"), r.get("delay")) == DELAY]
    counts = sorted({int(r["blocks"]) for r in kept})
    return [{str(r["system"]): r for r in kept if r["blocks"] == k} for k in counts]


def _slowdown(
    own: Row,
    base: Row,
    change: Measured,
    rule: Rule,
    machine: str,
    holds: bool | None = None,
    words: str = "",
) -> Finding:
    what = f"slow-down, {own['method']} - {base['method']}, in turn"
    told = "; ".join(w for w in (_DELAYED, words) if w)
    return Finding(what, _where(own, machine), change, "points", rule, holds=holds, words=told)


def _where(row: Row, machine: str) -> str:
    size = f"{row.get('image_size')} pixels, batch {row.get('batch_size')}"
    return f"{row.get('model')}, {size}, K = {row.get('blocks')}, {machine}"
