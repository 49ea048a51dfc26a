"""--log: what trackers hear, that they change nothing, and that none of them can end a run."""

import json
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from repro.errors import MissingError, UserError
from repro.trackers import Audience, check
from repro.trackers import named as names
from repro.trackers.tracker import Run, Tracker
from tests.programs import RUNS, SMOKE, TINY, finish, numbers

OWN = """
import json

def log(row, run):
    with open(run.folder / "heard.jsonl", "a") as file:
        file.write(json.dumps([row, run.title, run.seed, run.first, run.settings["epochs"]]) + "\\n")

def broken(row, run):
    raise RuntimeError("the server is away")

value = 3
"""
WORDS = ["run", TINY["bp"], "--set", "epochs=2", *SMOKE]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("own") / "own.py"
    file.write_text(OWN)
    return file


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody hears."""
    folder = tmp_path_factory.mktemp("plain")
    finish(WORDS, folder)
    return folder


def test_all_trackers_hear_the_rows_and_change_neither_numbers_nor_hash(
    own: Path, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlflow").as_uri())
    log = ["--log", "tensorboard", "--log", "mlflow", "--log", f"{own}:log", "--log", f"{own}:broken"]
    said = finish([*WORDS, *log], tmp_path / "runs")
    assert said.count("it hears no more of this run") == 1
    assert f"--log {own}:broken: RuntimeError: the server is away" in said
    (folder,) = (tmp_path / "runs").glob("*/*/seed-0")
    (same,) = plain.glob("*/*/seed-0")
    assert folder.parent.name == same.parent.name
    assert numbers(tmp_path / "runs") == numbers(plain)

    written = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    heard = [json.loads(line) for line in (folder / "heard.jsonl").read_text().splitlines()]
    assert [row for row, *_ in heard[:-1]] == written
    assert heard[-1][0]["status"] == "complete"
    assert heard[0][1:] == ["tiny-bp", 0, 0, 2]

    losses = [row["loss"] for row in written if row["kind"] == "step"]
    accuracies = [row["test_accuracy"] for row in written if row["kind"] == "epoch"]
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    assert [e.step for e in events.Scalars("step/loss")] == list(range(14))
    assert [e.value for e in events.Scalars("step/loss")] == pytest.approx(losses)
    assert [(e.step, e.value) for e in events.Scalars("epoch/test_accuracy")] == [
        (step, pytest.approx(value)) for step, value in zip((6, 13), accuracies, strict=True)
    ]

    client = MlflowClient()
    run = client.get_run((folder / "mlflow-run").read_text().strip())
    assert (run.info.status, run.info.run_name) == ("FINISHED", "tiny-bp seed 0")
    assert run.data.tags["repro.hash"] == folder.parent.name
    assert run.data.params["method.name"] == "bp"
    assert [m.value for m in client.get_metric_history(run.info.run_id, "step/loss")] == losses
    assert run.data.metrics["epoch/test_accuracy"] == accuracies[-1]


def audience(word: str, said: list[str], **more: Any) -> Audience:
    run = Run("tiny seed 0", "tiny", "h", 0, Path(), {})
    return Audience([word], lambda: run, said.append, **more)


@pytest.fixture
def tracker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], str]:
    """Makes an entry point of an object; returns its name."""

    def make(found: Any) -> str:
        module = type(sys)("made_here")
        module.found = found  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "made_here", module)
        points = {"mine": EntryPoint("mine", "made_here:found", names.GROUP)}
        monkeypatch.setattr(names, "registered", lambda group: points)
        return "mine"

    return make


def test_an_entry_point_may_be_a_tracker_of_its_own(tracker: Callable[[Any], str]) -> None:
    calls: list[Any] = []

    class Mine(Tracker):
        def begin(self, run: Run) -> None:
            calls.append(run.title)

        def row(self, row: Any) -> None:
            calls.append(row["step"])

        def end(self, result: Any) -> None:
            calls.append(result["status"])

    heard = audience(tracker(Mine), [])
    heard.row({"kind": "step", "step": 0})
    heard.end({"status": "failed"})
    assert calls == ["tiny seed 0", 0, "failed"]


def test_one_that_hangs_holds_nothing_up(tracker: Callable[[Any], str]) -> None:
    let_go, said = threading.Event(), list[str]()
    heard = audience(tracker(lambda row, run: let_go.wait(60)), said, patience=0.05)
    begin = time.monotonic()
    for step in range(100):
        heard.row({"kind": "step", "step": step})
    heard.end({"status": "complete"})
    assert time.monotonic() - begin < 10
    assert said == [
        "--log mine: has not taken the last rows within 0.05 s; it hears no more of this run, whose own files have all"
    ]
    let_go.set()


def test_a_resumed_tensorboard_takes_the_place_of_what_is_repeated(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for first, value in ((0, 1.0), (2, 5.0)):
        run = Run("tiny seed 0", "tiny", "h", 0, tmp_path, {}, first)
        heard = Audience(["tensorboard"], lambda run=run: run, print)  # type: ignore[misc]
        for step in range(first, 4):
            heard.row({"kind": "step", "step": step, "loss": value})
        heard.end({"status": "interrupted"})
        time.sleep(1.1)  # event files are named by the second
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("step/loss")] == [
        (0, 1.0),
        (1, 1.0),
        (2, 5.0),
        (3, 5.0),
    ]


@pytest.mark.parametrize(("word", "package"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow")])
def test_a_missing_package_is_named_with_its_command(
    word: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingError, match=rf"--log {word} needs the package {package}: pip install 'repro\[{word}\]'"
    ):
        check([word])
    assert MissingError.exit_code == 3


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "tensorbord",
            "--log 'tensorbord' is unknown. Did you mean 'tensorboard'? Allowed: tensorboard, mlflow, or path",
        ),
        ("gone.py:log", "there is no file gone.py"),
        ("{own}:nothing", "there is no function 'nothing' in the file"),
        ("{own}:value", "there is no function 'value' in the file"),
    ],
)
def test_wrong_words(word: str, said: str, own: Path) -> None:
    with pytest.raises(UserError) as error:
        check([word.format(own=own)])
    assert said in str(error.value)


def test_a_file_that_cannot_be_run_is_said(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(UserError, match="ModuleNotFoundError"):
        check([f"{tmp_path}/bad.py:log"])


def test_the_command_says_it_before_anything_runs(tmp_path: Path) -> None:
    from tests.programs import call

    done = call(*WORDS, "--log", "tensorbord", RUNS, str(tmp_path))
    assert done.returncode == 2
    assert "Did you mean 'tensorboard'" in done.stderr
    assert not list(tmp_path.iterdir())
