"""Queues for recorded jitter: none where there is no jitter, longer ones for heavier tails, and what is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import typer

from repro.commands import jitter as command
from repro.commands.plan import Asked, show
from repro.errors import UserError
from repro.planning import units
from repro.planning.jitter import from_spans, read_jitter
from repro.planning.queue_search import Bootstrap, Proposal, search, setting_of
from repro.schedule import Staleness
from tests.conftest import ROOT
from tests.report.factory import make_run

TINY = str(ROOT / "tests" / "recipes_for_tests" / "tiny-dsp.yaml")


def written(folder: Path, seconds: Any, name: str = "seconds.json") -> Path:
    path = folder / name
    path.write_text(seconds if isinstance(seconds, str) else json.dumps(seconds))
    return path


def drawn(spread: float, blocks: int = 2, count: int = 200, seed: int = 0) -> list[list[float]]:
    """Log-normal times with a mean of about 1."""
    generator = random.Random(seed)
    return [[generator.lognormvariate(-(spread**2) / 2, spread) for _ in range(count)] for _ in range(blocks)]


def found(folder: Path, seconds: list[list[float]], loss: float = 0.05) -> tuple[Bootstrap, Proposal]:
    blocks = len(seconds)
    jitter = read_jitter(written(folder, seconds), blocks, [k < blocks - 1 for k in range(blocks)])
    bootstrap = Bootstrap(jitter, repeats=2, batches=200)
    proposal = search(bootstrap, loss)
    assert proposal is not None
    return bootstrap, proposal


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_without_jitter_the_shortest_queues_lose_nothing(tmp_path: Path, blocks: int) -> None:
    bootstrap, proposal = found(tmp_path, [[0.1] * 20] * blocks, 0.001)
    assert proposal.setting == Staleness.uniform(blocks, 0, 1)
    assert proposal.queues == "split"
    assert proposal.pace.mean == pytest.approx(1.0)
    assert bootstrap.bound([True] * (blocks - 1) + [False]) == pytest.approx(0.1)


def test_heavier_tails_want_longer_queues_and_less_loss_too(tmp_path: Path) -> None:
    light, heavy = (found(tmp_path, drawn(s))[1].setting for s in (0.1, 0.6))
    assert sum(light.m) < sum(heavy.m)
    assert sum(heavy.m) < sum(found(tmp_path, drawn(0.6), 0.02)[1].setting.m)


def test_a_block_with_time_to_spare_needs_no_slack(tmp_path: Path) -> None:
    """Of three blocks the last jitters and is the slowest; the first is fast and even: less slack is enough there."""
    seconds = [[0.2] * 200, *drawn(0.5)]
    uneven, even = (found(tmp_path, s, 0.08)[1].setting for s in (seconds, drawn(0.5, 3)))
    assert uneven.slack[0] < even.slack[0]


def test_the_proposal_is_fast_enough_and_nothing_smaller_is(tmp_path: Path) -> None:
    bootstrap, proposal = found(tmp_path, drawn(0.4, 3))
    slack = proposal.setting.slack
    assert proposal.pace.mean >= 0.95
    for b in range(2):
        if slack[b] > 1:
            shorter = setting_of([s - (i == b) for i, s in enumerate(slack)])
            assert bootstrap.pace(shorter, "shared").mean < 0.95


def test_split_queues_absorb_no_more_when_they_are_longer_and_shared_ones_do(tmp_path: Path) -> None:
    """Eq. 6 keeps p + q messages between two blocks: queues of exactly p and q are full all the time."""
    jitter = read_jitter(written(tmp_path, drawn(0.5)), 2, [True, False])
    bootstrap = Bootstrap(jitter, repeats=3, batches=400)
    short, long = Staleness.uniform(2, 1, 1), Staleness.uniform(2, 5, 5)
    split = [bootstrap.pace(s, "split").mean for s in (short, long)]
    shared = [bootstrap.pace(s, "shared").mean for s in (short, long)]
    assert split[1] == pytest.approx(split[0], abs=0.01)
    assert shared[1] > split[1] + 0.04
    assert shared[1] > shared[0] + 0.02


def test_the_same_file_gives_the_same_numbers(tmp_path: Path) -> None:
    first, second = (found(tmp_path, drawn(0.3))[1] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("slack", [(1,), (2, 1), (5, 7, 3)])
def test_settings_keep_equation_six(slack: tuple[int, ...]) -> None:
    setting = setting_of(slack)
    assert setting.slack == slack
    assert min(setting.q[1:]) >= 1


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("", "a.json", "the file is empty"),
        ("what", "a.json", "no JSON"),
        ([[1.0]], "a.json", "times of 1 block(s), the recipe has blocks = 2"),
        ([[1.0], [2.0], [3.0]], "a.json", "give one list a block, or --blocks 3"),
        ([[1.0], [-2.0]], "a.json", "batch 0 of block 1 is -2.0: give seconds, a number >= 0"),
        ([[1.0], ["x"]], "a.json", "batch 0 of block 1 is 'x'"),
        ("[[1.0], [NaN]]", "a.json", "batch 0 of block 1 is nan"),
        ([[1.0], []], "a.json", "block 1 has no batch"),
        ([[0.0], [0.0]], "a.json", "all times are 0"),
        ({"layers": []}, "a.json", "expected"),
        ({"spans": [[0, "F0"]]}, "a.json", "not a timeline"),
        ({"spans": [[0, "F9", 2.0, 1.0, False]]}, "a.json", "a span ends before it starts"),
        ("a,b\n1,2\n3\n", "a.csv", "rows of 1 and of 2 numbers"),
        ("a,b\n1,-2\n", "a.csv", "batch 0 of block 1 is -2.0"),
        ("a,b\n", "a.csv", "times of 0 block(s)"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(content: Any, name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_jitter(written(tmp_path, content, name), 2, [True, False])
    assert words in str(caught.value)


def test_csv_and_json_say_the_same(tmp_path: Path) -> None:
    rows = drawn(0.2, count=5)
    table = "block 0,block 1\n" + "".join(f"{a!r},{b!r}\n" for a, b in zip(*rows, strict=True))
    as_csv = read_jitter(written(tmp_path, table, "t.csv"), 2, [True, False])
    assert as_csv == read_jitter(written(tmp_path, {"seconds": rows}), 2, [True, False])
    assert as_csv.busy(0, True) == pytest.approx(rows[0])
    assert as_csv.busy(1, False) == pytest.approx(rows[1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2", "is not a number with a percent sign"),
        ("0%", "between"),
        ("100%", "between"),
        ("-1%", "percent"),
    ],
)
def test_a_loss_is_a_percentage(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        units.percent(text)
    assert units.percent("2 %") == pytest.approx(0.02)


def spans(count: int, busy: float, blocks: int = 2) -> list[list[Any]]:
    """A timeline of BP: no replay is recorded."""
    return [
        [k, f"{kind}{i}", 10.0 * i + at, 10.0 * i + at + share * busy, False]
        for k in range(blocks)
        for i in range(count)
        for at, kind, share in ((0, "F", 1), (5, "B", 2))
    ]


def test_timelines_give_times_batch_by_batch_without_warm_up() -> None:
    waits = [[0, "F6", 0.0, 9.0, True]]
    jitter = from_spans([[*spans(8, 0.5), *waits], spans(7, 1.0)], 2)  # type: ignore[list-item]
    assert jitter.busy(0, False) == pytest.approx([1.5] * 3 + [3.0] * 2)
    assert jitter.busy(0, True) == pytest.approx([2.0] * 3 + [4.0] * 2), "replays as it forwards"


def ask(jitter: str, loss: str | None = None, runs: Path | None = None, **more: Any) -> None:
    recipe = more.pop("recipe", TINY)
    show(recipe, Asked(jitter=jitter, loss=loss, runs=runs, **more), "smoke", [], "cpu", as_json=False)


def test_the_command_proposes_what_a_recipe_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from repro.recipe import load, parse_overrides

    ask(str(written(tmp_path, drawn(0.4))), "4%")
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("proposed: "))
    words = [w.replace('"', "") for w in line.removeprefix("proposed: --set ").split(" --set ")]
    recipe = load(TINY, "smoke", parse_overrides(words))
    assert recipe.method.schedule(2, 1, {}).staleness[0] > 2
    assert recipe.method.label(2).endswith(" shared)")


def test_measured_reads_timed_runs_of_the_same_network_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from repro.planning import machine

    monkeypatch.setattr(machine, "machine_name", lambda device: "here")
    runs = tmp_path / "runs"
    for name, place, busy in (
        ("tiny-dsp", "here", 0.1),
        ("tiny-dsp", "there", 9.0),
        ("tiny-bp", "here", 5.0),
    ):
        path = str(ROOT / "tests" / "recipes_for_tests" / f"{name}.yaml")
        seed = 1 if place == "there" else 0
        make_run(runs, path, seed, timeline=spans(9, busy), machine=place)
    ask("measured", runs=runs)
    out = capsys.readouterr().out
    assert "4 batches a block (few: their tails are hardly known), recorded in 1 run(s) of tiny-dsp;" in out
    assert "\n    0   400.00 " in out  # two forwards and a backward of two


@pytest.mark.parametrize(
    "fields", [{"oversubscribed": True}, {"timed": False}, {"machine": "elsewhere"}, {"blocks": 3}]
)
def test_measured_without_a_run_that_fits_names_the_command(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from repro.planning import machine

    monkeypatch.setattr(machine, "machine_name", lambda device: "here")
    make_run(tmp_path, TINY, timeline=spans(9, 0.1), **{"machine": "here", **fields})
    with pytest.raises(UserError, match=r"no stored run of tiny with blocks = 2 .* repro run tiny-dsp"):
        ask("measured", runs=tmp_path)


def test_wrong_questions_are_refused(tmp_path: Path) -> None:
    bp = str(ROOT / "tests" / "recipes_for_tests" / "tiny-bp.yaml")
    for words, jitter, more in (
        ("method.name = bp has no queues", "x.json", {"recipe": bp}),
        ("blocks = 1 has no neighbour", "x.json", {"blocks": "1"}),
        ("cannot be read", "x.json", {}),
        ("leave out --layer-times", "x.json", {"bandwidth": "1GB/s"}),
        ("belongs to --jitter measured", str(written(tmp_path, drawn(0.1))), {"runs": tmp_path}),
    ):
        with pytest.raises(UserError, match=words):
            ask(jitter, **more)
    with pytest.raises(UserError, match="--loss 2% belongs to --jitter"):
        show(TINY, Asked(loss="2%"), "smoke", [], "cpu", as_json=False)


def test_a_loss_that_nothing_reaches_exits_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LADDER", (1,))
    with pytest.raises(typer.Exit) as caught:
        ask(str(written(tmp_path, drawn(1.5, count=40))), "0.001%")
    assert caught.value.exit_code == 1
    assert "allow a larger --loss" in capsys.readouterr().out
