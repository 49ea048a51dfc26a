"""`repro list`: every recipe, from the YAML files alone."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap

from repro.errors import UserError, nearest
from repro.recipe.load import catalogue

GROUPS = ("dsp", "gradient-approximation")


def show_catalogue(group: str | None, as_json: bool) -> None:
    """Print a line per recipe on stdout, or one JSON object."""
    if group is not None and group not in GROUPS:
        raise UserError(f"--group {group!r} is unknown.{nearest(group, GROUPS)} Allowed: {', '.join(GROUPS)}")
    entries = [e for e in catalogue().values() if group in (None, e.group)]
    columns = ("name", "group", "method", "model", "data", "blocks", "reproduces")
    rows = [{c: getattr(e, c) for c in columns} for e in entries]
    if as_json:
        print(json.dumps({"rows": rows, "environment": {"python": sys.version.split()[0]}}, indent=1))
        return
    shown = ("name", "method", "model", "data", "reproduces")
    widths = {c: max(len(c), *(len(str(r[c])) for r in rows)) for c in shown[:-1]}
    room = shutil.get_terminal_size((120, 24)).columns - sum(widths.values()) - 2 * len(widths)
    for row in [{c: c for c in columns}, *rows]:
        text = str(row["reproduces"])
        if sys.stdout.isatty():
            text = textwrap.shorten(text, max(20, room), placeholder="...")
        print("  ".join([*(str(row[c]).ljust(widths[c]) for c in widths), text]).rstrip())
