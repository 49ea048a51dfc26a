"""Shell completion: names of recipes, profiles, tables, figures and benches, and keys and values of --set; no torch."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import replace

# The key before the "=" at which bash has cut the word to complete.
_key_of_bash: list[str] = []


def recipes(incomplete: str) -> list[str]:
    """Listed names; behind a K that is not listed, what its network and method have."""
    from repro.recipe.suite import matrices

    names = []
    for matrix in matrices():
        for key, row in matrix.listed.items():
            names += [matrix.name(choice) for choice in row]
            given = [
                word
                for word in matrix.behind(key, incomplete) or []
                if word[:1] == "k" and word[1:].isdigit()
            ]
            names += [matrix.name(replace(choice, blocks=int(given[0][1:]))) for choice in row if given]
    return _beginning(incomplete, sorted(dict.fromkeys(names)))


def settings(incomplete: str) -> list[str]:
    """`key=` of a setting; and of one with a fixed set of values, `key=value`."""
    from repro.recipe.allowed import keys, values
    from repro.recipe.load import ALIASES

    if _key_of_bash:
        return _beginning(incomplete, values(ALIASES.get(_key_of_bash[0], _key_of_bash[0])))
    key, equals, begun = incomplete.partition("=")
    if equals:
        return [f"{key}={value}" for value in _beginning(begun, values(ALIASES.get(key, key)))]
    return [f"{name}=" for name in _beginning(incomplete, [*ALIASES, *keys()])]


def profiles(incomplete: str) -> list[str]:
    """Profiles, the nearest to the papers first."""
    from repro.recipe.load import PROFILES

    return _beginning(incomplete, PROFILES)


def tables(incomplete: str) -> list[str]:
    """Tables."""
    from repro.report import tables

    return _beginning(incomplete, tables.names())


def figures(incomplete: str) -> list[str]:
    """Figures."""
    from repro.report import figures

    return _beginning(incomplete, figures.names())


def benches(incomplete: str) -> list[str]:
    """Benches."""
    from repro.commands.bench import NAMES

    return _beginning(incomplete, NAMES)


def groups(incomplete: str) -> list[str]:
    """Papers, as folders of recipes."""
    return _of_entries(incomplete, "group")


def methods(incomplete: str) -> list[str]:
    """Methods, as names of recipes have them."""
    return _of_entries(incomplete, "word")


def models(incomplete: str) -> list[str]:
    """Networks of recipes."""
    return _of_entries(incomplete, "model")


def data_sets(incomplete: str) -> list[str]:
    """Data sets of recipes."""
    return _of_entries(incomplete, "data")


def join_words_of_bash(environment: MutableMapping[str, str]) -> None:
    """Put together what bash has cut at "=": `--set`, `lr`, `=`, `0.1` are `--set`, `lr=0.1`.

    Of the word that is to be completed bash wants only what stands behind "=": its key is kept aside.
    """
    asked = any(key.endswith("_COMPLETE") and value == "complete_bash" for key, value in environment.items())
    if not asked or "COMP_WORDS" not in environment:
        return
    words = environment["COMP_WORDS"].split("\n" if "\n" in environment["COMP_WORDS"] else " ")
    at = int(environment["COMP_CWORD"])
    joined: list[str] = []
    for i, word in enumerate(words[:at]):
        if joined and i > 0 and "=" in (word, words[i - 1]):
            joined[-1] += word
        else:
            joined.append(word)
    last = words[at] if at < len(words) else ""
    if joined and (last == "=" or joined[-1].endswith("=")):
        before = joined.pop().removesuffix("=")
        option, _, key = before.partition("=") if before.startswith("--") else ("", "", before)
        joined += [option] if option else []
        _key_of_bash[:] = [key] if key else []
        last = last.removeprefix("=")
    environment["COMP_WORDS"] = "\n".join([*joined, last])
    environment["COMP_CWORD"] = str(len(joined))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _of_entries(incomplete: str, field: str) -> list[str]:
    from repro.recipe.suite import catalogue

    return _beginning(incomplete, dict.fromkeys(str(getattr(entry, field)) for entry in catalogue().values()))
