"""A run's identity: a hash over every resolved value that can change a number."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repro.recipe.schema import Recipe

# Raise when a change of the code changes the numbers that the same settings give.
NUMERICS = 1

# Settings that say where and how to run, or name things, but change no number.
_LEFT_OUT = {
    "name": True,
    "group": True,
    "reproduces": True,
    "profile": True,
    "runtime": True,
    "data": {"num_workers", "path", "tokenizer"},
}
# Of `gradient`: without effect where nothing is approximated. Its schedule has none either, but has been in the hash
# of some full recipes from the start.
_OF_ESTIMATORS = ("scale", "kernel", "samples")
# Settings that were added later: they count only where they are not at their default, so that older hashes stay.
_ONLY_WHERE_USED: dict[str, Any] = {
    "timing_only": False, "replicas": 1, "norm_recalibration": 0, "corrections": [], "method.queues": "split",
    "autocast": "none", "tf32": False,
    "optimizer.schedule": "step", "optimizer.cosine_floor": 0.0, "optimizer.cosine_steps": None,
    "optimizer.warmup_steps": 0, "optimizer.warmup_start": 0.0, "optimizer.clip_norm": None, "optimizer.clip": "block",
    "data.context": None, "model.layers": None, "model.width": None, "model.heads": None, "model.positions": None,
    "model.tied": None,
}  # fmt: skip


def run_hash(
    recipe: Recipe, *, device: str, data_identity: str, cut: tuple[int, ...], memory_format: str | None = None
) -> str:
    """Return 12 hex digits that name the run's folder.

    Covers the settings, the device type ("cpu" or "cuda", not its index), K, the resolved `cut`
    (and what `memory_format: auto` has become), what the data set holds and the version of the numerics; not
    the number of threads or of loader workers.
    """
    values = counted(recipe)
    if values["memory_format"] == "auto" and memory_format is not None:
        values["memory_format"] = memory_format
    values.update(cut=list(cut), device=device.split(":")[0], data_identity=data_identity, numerics=NUMERICS)
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def counted(recipe: Recipe) -> dict[str, Any]:
    """The settings that can change a number, as JSON values; what has no effect in this recipe is at its default."""
    values: dict[str, Any] = recipe.model_dump(mode="json", exclude=_LEFT_OUT)  # type: ignore[arg-type]
    if not _estimates(recipe):
        defaults = type(recipe.gradient)().model_dump(mode="json")
        values["gradient"].update({key: defaults[key] for key in _OF_ESTIMATORS})
    for key, default in _ONLY_WHERE_USED.items():
        *parents, name = key.split(".")
        group = values[parents[0]] if parents else values
        if name in group and group[name] == default:  # method.queues is a setting of one method
            del group[name]
    return values


def came_later(key: str, value: Any) -> bool:
    """Whether a dotted setting is newer than the first hashes and at its default, so that it does not count."""
    return key in _ONLY_WHERE_USED and bool(_ONLY_WHERE_USED[key] == value)


def default_of(key: str) -> Any:
    """What a dotted setting is where the counted settings leave it out: its default, or None where it has none."""
    return _ONLY_WHERE_USED.get(key)


def _estimates(recipe: Recipe) -> bool:
    """Whether any of `gradient` is used: the experiment on bias measures estimators whatever the recipe trains with."""
    gradient = recipe.gradient
    return (
        recipe.experiment == "bias" or gradient.estimator != "full" or not isinstance(gradient.schedule, str)
    )
