"""Every link of the documentation leads somewhere, and every page is in the site's order; no build is needed for it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """All pages, written and generated, by their path below docs/."""
    spec = importlib.util.spec_from_file_location("generated_pages", DOCS / "generated_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = {str(p.relative_to(DOCS)): p.read_text(encoding="utf-8") for p in DOCS.rglob("*.md")}
    return {**written, **module.pages()}


def slug(heading: str) -> str:
    """The anchor that mkdocs gives a heading."""
    words = re.sub(r"[`*]", "", heading).replace("\\", "").strip().lower()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words)).strip("-")


def broken(pages: dict[str, str]) -> list[str]:
    """Links to a page, picture or heading that is not there."""
    found = []
    for name, words in pages.items():
        prose = re.sub(r"```.*?```", "", words, flags=re.DOTALL)
        for target in re.findall(r"(?<!\\)\]\(([^)\s]+)\)", prose):
            path, _, anchor = target.partition("#")
            if "://" in target:
                continue
            place = name if not path else str(Path(name).parent / path)
            if place not in pages and not (DOCS / place).is_file():
                found.append(f"{name}: {target}")
                continue
            headings = re.findall(r"^#+ (.*)$", pages.get(place, ""), re.MULTILINE)
            if anchor and anchor not in map(slug, headings):
                found.append(f"{name}: {target}")
    return found


def test_every_link_leads_somewhere(pages: dict[str, str]) -> None:
    assert broken(pages) == []
    assert sum(words.count("](") for words in pages.values()) > 20


def test_a_broken_link_is_found() -> None:
    assert broken({"a.md": "[b](none.md) [c](#no) [d](a.md#here)\n# Here\n"}) == [
        "a.md: none.md",
        "a.md: #no",
    ]


def test_the_site_has_every_page_once(pages: dict[str, str]) -> None:
    def leaves(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [leaf for e in (entry.values() if isinstance(entry, dict) else entry) for leaf in leaves(e)]

    listed = leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(listed) == sorted(pages)


def test_the_site_asks_for_nothing_from_elsewhere(pages: dict[str, str]) -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert settings["theme"]["font"] is False
    assert "extra_javascript" not in settings
    for name in settings.get("extra_css", []):
        style = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert not re.search(r"url\(|@import|//\w", style), name
    for name, words in pages.items():
        assert not re.search(r"!\[[^]]*\]\(https?:|<(img|script|link)\b[^>]*https?:", words), name


def test_generated_pages_follow_the_program(pages: dict[str, str]) -> None:
    import cli
    from repro.report import figures, tables
    from repro.report.claims import CLAIMS

    for info in cli.app.registered_commands:
        name = info.name or getattr(info.callback, "__name__", "")
        assert f"## repro {name}\n" in pages["commands.md"]
    assert "--sweep KEY=V1,V2" in pages["commands.md"]
    for name in (*tables.names(), *figures.names()):
        assert f"| `{name}` |" in pages["tables-and-figures.md"]
    for claim in CLAIMS:
        assert f"## {claim.name}: " in pages["claims.md"]
        assert f"`{claim.command}`" in pages["claims.md"]
