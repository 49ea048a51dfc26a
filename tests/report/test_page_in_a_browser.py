"""The page of `repro report` in a real headless browser: whole, quiet, self-contained, and no wider than the window."""

from pathlib import Path
from typing import Any

import pytest

from repro.report import figures, tables
from repro.report.pages import html
from tests.report import browser
from tests.report.factory import write_benches
from tests.report.reference_set import write_reference
from tests.report.stale_set import write_stale

WIDTHS = (1280, 390)
needs_browser = pytest.mark.skipif(
    browser.find() is None,
    reason=f"no browser on PATH ({', '.join((*browser.CHROMES, 'firefox'))}): make tools",
)


@pytest.fixture
def visited(tmp_path: Path, reference: Path) -> list[dict[str, Any]]:
    write_reference(reference)
    write_stale(reference)
    write_benches(reference)
    text, _ = html.page(tmp_path / "none")
    found, log = browser.visit(text, WIDTHS, tmp_path)
    assert [a["width"] for a in found] == list(WIDTHS)
    assert "CONSOLE" not in log, log
    return found


@needs_browser
@pytest.mark.timeout(300)
def test_the_page_is_whole_and_quiet_at_every_width(visited: list[dict[str, Any]]) -> None:
    for answer in visited:
        assert answer["errors"] == []
        assert answer["requests"] == [], "the page asks for something from outside"
        assert answer["scroll"] <= answer["width"], f"wider than {answer['width']} px: {answer['wide']}"
        assert answer["wide"] == []
        assert answer["unseen"] == []
        assert set(answer["figures"]) == {f"figure-{name}" for name in figures.names()}
        for name, (left, width, height) in answer["figures"].items():
            assert left >= 0, name
            assert width > 200, f"{name} is {width} px wide"
            assert height > 60, f"{name} is {height} px high"
            assert answer["shapes"][name] > 10, f"{name} draws nothing"
        assert answer["tables"] >= len(tables.names()) - 1  # memory-formats: of this machine


@needs_browser
@pytest.mark.timeout(300)
def test_the_probe_sees_what_is_wrong(tmp_path: Path) -> None:
    """A page with every fault that the test above looks for."""
    bad = (
        "<!DOCTYPE html><html><head></head><body><script>1</script><img src='https://example.invalid/x.png'>"
        "<div style='width:2000px'>wide</div><p style='display:none'>x</p><figure id='figure-none'></figure></body></html>"
    )
    (answer,), _ = browser.visit(bad, (390,), tmp_path)
    assert answer["scroll"] > 390
    assert any("wide" in element for element in answer["wide"])
    assert len(answer["unseen"]) == 1
    assert {words.split(":")[0] for words in answer["errors"]} >= {"blocked"}
    assert any("example.invalid" in words for words in answer["errors"])
    assert answer["figures"]["figure-none"][2] == 0
