"""A recipe by name or path, resolved: its settings, the profile, overrides, validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from repro.errors import UserError
from repro.recipe.reading import LOADER, merge, settings_of
from repro.recipe.suite import recipe_settings

PROFILES = ("paper", "reference", "quick", "smoke")  # the nearest to the papers first
# Short names of settings that users type often.
ALIASES = {
    "staleness": "method.staleness",
    "locking": "method.locking",
    "lr": "optimizer.lr",
    "momentum": "optimizer.momentum",
    "batch_size": "data.batch_size",
    "threads": "runtime.threads",
    "estimator": "gradient.estimator",
}
GROUPS = (
    "dsp",
    "gradient-approximation",
    "asynchronous",
)  # the papers; the first is the one for recipes of one's own
OWN = "a recipe of one's own; nothing published to compare with"


def parse_overrides(pairs: Sequence[str], *, aliases: bool = True) -> dict[str, Any]:
    """Turn `key=value` words of --set into {dotted key: value}; values are read as YAML, short names written out."""
    known = ALIASES if aliases else {}
    found: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UserError(f"--set {pair!r}: give key=value, for example --set optimizer.lr=0.05")
        try:
            found[known.get(key, key)] = _scalar(value)
        except yaml.YAMLError:
            found[known.get(key, key)] = value
    return found


def load(name: str, profile: str = "paper", overrides: Mapping[str, Any] | None = None) -> Any:
    """Return the validated `Recipe` called `name` (or at that path) under `profile` and `overrides`.

    Raises UserError naming the field, the value and what is allowed.
    """
    if profile not in PROFILES:
        raise UserError(f"--profile {profile!r} is unknown. Allowed: {', '.join(PROFILES)}")
    raw = _own(Path(name)) if name.endswith((".yaml", ".yml")) or "/" in name else recipe_settings(name)
    raw = deepcopy(raw)  # what is read once must not change with one command's settings
    profiles = raw.pop("profiles", {})
    if profile == "reference" and profile not in profiles:
        raise UserError(
            f"--profile reference: the project has made no reference runs of {raw['name']}; take another profile"
        )
    raw = {**merge(raw, profiles.get(profile, {})), "profile": profile}
    for key, value in (overrides or {}).items():
        _assign(raw, f"{key}.name" if key in ("model", "data") and isinstance(value, str) else key, value)
    return validate(raw)


def validate(raw: Mapping[str, Any]) -> Any:
    """Turn a complete mapping into a `Recipe`, with errors that name field, value and allowed values."""
    from repro.recipe.validation import build  # pydantic is not needed to list recipes

    return build(raw)


def _own(path: Path) -> dict[str, Any]:
    """A user's file."""
    if not path.is_file():
        raise UserError(f"there is no recipe file at {path}")
    raw = settings_of(path, recipe_settings)
    if "recipes" in raw:
        raise UserError(
            f"{path} lists the recipes of a network: give one of them by its name (`repro list {path.stem}`)"
        )
    group = raw.get("group", GROUPS[0])
    return {"reproduces": OWN, **raw, "name": path.stem, "group": group if group in GROUPS else GROUPS[0]}


def _assign(raw: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    if parents in (["method"], ["optimizer"]) and isinstance(raw.get(parents[0]), str):
        raw[parents[0]] = {"name": raw[parents[0]]}
    node: Any = raw
    for parent in parents:
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            raise UserError(f"--set {key}: '{parent}' is not a group of settings")
    node[last] = value


def _scalar(text: str) -> Any:
    # YAML 1.1 reads "1e-3" as text and "4,2,0" as text; numbers in scientific notation are meant as numbers.
    value = yaml.load(text, Loader=LOADER)
    if isinstance(value, str):
        try:
            return float(value) if "e" in value.lower() else value
        except ValueError:
            return value
    return text if value is None and text.strip() not in ("", "null", "~") else value
