"""The page of `repro report` in a real headless browser: one browser and one page, written once, for all tests here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repro import paths
from repro.report import figures, tables
from repro.report.pages import html
from tests.report import browser
from tests.report.browser import Browser
from tests.report.factory import write_benches
from tests.report.reference_set import write_reference
from tests.report.stale_set import write_stale

WIDTHS = (1300, 400)
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        browser.find() is None, reason=f"no browser on PATH ({', '.join(browser.CHROMES)}): make tools"
    ),
]
LOOK = """(() => {
  const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.width, r.height].map(Math.round); };
  const all = what => [...document.querySelectorAll(what)];
  const clipped = e => e.closest(".scroll, figure, svg, defs");
  const start = e => e.outerHTML.slice(0, 90);
  return {
    scroll: document.documentElement.scrollWidth,
    wide: all("body *").filter(e => !clipped(e) && box(e)[0] + box(e)[1] > innerWidth + 1).map(start),
    unseen: all("h1, h2, p, table").filter(e => box(e)[1] * box(e)[2] === 0).map(start),
    figures: Object.fromEntries(all("figure").map(e => [e.id, box(e.querySelector("svg") || e)])),
    shapes: Object.fromEntries(all("figure").map(e => [e.id, e.querySelectorAll("svg path, svg use").length])),
    tables: all("table").length,
    lost: all("a").filter(e => !document.getElementById(decodeURIComponent(e.hash.slice(1)))).map(start),
  };
})()"""
CELLS = "[...document.querySelectorAll('#%s tbody tr:not(.group)')].filter(r => !r.hidden).map(r => r.cells[%d].textContent)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a whole set of invented runs."""
    folder = tmp_path_factory.mktemp("page")
    reference = folder / "reference"
    reference.mkdir()
    write_reference(reference)
    write_stale(reference)
    write_benches(reference)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "reference", lambda: reference)
        patch.chdir(folder)
        html.write(folder / "page.html", folder / "none")
    return folder / "page.html"


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.close()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_whole_and_quiet(chrome: Browser, page: Path, width: int, dark: bool) -> None:
    chrome.open(page, width, dark=dark)
    found = chrome.run(LOOK)
    assert chrome.errors == []
    assert chrome.requests == [], "the page asks for something from outside"
    assert found["scroll"] <= width, f"wider than {width} px: {found['wide']}"
    assert found["wide"] == []
    assert found["unseen"] == []
    assert found["lost"] == [], "links that lead nowhere"
    assert set(found["figures"]) == {f"figure-{name}" for name in figures.names()}
    for name, (left, wide, high) in found["figures"].items():
        assert left >= 0, name
        assert wide > 200, f"{name} is {wide} px wide"
        assert high > 60, f"{name} is {high} px high"
        assert found["shapes"][name] > 10, f"{name} draws nothing"
    assert found["tables"] >= len(tables.names()) - 1  # memory-formats: of this machine
    paper = chrome.run("getComputedStyle(document.body).backgroundColor")
    ink = chrome.run("getComputedStyle(document.body).color")
    assert (_light(paper) < 60, _light(ink) > 200) == (dark, dark)


