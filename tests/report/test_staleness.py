"""What a delay costs: the table and the figure of the sweep, and the claims A1 to A5 with both verdicts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from repro.report import figures, tables
from repro.report.figures.staleness_figure import curves, marks
from repro.report.pages import readme
from repro.report.stored.source import Source, experiment
from repro.report.table import Measured
from tests.report.stale_set import DELAYED, STALE, SYNCHRONOUS, write_stale

YES, NO, UNRUN = "reproduced", "not reproduced", "not run yet"
BASE = {"bp-gpt": 2.0}


def rows(root: Path, claim: str) -> list[dict[str, Any]]:
    return [row for row in tables.build("claims", root).rows if row["claim"] == claim]


CASES: list[tuple[str, Mapping[str, float], Sequence[str]]] = [
    ("A1", {**BASE, "pipedream-gpt-k2": 2.1, "pipedream-gpt": 2.3}, [YES, YES, YES]),
    ("A1", {**BASE, "pipedream-gpt-k2": 1.9, "pipedream-gpt": 2.3}, [NO, YES, YES]),
    ("A1", {**BASE, "pipedream-gpt-k2": 2.3, "pipedream-gpt": 2.1}, [YES, YES, NO]),
    ("A1", {"pipedream-gpt": 2.3}, [UNRUN]),
    ("A1", {"bp-gpt-sgd": 2.0, "pipedream-gpt": 2.3}, [UNRUN]),  # another optimiser is no baseline
    ("A2", {"gpipe-gpt": 2.0, "pipedream-gpt-nadam": 1.9}, [YES]),
    ("A2", {"gpipe-gpt": 2.0, "pipedream-gpt-nadam": 2.1}, [NO]),
    ("A2", {**BASE, "pipedream-gpt-nadam": 2.0}, [YES]),
    ("A3", {**BASE, "2bw-gpt": 2.1, "bp-gpt-muon": 1.9, "2bw-gpt-muon": 1.9}, [YES, YES, YES]),
    ("A3", {**BASE, "2bw-gpt": 2.0 - 0.1, "bp-gpt-muon": 1.9, "2bw-gpt-muon": 2.0}, [NO, NO, NO]),
    ("A3", {**BASE, "2bw-gpt": 2.1}, [YES, UNRUN]),
    ("A4", {"pipedream-gpt": 2.2, "fr-gpt": 2.1}, [YES]),
    ("A4", {"pipedream-gpt": 2.1, "fr-gpt": 2.2}, [NO]),
    ("A5", {"pipedream-gpt": 2.2, "pipedream-gpt-predicted": 2.1, "pipedream-gpt-compensated": 2.3}, [YES, UNRUN, NO]),
    ("A5", {"pipedream-gpt": 2.2, "pipedream-gpt-rescheduled": 2.1}, [UNRUN, YES, UNRUN]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "losses", "expected"), CASES, ids=[f"{c}-{i}" for i, (c, *_) in enumerate(CASES)]
)
def test_verdict_follows_the_runs(
    tmp_path: Path, claim: str, losses: Mapping[str, float], expected: Sequence[str]
) -> None:
    write_stale(tmp_path, losses)
    found = rows(tmp_path, claim)
    assert [row["verdict"] for row in found] == list(expected), [row["what"] for row in found]
    assert all("repro run " in str(row["note"]) for row in found if row["verdict"] == UNRUN)


def test_every_claim_is_flipped_here() -> None:
    assert all(
        {YES, NO} <= {v for c, _, found in CASES if c == claim for v in found}
        for claim in ("A1", "A2", "A3", "A4", "A5")
    )


def test_a_sequential_run_is_enough_and_an_interval_decides(tmp_path: Path) -> None:
    """Losses need no times; a difference within the seeds' scatter is undecided, not a verdict for it."""
    write_stale(tmp_path, {"pipedream-gpt": 2.0, "fr-gpt": 2.0})
    (found,) = rows(tmp_path, "A4")
    assert found["verdict"] == NO
    assert "undecided" in str(found["note"])
    assert found["unit"] == "bits per byte"


def test_one_seed_gives_no_verdict(tmp_path: Path) -> None:
    write_stale(tmp_path, {"pipedream-gpt": 2.2, "fr-gpt": 2.0}, seeds=1)
    assert [row["verdict"] for row in rows(tmp_path, "A4")] == [UNRUN]


