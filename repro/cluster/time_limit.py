"""A job's time limit, as people and SLURM write it, in whole minutes."""

from __future__ import annotations

import re

from repro.errors import UserError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FORMS = "90 (minutes), 90m, 2h, 1d12h, HH:MM:SS, D-HH or D-HH:MM:SS"


def minutes(text: str, option: str = "--time") -> int:
    """Minutes, rounded up; UserError where the words are no time, or none at all.

    90 | 30m | 2h | 1d12h | MM:SS | HH:MM:SS | D-HH | D-HH:MM | D-HH:MM:SS
    """
    seconds = _seconds(text.strip().lower())
    if not seconds:
        raise UserError(f"{option} {text!r} is no time limit: give {FORMS}")
    return -(-seconds // 60)


def limit_of_partition(text: str) -> int | None:
    """Minutes of what `sinfo` says; None where there is no limit."""
    seconds = _seconds(text.strip().lower())
    return seconds // 60 if seconds else None


def _seconds(text: str) -> int:
    if re.fullmatch(r"\d+", text):
        return 60 * int(text)
    if re.fullmatch(r"(\d+[smhd])+", text):
        return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))
    if found := re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(?::(\d+))?", text):
        days, hours, mins, secs = (int(part or 0) for part in found.groups())
        return 86400 * days + 3600 * hours + 60 * mins + secs
    if found := re.fullmatch(r"(?:(\d+):)?(\d+):(\d+)", text):
        hours, mins, secs = (int(part or 0) for part in found.groups())
        return 3600 * hours + 60 * mins + secs
    return 0
