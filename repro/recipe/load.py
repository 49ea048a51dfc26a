"""Finds a recipe by name or path and resolves it: base settings, profile, overrides, validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from repro import paths
from repro.errors import UserError, nearest

PROFILES = ("paper", "reference", "quick", "smoke")  # the nearest to the papers first
SETTINGS = "settings"  # folder of what recipes extend; no recipes themselves
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
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Entry:
    """A recipe as `repro list` shows it, before validation."""

    name: str
    group: str
    path: Path
    method: str
    model: str
    data: str
    blocks: int
    reproduces: str


def catalogue() -> dict[str, Entry]:
    """All recipes of the recipes folder by name, sorted; reads YAML only."""
    entries = {}
    for path in _files().values():
        raw = _resolve(path)
        method = raw.get("method", {})
        entries[path.stem] = Entry(
            name=path.stem,
            group=path.parent.name,
            path=path,
            method=method if isinstance(method, str) else str(method.get("name", "")),
            model=str(raw.get("model", {}).get("name", "")),
            data=str(raw.get("data", {}).get("name", "")),
            blocks=int(raw.get("blocks", 1)),
            reproduces=str(raw.get("reproduces", "")),
        )
    return entries


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
    path = _find(name)
    raw = _resolve(path)
    profiles = raw.pop("profiles", {})
    if profile == "reference" and profile not in profiles:
        raise UserError(
            f"--profile reference: the project has made no reference runs of {path.stem}; take another profile"
        )
    raw = _merge(raw, profiles.get(profile, {}))
    raw.update(name=path.stem, group=raw.get("group", path.parent.name), profile=profile)
    if raw["group"] not in ("dsp", "gradient-approximation"):
        raw["group"] = "dsp"
    for key, value in (overrides or {}).items():
        _assign(raw, key, value)
    return validate(raw)


def validate(raw: Mapping[str, Any]) -> Any:
    """Turn a complete mapping into a `Recipe`, with errors that name field, value and allowed values."""
    from repro.recipe.validation import build  # pydantic is not needed to list recipes

    return build(raw)


def _files() -> dict[str, Path]:
    root = paths.recipes()
    found = (p for p in root.glob("*/*.yaml") if p.parent.name != SETTINGS)
    return {p.stem: p for p in sorted(found, key=lambda p: (p.parent.name, p.stem))}


def _find(name: str) -> Path:
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = Path(name)
        if not path.is_file():
            raise UserError(f"there is no recipe file at {name}")
        return path
    files = _files()
    if name not in files:
        raise UserError(
            f"unknown recipe '{name}'.{nearest(name, files)} `repro list` shows all {len(files)} recipes."
        )
    return files[name]


def _resolve(path: Path, below: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read a file and merge it over what it extends: a file beside it, shared settings, or a recipe of the suite."""
    raw = _read(path)
    base = raw.pop("extends", None)
    if base is None:
        return raw
    chain, settings = (*below, path), paths.recipes() / SETTINGS
    places = (folder / f"{base}.yaml" for folder in (path.parent, settings))
    found = next((place for place in places if place not in chain and place.is_file()), None) or _files().get(
        base
    )
    if found is None or found in chain:
        raise UserError(
            f"{path}: extends: '{base}' is neither beside it, nor in {settings}, nor a recipe (`repro list`)"
        )
    return _merge(_resolve(found, chain), raw)


def _read(path: Path) -> dict[str, Any]:
    try:
        stat = path.stat()
        raw: dict[str, Any] = _copy(_parse(str(path), stat.st_mtime_ns))
        return raw
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None


@lru_cache(maxsize=1024)
def _parse(path: str, _modified: int) -> dict[str, Any]:
    raw = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_LOADER)
    if not isinstance(raw, dict):
        raise UserError(f"{path}: a recipe is a mapping of settings, found {type(raw).__name__}")
    return raw


def _copy(value: Any) -> Any:
    return {k: _copy(v) for k, v in value.items()} if isinstance(value, dict) else value


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge; `over` wins. A mapping with another `name` replaces (its settings belong to that name)."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        same_kind = isinstance(old, Mapping) and isinstance(value, Mapping)
        if same_kind and not (key == "method" and value.get("name", old.get("name")) != old.get("name")):  # type: ignore[union-attr]
            merged[key] = _merge(old, value)  # type: ignore[arg-type]
        else:
            merged[key] = _copy(value)
    return merged


def _assign(raw: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    if parents == ["method"] and isinstance(raw.get("method"), str):
        raw["method"] = {"name": raw["method"]}
    node: Any = raw
    for parent in parents:
        node = node.setdefault(parent, {})
        if not isinstance(node, dict):
            raise UserError(f"--set {key}: '{parent}' is not a group of settings")
    node[last] = value


def _scalar(text: str) -> Any:
    # YAML 1.1 reads "1e-3" as text and "4,2,0" as text; numbers in scientific notation are meant as numbers.
    value = yaml.load(text, Loader=_LOADER)
    if isinstance(value, str):
        try:
            return float(value) if "e" in value.lower() else value
        except ValueError:
            return value
    return text if value is None and text else value
