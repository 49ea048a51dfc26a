"""The numbers of each table, from hand-made runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repro.report import tables
from repro.report.pages import formats
from repro.report.stats import Estimate
from repro.report.table import Measured, Table
from repro.store import to_json
from tests.conftest import ROOT
from tests.report.factory import make_run, training, write_benches
from tests.report.reference_set import write_reference


def row(table: Table, column: str, value: Any) -> dict[str, Any]:
    return next(r for r in table.rows if r[column] == value)


def estimate(value: Any) -> Estimate:
    assert isinstance(value, Measured)
    assert value.estimate is not None
    return value.estimate


def test_names_come_without_anything_heavy() -> None:
    code = (
        "import sys; from repro.report import tables, figures; assert len(tables.names()) >= 9 <= len(figures.names());"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch','matplotlib','scipy','pandas','numpy','pydantic'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_speed_up_is_a_paired_ratio_against_bp(runs: Path) -> None:
    table = tables.build("speedup", runs)
    assert [r["method"] for r in table.rows] == ["BP", "FR (mailbox)", "DSP(1,0;2,0)"]
    found = estimate(row(table, "method", "DSP(1,0;2,0)")["speedup"])
    assert found.mean == pytest.approx(0.30 / 0.16)
    assert found.high is not None
    assert found.high - found.mean < 1e-9  # the seeds' own drift cancels in pairs
    assert (found.n, found.paired) == (3, True)
    assert table.rows[0]["speedup"] is None
    assert row(table, "method", "DSP(1,0;2,0)")["published"] == "not published here"
    assert "n = 3 is below 5 seeds" in formats.render(table, "txt")


def test_bound_is_the_simulators(runs: Path) -> None:
    """Two blocks; BP computes 0.14 + 0.15 in turn, DSP's slowest block 0.15: at most 0.29 / 0.15."""
    table = tables.build("speedup", runs)
    assert row(table, "method", "DSP(1,0;2,0)")["bound"] == pytest.approx(0.29 / 0.15, rel=1e-3)
    mailbox = row(table, "method", "FR (mailbox)")["bound"]
    assert isinstance(mailbox, float)
    assert mailbox < 0.29 / 0.15


def test_oversubscribed_runs_state_no_speed_up(tmp_path: Path) -> None:
    for name in ("bp-resnet98", "dsp-resnet98"):
        make_run(tmp_path, name, 0, epochs=training(2), oversubscribed=True, cores=2)
    table = tables.build("speedup", tmp_path)
    assert all(r["speedup"] is None for r in table.rows)
    assert "oversubscribed: no speed-up stated" in str(table.rows[1]["note"] or table.rows[0]["note"])
    assert table.problems == [
        "oversubscribed, more blocks than devices or cores: bp-resnet98 (smoke), dsp-resnet98 (smoke)"
    ]


def test_the_bound_of_blocks_that_shared_a_core_is_modelled_on_the_times_of_bp(tmp_path: Path) -> None:
    """Equal blocks at K = 3: 3 over 4/K for DSP, 5/K for FR (mailbox); their own, disturbed times do not enter."""
    for name, busy in (("bp", 1.0), ("dsp", 9.0), ("fr", 2.0), ("dni", 1.0)):
        make_run(tmp_path, f"{name}-resnet98", 0, oversubscribed=True, cores=2, busy_seconds=[busy] * 3)
    found = {str(r["method"]): r["bound"] for r in tables.build("speedup", tmp_path).rows}
    assert found["DSP(1,1,0;4,2,0)"] == pytest.approx(9 / 4, rel=0.01)
    assert found["FR (mailbox)"] == pytest.approx(9 / 5, rel=0.01)
    assert found["DNI"] is None


def test_no_speed_up_against_another_machine_or_thread_count(tmp_path: Path) -> None:
    make_run(tmp_path, "bp-resnet98-k2", 0, machine="A")
    make_run(tmp_path, "dsp-resnet98-k2", 0, machine="B")
    make_run(tmp_path, "fr-resnet98-k2", 0, machine="A", threads=2)
    table = tables.build("speedup", tmp_path)
    assert [r["speedup"] for r in table.rows] == [None, None, None]
    assert sum("no BP run of the same K" in str(r["note"]) for r in table.rows) == 2


