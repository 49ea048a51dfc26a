"""README.md holds what the committed reference runs say now."""

import json
import re

import matplotlib
import pytest

from repro import paths
from repro.report.pages import readme
from tests.conftest import ROOT

README, RESULTS = ROOT / "README.md", ROOT / "docs" / "results.md"
ASYNCHRONOUS = ROOT / "docs" / "asynchronous.md"
STALE = f"is not what results/reference says; refresh it with: {readme.COMMAND}"


@pytest.fixture(autouse=True)
def _in_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "reference", lambda: ROOT / "results" / "reference")


def test_the_generated_blocks_are_fresh() -> None:
    pages = (
        (
            README,
            {"figure", "glance", "verdicts", *(f"asynchronous{x}" for x in ("", "-figure", "-verdicts"))},
        ),
        (RESULTS, {"headline", "claims"}),
        (ASYNCHRONOUS, {"asynchronous-claims"}),
    )
    for page, blocks in pages:
        words = page.read_text(encoding="utf-8")
        assert {m.group(1) for m in readme.BLOCK.finditer(words)} == blocks
        assert readme.fresh(words) == words, f"{page.name} {STALE}"


def test_tables_fit_a_page_on_github() -> None:
    heads = re.findall(r"^\|(.+)\|\n\| ?:?-", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert heads
    assert all(head.count("|") < 7 for head in heads), heads


@pytest.mark.parametrize("name", readme.FIGURES)
def test_the_figure_is_fresh(name: str) -> None:
    """Its numbers always; its bytes where the same matplotlib draws it."""
    drawn, path = readme.drawing(name), ROOT / readme.FIGURES[name]
    if drawn is None:
        assert not path.exists(), f"{path} {STALE}"
        pytest.skip("there are no reference runs yet")
    stored = path.read_bytes() if path.is_file() else b""
    assert readme.digest(name).encode() in stored, f"{path} {STALE}"
    if f"matplotlib {matplotlib.__version__}".encode() in stored:
        assert drawn == stored, f"{path} {STALE}"


def test_the_figure_is_embedded_and_nothing_else_is_missing() -> None:
    words = README.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", words)
    assert all((ROOT / link).exists() for link in links), links


def test_ratios_to_peers_in_the_text_are_those_of_the_bench() -> None:
    words = " ".join(README.read_text(encoding="utf-8").split())
    rows = json.loads((ROOT / "results" / "reference" / "bench" / "peers.json").read_text())["rows"]
    fdg, dsp = (next(r for r in rows if r["method"] == method) for method in ("FDG", "DSP(1,0;2,0)"))
    for row in (fdg, dsp):
        assert f"{row['ratio_to_best_peer']:.2f} times as fast as the best schedule of torch" in words
        assert f"{row['ratio_to_loop']:.2f} times as fast as a plain loop on both cores" in words


@pytest.mark.parametrize("network", ["vgg19", "resnet164", "resnext29"])
def test_the_row_of_another_network_is_that_of_its_bench(network: str) -> None:
    rows = json.loads((ROOT / "results" / "reference" / "bench" / f"peers-{network}.json").read_text())[
        "rows"
    ]
    best = next(r for r in rows if r["best_peer"])
    cells = [f"{best['method'].removeprefix('Schedule')}, M = {best['micro_batches']}"]
    for method in ("FDG", "DDG (free)", "DSP(1,0;2,0)"):
        row = next(r for r in rows if r["method"] == method)
        for name in ("ratio_to_best_peer", "ratio_to_loop"):
            cells.append(f"{row[name]:.2f} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]")
    line = " | ".join(cells)
    assert line in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8"), line


def test_figures_in_the_text_are_those_of_the_benches() -> None:
    """The sentences around the blocks are typed; their numbers are held here."""
    words = " ".join(README.read_text(encoding="utf-8").split())
    bench = ROOT / "results" / "reference" / "bench"
    rows = json.loads((bench / "kernels.json").read_text())["rows"]
    saved = {
        (row["model"], row["estimator"]): f"{100 * row['saved']:.1f} %"
        for row in rows
        if row.get("layout") == "channels_last" and row.get("schedule") == "s1" and "saved" in row
    }
    small, large = ((saved[net, "zero"], saved[net, "top1"]) for net in ("resnet20", "vgg19"))
    pairs = f"ResNet-20 {small[0].removesuffix(' %')} and {small[1]}, VGG-19 {large[0].removesuffix(' %')} and {large[1]}"
    assert pairs in words
    turns = {
        (row["model"], row["estimator"], row["scale"]): row
        for row in json.loads((bench / "gradient.json").read_text())["rows"]
    }
    in_turn = {f"{100 * turns['resnet20', name, 'natural']['saved']:.1f} %" for name in ("zero", "top1")}
    assert len(in_turn) == 1
    assert f"ResNet-20: zero and top1 {min(in_turn)}" in words
    assert f"saves {min(in_turn)} of a training step of ResNet-20" in words
    times = {
        row["method"]: row.get("speedup_over_bp")
        for row in json.loads((bench / "engine.json").read_text())["rows"]
    }
    assert f"DSP {times['DSP(1,0;2,0)']:.2f}, GPipe {times['GPipe(M=4)']:.2f})" in words
    whole = {net: f"{float(saved[net, 'top1'].removesuffix(' %')):.0f} %" for net in ("resnet20", "vgg19")}
    assert (
        f"and {whole['resnet20']} on another (Xeon, steps on random images in turn), and {whole['vgg19']} of VGG-19"
        in words
    )
