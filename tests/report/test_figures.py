"""Figures from stored runs: the same bytes twice, no display, no home, and what is missing is named."""

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro.errors import UserError
from repro.report import figures
from repro.report.figures import canvas
from repro.report.figures import headline_figure as headline
from repro.report.figures import queues_figure as queues
from repro.report.stats import Estimate
from repro.report.stored.curves import bin_of, over_epochs, over_steps
from repro.report.stored.source import Source
from repro.schedule import Staleness
from tests.conftest import ROOT
from tests.report.factory import make_run, training, write_benches
from tests.report.stale_set import write_stale


def test_same_input_gives_the_same_bytes(runs: Path, tmp_path: Path) -> None:
    digests = []
    for attempt in ("one", "two"):
        paths, notes = figures.draw(["loss"], runs, tmp_path / attempt, ["svg", "png", "pdf"])
        assert [p.name for p in paths] == ["loss.svg", "loss.png", "loss.pdf"]
        assert notes == []
        digests.append([hashlib.sha256(p.read_bytes()).hexdigest() for p in paths])
    assert digests[0] == digests[1]
    assert "<dc:date>" not in (tmp_path / "one" / "loss.svg").read_text()


def test_without_display_home_or_own_settings(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\nfont.size: 30\n")
    figures.draw(["speedup"], runs, tmp_path / "here", ["svg"])
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MPLCONFIGDIR")}
    environment |= {
        "HOME": "/nonexistent",
        "MPLBACKEND": "TkAgg",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(tmp_path),
    }
    code = (
        "import sys; from pathlib import Path; from repro.report import figures;"
        "print(figures.draw(['speedup'], Path(sys.argv[1]), Path(sys.argv[2]), ['svg']))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(runs), str(tmp_path / "there")],
        capture_output=True, text=True, env=environment, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "speedup.svg").read_bytes() == (
        tmp_path / "there" / "speedup.svg"
    ).read_bytes()


def test_without_runs_what_is_missing_is_named_with_its_command(tmp_path: Path) -> None:
    names = [n for n in figures.names() if n not in ("queues", "schedules", "timeline")]
    paths, notes = figures.draw(names, tmp_path / "none", tmp_path / "out", ["svg"])
    assert paths == []
    assert [n.split(":")[0] for n in notes] == names
    assert all("repro run " in note or "repro bench " in note for note in notes)


def test_unknown_names_are_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Did you mean 'loss'"):
        figures.draw(["los"], tmp_path, tmp_path / "out", ["svg"])
    with pytest.raises(UserError, match="svg, png, pdf"):
        figures.draw(["loss"], tmp_path, tmp_path / "out", ["gif"])
    assert not (tmp_path / "out").exists()


def test_every_figure_can_be_drawn(runs: Path, tmp_path: Path) -> None:
    spans = [
        [b, f"{k}{i}", 3 * i + b + o, 3 * i + b + o + 1, False]
        for b in range(3)
        for i in range(9)
        for o, k in enumerate("FBU")
    ]
    for seed in range(2):
        gap = [
            {"kind": "gap", "step": t, "difference": [1e-5 / (t + 9)] * 3, "cosine": [0.9] * 3, "gradient_norm": 1 / (t + 2)}
            for t in range(30)
        ]  # fmt: skip
        make_run(runs, "gradient-gap-dsp-resnet98", seed, extra_rows=gap)
        make_run(
            runs,
            "straggler-dsp-resnet98",
            seed,
            straggler={"clean_seconds": 9.0, "delayed_seconds": 10.0 + seed},
        )
        make_run(runs, "top1-resnet20-s1", seed, epochs=training(3))
    make_run(runs, "dsp-resnet98", 0, epochs=training(1), timeline=spans)  # one seed, one epoch
    write_benches(runs)
    write_stale(runs, seeds=2, profile="smoke")
    paths, notes = figures.draw([], runs, tmp_path / "out", ["svg"], profile="smoke")
    assert [p.stem for p in paths] == list(figures.names())
    assert notes == []
    assert all(p.read_text().startswith("<?xml") for p in paths)


@pytest.mark.parametrize(("far", "cut"), [(-20.0, True), (-2.0, False)])
def test_a_method_far_off_does_not_flatten_the_others(runs: Path, far: float, cut: bool) -> None:
    group = Source(runs).find(lambda run: run.recipe_name == "bp-resnet98-k2").groups[0]
    rows = [(group, group, Estimate(mean, mean - 0.5, mean + 0.5, 5)) for mean in (-1.0, far, 0.2)]
    axes = canvas.new_figure(4, 3).add_axes((0.1, 0.1, 0.8, 0.8))
    axes.plot([mean for *_, e in rows for mean in (e.low, e.high)], range(6))
    headline._cut(axes, rows, 0.0)
    assert (axes.get_xlim()[0] > far) == cut
    assert [text.get_text() for text in axes.texts] == (["\N{LEFTWARDS ARROW} -20.0"] if cut else [])


def test_curves_are_the_tables_statistics(runs: Path) -> None:
    group = Source(runs).find(lambda run: run.recipe_name == "bp-resnet98-k2").groups[0]
    curve = over_epochs(group, "test_accuracy")
    measured = group.measured("test_accuracy_last").estimate
    assert measured is not None
    assert curve.x == (1.0, 2.0, 3.0, 4.0)
    assert curve.y[-1] == measured
    assert curve.band is not None


def test_one_seed_has_no_band_and_steps_are_binned(tmp_path: Path) -> None:
    rows = [{"kind": "gap", "step": t, "difference": [float(t)]} for t in range(100)]
    make_run(tmp_path, "gradient-gap-dsp-resnet98", 0, extra_rows=rows)
    group = Source(tmp_path).find(lambda run: True).groups[0]
    curve = over_steps(group, lambda row: row["difference"][0])
    assert curve.band is None
    assert curve.x[0] == 1.0
    assert bin_of(0) == 0
    assert curve.means[-1] == pytest.approx(
        sum(t for t in range(100) if bin_of(t) == bin_of(99)) / 11, rel=0.1
    )


@pytest.mark.parametrize("text", ["1,1,0;4,2,0", "2,2,0;6,3,0", "5,5,0;14,7,0", "1,0;2,0", "0,0,0,0;3,2,1,0"])
def test_queues_hold_as_many_batches_as_the_algebra_says(text: str) -> None:
    setting = Staleness.parse(text, len(text.split(";")[0].split(",")))
    held = queues.contents(setting, 30)
    assert tuple(len(block["input"]) for block in held) == setting.m
    assert tuple(len(block["output"]) for block in held) == setting.p
    assert tuple(len(block["gradient"]) for block in held) == setting.q
    assert all(
        a["output"][0] > b["input"][-1] for a, b in itertools.pairwise(held) if a["output"] and b["input"]
    )
    forward, back = queues.path(setting)
    assert [b - f for f, b in zip(forward, back, strict=True)] == list(setting.m)
    assert [a - b for a, b in itertools.pairwise(back)] == list(setting.q[1:])
