"""Readers of what the gradient-gap experiment recorded, for its figure and its claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro.report.stored.group import OPTIMIZER_NAMES, Group


def difference(block: int) -> Callable[[dict[str, Any]], Any]:
    """Reader of ||G - G_BP|| / number of parameters of a block."""
    return lambda row: _at(row, "difference", block)


def cosine(block: int) -> Callable[[dict[str, Any]], Any]:
    """Reader of the cosine between G and G_BP of a block."""
    return lambda row: _at(row, "cosine", block)


def norm(row: dict[str, Any]) -> Any:
    """Reader of the norm of BP's whole gradient."""
    return row.get("gradient_norm")


def optimizer(group: Group) -> str:
    """ "SGD" or "momentum SGD", or another optimiser's name."""
    settings = group.settings.get("optimizer") or {}
    name = str(settings.get("name", "sgd"))
    if name != "sgd":
        return OPTIMIZER_NAMES.get(name, name)
    return "momentum SGD" if settings.get("momentum") else "SGD"


def _at(row: dict[str, Any], name: str, block: int) -> Any:
    values = row.get(name)
    return values[block] if isinstance(values, list) and block < len(values) else None
