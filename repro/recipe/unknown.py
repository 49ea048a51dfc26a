"""What to say of a name that no recipe has: the nearest right one, and what its network and method have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NoReturn

from repro.errors import UserError
from repro.recipe.matrix import Choice, Matrix

_K_WORD = re.compile(r"-k([1-9]\d{0,3})(?=-|$)")


def refuse(name: str, matrices: Sequence[Matrix]) -> NoReturn:
    """Raise the UserError about `name`."""
    fronts = [(m, key) for m in matrices for key in m.listed if m.behind(key, name) is not None]
    near = _near_variant(name, *fronts[0]) if fronts else _near_name(name, matrices)
    why = _why(name, *fronts[0]) if fronts else _why_not_a_front(name, matrices)
    number = sum(len(row) for m in matrices for row in m.listed.values())
    close = f" Did you mean '{near[0].name(near[1])}'? {_has(near[0], near[1].key)}" if near else ""
    raise UserError(f"unknown recipe '{name}'{why}.{close} `repro list` shows all {number} recipes.")


def _why(name: str, matrix: Matrix, key: str) -> str:
    front, words = matrix.front(key), matrix.behind(key, name) or []
    known = {word for variants in matrix.variants(key) for word in variants}
    strange = [word for word in words if word not in known and not _K_WORD.fullmatch(f"-{word}")]
    if any(re.fullmatch(r"k\d*|k.", word) for word in strange):
        return f": K is a whole number from 1 to 9999, as in {front}-k2"
    if strange:
        return f": {front} has no variant '{strange[0]}'"
    if len(_K_WORD.findall(name)) > 1:
        return ": it names K more than once"
    if () not in matrix.variants(key) and not [word for word in words if word in known]:
        return f": {front} needs a variant"
    return f": {front} has no such combination"


def _why_not_a_front(name: str, matrices: Sequence[Matrix]) -> str:
    keys = {key for m in matrices for key in m.listed}
    if name in keys or name in {m.network for m in matrices}:
        return f": it names a part only, `repro list {name}` shows the recipes with it"
    plain = _K_WORD.sub("", name)
    for m in matrices:
        if plain.endswith(f"-{m.network}") and (key := plain.removesuffix(f"-{m.network}")) in keys:
            return f": {m.network} is not there with {key}, only with {', '.join(m.listed)}"
    return ""


def _near_variant(name: str, matrix: Matrix, key: str) -> tuple[Matrix, Choice]:
    """Of the same network and method, with the K that was given."""
    words = "-".join(matrix.behind(key, _K_WORD.sub("", name)) or [])
    combinations = {"-".join(variants): variants for variants in matrix.variants(key)}
    close = get_close_matches(words, combinations, n=1, cutoff=0.4)
    given = _K_WORD.findall(name)
    choice = Choice(
        key, int(given[0]) if given else None, combinations[close[0]] if close else matrix.variants(key)[0]
    )
    return matrix, matrix.find(matrix.name(choice)) or choice


def _near_name(name: str, matrices: Sequence[Matrix]) -> tuple[Matrix, Choice] | None:
    """Of all listed recipes, with the K that was given."""
    names = {
        matrix.name(choice): (matrix, choice)
        for matrix in matrices
        for row in matrix.listed.values()
        for choice in (replace(one, blocks=None) for one in row)
    }
    close = get_close_matches(_K_WORD.sub("", name), names, n=1, cutoff=0.6)
    if not close:
        return None
    matrix, choice = names[close[0]]
    given = _K_WORD.findall(name)
    return matrix, replace(choice, blocks=int(given[0])) if given else choice


def _has(matrix: Matrix, key: str) -> str:
    front = matrix.front(key)
    variants = ["-".join(words) for words in matrix.variants(key)]
    named = ", ".join(word for word in variants if word)
    if not named:
        return f"{front} has no variants; any K works: {front}-k5."
    if "" not in variants:
        return f"{front} needs one of the variants {named}; any K works: {front}-k5-{variants[0]}."
    return f"{front} has the variants {named}; any K works: {front}-k5."
