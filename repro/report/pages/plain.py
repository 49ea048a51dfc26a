"""Text for a terminal that prints ASCII only."""

from __future__ import annotations

import unicodedata

_ASCII = {
    "±": "+-",
    "×": "x",
    "–": "-",
    "—": "-",
    "·": ".",
    "’": "'",
    "≥": ">=",
    "≤": "<=",
    "→": "->",
    "Δ": "D",
    "‖": "||",
}


def plain(words: str) -> str:
    """`words` in ASCII: ± becomes +-, accents fall off, anything else becomes a question mark."""
    for character, replacement in _ASCII.items():
        words = words.replace(character, replacement)
    if words.isascii():
        return words
    bare = "".join(c for c in unicodedata.normalize("NFKD", words) if not unicodedata.combining(c))
    return bare.encode("ascii", "replace").decode()
