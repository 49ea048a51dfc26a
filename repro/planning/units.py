"""Bandwidths and times with a unit, as users type them."""

from __future__ import annotations

import re

from repro.errors import UserError

_BANDWIDTHS = {
    **{f"{p}B/s": 10.0 ** (3 * i) for i, p in enumerate(("", "k", "M", "G", "T"))},
    **{f"{p}iB/s": 1024.0**i for i, p in enumerate(("K", "M", "G", "T"), start=1)},
    **{f"{p}bit/s": 10.0 ** (3 * i) / 8 for i, p in enumerate(("", "k", "M", "G", "T"))},
}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def bandwidth(text: str, option: str = "--bandwidth") -> float:
    """Bytes per second of "10GB/s", "25 Gbit/s"; UserError without a number > 0 and a unit."""
    return _read(text, _BANDWIDTHS, option, "10GB/s, 800MB/s or 25Gbit/s", positive=True)


def seconds(text: str, option: str = "--latency") -> float:
    """Seconds of "20us", "1.5 ms"; UserError without a number >= 0 and a unit."""
    return _read(text, _TIMES, option, "20us, 0.5ms or 1s", positive=False)


def percent(text: str, option: str = "--loss") -> float:
    """The share that "2%" or "0.5 %" means; UserError without the sign, or where it is not between 0 and 100."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*%\s*", text)
    if match is None:
        raise UserError(f"{option} '{text}' is not a number with a percent sign: give for example 2% or 0.5%")
    if not 0.0 < (share := float(match.group(1)) / 100.0) < 1.0:
        raise UserError(f"{option} '{text}' must lie between 0% and 100%, both left out")
    return share


def _read(text: str, units: dict[str, float], option: str, example: str, *, positive: bool) -> float:
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*(\S*)\s*", text)
    if match is None:
        raise UserError(f"{option} '{text}' is not a number with a unit: give for example {example}")
    number, unit = float(match.group(1)), match.group(2)
    if unit not in units:
        known = {name.lower(): name for name in units}
        near = f" Did you mean {known[unit.lower()]}?" if unit.lower() in known else ""
        what = f"has the unknown unit '{unit}'" if unit else "has no unit"
        raise UserError(f"{option} '{text}' {what}.{near} Allowed: {', '.join(units)}")
    if number <= 0 and positive:
        raise UserError(f"{option} '{text}' must be larger than 0: give for example {example}")
    return number * units[unit]
