"""Every table's LaTeX compiles, fits the page, and says what the other formats say."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from repro.report import tables
from repro.report.pages import formats
from repro.report.pages.latex import PACKAGES
from repro.report.stats import Estimate
from repro.report.table import Column, Measured, Table
from tests.report.factory import write_benches
from tests.report.reference_set import write_reference
from tests.report.stale_set import write_stale

COLUMNS = [
    Column("claim", "claim", once=True),
    Column("words", "words", wrap=20),
    Column("x", "a long header of x", number=True),
]


def compiler() -> list[str] | None:
    if path := shutil.which("pdflatex"):
        return [path, "-interaction=nonstopmode", "-halt-on-error"]
    return [path] if (path := shutil.which("tectonic")) else None


@pytest.mark.skipif(compiler() is None, reason="neither pdflatex nor tectonic on PATH: make tools")
def test_every_table_compiles_and_fits(tmp_path: Path, reference: Path) -> None:
    write_reference(reference)
    write_stale(reference)
    write_benches(reference)
    names = list(tables.names())
    parts = [formats.render(tables.build(name, tmp_path / "none"), "latex") for name in names]
    assert sum("tabular" in part for part in parts) >= len(names) - 1  # memory-formats: of this machine
    body = "\n\\clearpage\n".join(parts)
    (tmp_path / "all.tex").write_text(
        f"\\documentclass{{article}}{PACKAGES}\\begin{{document}}\n{body}\n\\end{{document}}\n"
    )
    command = compiler()
    assert command is not None
    for _ in range(2):  # the second time knows the labels
        done = subprocess.run(
            [*command, "all.tex"], cwd=tmp_path, capture_output=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    log = (tmp_path / "all.log").read_text(errors="replace") if (tmp_path / "all.log").exists() else ""
    assert "Overfull \\hbox" not in log
    assert "Float too large" not in log
    assert "undefined" not in log


def test_a_long_table_is_cut_between_its_groups() -> None:
    value = Measured(Estimate(1.0, 0.9, 1.1, 5), 5)
    rows = [{"claim": f"C{i // 4}", "words": f"word {i} " * 6, "x": value} for i in range(40)]
    text = formats.render(Table("long", COLUMNS, rows, ["a caption"]), "latex")
    pages = re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", text, re.DOTALL)
    assert len(pages) > 2
    for page in pages:
        first = [line for line in page.splitlines() if "word" in line and "&" in line][1]
        assert first.startswith("C"), "a page that begins within a group does not say which"
    assert sum(page.count("word 0 ") for page in pages) == 6
    assert text.count("a caption") == 1


def test_a_count_that_all_cells_share_stands_in_the_caption() -> None:
    cells = [Measured(Estimate(1.0, 0.9, 1.1, n), 5) for n in (5, 5)]
    rows = [{"claim": "a", "words": "b", "x": cell} for cell in cells]
    text = formats.render(Table("t", COLUMNS, rows), "latex")
    assert text.count("(5/5)") == 1
    assert "In every cell (5/5)." in text
    rows[1]["x"] = Measured(Estimate(1.0, 0.9, 1.1, 4), 5)
    text = formats.render(Table("t", COLUMNS, rows), "latex")
    assert (text.count("(5/5)"), text.count("(4/5)")) == (1, 1)


def test_headers_are_broken_and_minus_is_a_minus() -> None:
    rows = [{"claim": "a", "words": "--seeds 5", "x": -1.5}]
    text = formats.render(Table("t", COLUMNS, rows), "latex")
    assert r"\shortstack[r]{a long\\header of x}" in text
    assert "$-$1.50" in text
    assert "-{}-seeds 5" in text, "an option is no dash"
