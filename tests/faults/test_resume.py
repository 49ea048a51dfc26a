"""Field report B02 over everything: cut off at a random moment, the same run ends with the bits of an untouched one."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.engine.processes import checkpoint
from repro.engine.processes.child import BlockFailed
from repro.experiments import train
from repro.experiments.session import Session
from repro.planning.run_plan import make_plan
from repro.progress import Progress
from repro.store import RunFolder, read_metrics
from tests.pipeline.test_engine_equals_oracle import METHODS
from tests.pipeline.test_optimizers import OPTIMIZERS

EPOCHS = 4  # of 7 batches: a checkpoint after each but the last
CASES: dict[str, dict[str, Any]] = {
    **{name: {"method": method} for name, method in METHODS.items()},
    "2bw": {"method": {"name": "2bw"}},
    "2bw-remat": {"method": {"name": "2bw", "micro": 5, "rematerialise": True}},
    "pipemare": {"method": {"name": "pipemare"}},
    "delayed": {"method": {"name": "delayed", "delay": 3}},
    "dsp-long-queues": {"method": {"name": "dsp", "staleness": "p=4 q=3"}},
    "dsp-replicas": {"method": METHODS["dsp"], "replicas": 2},
    "top1": {"method": METHODS["dsp"], "gradient.estimator": "top1"},
    "random": {"method": METHODS["bp"], "gradient.estimator": "random", "gradient.schedule": "s3"},
    **{
        name: {"method": METHODS["ddg"], "optimizer": OPTIMIZERS[name]} for name in ("adamw", "nadam", "muon")
    },
    "ddg-corrected": {
        "method": METHODS["ddg"],
        "corrections": [
            "prediction",
            {"name": "rescheduling", "epochs": 3},
            {"name": "compensation", "adaptive": True},
        ],
    },
    "2bw-corrected": {
        "method": {"name": "2bw"},
        "corrections": ["prediction", {"name": "compensation", "strength": 2.0}],
        "optimizer": OPTIMIZERS["nadam"],
    },
    "pipemare-corrected": {
        "method": {"name": "pipemare"},
        "corrections": [{"name": "rescheduling", "epochs": 3}, "discrepancy"],
    },
}
QUICK = [
    ("dsp-long-queues", 3),
    ("dsp-replicas", 2),
    ("ddg", 2),
    ("pipemare-corrected", 2),
    ("cdni-lag2", 3),
    ("gpipe-kept", 2),
]
ALL = [(name, blocks) for name in CASES for blocks in (1, 2, 3, 4)]


class Heard(Progress):
    """Keeps what would have been printed."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        """Keep the line."""
        self.lines.append(text)


class Run:
    """One seed of a tiny recipe in a folder, run once or several times, with a fault at a step."""

    def __init__(self, recipe: Any, folder: Path, engine: str | None = None) -> None:
        plan = make_plan(recipe, "cpu") if engine is None else make_plan(recipe, "cpu", engine=engine)
        self.plan, self.folder = plan, RunFolder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.heard = Heard()

    def go(self, fault: Callable[[int], None] = lambda step: None) -> dict[str, Any]:
        """Run on to the end, `fault` called after each step; returns the fields of the result."""
        session = Session(self.plan, 0, self.folder, self.heard)
        plain = session.step

        def step(batch: int, loss: float, samples: int) -> None:
            plain(batch, loss, samples)
            fault(batch)

        session.step = step  # type: ignore[method-assign]
        try:
            return train.run(session)
        finally:
            session.close()

    def numbers(self, fields: dict[str, Any]) -> tuple[Any, ...]:
        """What must not depend on an interruption."""
        rows = read_metrics(self.folder.metrics)
        for row in rows:
            row.pop("train_seconds", None)
        order = sorted(rows, key=lambda r: (r["kind"], r.get("step", r.get("epoch"))))
        return order, fields["weight_change"], fields["updates"], fields["test_accuracy_best"]


def kill(which: str, draw: random.Random) -> None:
    """SIGKILL to all blocks, or to one."""
    running = [p for p in multiprocessing.active_children() if p.name.startswith("repro block")]
    for process in running if which == "all" else draw.sample(running, 1):
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)


def assert_survives(name: str, blocks: int, tiny: Callable[..., Any], folder: Path) -> None:
    """Killed twice (one block, then all), each time at a random step: the bits of an untouched run."""
    recipe = tiny(**CASES[name], blocks=blocks, epochs=EPOCHS)
    calm = Run(recipe, folder / "calm")
    expected = calm.numbers(calm.go())
    hurt = Run(recipe, folder / "hurt")
    draw = random.Random(f"{name} {blocks}")
    for which, low, high in (("one", 1, 14), ("all", 15, 24)):
        at = draw.randint(low, high)

        def fault(step: int, at: int = at, which: str = which) -> None:
            if step == at:
                kill(which, draw)

        with pytest.raises(BlockFailed, match=r"signal 9|lost the connection"):
            hurt.go(fault)
    assert hurt.numbers(hurt.go()) == expected
    assert any("going on after batch" in line for line in hurt.heard.lines)


@pytest.mark.parametrize(("name", "blocks"), QUICK)
def test_a_killed_run_ends_with_the_bits_of_an_untouched_one(
    name: str, blocks: int, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    assert_survives(name, blocks, tiny, tmp_path)


@pytest.mark.faults
@pytest.mark.parametrize(("name", "blocks"), [case for case in ALL if case not in QUICK])
def test_so_does_every_method_for_every_number_of_blocks(
    name: str, blocks: int, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    assert_survives(name, blocks, tiny, tmp_path)


def stop_after(step: int) -> Callable[[int], None]:
    """A fault that ends the run as Ctrl-C does."""

    def fault(at: int) -> None:
        if at == step:
            raise KeyboardInterrupt

    return fault


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def of_version(key: str, value: object) -> Callable[[Path], None]:
    """Rewrite the manifest as another version would have written it."""

    def change(file: Path) -> None:
        manifest = file.parent / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), key: value}))

    return change


def cut_manifest(file: Path) -> None:
    cut(file.parent / "manifest.json")


DAMAGES = {
    "cut": (cut, "is damaged"),
    "one bit": (flip, "is damaged"),
    "missing": (Path.unlink, "is damaged"),
    "manifest cut": (cut_manifest, "is damaged"),
    "another format": (of_version("format", checkpoint.FORMAT + 1), "of another version"),
    "before formats": (of_version("format", 1), "of another version"),
    "another torch": (of_version("torch", "1.0"), "of another version"),
}


@pytest.fixture(scope="module")
def untouched(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """The numbers of DSP on two blocks without any fault."""
    calm = Run(tiny(method=METHODS["dsp"], blocks=2, epochs=EPOCHS), tmp_path_factory.mktemp("calm"))
    return calm.numbers(calm.go())


@pytest.fixture(scope="module")
def cut_off(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run, ended by Ctrl-C after step 24: checkpoints of epochs 2 and 3."""
    folder = tmp_path_factory.mktemp("cut-off") / "hurt"
    with pytest.raises(KeyboardInterrupt):
        Run(tiny(method=METHODS["dsp"], blocks=2, epochs=EPOCHS), folder).go(stop_after(24))
    return folder


