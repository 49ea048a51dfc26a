"""What a setting may be called and what it may be: read from the schema, for messages and for shell completion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from repro.methods import BUILT_IN
from repro.recipe.optimizers import OPTIMIZERS
from repro.recipe.schema import Recipe
from repro.recipe.suite import catalogue

# Groups whose settings depend on their name.
_BY_NAME: dict[str, Mapping[str, type[BaseModel]]] = {"method": BUILT_IN, "optimizer": OPTIMIZERS}
_NOT_SET = ("name", "group", "reproduces", "profile")  # these name a recipe; --set does not


def keys() -> list[str]:
    """Dotted keys of all settings, those of every built-in method and optimiser among them."""
    found = []
    for key, field in Recipe.model_fields.items():
        if key in _NOT_SET:
            continue
        group = group_of(field.annotation)
        if key in _BY_NAME:
            found += [
                f"{key}.{name}"
                for name in dict.fromkeys(n for m in _BY_NAME[key].values() for n in m.model_fields)
            ]
        else:
            found += [f"{key}.{name}" for name in group.model_fields] if group else [key]
    return found


def values(key: str) -> list[str]:
    """The values of a setting that has a fixed set of them, in the schema's order; empty for others."""
    if key.removesuffix(".name") in _BY_NAME:
        return list(_BY_NAME[key.removesuffix(".name")])
    if key in ("model", "model.name"):
        return sorted({entry.model for entry in catalogue().values()})
    if key == "data":
        key = "data.name"
    return list(dict.fromkeys(text for kind in _annotations(key) for text in _words(kind)))


def takes_list(key: str) -> bool:
    """Whether a setting may be a list."""
    return any(_within(kind, tuple) for kind in _annotations(key))


def group_of(annotation: Any) -> type[BaseModel] | None:
    """The group of settings that a field is; None for a plain value or a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    parts = [part for part in get_args(annotation) if part is not NoneType]
    return (
        next((found for part in parts if (found := group_of(part))), None)
        if get_origin(annotation) is not tuple
        else None
    )


def _annotations(key: str) -> list[Any]:
    """The types of a setting: one, or one for each method or optimiser that has it."""
    *parents, last = key.split(".")
    models: list[type[BaseModel]] = [Recipe]
    for parent in parents:
        if parent in _BY_NAME and models == [Recipe]:
            models = list(_BY_NAME[parent].values())
            continue
        fields = [model.model_fields[parent] for model in models if parent in model.model_fields]
        models = [group for field in fields if (group := group_of(field.annotation))]
    return [model.model_fields[last].annotation for model in models if last in model.model_fields]


def _words(annotation: Any) -> Iterator[str]:
    if annotation is bool:
        yield from ("true", "false")
    elif get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    elif get_origin(annotation) is not tuple:
        for part in get_args(annotation):
            yield from _words(part)


def _within(annotation: Any, origin: type) -> bool:
    return get_origin(annotation) is origin or any(_within(part, origin) for part in get_args(annotation))
