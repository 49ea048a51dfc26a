"""The words by which a row is told from other settings of the same method: "DSP(1,1,0;4,2,0), lr 0.02"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from repro.report.stored.group import Group, data_label

# Settings that say on what and how long a run trains. Rows with different ones stand apart by their other columns.
SIZE = frozenset({
    "blocks", "cut", "experiment", "epochs", "max_steps", "evaluate_every", "optimizer.milestones", "model.name",
    "data.name", "data.train_limit", "data.test_limit", "data.image_size", "data.context", "straggler.probability",
    "straggler.delay",
})  # fmt: skip
_IN_LABEL = (
    "gradient.estimator",
    "gradient.schedule",
    "gradient.scale",
    "corrections",
    "optimizer.name",
    "replicas",
)


def named(groups: Iterable[Group]) -> list[Group]:
    """The groups with `variant`: a changed setting that no other column shows is always named.

    Any other is where rows of one place and label differ in it.
    """
    groups = list(groups)
    alike: dict[tuple[object, ...], list[Group]] = {}
    for group in groups:
        place = (group.model, data_label(group), group.profile, group.device, group.blocks)
        alike.setdefault((group.settings.get("experiment"), *place, group.label), []).append(group)
    return [replace(g, variant=_words(g, members)) for members in alike.values() for g in members]


def swept(group: Group) -> tuple[str, ...]:
    """Keys that the command changed and that neither the label nor another column shows."""
    return tuple(
        key
        for key in sorted(group.changed)
        if key not in SIZE and not in_label(key) and not _comes_with_the_name(key, group)
    )


def in_label(key: str) -> bool:
    """Whether the method's label, or that of the approximated gradient, says it."""
    return key.split(".")[0] == "method" or key in _IN_LABEL


def _comes_with_the_name(key: str, group: Group) -> bool:
    """Whether a setting is there, or is not, only because another optimiser was named, and is at its default."""
    if not key.startswith("optimizer.") or "optimizer.name" not in group.changed:
        return False
    from repro.recipe.optimizers import OPTIMIZERS

    kind = OPTIMIZERS.get(str(group.changed["optimizer.name"][1]))
    field = kind.model_fields.get(key.removeprefix("optimizer.")) if kind else None
    return field is None or field.get_default() == group.changed[key][1]


def judged(group: Group) -> bool:
    """Whether the group has its recipe's own settings, whatever its size: what claims are about."""
    return all(key in SIZE for key in group.changed)


def _words(group: Group, members: Sequence[Group]) -> tuple[tuple[str, Any], ...]:
    keys = set(swept(group))
    for key in {key for other in members for key in other.changed} - keys:
        if len({repr(other.counted.get(key)) for other in members}) > 1:
            keys.add(key)
    last = Counter(key.split(".")[-1] for key in keys)
    return tuple(
        (key if last[short] > 1 else short, group.counted.get(key))
        for key in sorted(keys)
        if (short := key.split(".")[-1])
    )