def test_the_table_has_the_cost_of_each_delay(tmp_path: Path) -> None:
    write_stale(tmp_path)
    table = tables.build("staleness", tmp_path)
    assert len(table.rows) == len(SYNCHRONOUS) + len(STALE) + len(DELAYED)
    found = {(row["method"], row["updates"]): row for row in table.rows if row["blocks"] == 4}
    late = found["Delayed(d=8)", "Muon"]
    assert late["delay"] == 8
    assert isinstance(late["gap"], Measured)
    assert late["gap"].estimate is not None
    assert late["gap"].estimate.mean == pytest.approx(0.08, abs=0.01)
    assert late["gap"].estimate.paired is True
    assert found["BP", "AdamW"]["gap"] is None
    assert found["PipeDream", "AdamW + prediction"]["delay"] == 3
    assert found["PipeDream", "NAdam 0.99"]["gap"].estimate.mean == pytest.approx(0.03, abs=0.01)  # type: ignore[union-attr]


def test_the_figure_has_a_curve_per_optimiser_and_a_mark_per_method(tmp_path: Path) -> None:
    write_stale(tmp_path)
    groups = Source(tmp_path).find(lambda run: experiment(run) == "train").groups
    lines = curves(groups)
    assert [d for d, _ in lines["AdamW", ()]] == [0, 1, 2, 4, 8]
    assert [e.mean for _, e in lines["Muon", ()]] == pytest.approx([1.95, 1.96, 1.97, 1.99, 2.03], abs=0.005)
    shown = {(g.method, g.blocks): late for g, (late, _) in marks(groups)}
    assert shown[("pipedream", 4)] == 3
    assert shown[("pipedream", 2)] == 1
    assert shown[("2bw", 4)] == 1
    assert shown[("dsp", 4)] == 6
    paths, notes = figures.draw(["staleness"], tmp_path, tmp_path / "out", ["svg"])
    assert notes == []
    assert paths[0].stat().st_size > 10_000


def test_a_correction_has_a_curve_of_its_own_from_the_same_beginning(tmp_path: Path) -> None:
    write_stale(tmp_path, {"bp-gpt": 2.0, "delayed-gpt-d4": 2.2, "delayed-gpt-d4-predicted": 2.1})
    lines = curves(Source(tmp_path).find(lambda run: True).groups)
    assert [d for d, _ in lines["AdamW", ("prediction",)]] == [0, 4]
    assert lines["AdamW", ("prediction",)][0] == lines["AdamW", ()][0]


def test_the_blocks_of_a_readme(tmp_path: Path, reference: Path) -> None:
    write_stale(reference)
    page = tmp_path / "README.md"
    names = ("asynchronous", "asynchronous-figure", "asynchronous-verdicts", "asynchronous-claims", "claims")
    page.write_text("".join(f"<!-- repro:{b} -->\n<!-- /repro:{b} -->\n" for b in names))
    assert readme.refresh(page) == [page, tmp_path / "docs" / "staleness.svg"]
    words = page.read_text()
    blocks = {m.group(1): m.group(2) for m in readme.BLOCK.finditer(words)}
    assert "](docs/staleness.svg)" in blocks["asynchronous-figure"]
    heads = [line for line in blocks["asynchronous"].splitlines() if line.startswith("|")]
    assert heads[0].count("|") <= 8
    assert not any("Delayed" in line for line in heads)
    judged = [
        line.split(" | ")[0] for line in blocks["asynchronous-verdicts"].splitlines() if line[:3] == "| A"
    ]
    assert judged == [f"| A{i}" for i in range(1, 6)]
    assert blocks["claims"].strip() == readme.NOTHING, "the papers' claims stay by themselves"
    assert readme.refresh(page) == []


def test_without_runs_the_blocks_say_so(tmp_path: Path) -> None:
    words = "<!-- repro:asynchronous -->\n<!-- /repro:asynchronous -->\n"
    assert readme.NOTHING in readme.fresh(words)
    assert "repro run bp-gpt delayed-gpt" in str(tables.build("staleness", tmp_path).caption[0])


def test_time_to_loss_of_sequential_runs_is_predicted_only(tmp_path: Path) -> None:
    write_stale(tmp_path, {"bp-gpt": 2.0, "gpipe-gpt": 2.0, "2bw-gpt": 2.2, "pipedream-gpt-nadam": 2.0})
    table = tables.build("time-to-loss", tmp_path)
    assert all(row["seconds"] is None for row in table.rows)
    ratios = {row["method"]: row["predicted_speed"] for row in table.rows}
    assert any("2BW" in str(name) for name in ratios)
    assert all(speed > 1 for name, speed in ratios.items() if speed is not None and "BP" not in str(name)[:2])  # type: ignore[operator]
