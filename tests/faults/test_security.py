"""Recipes and results are data: nothing in them runs, leaves its folder, or reaches a page unescaped."""

from __future__ import annotations

import io
import json
import pickle
import re
import tarfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from repro import paths
from repro.commands.show import same_settings
from repro.data.cifar import _Arrays, plain_members
from repro.engine.processes import checkpoint
from repro.errors import UserError
from repro.methods import stored_method
from repro.recipe import load, validate
from repro.report import diff, tables
from repro.report.pages import html
from repro.store import read_runs
from tests.programs import RUNS, SMOKE, TINY
from tests.report.factory import make_run, training

Repro = Callable[..., Any]


class Trap:
    """An object whose pickle makes a file where it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system ['touch TRAP']", "!!python/name:os.system"])
def test_a_recipe_is_data(tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text(f"reproduces: {tag}\n")
    with pytest.raises(UserError, match="not valid YAML"):
        load(str(tmp_path / "bad.yaml"))
    assert not (tmp_path / "TRAP").exists()


@pytest.mark.parametrize(
    "name",
    ["../out", "..", ".", "/etc/x", "a/b", "a\\b", "", ".hidden", "-rf", "a*", "a\0b", "a\nb", "x" * 201],
)
def test_a_name_cannot_lead_out_of_the_results(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name"):
        load(TINY["bp"], "smoke", {"name": name})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["...yaml", "..yaml"])
def test_nor_can_the_name_of_a_recipe_file(file: str, repro: Repro, tmp_path: Path) -> None:
    path = tmp_path / "recipes" / file
    path.parent.mkdir()
    path.write_text(Path(TINY["bp"]).read_text())
    done = repro("run", str(path), RUNS, str(tmp_path / "deep" / "runs"), *SMOKE)
    assert done.returncode == 2
    assert "name" in done.stderr
    assert sorted(p.name for p in tmp_path.rglob("*seed*")) == []


def test_plain_names_stay_allowed() -> None:
    for name in ("dsp-resnet164-s630", "my run 2", "α=0.1,β=2", "a_b%&", "x.y"):
        assert paths.plain_name(name) == name


def test_a_model_is_a_name_not_a_path() -> None:
    from repro.models import layers

    model = load(TINY["bp"], "smoke", {"model.name": "../../x"}).model
    with pytest.raises(UserError, match=r"model\.name"):
        layers(model, (3, 16, 16), 3, "contiguous")


def trapped(root: Path, trap: Path) -> Path:
    """A results folder whose recipe names a Python file beside it."""
    evil = root / "evil.py"
    evil.write_text(f"open({str(trap)!r}, 'w').close()\n")
    for recipe in (
        "dsp-resnet98-k2",
        "bp-resnet98-k2",
        "straggler-dsp-resnet98",
        "gradient-gap-dsp-resnet98",
    ):
        run = make_run(root, recipe, 0, epochs=training())
        settings = yaml.safe_load((run / "recipe.yaml").read_text())
        settings["method"] = {"name": f"{evil}:Method"}
        (run / "recipe.yaml").write_text(yaml.safe_dump(settings))
        result = json.loads((run / "result.json").read_text())
        result.pop("label")
        (run / "result.json").write_text(json.dumps(result))
    return root


def test_no_table_page_or_comparison_runs_what_a_results_folder_names(tmp_path: Path) -> None:
    trap = tmp_path / "TRAP"
    (tmp_path / "runs").mkdir()
    root = trapped(tmp_path / "runs", trap)
    for name in tables.names():
        tables.build(name, root)
    text, _ = html.page(root)
    assert "evil.py" in text.lower()
    first, second = [run.folder.path for run in read_runs(root)][:2]
    diff.compare(str(first), str(second), root)
    shown = load("bp-resnet98-k2", "smoke")
    assert not [run for run in read_runs(root, shown.name) if same_settings(run.recipe, shown)]
    assert not trap.exists()
    with pytest.raises(ValueError, match="Python file"):
        stored_method({"name": f"{root / 'evil.py'}:Method"})


def test_a_results_folder_cannot_name_a_recipe_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder called like a recipe file in the folder where the user stands must not have that file read."""
    monkeypatch.chdir(tmp_path)
    trap = tmp_path / "TRAP"
    (tmp_path / "evil.py").write_text(f"open({str(trap)!r}, 'w').close()\n")
    (tmp_path / "evil.yaml").write_text("method: ./evil.py:Method\n")
    run = make_run(tmp_path / "runs", "bp-resnet98-k2", 0, epochs=training())
    run.parent.parent.rename(tmp_path / "runs" / "evil.yaml")
    moved = tmp_path / "runs" / "evil.yaml" / run.parent.name / run.name
    result = json.loads((moved / "result.json").read_text())
    (moved / "result.json").write_text(json.dumps({**result, "recipe": "evil.yaml"}))
    tables.build("accuracy", tmp_path / "runs", profile="smoke")
    assert not trap.exists()


