"""Verdicts come from rules and stored runs: each of the four, and nothing typed by hand."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

import cli
from repro.commands import bench
from repro.recipe import load, parse_overrides
from repro.report import figures, tables
from repro.report.claims import CLAIMS, VERDICTS
from repro.report.claims.claim import Finding, above, at_least, below, within
from repro.report.stats import Estimate
from repro.report.stored.source import Source
from repro.report.table import Measured
from tests.report.factory import make_run, training

QUICK = "--seeds 5 --profile quick"
COMMAND = re.compile(r"repro (?:run|bench) [a-z0-9][^;:()`]*")
NAMES = [f"D{i}" for i in range(1, 9)] + [f"G{i}" for i in range(1, 10)] + [f"A{i}" for i in range(1, 6)]


def verdicts(root: Path) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in tables.build("claims", root).rows:
        assert row["verdict"] in VERDICTS
        found.setdefault(str(row["claim"]), []).append(row)
    return found


def speeds(root: Path, *, seconds: Mapping[str, float], suffix: str = "-k2", **fields: Any) -> None:
    for name, value in seconds.items():
        for seed in range(3):
            make_run(
                root, f"{name}-resnet98{suffix}", seed, seconds_per_batch=value * (1 + seed / 50), **fields
            )


def test_every_claim_has_a_row_and_its_command(tmp_path: Path) -> None:
    found = verdicts(tmp_path)
    assert list(found) == NAMES == [claim.name for claim in CLAIMS]
    for claim in CLAIMS:
        assert {row["verdict"] for row in found[claim.name]} == {"not run yet"}
        assert all("repro " in str(row["note"]) for row in found[claim.name])
    assert tables.build("claims", tmp_path).problems == [f"not run yet: {', '.join(NAMES)}"]


def test_few_seeds_and_broken_ones_are_said(tmp_path: Path) -> None:
    for name, value in (("bp", 0.3), ("dsp", 0.1)):
        for seed in range(3):
            status = "diverged" if (name, seed) == ("dsp", 2) else "complete"
            make_run(
                tmp_path,
                f"{name}-resnet98-k2",
                seed,
                seconds_per_batch=value * (1 + seed / 50),
                status=status,
            )
    table = tables.build("claims", tmp_path)
    assert any("n = 2 is below" in words for words in table.caption)
    assert any("diverged" in problem for problem in table.problems)
    assert any(words.startswith("D4 (arXiv 1909.02625, Fig. 5): ||G_DSP") for words in table.caption)


def printed_commands() -> list[str]:
    """Every command that a claim, a table or a figure prints when it misses something."""
    from repro.report.claims import gap_rules as gradient_gap
    from repro.report.claims import speed_rules as speed

    words = [claim.command for claim in CLAIMS] + [*gradient_gap.OPTIMIZERS.values(), speed.OTHER_RULES]
    words += [
        f"repro run full-{m} {g}-{m}-s1 {QUICK}" for g in ("top1", "zero") for m in ("resnet20", "vgg19")
    ]
    nowhere = Path("nowhere")
    for name in tables.names():
        words += tables.build(name, nowhere, profile="paper").problems
    for name in figures.names():
        note = figures.draw_from(name, Source(nowhere))[1]
        words += [note] if note else []
    return sorted(
        {command for line in words for part in line.split(" && ") for command in COMMAND.findall(part)}
    )


def test_every_printed_command_is_one_that_runs(tmp_path: Path) -> None:
    """The command line takes it, its recipes exist, and they resolve under the profile and settings that it names."""
    group: Any = typer.main.get_command(cli.app)
    commands = printed_commands()
    assert len(commands) > 20
    for command in commands:
        _, verb, *rest = command.split()
        values = group.commands[verb].make_context(verb, rest).params
        if verb == "bench":
            assert values["name"] in bench.NAMES
            continue
        assert verb == "run", command
        assert values["profile"] == "quick", f"{command}: a laptop needs --profile quick"
        for name in values["recipes"]:
            recipe = load(name, values["profile"], parse_overrides(values["settings"] or []))
            embedded = recipe.data.name == "digits" or (recipe.data.name, recipe.data.path) == ("text", None)
            assert embedded, f"{command}: needs data that a laptop may not have"


def test_a_printed_command_plans_its_runs(tmp_path: Path, repro: Callable[..., Any]) -> None:
    """The one with the most options, as a user would type it."""
    from repro.report.claims.dsp_paper import JITTER

    done = repro(*JITTER.split()[1:], "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "straggler-dsp-resnet98-s1470" in done.stdout
    assert not (tmp_path / "results").exists()


def test_speed_claim_is_reproduced_or_not_by_its_interval(tmp_path: Path) -> None:
    speeds(tmp_path, seconds={"bp": 0.30, "fr": 0.25, "dsp": 0.17})
    first = verdicts(tmp_path)["D1"]
    assert [r["verdict"] for r in first] == ["reproduced", "reproduced", "not run yet", "not run yet"]
    assert "modelled: 1." in str(first[2]["note"])
    assert "fr-resnet98-barrier" in str(first[2]["note"])
    assert isinstance(first[0]["measured"], Measured)
    assert first[0]["measured"].estimate is not None
    assert first[0]["measured"].estimate.mean == pytest.approx(0.30 / 0.17)
    slow = tmp_path / "slow"
    speeds(slow, seconds={"bp": 0.30, "fr": 0.16, "dsp": 0.25})
    assert [r["verdict"] for r in verdicts(slow)["D1"]][:2] == ["not reproduced", "not reproduced"]


def test_speed_claim_on_too_few_devices_is_not_testable(tmp_path: Path) -> None:
    speeds(tmp_path, seconds={"bp": 0.30, "dsp": 0.10}, suffix="", oversubscribed=True, cores=2)
    row = verdicts(tmp_path)["D1"][0]
    assert row["verdict"] == "not testable here"
    assert "3 blocks on fewer devices or cores" in str(row["note"])
    assert re.search(r"modelled: \d\.\d\d", str(row["note"]))
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
    assert [r["verdict"] for r in found["D4"]] == ["reproduced", "reproduced"]
    assert [r["verdict"] for r in found["D6"]] == ["reproduced", "reproduced", "not run yet"]  # no plain SGD
    assert [r["verdict"] for r in found["D7"]] == ["reproduced"]


def test_bias_claim_is_not_reproduced_where_the_interval_stays_above_zero(tmp_path: Path) -> None:
    for low, verdict in ((0.5, "not reproduced"), (0.0, "reproduced")):
        row = {
            "layer": "a",
            "estimator": "top1",
            "relative_bias": 0.6,
            "relative_bias_low": low,
            "relative_bias_high": 0.7,
        }
        make_run(tmp_path / str(low), "bias-resnet20", 0, steps=0, bias=[row])
        assert verdicts(tmp_path / str(low))["G8"][0]["verdict"] == verdict


def test_reference_runs_stand_in_claim_by_claim(tmp_path: Path, reference: Path) -> None:
    speeds(reference, seconds={"bp": 0.30, "dsp": 0.17})
    make_run(tmp_path, "dsp-resnet98-k2", 0)
    row = verdicts(tmp_path)["D1"][0]
    assert row["verdict"] == "reproduced"
    assert str(row["note"]).endswith("reference runs")


def test_few_seeds_nearer_to_the_paper_do_not_hide_a_verdict(tmp_path: Path) -> None:
    for profile, seeds in (("paper", 1), ("quick", 3)):
        for name, best in (("bp-resnet98", 90.0), ("dni-resnet98", 80.0)):
            for seed in range(seeds):
                make_run(
                    tmp_path,
                    name,
                    seed,
                    profile=profile,
                    epochs=training(9, best=best + seed),
                    number=profile[0] * 12,
                )
    row = verdicts(tmp_path)["D8"][0]
    assert row["verdict"] == "reproduced"
    assert ", profile quick," in str(row["note"])


def test_runs_that_cannot_be_compared_are_not(tmp_path: Path) -> None:
    """Another length of training, other delays, another machine."""
    for name, settings in (("bp-resnet98", {}), ("dni-resnet98", {"epochs": 9})):
        make_run(tmp_path, name, 0, epochs=training(3), settings=settings)
    for name, delay in (("straggler-fr-resnet98", 3.0), ("straggler-dsp-resnet98", 1.0)):
        make_run(
            tmp_path,
            name,
            0,
            settings={"straggler.delay": delay},
            straggler={"clean_seconds": 1, "delayed_seconds": 2},
        )
    for name, machine in (("full-resnet20", "A"), ("top1-resnet20-s1", "B")):
        make_run(tmp_path, name, 0, machine=machine)
    found = verdicts(tmp_path)
    assert [found[claim][0]["measured"].n for claim in ("D8", "D3", "G2")] == [0, 0, 0]  # type: ignore[union-attr]


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


def test_smoke_runs_do_not_stand_before_the_reference(tmp_path: Path, reference: Path) -> None:
    speeds(reference, seconds={"bp": 0.3, "dsp": 0.1}, profile="reference")
    speeds(tmp_path, seconds={"bp": 0.3, "dsp": 0.3}, profile="smoke")
    (row,) = (r for r in verdicts(tmp_path)["D1"] if "over BP" in str(r["what"]))
    assert row["verdict"] == "reproduced"
    assert "profile reference" in str(row["note"])
    assert "profile smoke" in str(tables.build("claims", tmp_path, profile="smoke").rows[0]["note"])
    speeds(tmp_path, seconds={"bp": 0.3, "dsp": 0.3}, profile="quick")
    (row,) = (r for r in verdicts(tmp_path)["D1"] if "over BP" in str(r["what"]))
    assert row["verdict"] == "not reproduced"
