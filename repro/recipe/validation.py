"""Builds a `Recipe` from a mapping and turns what pydantic objects to into one plain sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from repro.corrections import Correction, find_correction, parse_corrections
from repro.errors import UserError, nearest
from repro.methods import find_method, parse_method
from repro.recipe.allowed import takes_list, values
from repro.recipe.optimizers import SGD, OptimizerSpec, find_optimizer, parse_optimizer
from repro.recipe.schema import Recipe

_NEEDED = {"model": "resnet98", "data": "digits", "method": "bp"}  # all else has a default; with an example


def build(raw: Mapping[str, Any]) -> Recipe:
    """Validate `raw`; raises UserError naming the first wrong field, its value and what is allowed."""
    given = dict(raw)
    if missing := [key for key in _NEEDED if key not in given]:
        examples = ", ".join(f"`{key}: {_NEEDED[key]}`" for key in missing)
        whose = given.get("name", "the recipe")
        raise UserError(
            f"{whose}: a recipe needs model, data and method; give {' and '.join(missing)}, as in {examples}"
        )
    if empty := [key for key in _NEEDED if given[key] is None]:
        raise UserError(f"{empty[0]} has no value.{_allowed(empty[0])}")
    method: type[BaseModel] | None = None
    try:
        if "method" in given:
            setting = given["method"]
            name = setting.get("name") if isinstance(setting, Mapping) else setting
            method = find_method(name) if isinstance(name, str) else None
            given["method"] = parse_method(setting)
    except ValidationError as error:
        raise UserError(_sentence(error, "method.", method)) from None
    except ValueError as error:
        raise UserError(str(error)) from None
    if "optimizer" in given:
        given["optimizer"] = _optimizer(given["optimizer"])
    if "corrections" in given:
        given["corrections"] = _corrections(given["corrections"])
    try:
        recipe = Recipe.model_validate(given)
    except ValidationError as error:
        raise UserError(_sentence(error, "", Recipe)) from None
    return recipe.model_copy(update={"method": recipe.method.resolve(recipe.blocks)})


def _optimizer(value: Any) -> OptimizerSpec:
    if value is None:
        names = ", ".join(f"optimizer.{name}" for name in SGD.model_fields)
        raise UserError(f"optimizer has no value: it is a group of settings, {names}")
    kind: type[BaseModel] | None = None
    try:
        kind = find_optimizer(value)
        return parse_optimizer(value)
    except ValidationError as error:
        raise UserError(_sentence(error, "optimizer.", kind)) from None
    except ValueError as error:
        raise UserError(str(error)) from None


def _corrections(value: Any) -> tuple[Correction, ...]:
    found: list[Correction] = []
    rows = value if isinstance(value, (list, tuple)) else [value]
    for i, row in enumerate(rows):
        kind: type[BaseModel] | None = None
        try:
            kind = find_correction(row.get("name")) if isinstance(row, Mapping) else None
            found += parse_corrections([row])
        except ValidationError as error:
            raise UserError(_sentence(error, f"corrections.{i}.", kind)) from None
        except ValueError as error:
            raise UserError(f"corrections: {error}") from None
    return tuple(found)


def _sentence(error: ValidationError, prefix: str, model: type[BaseModel] | None) -> str:
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if not _is_tag(part)]
    field = prefix + ".".join(place)
    kind, value = first["type"], first.get("input")
    if kind == "extra_forbidden":
        known = _fields(model, place[:-1])
        allowed = f" Allowed: {', '.join(known)}" if known else ""
        return f"unknown setting '{field}'.{nearest(place[-1], known)}{allowed}"
    if kind == "missing":
        return f"setting '{field}' is missing.{_allowed(field)}"
    if kind == "value_error":
        message = first["msg"].removeprefix("Value error, ")
        return f"{field}: {message}" if field else message
    if kind == "model_type":
        known = _fields(model, place)
        given = "has no value" if value is None else f"= {value!r}"
        return f"{field} {given}: it is a group of settings, {', '.join(f'{field}.{name}' for name in known)}"
    message = (first["msg"][0].lower() + first["msg"][1:]).replace("valid tuple", "valid list")
    allowed = _allowed(field)
    if value is None:
        return f"{field} has no value.{allowed}" if allowed else f"{field} has no value: {message}"
    close = nearest(str(value), values(field)) if kind == "literal_error" else ""
    return f"{field} = {value!r}: {message}.{close}{allowed if kind == 'tuple_type' else ''}"


def _allowed(field: str) -> str:
    """The values of a setting that has a fixed set of them, as the end of a message."""
    words = values(field)
    return f" Allowed: {', '.join(words)}{', or a list' if takes_list(field) else ''}" if words else ""


def _is_tag(part: Any) -> bool:
    # Pydantic names the branch of a union in the location; users know only field names and indices.
    return isinstance(part, str) and ("[" in part or part == "str")


def _fields(model: type[BaseModel] | None, place: list[str]) -> list[str]:
    """Names of the settings under `place`."""
    for part in place:
        if part.isdigit():  # in a list
            continue
        if model is None or part not in model.model_fields:
            return []
        model = _model_in(model.model_fields[part].annotation)
    return list(model.model_fields) if model else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first settings class that a field's type names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
