"""Blocks between markers: made from the reference runs alone, the same bytes twice, all else untouched."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro import paths
from repro.errors import UserError
from repro.report.pages import readme
from tests.report.factory import make_run, training
from tests.report.reference_set import write_reference

WORDS = (
    "# Title\n\n"
    + "".join(
        f"<!-- repro:{b} -->\n<!-- /repro:{b} -->\n\n"
        for b in ("figure", "headline", "claims", "glance", "verdicts")
    )
    + "end\n"
)


def block(words: str, name: str) -> str:
    return next(m.group(2) for m in readme.BLOCK.finditer(words) if m.group(1) == name)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "README.md"
    path.write_text(WORDS)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[Path]]:
    """A page of the invented reference runs: it, the folder of these runs, and what was changed."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "reference").mkdir()
    write_reference(folder / "reference")
    page = folder / "README.md"
    page.write_text(WORDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "reference", lambda: folder / "reference")
        patch.chdir(folder)
        return page, folder / "reference", readme.refresh(page)


def test_blocks_hold_the_numbers_of_the_reference_runs(made: tuple[Path, Path, list[Path]]) -> None:
    page, _, changed = made
    assert changed == [page, page.parent / readme.FIGURE]
    words = page.read_text()
    assert words.startswith("# Title\n")
    assert words.endswith("\nend\n")
    table = block(words, "headline")
    dsp = next(line for line in table.splitlines() if line.startswith("| 2 |") and "| DSP(1,0;2,0)" in line)
    assert "1.77 [1.75, 1.80] (3/3)" in dsp
    assert "1.5 to 4.8 x (abstract and body)" in dsp
    assert "Reference runs of the project" in table
    three = next(
        line for line in table.splitlines() if line.startswith("| 3 |") and "| DSP(1,1,0;4,2,0)" in line
    )
    assert "not testable here" in three
    assert "3.5 % (body)" in next(line for line in table.splitlines() if "| top1 s1 |" in line)
    assert f"]({readme.FIGURE.as_posix()})" in block(words, "figure")
    assert [
        line.split(" | ")[0] for line in block(words, "claims").splitlines() if line[:3] in ("| D", "| G")
    ] == [
        *(f"| D{i}" for i in range(1, 9)),
        *(f"| G{i}" for i in range(1, 10)),
    ]


def test_the_narrow_tables_say_the_same_in_seven_columns(made: tuple[Path, Path, list[Path]]) -> None:
    page = made[0]
    lines = block(page.read_text(), "glance").splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert max(line.count(" | ") for line in tables) == 6
    dsp = next(line for line in tables if line.startswith("| 2 | DSP(1,0;2,0)"))
    assert "1.77 [1.75, 1.80] (3/3)" in dsp
    assert not any("- | - | - | - | -" in line for line in tables), "a row without a trained run"
    assert "Slow-down" not in "".join(lines)
    judged = [
        line.split(" | ")
        for line in block(page.read_text(), "verdicts").splitlines()
        if line[:3] in ("| D", "| G")
    ]
    full = [
        line.split(" | ")
        for line in block(page.read_text(), "claims").splitlines()
        if line[:3] in ("| D", "| G")
    ]
    assert [row[2].rstrip(" |") for row in judged] == [row[2] for row in full]


def test_the_same_runs_give_the_same_bytes_and_other_runs_do_not(
    made: tuple[Path, Path, list[Path]], tmp_path: Path, reference: Path
) -> None:
    """On copies: other tests look at the page as it was made."""
    page = tmp_path / "README.md"
    shutil.copy(made[0], page)
    (page.parent / readme.FIGURE).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made[0].parent / readme.FIGURE, page.parent / readme.FIGURE)
    shutil.copytree(made[1], reference, dirs_exist_ok=True)
    first = page.read_bytes(), (page.parent / readme.FIGURE).read_bytes()
    assert readme.refresh(page) == []
    assert (page.read_bytes(), (page.parent / readme.FIGURE).read_bytes()) == first
    make_run(
        reference,
        "dsp-resnet98-k2",
        2,
        profile="reference",
        epochs=training(8, best=70.0),
        begun=1e9,
        seconds_per_batch=0.2,
    )
    assert readme.refresh(page) == [page, page.parent / readme.FIGURE]


def test_runs_of_the_user_change_nothing(page: Path, reference: Path, runs: Path) -> None:
    """`runs` are the user's own, in the default folder of this one."""
    readme.refresh(page)
    assert block(page.read_text(), "headline").strip() == readme.NOTHING
    assert not (page.parent / readme.FIGURE).exists()


def test_wrong_markers_are_named() -> None:
    for words, sentence in (
        ("nothing", "no marker"),
        ("<!-- repro:headlin -->\n<!-- /repro:headlin -->\n", "unknown block 'headlin'"),
        ("<!-- repro:claims -->\nx\n", "has no end"),
    ):
        with pytest.raises(UserError, match=sentence):
            readme.fresh(words)


def test_the_command_says_what_it_changed(page: Path, repro: Callable[..., Any]) -> None:
    page.write_text("<!-- repro:headline -->\n<!-- /repro:headline -->\n")
    done = repro("report", "--readme", str(page), cwd=page.parent)
    assert done.returncode == 0, done.stderr
    assert not (page.parent / "results" / "report.html").exists()
    wrong = repro("report", "--readme", str(page.parent / "missing.md"), cwd=page.parent)
    assert wrong.returncode == 1
    assert "missing.md" in wrong.stderr


def test_a_verdict_that_more_seeds_might_turn_says_so(made: tuple[Path, Path, list[Path]]) -> None:
    page = made[0]
    lines = block(page.read_text(), "claims").splitlines()
    d2 = next(line for line in lines if line.startswith("| D2 |")).split(" | ")
    # K = 3 at three settings, and K = 2 beside it
    assert d2[2] == "reproduced: 2 of 4, not reproduced (undecided): 1 of 4, not reproduced: 1 of 4"
    assert d2[3].count("points") == 3
