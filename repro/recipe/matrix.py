"""A network's file: the recipes that it lists, and the settings that each word of a name adds.

straggler-dsp-resnet98-k2-s630
|key           |network |K |variants      settings: network < experiment < method < variants < K
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from repro.errors import UserError
from repro.recipe.reading import merge, settings_of

PLAIN = "plain"  # in a list of variants: the recipe without one
_WORDS = (
    "recipes",
    "text",
    "methods",
    "experiments",
    "variants",
)  # of a network's file; the rest are settings
_K = re.compile(r"k([1-9]\d{0,3})")


@dataclass(frozen=True)
class Choice:
    """One recipe of a network: its method (behind its experiment, as listed), K where it is named, and variants."""

    key: str
    blocks: int | None = None
    variants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """The recipes of one network in one paper."""

    path: Path

    @property
    def network(self) -> str:
        """The word for the network in names."""
        return self.path.stem

    @property
    def group(self) -> str:
        """The paper's folder."""
        return self.path.parent.name

    @cached_property
    def raw(self) -> dict[str, Any]:
        """The file, merged over what it extends."""
        return settings_of(self.path)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What all of the network's recipes share."""
        return {key: value for key, value in self.raw.items() if key not in _WORDS}

    @cached_property
    def listed(self) -> dict[str, tuple[Choice, ...]]:
        """The choices that the file lists, by key."""
        rows = self.raw.get("recipes")
        if not isinstance(rows, Mapping) or not all(isinstance(row, list) and row for row in rows.values()):
            raise UserError(
                f"{self.path}: recipes: give lists of variants by method, as in `dsp: [plain, k4, s630]`"
            )
        return {key: tuple(self._choice(key, str(word)) for word in row) for key, row in rows.items()}

    @property
    def blocks(self) -> int:
        """K where a name gives none."""
        return int(self.settings.get("blocks", 1))

    def variants(self, key: str) -> tuple[tuple[str, ...], ...]:
        """The combinations of variants that the recipes called `key` have, () among them where a name needs none."""
        return tuple(dict.fromkeys(choice.variants for choice in self.listed[key]))

    def name(self, choice: Choice) -> str:
        """The recipe's name."""
        k = [] if choice.blocks is None else [f"k{choice.blocks}"]
        return "-".join([choice.key, self.network, *k, *choice.variants])

    def find(self, name: str) -> Choice | None:
        """The recipe that a name means, listed or with another K; None where the file has no such recipe.

        The order of the words behind the network is free, and the K that a recipe has anyway may be named.
        """
        for key in self.listed:
            words = self.behind(key, name)
            if words is None:
                continue
            numbers = [int(found[1]) for word in words if (found := _K.fullmatch(word))]
            rest = sorted(word for word in words if not _K.fullmatch(word))
            variants = next((known for known in self.variants(key) if sorted(known) == rest), None)
            if variants is None or len(numbers) > 1:
                return None
            return self._usual(Choice(key, numbers[0] if numbers else None, variants))
        return None

    def behind(self, key: str, name: str) -> list[str] | None:
        """The words behind key and network in `name`; None where it begins with something else."""
        front = self.front(key)
        if name == front:
            return []
        return name.removeprefix(front + "-").split("-") if name.startswith(front + "-") else None

    def recipe(self, choice: Choice) -> dict[str, Any]:
        """All settings of a recipe, its profiles and `reproduces` among them."""
        merged: dict[str, Any] = {"text": self.raw.get("text", {}), **self.settings}
        for part in self._parts(choice):
            merged = merge(merged, {key: value for key, value in part.items() if key != "variants"})
        if choice.blocks is not None:
            merged["blocks"] = choice.blocks
            # A K that is named holds in every profile.
            profiles = merged.get("profiles", {}).items()
            merged["profiles"] = {
                p: {k: v for k, v in values.items() if k != "blocks"} for p, values in profiles
            }
        texts = merged.pop("text")
        merged["reproduces"] = _sentence(
            texts, int(merged.get("blocks", 1)), merged.get("method", {}), self.path
        )
        return merged

    def front(self, key: str) -> str:
        """The beginning of the names of a key's recipes."""
        return f"{key}-{self.network}"

    def _choice(self, key: str, word: str) -> Choice:
        words = [] if word == PLAIN else word.split("-")
        numbers = [int(found[1]) for w in words if (found := _K.fullmatch(w))]
        choice = Choice(key, numbers[0] if numbers else None, tuple(w for w in words if not _K.fullmatch(w)))
        self._parts(choice)  # every word must stand for something
        return choice

    def _usual(self, choice: Choice) -> Choice:
        """Without K where the name means the same without it, in every profile: one recipe, one name."""
        plain = Choice(choice.key, None, choice.variants)
        settings = self.recipe(plain)
        usual = [int(settings.get("blocks", 1))]
        usual += [p.get("blocks", usual[0]) for p in settings.get("profiles", {}).values()]
        return plain if all(choice.blocks == blocks for blocks in usual) else choice

    def words(self, key: str) -> tuple[str, str]:
        """The experiment ("" for plain training) and the method in a key."""
        methods = self.raw.get("methods", {})
        experiments = ["", *(f"{name}-" for name in self.raw.get("experiments", {}))]
        for front in experiments:
            if key.startswith(front) and key.removeprefix(front) in methods:
                return front.removesuffix("-"), key.removeprefix(front)
        raise UserError(
            f"{self.path}: recipes: '{key}' is no METHOD and no EXPERIMENT-METHOD of what it extends"
        )

    def _parts(self, choice: Choice) -> list[dict[str, Any]]:
        """What the words of a name stand for, in the order in which they are laid over each other."""
        experiment, method = self.words(choice.key)
        parts = [self.raw["experiments"][experiment]] if experiment else []
        parts.append(self.raw["methods"][method])
        owners = [self.raw, *parts]
        for word in choice.variants:
            found = [owner["variants"][word] for owner in owners if word in owner.get("variants", {})]
            if not found:
                raise UserError(
                    f"{self.path}: recipes: {choice.key}: '{word}' is no variant of what it extends"
                )
            parts.append(found[-1])
        return parts


def _sentence(texts: Mapping[str, Any], blocks: int, method: Mapping[str, Any], path: Path) -> str:
    """`reproduces` with every {text} filled in."""
    words: dict[str, Any] = {"K": blocks}
    for key, text in texts.items():
        words[key] = text.get(blocks, text.get("other", "")) if isinstance(text, Mapping) else text
    try:
        if "staleness" in method:
            from repro.schedule import Staleness  # the overview does without texts

            words["staleness"] = Staleness.parse(str(method["staleness"]), blocks)
        sentence = str(words["reproduces"])
        while "{" in sentence:
            sentence = sentence.format(**words)
        return sentence
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: text: {error} has no text") from None
