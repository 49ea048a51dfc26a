"""The same numbers in every format, safe for LaTeX and Markdown, equal bytes whatever the order and the locale."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from repro.errors import UserError
from repro.report import tables
from repro.report.pages import formats
from repro.report.rounding import decimals_for, fixed
from repro.report.stats import Estimate
from repro.report.table import Column, Measured, Table
from tests.conftest import ROOT

COLUMNS = [Column("method", "method"), Column("accuracy", "accuracy %", decimals=2, number=True)]


def one_row(method: str = "a_b%&", estimate: Estimate | None = None) -> Table:
    value = Measured(estimate or Estimate(89.995, 88.99, 91.0, 3), 5)
    return Table(
        "test", COLUMNS, [{"method": method, "accuracy": value}], ["50 % of #1 & a_b"], ["seed 3 failed"]
    )


def test_rounding_is_half_up_on_what_was_meant() -> None:
    assert fixed(89.995, 2) == fixed((89.99 + 90.0) / 2, 2) == "90.00"
    assert (fixed(0.125, 2), fixed(-0.001, 2), fixed(2.675, 2)) == ("0.13", "0.00", "2.68")
    assert fixed(float("inf"), 2) == "inf"
    assert [decimals_for(x) for x in (0.0123, 1.5, 123.4, 0.0)] == [4, 2, 0, 2]


def test_all_formats_show_the_same_number() -> None:
    table = one_row()
    for format in ("txt", "md", "csv", "latex"):
        assert "90.00" in formats.render(table, format), format
    assert json.loads(formats.render(table, "json"))["rows"][0]["accuracy"] == 89.995


def test_json_has_low_high_and_n_beside_each_mean() -> None:
    document = json.loads(formats.render(one_row(), "json"))
    assert set(document) == {"rows", "environment"}
    row = document["rows"][0]
    assert (row["accuracy_low"], row["accuracy_high"], row["accuracy_n"], row["n"], row["started"]) == (
        88.99,
        91.0,
        3,
        3,
        5,
    )


def test_cell_of_one_seed_has_no_bar_and_of_none_a_dash() -> None:
    assert "90.00 (1/5)" in formats.render(one_row(estimate=Estimate(90.0, None, None, 1)), "txt")
    empty = Table("test", COLUMNS, [{"method": "x", "accuracy": Measured(None, 5)}])
    assert "- (0/5)" in formats.render(empty, "txt")
    assert "nan" not in formats.render(empty, "json").lower()


def test_latex_is_escaped_and_well_formed() -> None:
    text = formats.render(one_row("a_b%&#$~^{}\\|<x> [1]"), "latex")
    body = text[text.index(r"\hline") : text.index(r"\end{tabular}")]
    assert r"a\_b\%\&\#\$" in text
    assert re.search(r"\\caption\{50 \\% of \\#1 \\& a\\_b\}", text)
    for line in body.split("\n"):
        if line.endswith(r"\tabularnewline"):
            assert len(re.findall(r"(?<!\\)&", line)) == len(COLUMNS) - 1
            assert not line.startswith("[")
    assert not re.search(r"(?<!\\)%(?!\n)", text.split("\n% ")[0])
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert text.isascii()


def test_markdown_cells_cannot_break_the_table() -> None:
    text = formats.render(one_row("a|b\nc"), "md")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert r"a\|b c" in rows[2]


def test_csv_parses_and_txt_has_an_ascii_form() -> None:
    rows = list(csv.DictReader(io.StringIO(formats.render(one_row('say "x", y'), "csv"))))
    assert rows[0]["method"] == 'say "x", y'
    assert (rows[0]["accuracy_low"], rows[0]["accuracy_n"]) == ("88.99", "3")
    plain = formats.render(one_row("Müller → ±"), "txt", ascii=True)
    assert plain.isascii()
    assert "90.00 +- 1.01 (3/5)" in plain
    assert "Muller -> +-" in plain


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="Did you mean 'latex'"):
        formats.render(one_row(), "latx")
    with pytest.raises(UserError, match="Did you mean 'speedup'"):
        tables.build("spedup", Path("."))
    with pytest.raises(UserError, match="last, best"):
        tables.build("accuracy", Path("."), select="middle")


def test_context_that_all_rows_share_moves_to_the_caption() -> None:
    columns = [Column("model", "model", context=True), Column("x", "x")]
    table = Table("test", columns, [{"model": "resnet98", "x": 1}, {"model": "resnet98", "x": 2}])
    text = formats.render(table, "txt")
    assert "All rows: model: resnet98." in text
    assert "model" not in text.splitlines()[0]
    assert all(row["model"] == "resnet98" for row in json.loads(formats.render(table, "json"))["rows"])


def test_same_bytes_whatever_the_order_of_runs_and_the_locale(runs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "runs"
    for path in sorted(runs.glob("*/*/seed-*"), reverse=True):
        shutil.copytree(path, other / path.relative_to(runs))
    code = (
        "import sys; from pathlib import Path; from repro.report import tables; from repro.report.pages import formats;"
        "sys.stdout.reconfigure(encoding='utf-8');"
        "[sys.stdout.write(formats.render(tables.build(n, Path(sys.argv[1])), f))"
        " for n in ('speedup', 'accuracy') for f in formats.FORMATS]"
    )
    outputs = []
    for root, language in ((runs, "C"), (other, "de_DE.UTF-8")):
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "LC_ALL": language,
            "PYTHONHASHSEED": str(len(language)),
        }
        done = subprocess.run(
            [sys.executable, "-c", code, str(root)], capture_output=True, env=environment, check=True
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 2000