def test_last_and_best_accuracy(tmp_path: Path) -> None:
    rows = [{"train_loss": 1.0, "test_loss": 1.0, "test_accuracy": a} for a in (80.0, 88.0, 92.0, 92.0, 90.0)]
    make_run(tmp_path, "bp-resnet98-k2", 0, epochs=rows)
    for select, value in (("last", "90.00"), ("best", "92.00")):
        table = tables.build("accuracy", tmp_path, select=select)
        assert table.columns[6].name == f"test_accuracy_{select}"
        assert f"test accuracy % ({select})" in formats.render(table, "txt")
        assert estimate(table.rows[0][f"test_accuracy_{select}"]).mean == float(value)
        assert table.caption[0].startswith(f"Test accuracy of the {select} epoch")


def test_accuracy_against_bp_in_pairs(runs: Path) -> None:
    table = tables.build("accuracy", runs)
    found = estimate(row(table, "method", "DSP(1,0;2,0)")["difference"])
    assert found.paired is True
    assert found.mean == pytest.approx(0.0)


def test_published_numbers_stand_beside_the_same_cell_only(tmp_path: Path) -> None:
    for blocks in (2, 4):
        name = "bp-resnet98" if blocks == 2 else "bp-resnet98-k4"
        settings = {"model.name": "resnet56", "data.name": "cifar10", "blocks": blocks}
        make_run(
            tmp_path,
            name,
            0,
            profile="paper",
            epochs=training(2),
            settings=settings,
            command=["repro", "--set", "x"],
        )
    table = tables.build("accuracy", tmp_path)
    assert {r["blocks"]: r["published"] for r in table.rows} == {
        2: "not published here",
        4: "6.19 (test error %)",
    }


def test_memory_stands_beside_the_formula(tmp_path: Path) -> None:
    make_run(
        tmp_path, "dsp-resnet98", 0, epochs=training(2), peak_memory_bytes=[2**21, 2**20, 2**20],
        memory_formula_bytes=[2**20, 2**20, 2**20], activation_bytes=[3 * 2**18] * 3, static_bytes=[2**18] * 3,
    )  # fmt: skip
    table = tables.build("memory", tmp_path)
    assert [r["staleness"] for r in table.rows] == [4, 2, 0]
    assert estimate(table.rows[0]["ratio"]).mean == 2.0
    assert estimate(table.rows[0]["peak_mib"]).mean == 2.0
    assert estimate(table.rows[0]["activation_ratio"]).mean == 1.0


def straggling(root: Path, name: str, percent: float, seeds: int = 3) -> None:
    for seed in range(seeds):
        slow = 10.0 * (1 + (percent + seed) / 100)
        make_run(
            root, name, seed, straggler={"clean_seconds": 10.0, "delayed_seconds": slow}, oversubscribed=True
        )


def test_slow_down_and_its_difference_to_fr(tmp_path: Path) -> None:
    straggling(tmp_path, "straggler-fr-resnet98", 40)
    straggling(tmp_path, "straggler-dsp-resnet98", 20)
    table = tables.build("straggler", tmp_path)
    found = row(table, "method", "DSP(1,1,0;4,2,0)")
    assert estimate(found["slowdown_percent"]).mean == pytest.approx(21.0, abs=0.01)
    assert estimate(found["against_fr"]).mean == pytest.approx(-20.0)
    assert found["slack"] == 2
    assert not table.problems


