"""The papers' numbers (recipes/published.yaml): beside our rows, in captions, and for `repro show`."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from repro import paths
from repro.report.stored.group import Group

UNKNOWN = "not published here"


def beside(quantity: str, group: Group) -> str:
    """The published value for exactly this network, data, K and method, or "not published here"."""
    for cell in _read(paths.published())["cells"]:
        same = (
            cell["quantity"] == quantity
            and cell["model"] == group.model
            and cell.get("data", group.data) == group.data
            and cell.get("blocks", group.blocks) == group.blocks
        )
        if same and (method := key(group)) in cell["values"]:
            return f"{_value(cell['values'][method])} ({cell['printed']})"
    return UNKNOWN


def anchors(quantity: str, methods: set[str]) -> list[str]:
    """Caption lines: what is published of these methods, on whatever networks."""
    found = _read(paths.published())
    lines = []
    for entry in found["headlines"]:
        if entry["quantity"] == quantity and entry["method"] in methods:
            lines.append(f"Published ({entry['paper']}, {entry['where']}): {entry['text']}.")
    parts = _cells(quantity, methods)
    if parts:
        lines.append("Nearest published anchors, other networks: " + "; ".join(parts) + ".")
    return lines


def _cells(quantity: str, methods: set[str]) -> list[str]:
    """The printed cells that have one of `methods` besides BP, in words."""
    parts = []
    for cell in _read(paths.published())["cells"]:
        known = {m: v for m, v in cell["values"].items() if m in methods}
        if cell["quantity"] == quantity and set(known) - {"bp"}:
            where = cell["model"] + (f", K = {cell['blocks']}" if "blocks" in cell else "")
            numbers = ", ".join(f"{m.upper()} {_value(v)}" for m, v in known.items())
            parts.append(f"{where}: {numbers} ({cell['printed']})")
    return parts


def stated(quantity: str, group: Group) -> str:
    """What the group's own paper states of its method: for this network if it does, else in general."""
    method = _estimator(group) if group.settings.get("group") == "gradient-approximation" else key(group)
    known = [
        e
        for e in _read(paths.published())["headlines"]
        if (e["paper"], e["quantity"], e["method"]) == (group.settings.get("group", "dsp"), quantity, method)
    ]
    own = [e for e in known if e.get("model") == group.model] or [e for e in known if "model" not in e]
    return "; ".join(_stated(e) for e in own) or UNKNOWN


def _stated(entry: dict[str, Any]) -> str:
    if "value" not in entry:
        return str(entry["text"])
    value = entry["value"]
    words = " to ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{words} {entry['unit']} ({entry['where']})"


def _estimator(group: Group) -> str:
    gradient = group.settings.get("gradient") or {}
    return str(gradient.get("estimator", "full"))


def claimed(claim: str, anchor: tuple[str, str] | None = None) -> str:
    """What the paper states for a claim, with its place, or "not published here".

    `anchor` = (quantity, method): then the nearest numbers of other networks stand behind it.
    """
    words = [
        f"{e['text']} [{e['where']}]"
        for e in _read(paths.published())["headlines"]
        if claim in e.get("claims", ())
    ]
    if words or anchor is None:
        return "; ".join(words) or UNKNOWN
    quantity, method = anchor
    return "; ".join([UNKNOWN, *(f"elsewhere {cell}" for cell in _cells(quantity, {"bp", method}))])


def about(recipe: Any) -> list[str]:
    """Lines for `repro show`: what is published of this recipe's method and network, each with its source."""
    found = _read(paths.published())
    estimator = recipe.gradient.estimator
    method = estimator if recipe.group == "gradient-approximation" else recipe.method.name
    lines = []
    # What the older papers say of a method is said of convolutional networks.
    told = [e for e in found["headlines"] if recipe.group != "asynchronous" or e["paper"] == recipe.group]
    for entry in told:
        if entry["method"] == method and entry.get("model", recipe.model.name) == recipe.model.name:
            lines.append(f"{entry['text']} ({found['papers'][entry['paper']]}; {entry['where']})")
    for cell in found["cells"]:
        if cell["model"] == recipe.model.name and method in cell["values"]:
            where = f"K = {cell['blocks']}" if "blocks" in cell else cell["data"]
            value = _value(cell["values"][method])
            lines.append(
                f"{cell['quantity']} {value} ({cell['printed']}; {where}; {found['papers'][cell['paper']]})"
            )
    lines += [
        f"{entry['text']} ({found['papers'][entry['paper']]})"
        for entry in found["settings"]
        if entry["paper"] == recipe.group
    ]
    return lines


def key(group: Group) -> str:
    """The group's method as published.yaml names it."""
    return group.label.lower() if group.label.lower() in ("cdni", "dni") else group.method


def _value(value: Any) -> str:
    return "/".join(f"{v:.2f}" for v in value) if isinstance(value, list) else f"{value:.2f}"


@lru_cache(maxsize=4)
def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found
