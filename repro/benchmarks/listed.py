"""What `--set name=a,b,c` of a benchmark lists: words that are known, numbers of blocks, numbers."""

from __future__ import annotations

from typing import Any

from repro.errors import UserError, nearest


def words(text: str, known: Any, name: str) -> list[str]:
    """Words separated by commas, each one of `known`; UserError otherwise."""
    found = [w.strip() for w in str(text).split(",")]
    for word in found:
        if word not in known:
            raise UserError(
                f"{name} = '{text}': '{word}' is unknown.{nearest(word, known)} Allowed: {', '.join(known)}"
            )
    return found


def block_counts(text: str | int) -> list[int]:
    """Numbers of blocks; UserError where they are none."""
    found = [w.strip() for w in str(text).split(",")]
    if not all(w.isdigit() and int(w) > 1 for w in found):
        raise UserError(f"blocks = '{text}': give whole numbers > 1 separated by commas, for example 2,4,8")
    return [int(w) for w in found]


def numbers(text: str | float, name: str, most: float) -> list[float]:
    """Numbers above 0, separated by commas; UserError otherwise."""
    try:
        found = [float(word) for word in str(text).split(",")]
    except ValueError:
        found = [0.0]
    if not all(0.0 < x <= most for x in found):
        raise UserError(f"{name} = '{text}': give numbers above 0 and up to {most:g} separated by commas")
    return list(dict.fromkeys(found))