def test_the_user_may_name_a_file_of_his_own(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from typing import Literal\nfrom repro.methods.bp import BP\n"
        f"class Own(BP):\n    name: Literal[{str(file) + ':Own'!r}] = {str(file) + ':Own'!r}\n"
    )
    recipe = load(TINY["bp"], "smoke", {"method": {"name": f"{file}:Own"}})
    assert type(recipe.method).__name__ == "Own"
    assert validate(recipe.model_dump(mode="json")).method == recipe.method


def test_a_checkpoint_is_no_program(tmp_path: Path) -> None:
    """A pickle that would run something is refused; the manifest's names lead nowhere else."""
    trap = tmp_path / "TRAP"
    place = tmp_path / "checkpoints" / "epoch-1"
    place.mkdir(parents=True)
    torch.save({"block": Trap(trap)}, place / "block-0.pt")
    with pytest.raises(pickle.UnpicklingError):
        checkpoint.load_block(place, 0, torch.device("cpu"))
    assert not trap.exists()
    outside = tmp_path / "outside.pt"
    outside.write_bytes(b"x")
    digest = checkpoint._digest(outside)
    checkpoint.commit(tmp_path / "checkpoints", 1, 7, {0: ("../outside.pt", digest)}, {})
    said: list[str] = []
    assert checkpoint.newest(tmp_path / "checkpoints", 1, said.append) is None
    assert "../outside.pt" in said[0]


def test_a_file_of_images_is_no_program(tmp_path: Path) -> None:
    trap = tmp_path / "TRAP"
    with pytest.raises(pickle.UnpicklingError, match="no place in a file of images"):
        _Arrays(io.BytesIO(pickle.dumps(Trap(trap)))).load()
    assert not trap.exists()
    for protocol in (2, 4, 5):
        data = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2]}
        found = _Arrays(io.BytesIO(pickle.dumps(data, protocol)), encoding="latin1").load()
        assert found["labels"] == [1, 2]
        assert (found["data"] == data["data"]).all()


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("../out", tarfile.REGTYPE, ""),
        ("/tmp/out", tarfile.REGTYPE, ""),
        ("set/link", tarfile.SYMTYPE, "/etc"),
        ("set/link", tarfile.SYMTYPE, "../.."),
        ("set/link", tarfile.SYMTYPE, "file"),
        ("set/link", tarfile.LNKTYPE, "set/file"),
        ("set/pipe", tarfile.FIFOTYPE, ""),
        ("set/device", tarfile.CHRTYPE, ""),
    ],
    ids=str,
)
def test_an_archive_has_no_links_and_no_way_out(name: str, kind: bytes, target: str, tmp_path: Path) -> None:
    archive = tmp_path / "set.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(_member("set/file", b"inside"), io.BytesIO(b"inside"))
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        tar.addfile(member, io.BytesIO(b""))
    place = tmp_path / "a" / "b"
    outside = set(tmp_path.rglob("*"))
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(place, filter=plain_members)
        assert name.startswith("/")  # an absolute name is taken as one below the folder
    except tarfile.TarError:
        pass
    new = {path for path in set(tmp_path.rglob("*")) - outside if not path.is_relative_to(tmp_path / "a")}
    assert new == set()
    assert not Path("/tmp/out").exists()
    assert not any(path.is_symlink() for path in place.rglob("*"))


def _member(name: str, data: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    return member


class Reader(HTMLParser):
    """Which elements and attributes a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [tag, *(name for name, _ in attrs)]


def test_everything_of_a_run_is_escaped_in_the_page(tmp_path: Path) -> None:
    """Markup in every text of a run (settings, environment, result, names) stays text."""
    poison = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&--><b>"
    commands = ("repro", "run", poison)
    for seed in range(2):
        for recipe in ("bp-resnet98-k2", "dsp-resnet98-k2"):
            run = make_run(
                tmp_path, recipe, seed, epochs=training(), command=commands, machine=poison, label=poison,
                model=poison, data=poison, method=poison, group=poison,
            )  # fmt: skip
            environment = json.loads((run / "env.json").read_text())
            environment.update(torch=poison, processor=poison, git={"commit": poison, "dirty": True})
            (run / "env.json").write_text(json.dumps(environment))
            settings = yaml.safe_load((run / "recipe.yaml").read_text())
            settings["reproduces"] = settings["model"]["name"] = poison
            (run / "recipe.yaml").write_text(yaml.safe_dump(settings))
    make_run(tmp_path, "fr-resnet98-k2", 0, status="failed", error=poison, label=poison)
    text, _ = html.page(tmp_path, profile="smoke")
    assert "alert(1)" in text, "the poison has reached the page"
    text, own, end = text.rpartition(
        '<script id="page">'
    )  # the page's one script: a file of the package, at its end
    code = end.removesuffix("</script>\n</body></html>\n")
    assert own
    assert "</script" not in code
    assert "alert(" not in code
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b", code), (
        "makes markup of a text"
    )
    reader = Reader()
    reader.feed(text)
    assert "script" not in reader.found
    assert "img" not in reader.found
    assert "onerror" not in reader.found
    assert "<script" not in text.lower()
