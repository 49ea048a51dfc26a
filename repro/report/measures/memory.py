"""What blocks held, as counted and by the formula (dsp.md, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro.report.stored.group import Group
from repro.store import StoredRun

MIB = 2.0**20


def peak(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of a block's peak in MiB."""
    return _mib("peak_memory_bytes", block)


def formula(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of the formula's MiB for a block."""
    return _mib("memory_formula_bytes", block)


def ratio(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of peak / formula of a block."""
    return lambda run: _divide(_at(run, "peak_memory_bytes", block), _at(run, "memory_formula_bytes", block))


def activation_ratio(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of the same without weights and optimiser state."""
    return lambda run: _divide(activation_bytes(block)(run), activation_formula(block)(run))


def activation_bytes(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of the counted bytes of a block's activations, queues and graphs."""
    return lambda run: _at(run, "activation_bytes", block)


def activation_formula(block: int) -> Callable[[StoredRun], float | None]:
    """Reader of the formula's bytes of the same."""

    def read(run: StoredRun) -> float | None:
        whole, static = _at(run, "memory_formula_bytes", block), _at(run, "static_bytes", block)
        return None if whole is None or static is None else whole - static

    return read


def staleness(group: Group, block: int) -> int | None:
    """m of a block."""
    from repro.methods import stored_method

    try:
        return stored_method(group.settings.get("method")).schedule(group.blocks, 1, {}).staleness[block]
    except (ValueError, TypeError, IndexError):
        return None


def _mib(name: str, block: int) -> Callable[[StoredRun], float | None]:
    def read(run: StoredRun) -> float | None:
        value = _at(run, name, block)
        return None if value is None else value / MIB

    return read


def _at(run: StoredRun, name: str, block: int) -> float | None:
    values: Any = (run.result or {}).get(name)
    known = isinstance(values, list) and block < len(values) and isinstance(values[block], (int, float))
    return float(values[block]) if known else None


def _divide(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
