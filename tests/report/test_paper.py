"""The write-up: from stored runs alone, and a sentence where there are none."""

import shutil
from pathlib import Path

import pytest

from repro.errors import RunFailed
from repro.report.pages import paper
from tests.report.factory import make_run, training


@pytest.fixture
def some(tmp_path: Path) -> Path:
    for name in ("bp-resnet98-k2", "dsp-resnet98-k2"):
        for seed in range(2):
            make_run(tmp_path / "runs", name, seed, epochs=training(3, best=90.0 + seed))
    return tmp_path / "runs"


def test_it_is_made_of_stored_runs(some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "ENGINES", ())
    files, notes = paper.write(tmp_path / "out" / "paper.tex", some)
    assert files == [tmp_path / "out" / "paper.tex"]
    assert any("no TeX engine" in note for note in notes)
    words = files[0].read_text()
    for part in (
        "Verdicts",
        "Main tables",
        "What these runs do not say",
        "DSP(1,0;2,0)",
        "Test processor",
        "not run yet",
    ):
        assert part in words
    assert (tmp_path / "out" / "paper-figures" / "loss.pdf").is_file()
    again, _ = paper.write(tmp_path / "again" / "paper.tex", some)
    assert again[0].read_text() == words


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on PATH: make tools")
def test_it_compiles(some: Path, tmp_path: Path) -> None:
    files, _ = paper.write(tmp_path / "paper.tex", some)
    assert files[1].read_bytes().startswith(b"%PDF")


def test_no_runs_are_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs" / "holiday" / "photos").mkdir(parents=True)
    (tmp_path / "runs" / "holiday" / "photos" / "beach.jpg").write_bytes(b"no run")
    with pytest.raises(RunFailed, match="no runs to write about"):
        paper.write(tmp_path / "paper.tex", tmp_path / "runs")
    assert not (tmp_path / "paper.tex").exists()
