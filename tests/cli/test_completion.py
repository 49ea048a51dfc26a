"""Shell completion, asked for as a shell asks: through the environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from repro.commands import completion
from tests.conftest import ROOT


def asked(environment: dict[str, str], code: str = "import cli; cli.main()") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.stderr == ""
    return done.stdout.split()


def bash(*words: str) -> list[str]:
    """What bash is answered; it cuts words at "="."""
    place = str(len(words) - 1)
    return asked({"_REPRO_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": place})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["repro", "run", "bp-resnext29"], ["bp-resnext29", "bp-resnext29-k2", "bp-resnext29-k4"]),
        (["repro", "show", "dsp-resnet98-k5-"], ["dsp-resnet98-k5-s1470", "dsp-resnet98-k5-s630"]),
        (["repro", "run", "bp-resnet98", "--profile", "q"], ["quick"]),
        (["repro", "run", "bp-resnet98", "--set", "lock"], ["locking="]),
        (["repro", "run", "fr-resnet98", "--set", "locking", "="], ["free", "mailbox", "barrier"]),
        (
            ["repro", "run", "fr-resnet98", "--set", "lr", "=", "3", "--set", "locking", "=", "ba"],
            ["barrier"],
        ),
        (["repro", "table", "head"], ["headline-pipeline", "headline-gradient"]),
        (["repro", "figures", "stra"], ["straggler"]),
        (["repro", "list", "--method", "cd"], ["cdni"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bash(words: list[str], expected: list[str]) -> None:
    assert sorted(bash(*words)) == sorted(expected)


def test_zsh_and_fish_get_whole_words() -> None:
    line = "repro run fr-resnet98 --set locking=f"
    found = asked({"_REPRO_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line})
    assert "locking=free" in " ".join(found)
    fish = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": line}
    assert asked({"_REPRO_COMPLETE": "complete_fish", **fish}) == ["locking=free"]


def test_the_script_is_for_the_command_repro() -> None:
    assert "_REPRO_COMPLETE=complete_bash" in " ".join(asked({"_REPRO_COMPLETE": "source_bash"}))


def test_completion_imports_nothing_heavy() -> None:
    code = (
        "import sys; from repro.commands import completion as c\n"
        "for f in (c.recipes, c.settings, c.profiles, c.tables, c.figures, c.benches, c.models): f('')\n"
        "c.settings('locking='); print([m for m in ('torch', 'pandas', 'matplotlib', 'scipy') if m in sys.modules])"
    )
    assert asked({}, code) == ["[]"]


def test_settings_are_those_of_the_schema() -> None:
    found = completion.settings("")
    for key in (
        "lr=",
        "staleness=",
        "optimizer.lr=",
        "method.hidden=",
        "gradient.schedule=",
        "epochs=",
        "cut=",
    ):
        assert key in found
    assert completion.settings("gradient.estimator=to") == ["gradient.estimator=top1"]
    assert "data.name=cifar10" in completion.settings("data.name=")
    assert completion.settings("deterministic=") == ["deterministic=true", "deterministic=false"]
    assert "model.name=resnet98" in completion.settings("model.name=")
    assert completion.settings("gradient.schedule=s") == [f"gradient.schedule=s{i}" for i in (1, 2, 3)]
    assert completion.settings("optimizer.lr=") == completion.settings("nothing=") == []
