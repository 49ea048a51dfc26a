"""The tutorial's files and commands, in its order, in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.programs import call

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w+)([^\n]*)\n(.*?)```", re.DOTALL)
OWN_ESTIMATOR = "## 7."


def steps(words: str) -> list[tuple[str, str]]:
    """("file NAME", content) and ("run", command) in the order of the page."""
    found = []
    for _, attributes, body in BLOCK.findall(words):
        title = re.search(r'title="([^"]+)"', attributes)
        repeat = re.search(r'repeat="(\d+)"', attributes)
        if title:
            found.append((f"file {title.group(1)}", body * int(repeat.group(1) if repeat else 1)))
        else:
            found += [
                ("run", line.removeprefix("$ repro "))
                for line in body.splitlines()
                if line.startswith("$ repro ")
            ]
    return found


@pytest.mark.timeout(400)
def test_every_command_of_the_tutorial_runs(tmp_path: Path) -> None:
    done = 0
    for kind, words in steps(TUTORIAL.partition(OWN_ESTIMATOR)[0]):
        if kind != "run":
            (tmp_path / kind.removeprefix("file ")).write_text(words, encoding="utf-8")
            continue
        ended = call(
            *shlex.split(words), cwd=tmp_path, timeout=120, env={"REPRO_CACHE": str(tmp_path / "cache")}
        )
        assert ended.returncode == 0, f"repro {words}\n{ended.stdout}\n{ended.stderr}"
        assert (ended.stdout + ended.stderr).strip(), words
        done += 1
    assert done >= 12
    assert (tmp_path / "report.html").is_file()
    assert list((tmp_path / "results" / "figures").glob("loss.*"))


@pytest.mark.timeout(300)
def test_an_estimator_of_ones_own_is_added_as_the_tutorial_says(tmp_path: Path) -> None:
    for name in ("repro", "recipes"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "cli.py", tmp_path)
    (file, content), (_, command) = steps(TUTORIAL.partition(OWN_ESTIMATOR)[2])
    (tmp_path / file.removeprefix("file ")).write_text(content, encoding="utf-8")
    schema = tmp_path / "repro" / "recipe" / "schema.py"
    words = schema.read_text().replace('"shared-topk"] = "full"', '"shared-topk", "halved"] = "full"')
    schema.write_text(re.sub(r'(ESTIMATORS = \([^)]*"shared-topk")', r'\1, "halved"', words))
    names = tmp_path / "repro" / "gradient" / "estimators" / "__init__.py"
    names.write_text(
        names.read_text()
        .replace("import Full\n", "import Full\nfrom repro.gradient.estimators.halved import Halved\n")
        .replace('{"full": Full,', '{"full": Full, "halved": Halved,')
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "REPRO_CACHE": str(tmp_path / "cache")}
    ended = subprocess.run(
        [sys.executable, "cli.py", *shlex.split(command)], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "1 of 1 seeds complete" in ended.stdout + ended.stderr