def test_gradient_approximation_is_compared_with_full(tmp_path: Path) -> None:
    for seed in range(3):
        make_run(
            tmp_path, "full-resnet20", seed, epochs=training(2, best=90 + seed), train_seconds=4.0, steps=4
        )
        uses = {"uses": {"full": 14, "top1": 6}}
        make_run(
            tmp_path,
            "top1-resnet20-s1",
            seed,
            epochs=training(2, best=89 + seed),
            train_seconds=3.0,
            gradient=uses,
        )
        make_run(tmp_path, "full-resnet14", seed, epochs=training(2, best=89 + seed), train_seconds=2.0)
    table = tables.build("gradient-approximation", tmp_path)
    found = row(table, "gradient", "top1 s1")
    assert estimate(found["time_saved"]).mean == pytest.approx(25.0)
    assert estimate(found["difference"]).mean < 0
    assert estimate(found["approximated"]).mean == pytest.approx(30.0)
    assert "against the full resnet20" in str(row(table, "model", "resnet14")["note"])


def test_kernels_and_bias_show_stored_rows(tmp_path: Path) -> None:
    bench = tmp_path / "bench"
    bench.mkdir()
    stored = {
        "shape": "16->16 @32",
        "layout": "contiguous",
        "kernel": "cpu",
        "ms": 5.0,
        "ms_low": 4.9,
        "ms_high": 5.2,
    }
    document = {"rows": [{**stored, "ratio": 3.5, "n": 11, "error": 1e-7}], "environment": {"processor": "P"}}
    (bench / "kernels.json").write_text(to_json(document))
    text = formats.render(tables.build("kernels", tmp_path / "runs"), "txt")
    assert "5.00 [4.90, 5.20] (11/11)" in text
    rows = [
        {
            "layer": "a",
            "estimator": "top1",
            "relative_bias": 0.8,
            "relative_bias_low": 0.7,
            "relative_bias_high": 0.9,
        }
    ]
    make_run(tmp_path / "runs", "bias-resnet20", 0, steps=0, bias=rows)
    text = formats.render(tables.build("bias", tmp_path / "runs"), "txt")
    assert "0.800 [0.700, 0.900] (1/1)" in text


