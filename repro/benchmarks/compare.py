"""What became slower between two stored benchmarks, beyond the spread that each saw in its own run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What identifies a row; whatever else it holds is measured or follows from it.
KEYS = ("part", "axis", "value", "command",
        "system", "method", "micro_batches", "threads", "blocks", "model", "shape", "layout",
        "kernel", "recipe", "estimator", "schedule", "batch_size", "memory_format", "probability", "delay")  # fmt: skip
LESS_IS_BETTER = (
    "seconds_per_batch", "seconds", "bare_loop_seconds", "overhead", "ms", "dense_ms", "step_seconds", "filter_seconds",
)  # fmt: skip
MORE_IS_BETTER = (
    "images_per_second",
    "speedup_over_bp",
    "speedup",
    "ratio_to_bp",
    "ratio_to_best_peer",
    "ratio",
    "saved",
)
_RATIOS = ("overhead", "speedup_over_bp", "speedup", "ratio_to_bp", "ratio_to_best_peer", "ratio", "saved")


def slower(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], *, same_machine: bool
) -> tuple[list[str], int]:
    """Sentences about the numbers that got worse with no overlap of the two ranges; and how many were compared.

    A range is smallest to largest round (quartiles for kernels), as the benchmark stored it. On another machine
    only ratios within one run are compared.
    """
    known = {key(row): row for row in old}
    worse, compared = [], 0
    for row in new:
        before = known.get(key(row))
        for name in (*LESS_IS_BETTER, *MORE_IS_BETTER):
            if before is None or not (same_machine or name in _RATIOS):
                continue
            a, b = _range(before, name), _range(row, name)
            if a is None or b is None:
                continue
            compared += 1
            if (b[0] > a[2]) if name in LESS_IS_BETTER else (b[2] < a[0]):
                words = ", ".join(str(v) for v in key(row) if v is not None)
                worse.append(f"{words}: {name} {_words(a)} -> {_words(b)}")
    return worse, compared


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What is measured in a row."""
    return tuple(row.get(name) for name in KEYS)


def _range(row: Mapping[str, Any], name: str) -> tuple[float, float, float] | None:
    """(low, middle, high); a number without a stored range is its own range only if it was measured once."""
    middle = row.get(name)
    if not isinstance(middle, (int, float)) or isinstance(middle, bool):
        return None
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return (
        float(low if low is not None else middle),
        float(middle),
        float(high if high is not None else middle),
    )


def _words(values: tuple[float, float, float]) -> str:
    low, middle, high = values
    return f"{middle:.4g} [{low:.4g} .. {high:.4g}]"
