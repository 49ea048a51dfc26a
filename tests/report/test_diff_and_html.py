"""Comparing two runs or recipes, the page that holds everything, and the published numbers."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from repro.errors import UserError
from repro.recipe import load
from repro.report import diff
from repro.report.pages import formats, html, picture
from repro.report.stored import published
from tests.report.factory import make_run, training


def test_two_runs(tmp_path: Path) -> None:
    rows = [{"kind": "step", "step": 4, "loss": 0.25}]
    a = make_run(tmp_path, "bp-resnet98-k2", 0, epochs=training(2), extra_rows=rows, seconds_per_batch=0.3)
    rows = [{"kind": "step", "step": 4, "loss": 0.5}]
    b = make_run(tmp_path, "dsp-resnet98-k2", 0, epochs=training(2), extra_rows=rows, seconds_per_batch=0.2)
    table = diff.compare(str(a), f"dsp-resnet98-k2/{b.parent.name}/seed-0", tmp_path)
    cells = {(r["part"], r["what"]): (r["a"], r["b"], r["change"]) for r in table.rows}
    assert cells["settings", "method.name"] == ("bp", "dsp", "-")
    assert cells["losses", "5 steps in both; first difference at step 4"] == ("0.25", "0.5", "0.25")
    assert cells["result", "seconds_per_batch"][2] == "-0.1"
    assert ("settings", "blocks") not in cells
    assert "The environments are the same." in formats.render(table, "txt")


def test_equal_runs_are_called_equal(tmp_path: Path) -> None:
    a = make_run(tmp_path, "bp-resnet98-k2", 0, epochs=training(2))
    b = make_run(tmp_path, "bp-resnet98-k2", 1, epochs=training(2))
    table = diff.compare(str(a), str(b), tmp_path)
    assert "All settings are the same." in table.caption
    assert [r["b"] for r in table.rows] == ["equal bit for bit"]


def test_two_recipes_with_and_without_runs(tmp_path: Path) -> None:
    table = diff.compare("bp-resnet98-k2", "dsp-resnet98-k2", tmp_path)
    assert {r["what"] for r in table.rows} >= {"method.name", "method.staleness"}
    for seed in range(2):
        for name in ("bp-resnet98-k2", "dsp-resnet98-k2"):
            make_run(tmp_path, name, seed, epochs=training(2))
    table = diff.compare("bp-resnet98-k2", "dsp-resnet98-k2", tmp_path)
    assert {r["part"] for r in table.rows} == {"settings", "your runs, profile smoke, cpu"}


def test_a_recipe_with_one_run_is_still_a_recipe(tmp_path: Path) -> None:
    make_run(tmp_path, "bp-resnet98-k2", 0, epochs=training(2))
    table = diff.compare("bp-resnet98-k2", "dsp-resnet98-k2", tmp_path)
    assert table.caption[0].startswith("A: recipe bp-resnet98-k2")


def test_times_of_blocks_that_share_cores_are_marked(tmp_path: Path) -> None:
    for seed in range(2):
        for name in ("bp-resnet98", "dsp-resnet98"):
            make_run(tmp_path, name, seed, epochs=training(2), oversubscribed=True)
    rows = diff.compare("bp-resnet98", "dsp-resnet98", tmp_path).rows
    (times,) = [r for r in rows if r["what"] == "seconds_per_batch"]
    assert str(times["part"]).endswith("no speed-up can be read")


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path, "bp-resnet98-k2", 0)
    with pytest.raises(UserError, match="give two runs or two recipes"):
        diff.compare(str(run), "bp-resnet98", tmp_path)
    with pytest.raises(UserError, match="neither the folder of a run"):
        diff.compare("nothing", "bp-resnet98", tmp_path)
    make_run(tmp_path, "bp-resnet98-k2", 1)
    with pytest.raises(UserError, match="holds 2 runs"):
        diff.compare(str(run.parent), str(run), tmp_path)


class Checker(HTMLParser):
    """Collects ids, links and unbalanced elements."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [v for k, v in attrs if k == "id" and v]
        self.links += [v for k, v in values.items() if k in ("src", "href", "xlink:href") and v]
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(runs: Path, tmp_path: Path) -> None:
    notes = html.write(tmp_path / "pages" / "report.html", runs, profile="smoke")
    text = (tmp_path / "pages" / "report.html").read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert all(link.startswith("#") and link[1:] in checker.ids for link in checker.links)
    assert len(checker.ids) == len(set(checker.ids))
    assert "<svg" in text
    assert "DSP(1,0;2,0)" in text
    assert "repro table speedup" in text
    assert "Test processor, 4 cores" in text
    assert any(note.startswith("straggler:") for note in notes)
    again, _ = html.page(runs, profile="smoke")
    assert again == text


def test_published_numbers_have_a_source_and_are_found_for_a_recipe() -> None:
    lines = published.about(load("dsp-resnet98", "paper"))
    assert any("1.5x to 4.8x" in line and "arXiv 1909.02625" in line for line in lines)
    lines = published.about(load("top1-resnet20-s1", "paper"))
    assert any("3.5 %" in line for line in lines)
    assert not any("4.8x" in line for line in lines)
    assert published.claimed("D5") == published.UNKNOWN
    assert published.claimed("G2").startswith("3.5 %")


def test_a_compact_picture_keeps_its_letters_size_its_words_and_its_looks() -> None:
    path = '<path d="M 1.23456 2.5&#10;L 3 4" style="fill: red"/>\n'.replace("&#10;", "\n")
    svg = f'<svg width="9"><g transform="translate(1.98765 2) scale(0.015625)">{path * 4}</g><text>0.00125</text></svg>'
    small = picture.compact(svg, "loss")
    assert "scale(0.015625)" in small
    assert "translate(1.98 2)" in small
    assert ".loss-0{fill: red}" in small
    assert f'<path d="{"M1.23 2.5L3 4" * 4}" class="loss-0"/>' in small, (
        "neighbours that look alike are one path"
    )
    assert "<text>0.00125</text>" in small, "a number that is read is not cut"
    other = picture.compact(svg.replace("</g>", f"{path.replace('red', 'blue')}</g>"), "loss")
    assert other.count("<path") == 2


def test_a_page_of_foreign_and_broken_files_says_so(tmp_path: Path) -> None:
    """No trace, whatever lies in the folder: other people's files, a result cut off, a recipe that is none."""
    run = make_run(tmp_path / "runs", "bp-resnet98-k2", 0, epochs=training(2))
    cut = make_run(tmp_path / "runs", "bp-resnet98-k2", 1, epochs=training(2))
    (cut / "result.json").write_text('{"status": "comp')
    lost = make_run(tmp_path / "runs", "bp-resnet98-k2", 2, epochs=training(2))
    (lost / "recipe.yaml").write_text("- {a: [")
    (tmp_path / "runs" / "holiday.jpg").write_bytes(b"\xff\xd8\x00")
    (run.parent / "seed-x").mkdir()
    (tmp_path / "runs" / "bench").mkdir()
    (tmp_path / "runs" / "bench" / "kernels.json").write_text("[1, ")
    text, notes = html.page(tmp_path / "runs", fallback=False)
    assert "seed 2 unreadable (recipe.yaml or env.json)" in text.replace('<span class="whole">', "").replace(
        "</span>", ""
    )
    assert "(1/3)" in text
    assert any("kernels" in words or "benchmark" in words for words in [*notes, text])
    assert "Traceback" not in text
