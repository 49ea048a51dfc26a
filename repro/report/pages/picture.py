"""A figure as an element of a page: letters are text, ids its own, and no byte more than it needs."""

from __future__ import annotations

import re
from collections import Counter


def inline(svg: str, name: str) -> str:
    """An SVG file as an element of a page: no XML head, and ids of its own so that pictures do not mix."""
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', body)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)


def compact(svg: str, name: str) -> str:
    """The same picture in fewer bytes: hundredths of a point are enough, and looks that repeat become classes."""
    # Letters may be drawn large and scaled; what is written between the elements is no number to be shortened.
    shorter = re.compile(r"scale\([^)]*\)|(\d\.\d\d)\d+")
    svg = re.sub(r"<[^>]*>", lambda tag: shorter.sub(lambda m: m[1] or m[0], tag[0]), svg)
    svg = svg.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")  # of nearly the same width
    count = Counter(re.findall(r' style="([^"]*)"', svg))
    classes = {look: f"{name}-{i}" for i, (look, n) in enumerate(count.most_common()) if n > 3}
    svg = re.sub(r' style="([^"]*)"', lambda m: f' class="{classes[m[1]]}"' if m[1] in classes else m[0], svg)
    rules = "".join(f".{known}{{{look}}}" for look, known in classes.items())
    start = svg.index(">") + 1
    return _joined(re.sub(r"\n\s*", "\n", f"{svg[:start]}<style>{rules}</style>{svg[start:]}"))


def _joined(svg: str) -> str:
    """Neighbouring paths that look alike as one, and no blanks between the words of a path."""
    blanks = re.compile(r"\s*([A-Za-z])\s*")
    svg = re.sub(r'(?<=<path d=")[^"]*', lambda way: blanks.sub(r"\1", way[0]), svg)
    alike = re.compile(
        r'<path d="([^"]*)"((?: clip-path="[^"]*")? class="[^"]*")/>\n(?:<path d="[^"]*"\2/>\n)+'
    )

    def one(found: re.Match[str]) -> str:
        ways = "".join(re.findall(r' d="([^"]*)"', found[0]))
        return f'<path d="{ways}"{found[2]}/>\n'

    return alike.sub(one, svg)