@pytest.mark.parametrize(
    ("damage", "both"), [*((damage, False) for damage in DAMAGES), ("cut", True), ("another format", True)]
)
def test_a_checkpoint_that_cannot_be_used_is_named_and_the_bits_stay(
    damage: str,
    both: bool,
    untouched: tuple[Any, ...],
    cut_off: Path,
    tiny: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """From the one before, or from zero; and new checkpoints are not swept away by the unusable ones."""
    change, words = DAMAGES[damage]
    recipe = tiny(method=METHODS["dsp"], blocks=2, epochs=EPOCHS)
    shutil.copytree(cut_off, tmp_path / "hurt")
    hurt = Run(recipe, tmp_path / "hurt")
    places = sorted(hurt.folder.checkpoints.glob("epoch-*"))
    assert [p.name for p in places] == ["epoch-2", "epoch-3"]
    for place in places if both else places[-1:]:
        change(place / "block-1.pt")
    with pytest.raises(KeyboardInterrupt):
        hurt.go(stop_after(26 if not both else 10))
    said = "\n".join(hurt.heard.lines)
    assert said.count(words) == (2 if both else 1)
    assert ("starting again from zero" if both else "going on after batch 14") in said
    found = checkpoint.newest(hurt.folder.checkpoints, 2, lambda text: None)
    assert found is not None
    assert found[1]["epoch"] == (1 if both else 3)
    assert hurt.numbers(hurt.go()) == untouched


def test_a_checkpoint_holds_tensors_and_plain_values_for_every_method(
    tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """Read back with weights_only: also queues, kept weights, synthetic gradients, messages not yet taken."""
    import torch

    pending = 0
    for name in ("dsp-long-queues", "ddg", "cdni-lag2"):
        run = Run(tiny(**CASES[name], blocks=3, epochs=2), tmp_path / name)
        with pytest.raises(KeyboardInterrupt):
            run.go(stop_after(11))
        for k in range(3):
            state = checkpoint.load_block(run.folder.checkpoints / "epoch-1", k, torch.device("cpu"))
            assert state["block"]["updates"] == 7
            pending += len(state["pending"])
    assert pending


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/bin/mount").exists(), reason="mounting a tmpfs needs root"
)
def test_a_disk_that_fills_at_a_checkpoint_is_one_sentence_and_loses_nothing(
    untouched: tuple[Any, ...], tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """Field report B03, on a tmpfs too small for a second checkpoint."""
    import subprocess

    recipe = tiny(method=METHODS["dsp"], blocks=2, epochs=EPOCHS)
    first = Run(recipe, tmp_path / "size")
    with pytest.raises(KeyboardInterrupt):
        first.go(stop_after(11))
    need = sum(p.stat().st_size for p in first.folder.checkpoints.rglob("*.pt"))
    disk = tmp_path / "disk"
    disk.mkdir()
    size = int(need * 1.5) + 65536
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no tmpfs may be mounted here")
    try:
        run = Run(recipe, disk / "run")
        with pytest.raises(BlockFailed, match=r"the checkpoint .* cannot be written"):
            run.go()
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        assert run.numbers(run.go()) == untouched
        assert any("going on after batch 7 " in line for line in run.heard.lines)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