def test_savings_are_the_rows_of_whole_networks(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    network = {"model": "resnet20", "layout": "channels_last", "schedule": "s1", "seconds": 0.2, "n": 31}
    rows = [
        {"shape": "16->16 @32", "kernel": "cpu", "ratio": 3.5},
        {**network, "estimator": "full", "schedule": "none"},
        {**network, "estimator": "top1", "saved": 0.06, "saved_low": 0.05, "saved_high": 0.07}
        | {"share_of_zero": 0.75, "share_of_zero_low": 0.7, "share_of_zero_high": 0.8}
        | {"filter_share_of_zero": 0.81, "filter_share_of_zero_low": 0.8, "filter_share_of_zero_high": 0.82}
        | {"filter_seconds": 0.00456},
    ]
    (tmp_path / "bench" / "kernels.json").write_text(to_json({"rows": rows}))
    table = tables.build("savings", tmp_path / "runs")
    assert [r["estimator"] for r in table.rows] == ["full", "top1"]
    text = formats.render(table, "txt")
    assert "6.0 [5.0, 7.0] (31/31)" in text
    assert "75 [70, 80] (31/31)" in text
    assert "81 [80, 82] (31/31)" in text
    assert "4.56" in text


def test_the_project_s_benchmarks_stand_in_and_the_caption_says_so(tmp_path: Path, reference: Path) -> None:
    write_reference(reference, seeds=1)
    runs = tmp_path / "results" / "runs"
    for name, words in (("kernels", "4.00 [3.92, 4.08] (11/11)"), ("engine", "1.70 [1.67, 1.73] (5/5)")):
        text = formats.render(tables.build(name, runs), "txt")
        assert words in text
        assert f"results/reference/bench/{name}.json" in text
        own = tmp_path / "results" / "bench" / f"{name}.json"
        own.parent.mkdir(exist_ok=True, parents=True)
        own.write_text((reference / "bench" / f"{name}.json").read_text())
        assert "results/reference" not in formats.render(tables.build(name, runs), "txt")
        assert "results/reference" in formats.render(tables.build(name, runs, reference=True), "txt")
    table = tables.build("peers", runs)
    assert table.problems == ["No stored benchmark 'peers' found. Make it with: repro bench peers"]


def test_the_same_benchmark_of_another_network_adds_its_rows(tmp_path: Path) -> None:
    write_benches(tmp_path)
    folder = tmp_path / "bench"
    more = {"rows": [{"system": "repro", "method": "FDG", "model": "n"}], "environment": {}}
    (folder / "peers-n.json").write_text(json.dumps(more))
    (folder / "peers-cut.json").write_text("{")
    table = tables.build("peers", tmp_path)
    assert [(row["model"], row["method"]) for row in table.rows] == [("m", "BP"), ("m", "loop"), ("n", "FDG")]
    (folder / "peers.json").unlink()
    assert tables.build("peers", tmp_path, fallback=False).problems, "parts alone are not the benchmark"


def test_a_crowded_benchmark_states_no_speed_up(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    rows = [
        {
            "method": "BP",
            "blocks": 3,
            "model": "m",
            "oversubscribed": True,
            "speedup_over_bp": 1.0,
            "bound": 1.0,
        }
    ]
    (tmp_path / "bench" / "engine.json").write_text(to_json({"rows": rows}))
    found = tables.build("engine", tmp_path).rows[0]
    assert found.get("speedup_over_bp") is None
    assert "more blocks than devices" in found["note"]


def test_schedules_state_their_realised_fraction(tmp_path: Path) -> None:
    table = tables.build("schedules", tmp_path, profile="smoke")
    share = {(r["model"], r["schedule"]): r["fraction_layers"] for r in table.rows}
    assert share["resnet20", "s1"] == pytest.approx(100 * 5 / 19)
    assert share["cnn2", "alternate"] == pytest.approx(25.0)
    assert share["vgg19", "measured"] is None
    assert {r["origin"] for r in table.rows if r["schedule"] == "s1"} == {"published"}
    assert {r["origin"] for r in table.rows if r["schedule"] in ("s2", "s3")} == {"ours"}


def test_a_bias_is_averaged_in_squares(tmp_path: Path) -> None:
    """Roots of clipped squares are never below zero: their mean would call an unbiased estimate biased."""
    for seed, square in enumerate((0.04, -0.05, 0.03, -0.02)):
        rows = [
            {
                "layer": "a",
                "estimator": "sampled",
                "relative_bias": max(0, square) ** 0.5,
                "relative_bias_squared": square,
            }
        ]
        make_run(tmp_path, "bias-resnet20", seed, steps=0, bias=rows)
    found = estimate(tables.build("bias", tmp_path).rows[0]["relative_bias"])
    assert found.low == 0.0
    assert found.mean == 0.0
    assert found.high > 0.1


def test_the_time_until_the_first_evaluation_does_not_count(tmp_path: Path) -> None:
    slow_start = [
        {**epoch, "train_seconds": s} for epoch, s in zip(training(3), (9.0, 10.0, 11.0), strict=True)
    ]
    make_run(tmp_path, "top1-resnet20-s1", 0, epochs=slow_start, train_seconds=11.0, steps=30)
    found = tables.build("gradient-approximation", tmp_path).rows[0]
    assert estimate(found["seconds_per_step"]).mean == pytest.approx(0.1)


def test_convolutions_that_fell_back_are_named(tmp_path: Path) -> None:
    fallbacks = [{"layer": "stem.conv", "reason": "autocast", "count": 4}]
    make_run(
        tmp_path,
        "top1-resnet20-s1",
        0,
        epochs=training(2),
        gradient={"uses": {"full": 4}, "fallbacks": fallbacks},
    )
    (found,) = tables.build("gradient-approximation", tmp_path).rows
    assert "full gradient in place of the estimate in 1 convolution(s): stem.conv" in str(found["note"])


def test_an_estimator_that_only_rules_name_is_no_full_gradient(tmp_path: Path) -> None:
    rules = [{"layers": "stem", "batches": ":", "epochs": ":", "estimator": "zero"}]
    make_run(tmp_path, "full-resnet20", 0, epochs=training(2), settings={"gradient.schedule": rules})
    make_run(tmp_path, "top1-resnet20-s1", 0, epochs=training(2))
    labels = [r["gradient"] for r in tables.build("gradient-approximation", tmp_path).rows]
    assert labels == ["zero rules", "top1 s1"]
