"""Words of a page that must not be broken: names of recipes, options, and what became of a setting."""

from __future__ import annotations

import re
from html import escape


def unbroken(words: str) -> str:
    """Escaped; recipes, options and changes (top1-resnet20-s1, --profile, 8 -> 3) are not broken at their hyphens."""
    parts = re.split(r"(\S+ -> \S+|[\w.]*-[-\w.=,]*\w)", words)
    return "".join(
        f'<span class="whole">{escape(p)}</span>' if i % 2 else escape(p) for i, p in enumerate(parts)
    )
