"""Reads YAML files of settings: what they extend, and how settings are laid over settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from repro import paths
from repro.errors import UserError, nearest

SETTINGS = "settings"  # folder of what recipes extend; no recipes themselves
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OF_A_NAME = {
    "method": None,
    "optimizer": "sgd",
}  # groups whose settings depend on their name; the name without one
_NAMED = ("model", "data", "method")  # groups of settings that may be given by their name alone

# Settings of the suite's recipe of that name; UserError where there is no such recipe.
Suite = Callable[[str], dict[str, Any]]


def settings_of(path: Path, suite: Suite | None = None, below: tuple[Path, ...] = ()) -> dict[str, Any]:
    """A file's settings, merged over what it extends: files beside it, shared settings, or recipes of `suite`.

    Raises UserError where the file cannot be read or extends what is not there.
    """
    raw = _read(path)
    bases = raw.pop("extends", [])
    merged: dict[str, Any] = {}
    for base in bases if isinstance(bases, list) else [bases]:
        merged = merge(merged, _base(path, str(base), suite, (*below, path)))
    return merge(merged, raw)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge; `over` wins. A method or optimiser of another `name` replaces: its settings belong to that name."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        same_kind = isinstance(old, Mapping) and isinstance(value, Mapping)
        if same_kind and not _replaces(key, old, value):  # type: ignore[arg-type]
            merged[key] = merge(old, value)  # type: ignore[arg-type]
        else:
            merged[key] = _copy(value)
    return merged


def _replaces(key: str, old: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    if key not in _OF_A_NAME:
        return False
    name = old.get("name", _OF_A_NAME[key])
    return bool(value.get("name", name) != name)


def _base(path: Path, base: str, suite: Suite | None, chain: tuple[Path, ...]) -> dict[str, Any]:
    shared = paths.recipes() / SETTINGS
    for place in (path.parent / f"{base}.yaml", shared / f"{base}.yaml"):
        if place not in chain and place.is_file():
            return settings_of(place, suite, chain)
    reason = ""
    if suite is not None:
        try:
            return suite(base)
        except UserError as error:
            reason = f": {error}"
    close = nearest(base, sorted(place.stem for place in shared.glob("*.yaml")))
    places = f"neither beside it, nor in {shared}, nor a recipe"
    raise UserError(f"{path}: extends: '{base}' is {places}{f'.{close}' if close else reason}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return {
            key: {"name": value} if key in _NAMED and isinstance(value, str) else _copy(value)
            for key, value in _parse(str(path), path.stat().st_mtime_ns).items()
        }
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None


@lru_cache(maxsize=256)
def _parse(path: str, _modified: int) -> dict[str, Any]:
    raw = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=LOADER)
    if not isinstance(raw, dict):
        found = "an empty file" if raw is None else type(raw).__name__
        raise UserError(f"{path}: a recipe is a mapping of settings, found {found}")
    return raw


def _copy(value: Any) -> Any:
    return {k: _copy(v) for k, v in value.items()} if isinstance(value, dict) else value
