"""Recorded compute times of a network's blocks, batch by batch: from a file, or from the timelines of stored runs."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.errors import UserError
from repro.planning.block_times import BlockTimes

WARM_UP = 5  # recorded batches left out at the start of a run
SHAPE = '{"seconds": [[0.10, 0.12, ...], ...]} with a list a block, a timeline.json, or a CSV with a column a block'
Span = tuple[int, str, float, float, bool]  # block, action, start, end, waiting


@dataclass(frozen=True)
class Jitter:
    """`samples[k]`: what block k took for each recorded batch."""

    samples: tuple[tuple[BlockTimes, ...], ...]

    @property
    def blocks(self) -> int:
        """K."""
        return len(self.samples)

    def busy(self, block: int, replays: bool) -> list[float]:
        """Seconds of each recorded batch in a block; with the replay where the block has one."""
        return [compute(times, replays) for times in self.samples[block]]


def compute(times: BlockTimes, replays: bool) -> float:
    """Seconds of one batch in a block."""
    return times.forward + (times.recompute if replays else 0.0) + times.backward + times.update


def read_jitter(path: Path, blocks: int, replays: Sequence[bool]) -> Jitter:
    """Seconds of compute per batch and block from a file; UserError saying what is wrong.

    A number is divided as forward 1 : replay 1 : backward 2, without the replay where `replays[k]` is false.
    """
    where = f"--jitter {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{where}: cannot be read ({error.strerror}); give a file, or `measured`") from None
    except UnicodeDecodeError:
        raise UserError(f"{where}: is no text; expected {SHAPE}") from None
    if not text.strip():
        raise UserError(f"{where}: the file is empty; expected {SHAPE}")
    columns = _columns(text, path.suffix == ".csv", where)
    if isinstance(columns, Jitter):
        return _checked(columns, blocks, where)
    for k, column in enumerate(columns):
        for i, value in enumerate(column):
            number = not isinstance(value, bool) and isinstance(value, (int, float))
            if not number or not 0 <= value < math.inf:
                raise UserError(f"{where}: batch {i} of block {k} is {value!r}: give seconds, a number >= 0")
    if len(columns) == blocks:
        samples = tuple(
            tuple(_divided(float(x), r) for x in column)
            for column, r in zip(columns, replays, strict=True)
        )  # fmt: skip
        return _checked(Jitter(samples), blocks, where)
    return _checked(Jitter(tuple(() for _ in columns)), blocks, where)


def from_spans(runs: Iterable[Sequence[Span]], blocks: int) -> Jitter:
    """The recorded batches of several runs' timelines, warm-up left out; a run without replays replays as it forwards."""
    found: list[list[BlockTimes]] = [[] for _ in range(blocks)]
    for spans in runs:
        totals: list[dict[int, dict[str, float]]] = [{} for _ in range(blocks)]
        for block, action, start, end, waiting in spans:
            batch = action[1:].split(".")[0].split("^")[0]
            if not waiting and action[:1] in "FRBU" and 0 <= block < blocks and batch.isdigit():
                kinds = totals[block].setdefault(int(batch), {})
                kinds[action[0]] = kinds.get(action[0], 0.0) + end - start
        for k, batches in enumerate(totals):
            whole = [(i, kinds) for i, kinds in sorted(batches.items()) if {"F", "B"} <= set(kinds)]
            found[k] += [_times(kinds) for i, kinds in whole if i >= WARM_UP]
    return Jitter(tuple(map(tuple, found)))


def _times(kinds: Mapping[str, float]) -> BlockTimes:
    return BlockTimes(kinds["F"], kinds.get("R", kinds["F"]), kinds["B"], kinds.get("U", 0.0))


def _divided(seconds: float, replays: bool) -> BlockTimes:
    forward = seconds / (4.0 if replays else 3.0)
    return BlockTimes(forward, forward, 2.0 * forward)


def _columns(text: str, is_csv: bool, where: str) -> list[list[Any]] | Jitter:
    if is_csv:
        return _of_csv(text, where)
    try:
        found = json.loads(text)
    except ValueError:
        raise UserError(f"{where}: no JSON (a CSV file ends with .csv); expected {SHAPE}") from None
    if isinstance(found, Mapping) and isinstance(found.get("spans"), list):
        try:
            spans = [(int(s[0]), str(s[1]), float(s[2]), float(s[3]), bool(s[4])) for s in found["spans"]]
            blocks = int(found.get("blocks") or 1 + max(s[0] for s in spans))
        except (TypeError, ValueError, IndexError):
            raise UserError(f"{where}: not a timeline as a run stores it; expected {SHAPE}") from None
        if any(end < start for _, _, start, end, _ in spans):
            raise UserError(f"{where}: a span ends before it starts")
        return from_spans([spans], blocks)
    rows = found.get("seconds") if isinstance(found, Mapping) else found
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise UserError(f"{where}: expected {SHAPE}")
    return rows


def _of_csv(text: str, where: str) -> list[list[Any]]:
    rows = [row for row in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in row)]
    if rows and any(_number(cell) is None for cell in rows[0]):
        rows = rows[1:]  # names of the columns
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise UserError(
            f"{where}: rows of {widths[0]} and of {widths[-1]} numbers: give one a block in each row"
        )
    return [[c if (x := _number(c)) is None else x for c in column] for column in zip(*rows, strict=True)]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _checked(found: Jitter, blocks: int, where: str) -> Jitter:
    if found.blocks != blocks:
        raise UserError(
            f"{where}: has times of {found.blocks} block(s), the recipe has blocks = {blocks}: "
            f"give one list a block, or --blocks {max(1, found.blocks)}"
        )
    empty = [k for k, column in enumerate(found.samples) if not column]
    if empty:
        raise UserError(f"{where}: block {empty[0]} has no batch (of a timeline, behind the first {WARM_UP})")
    if max(max(found.busy(k, True)) for k in range(blocks)) <= 0:
        raise UserError(f"{where}: all times are 0; give the seconds that the blocks compute")
    return found
