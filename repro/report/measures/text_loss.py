"""Losses of a language model over seeds: bits per byte of the test text, and perplexity per token of a tokenizer."""

from __future__ import annotations

from collections.abc import Callable

from repro.store import StoredRun


def bits_per_byte(select: str) -> Callable[[StoredRun], float | None]:
    """Reader of a run's last or best (smallest) test loss in bits per byte: from its result, else from its epochs."""
    return _reader("test_bits_per_byte", select)


def perplexity(select: str) -> Callable[[StoredRun], float | None]:
    """Reader of the same as a perplexity; None where bytes are the tokens."""
    return _reader("test_perplexity", select)


def _reader(name: str, select: str) -> Callable[[StoredRun], float | None]:
    def read(run: StoredRun) -> float | None:
        value = (run.result or {}).get(f"{name}_{select}")
        if isinstance(value, (int, float)):
            return float(value)
        found = [float(row[name]) for row in run.epochs() if isinstance(row.get(name), (int, float))]
        if not found:
            return None
        return found[-1] if select == "last" else min(found)

    return read
