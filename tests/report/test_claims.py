"""Verdicts come from rules and stored runs: each of the four, and nothing typed by hand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from repro.recipe import catalogue
from repro.report import tables
from repro.report.claims import CLAIMS, VERDICTS
from repro.report.claims.claim import Finding, above, at_least, below, within
from repro.report.stats import Estimate
from repro.report.table import Measured
from tests.report.factory import make_run, training

NAMES = [f"D{i}" for i in range(1, 9)] + [f"G{i}" for i in range(1, 10)]


def verdicts(root: Path) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in tables.build("claims", root).rows:
        assert row["verdict"] in VERDICTS
        found.setdefault(str(row["claim"]), []).append(row)
    return found


def speeds(root: Path, *, seconds: Mapping[str, float], suffix: str = "-k2", **fields: Any) -> None:
    for name, value in seconds.items():
        for seed in range(3):
            make_run(root, f"{name}-resnet98{suffix}", seed, seconds_per_batch=value * (1 + seed / 50), **fields)


def test_every_claim_has_a_row_and_a_command_that_exists(tmp_path: Path) -> None:
    found = verdicts(tmp_path)
    assert list(found) == NAMES == [claim.name for claim in CLAIMS]
    assert all(rows[0]["verdict"] == "not run yet" for rows in found.values())
    known = catalogue()
    for claim in CLAIMS:
        words = claim.command.split()
        assert words[0] == "repro"
        assert all(
            word in known for word in words[2:] if not word.startswith("--") and not word.isdigit() and words[1] == "run"
        )
        assert found[claim.name][0]["note"] == claim.command
    assert tables.build("claims", tmp_path).problems == [f"not run yet: {', '.join(NAMES)}"]


def test_speed_claim_is_reproduced_or_not_by_its_interval(tmp_path: Path) -> None:
    speeds(tmp_path, seconds={"bp": 0.30, "fr": 0.25, "dsp": 0.17})
    first = verdicts(tmp_path)["D1"]
    assert [r["verdict"] for r in first] == ["reproduced", "reproduced"]
    assert isinstance(first[0]["measured"], Measured)
    assert first[0]["measured"].estimate is not None
    assert first[0]["measured"].estimate.mean == pytest.approx(0.30 / 0.17)
    slow = tmp_path / "slow"
    speeds(slow, seconds={"bp": 0.30, "fr": 0.16, "dsp": 0.25})
    assert [r["verdict"] for r in verdicts(slow)["D1"]] == ["not reproduced", "not reproduced"]


def test_speed_claim_on_too_few_devices_is_not_testable(tmp_path: Path) -> None:
    speeds(tmp_path, seconds={"bp": 0.30, "dsp": 0.10}, suffix="", oversubscribed=True, cores=2)
    row = verdicts(tmp_path)["D1"][0]
    assert row["verdict"] == "not testable here"
    assert "3 blocks on fewer devices or cores" in str(row["note"])
    assert "modelled over BP" in str(row["note"])
    assert isinstance(row["measured"], Measured)
    assert row["measured"].estimate is None


def test_one_seed_is_not_enough_for_a_verdict(tmp_path: Path) -> None:
    for name in ("bp-resnet98", "dni-resnet98"):
        make_run(tmp_path, name, 0, epochs=training(3))
    row = verdicts(tmp_path)["D8"][0]
    assert row["verdict"] == "not run yet"
    assert "needs at least two finished seeds" in str(row["note"])


def test_accuracy_claims(tmp_path: Path) -> None:
    for seed in range(4):
        for name, best in (("bp-resnet98", 90.0), ("dsp-resnet98", 90.1), ("dni-resnet98", 80.0)):
            make_run(tmp_path, name, seed, epochs=training(12, best=best + seed + 0.05 * (seed % 2)))
    found = verdicts(tmp_path)
    assert found["D2"][0]["verdict"] == "reproduced"
    assert found["D8"][0]["verdict"] == "reproduced"


def test_a_wide_interval_is_called_undecided(tmp_path: Path) -> None:
    for seed in range(3):
        make_run(tmp_path, "bp-resnet98", seed, epochs=training(12, best=90.0))
        make_run(tmp_path, "dsp-resnet98", seed, epochs=training(12, best=89.5 + seed))
    row = verdicts(tmp_path)["D2"][0]
    assert row["verdict"] == "not reproduced"
    assert "undecided" in str(row["note"])


def test_gradient_gap_claims(tmp_path: Path) -> None:
    for seed in range(3):
        for name, size in (("gradient-gap-dsp-resnet98", 1.0), ("gradient-gap-dsp-resnet98-s1470", 3.0)):
            rows = [
                {
                    "kind": "gap", "step": t, "difference": [size * (1 + 0.01 * seed) / (t + 30)] * 3,
                    "cosine": [0.9] * 3, "gradient_norm": 2.0 / (t + 10) * (1 + 0.01 * seed),
                }
                for t in range(100)
            ]  # fmt: skip
            make_run(tmp_path, name, seed, extra_rows=rows)
    found = verdicts(tmp_path)
    assert {r["verdict"] for r in found["D4"]} == {r["verdict"] for r in found["D6"]} == {"reproduced"}
    assert [r["verdict"] for r in found["D7"]] == ["reproduced"]


def test_bias_claim_is_not_reproduced_where_the_interval_stays_above_zero(tmp_path: Path) -> None:
    for low, verdict in ((0.5, "not reproduced"), (0.0, "reproduced")):
        row = {"layer": "a", "estimator": "top1", "relative_bias": 0.6, "relative_bias_low": low, "relative_bias_high": 0.7}
        make_run(tmp_path / str(low), "bias-resnet20", 0, steps=0, bias=[row])
        assert verdicts(tmp_path / str(low))["G8"][0]["verdict"] == verdict


def test_reference_runs_stand_in_claim_by_claim(tmp_path: Path, reference: Path) -> None:
    speeds(reference, seconds={"bp": 0.30, "dsp": 0.17})
    make_run(tmp_path, "dsp-resnet98-k2", 0)
    row = verdicts(tmp_path)["D1"][0]
    assert row["verdict"] == "reproduced"
    assert "reference" in str(row["note"])


@pytest.mark.parametrize(
    ("rule", "interval", "verdict"),
    [
        (above(1.0), (1.1, 1.3), "reproduced"),
        (above(1.0), (0.9, 1.3), "not reproduced"),
        (below(0.0), (-3.0, -1.0), "reproduced"),
        (below(0.0), (-3.0, 1.0), "not reproduced"),
        (within(0.85, 1.15), (0.9, 1.1), "reproduced"),
        (within(0.85, 1.15), (0.8, 1.1), "not reproduced"),
        (at_least(1.1, 1.0), (1.05, 1.35), "reproduced"),
        (at_least(1.5, 1.0), (1.05, 1.35), "not reproduced"),
    ],
)
def test_rules(rule: Any, interval: tuple[float, float], verdict: str) -> None:
    low, high = interval
    value = Measured(Estimate((low + high) / 2, low, high, 5), 5)
    assert Finding("", "", value, "", rule).verdict == verdict
    assert Finding("", "", value, "", rule, untestable="no GPU").verdict == "not testable here"
