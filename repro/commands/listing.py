"""`repro list`: an overview, or the recipes that words and options name; from the YAML files alone."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence

from repro.errors import UserError, nearest
from repro.recipe.suite import Entry, catalogue

_COLUMNS = ("name", "group", "method", "model", "data", "blocks", "reproduces")
_SHOWN = {"name": "name", "method": "method", "model": "model", "data": "data", "K": "blocks"}


def list_recipes(
    words: Sequence[str],
    group: str | None,
    method: str | None,
    model: str | None,
    data: str | None,
    as_json: bool,
) -> None:
    """Print the overview where nothing narrows it down, else a line per recipe; or one JSON object."""
    asked = {"group": group, "method": method, "model": model, "data": data}
    if not as_json and not words and not any(asked.values()):
        from repro.commands.overview import overview

        print(overview())
        return
    entries = list(catalogue().values())
    found = _narrowed(_with_words(entries, words), asked, entries)
    if as_json:
        rows = [{column: getattr(entry, column) for column in _COLUMNS} for entry in found]
        print(json.dumps({"rows": rows, "environment": {"python": sys.version.split()[0]}}, indent=1))
    elif found:
        _print_rows(found)
    if not found:
        given = [*words, *(f"--{option} {value}" for option, value in asked.items() if value)]
        print(
            f"repro: no recipe is listed under all of: {' '.join(given)}.{_hint(words, entries)}",
            file=sys.stderr,
        )


def _narrowed(found: list[Entry], asked: dict[str, str | None], entries: list[Entry]) -> list[Entry]:
    """Those that have what every option asks for; UserError for what no recipe has."""
    for option, value in asked.items():
        if value is None:
            continue
        known = list(dict.fromkeys(name for entry in entries for name in _values(entry, option)))
        if value not in known:
            raise UserError(
                f"--{option} {value!r} is unknown.{nearest(value, known)} Allowed: {', '.join(known)}"
            )
        found = [entry for entry in found if value in _values(entry, option)]
    return found


def _values(entry: Entry, option: str) -> tuple[str, ...]:
    # cdni and top1 are words for a method in names, though the setting `method` says dni and bp there
    return (entry.word, entry.method) if option == "method" else (str(getattr(entry, option)),)


def _with_words(entries: list[Entry], words: Sequence[str]) -> list[Entry]:
    """Those that every word matches.

    A word is looked for in names, models and data, and only if it is in none of them in what recipes reproduce;
    k4 stands for K = 4.
    """
    found = entries
    for word in (word.lower() for word in words):
        if any(map(test := _in_name(word), entries)):
            found = [entry for entry in found if test(entry)]
        else:
            found = [entry for entry in found if word in entry.reproduces.lower()]
    return found


def _in_name(word: str) -> Callable[[Entry], bool]:
    """Whether a part of the name, the model or the data begins with `word`, or K is meant by it."""
    begins = re.compile(rf"(?:^|[-\s]){re.escape(word)}")
    blocks = re.fullmatch(r"k=?(\d+)", word)

    def test(entry: Entry) -> bool:
        if blocks:
            return entry.blocks == int(blocks[1])
        return bool(begins.search(f"{entry.name} {entry.method} {entry.model} {entry.data}"))

    return test


def _print_rows(entries: Sequence[Entry]) -> None:
    rows = [dict(zip(_SHOWN, _SHOWN, strict=True)) | {"reproduces": "reproduces"}]
    rows += [
        {k: str(getattr(e, field)) for k, field in {**_SHOWN, "reproduces": "reproduces"}.items()}
        for e in entries
    ]
    widths = {column: max(len(row[column]) for row in rows) for column in _SHOWN}
    room = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    for row in rows:
        line = "  ".join([*(row[column].ljust(width) for column, width in widths.items()), row["reproduces"]])
        print(line if room is None or len(line) <= room else f"{line[: max(room - 3, 0)]}...")


def _hint(words: Sequence[str], entries: Sequence[Entry]) -> str:
    """What may have been meant."""
    if any(re.fullmatch(r"k=?\d+", word) for word in words):
        ks = ", ".join(str(k) for k in sorted({entry.blocks for entry in entries}))
        return f" Listed are K = {ks}; any other works in a name, as in dsp-resnet98-k5."
    parts = {part for entry in entries for part in [*entry.name.split("-"), entry.model, entry.data]}
    for word in words:
        if not any(map(_in_name(word.lower()), entries)) and (close := nearest(word.lower(), sorted(parts))):
            return close
    return ""