def test_the_probe_sees_what_is_wrong(chrome: Browser, tmp_path: Path) -> None:
    """A page with every fault that the test above looks for."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!DOCTYPE html><html><head></head><body><script>console.warn(1); none()</script><img src='none.png'>"
        "<a href='#nowhere'>x</a><div style='width:2000px'>wide</div><p style='display:none'>x</p>"
        "<figure id='figure-none'></figure></body></html>"
    )
    chrome.open(bad, 400)
    found = chrome.run(LOOK)
    assert found["scroll"] > 400
    assert any("wide" in element for element in found["wide"])
    assert len(found["unseen"]) == len(found["lost"]) == 1
    assert {words.split(":")[0] for words in chrome.errors} == {"thrown", "console.warning", "log"}
    assert [Path(request).name for request in chrome.requests] == ["none.png"]
    assert found["figures"]["figure-none"][2] == 0


def test_the_claims_fit_a_window_of_1300_pixels(chrome: Browser, page: Path) -> None:
    chrome.open(page, 1300)
    inside, window = chrome.run(
        "(e => [e.scrollWidth, e.clientWidth])(document.querySelector('#claims .scroll'))"
    )
    assert inside <= window


def test_verdicts_lead_to_their_claims_and_numbers_to_their_runs(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    assert chrome.run(
        "document.querySelector('.glance').compareDocumentPosition(document.querySelector('figure')) === 4"
    )
    claims = chrome.run("[...document.querySelectorAll('.glance a')].map(e => e.hash)")
    rows = chrome.run("[...document.querySelectorAll('#claims tbody')].map(e => '#' + e.id)")
    assert sorted(claims) == sorted(rows)
    chrome.run("document.querySelector('#claims details').open = false")
    chrome.run("document.querySelector('.glance a').click()")
    assert chrome.run("document.querySelector('#claims details').open"), "a link unfolds where it leads"
    number = "[...document.querySelectorAll('#claims-D1 tr')].find(r => r.textContent.includes('DSP(1,0;2,0) over BP'))"
    hrefs = chrome.run(f"[...{number}.querySelectorAll('sup a')].map(e => e.hash)")
    targets = [chrome.run(f"document.querySelector('{href}').textContent") for href in hrefs]
    assert [words.split("reference")[0][2:].lstrip("0123456789") for words in targets] == [
        "bp-resnet98-k2",
        "dsp-resnet98-k2",
    ]
    for words in targets:
        for part in (
            "0, 1, 2 (3/3)",
            "0123456789ab",
            "Test processor, 4 cores",
            "PyTorch 2.9.0",
            "commit c0ffee",
        ):
            assert part in words
        assert "repro run " in words


def test_a_fold_opens_by_keyboard(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    opened = "document.querySelector('#claims details').open"
    _tab_to(
        chrome, "document.activeElement.closest('#claims') && document.activeElement.tagName === 'SUMMARY'"
    )
    assert chrome.run("getComputedStyle(document.activeElement).outlineStyle") == "solid", "focus is seen"
    for key in ("Enter", " "):
        before = chrome.run(opened)
        chrome.press(key)
        assert chrome.run(opened) is not before, key
    chrome.press("Tab")
    assert chrome.run("document.activeElement.type") == "search"


def test_all_fold_and_unfold_together(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    for name, state in (("fold all", False), ("unfold all", True)):
        chrome.run(
            f"[...document.querySelectorAll('.bar button')].find(b => b.textContent === '{name}').click()"
        )
        assert chrome.run(
            "[...new Set([...document.querySelectorAll('section > details')].map(d => d.open))]"
        ) == [state]


def test_tables_sort_by_keyboard(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    cells = CELLS % ("claims", 1)
    before = chrome.run(cells)
    heads = "getComputedStyle(document.querySelector('#claims tr.group')).display"
    _tab_to(
        chrome,
        "document.activeElement.closest('#claims') && document.activeElement.textContent === 'verdict'",
    )
    chrome.press("Enter")
    upwards = chrome.run(cells)
    assert upwards == sorted(before, key=str.lower)
    assert upwards != before
    assert chrome.run("document.activeElement.parentNode.getAttribute('aria-sort')") == "ascending"
    assert chrome.run(heads) == "none"
    chrome.press(" ")
    assert chrome.run(cells) == sorted(before, key=str.lower, reverse=True)
    chrome.press("Enter")
    assert chrome.run(cells) == before, "the third time brings back the order"
    assert chrome.run(heads) != "none"


def test_numbers_sort_as_numbers(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    heads = chrome.run("[...document.querySelectorAll('#speedup th')].map(e => e.textContent)")
    column = heads.index("s / batch")
    chrome.run(f"document.querySelectorAll('#speedup th button')[{column}].click()")
    numbers = [float(w.split()[0]) for w in chrome.run(CELLS % ("speedup", column)) if w[0].isdigit()]
    assert len(numbers) > 4
    assert numbers == sorted(numbers)


def test_tables_search_by_keyboard(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    _tab_to(chrome, "document.activeElement.closest('#claims') && document.activeElement.type === 'search'")
    chrome.press(*"slow-down")
    assert set(chrome.run(CELLS % ("claims", 0))) == {"D3", "D7"}
    assert all("slow-down" in words for words in chrome.run(CELLS % ("claims", 2)))
    heads = chrome.run("[...document.querySelectorAll('#claims tr.group')].filter(r => !r.hidden).length")
    assert 0 < heads < len(chrome.run("[...document.querySelectorAll('#claims tr.group')]"))
    chrome.run("document.activeElement.select()")
    chrome.press(*"no such row")
    assert chrome.run(CELLS % ("claims", 1)) == []


def test_points_of_a_curve_tell_their_numbers(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    first = "document.querySelector('#figure-loss .told circle')"
    chrome.run(f"{first}.scrollIntoView({{block: 'center'}})")
    x, y = chrome.run(f"(r => [r.left + 3, r.top + 3])({first}.getBoundingClientRect())")
    chrome.point(x, y)
    words = chrome.run("document.querySelector('.tip').textContent")
    assert "epoch 1: " in words
    assert "n = 3" in words
    assert chrome.run("document.querySelector('.tip').hidden") is False
    chrome.point(2, 2)
    assert chrome.run("document.querySelector('.tip').hidden") is True


def test_without_scripts_the_page_reads_as_plain_html(chrome: Browser, page: Path) -> None:
    chrome.open(page, 400, scripts=False)
    found = chrome.run(LOOK)
    assert chrome.errors == []
    assert chrome.run("document.querySelectorAll('button, input').length") == 0, "nothing that does nothing"
    assert found["unseen"] == []
    assert found["scroll"] <= 400
    assert found["lost"] == []
    assert found["tables"] >= len(tables.names()) - 1
    sections = chrome.run("[...document.querySelectorAll('section')].map(e => '#' + e.id)")
    assert chrome.run("[...document.querySelectorAll('nav a')].map(e => e.hash)") == sections
    assert chrome.run("document.querySelectorAll('section > details:not([open])').length") == 0
    assert "epoch 1: " in chrome.run("document.querySelector('#figure-loss .told title').textContent")


def test_in_print_nothing_is_folded_or_hidden(chrome: Browser, page: Path) -> None:
    chrome.open(page)
    chrome.run("[...document.querySelectorAll('.bar button')][1].click()")
    chrome.run("dispatchEvent(new Event('beforeprint'))")
    assert chrome.run("document.querySelectorAll('section > details:not([open])').length") == 0
    chrome.ask("Emulation.setEmulatedMedia", media="print")
    assert chrome.run("getComputedStyle(document.querySelector('nav')).display") == "none"


def test_the_page_is_one_small_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.encode()) < 4e6
    assert "http:" not in text.replace("http://www.w3.org/", "")


def _tab_to(chrome: Browser, wanted: str) -> None:
    """Press Tab until the JavaScript `wanted` holds, as a reader does who has no mouse."""
    for _ in range(60):
        chrome.press("Tab")
        if chrome.run(f"Boolean({wanted})"):
            return
    raise AssertionError(f"60 tabs do not lead to {wanted}")


def _light(colour: str) -> float:
    """Mean of the channels of "rgb(1, 2, 3)"."""
    parts: list[Any] = colour.partition("(")[2].rstrip(")").split(",")
    return sum(map(float, parts[:3])) / 3
