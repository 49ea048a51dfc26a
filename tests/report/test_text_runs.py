"""Runs on a text in tables, figures, diff and pages: losses per byte where others have accuracies."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from repro.progress import score, score_words
from repro.report import diff, figures, tables
from repro.report.pages import html
from repro.report.stored.source import Source
from repro.report.table import Measured
from tests.report.factory import make_run, training

BITS = {"bp-gpt-k2": 2.0, "dsp-gpt-k2": 2.25}


def text_run(root: Path, recipe: str, seed: int, **more: Any) -> Path:
    """A finished run whose loss falls to BITS (+ seed / 100) in the third of four epochs, and rises again."""
    bits = [BITS[recipe] + rise + seed / 100 for rise in (2.0, 1.0, 0.0, 0.5)]
    rows = [
        {"train_loss": b * math.log(2), "test_loss": b * math.log(2), "test_bits_per_byte": b, "train_seconds": 1.0 * e}
        for e, b in enumerate(bits, start=1)
    ]  # fmt: skip
    found = {"test_bits_per_byte_last": bits[-1], "test_bits_per_byte_best": min(bits)}
    return make_run(root, recipe, seed, epochs=rows, **{**found, **more})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed in range(5):
        for recipe, number in (("bp-gpt-k2", "0" * 12), ("dsp-gpt-k2", "1" * 12)):
            text_run(tmp_path, recipe, seed, number=number)
    return tmp_path


def mean(value: Any) -> float:
    assert isinstance(value, Measured)
    assert value.estimate is not None
    assert value.n == 5
    return value.estimate.mean


def test_the_table_has_bits_per_byte(runs: Path) -> None:
    table = tables.build("text-loss", runs)
    assert [row["method"] for row in table.rows] == ["BP, AdamW", "DSP(1,0;2,0), AdamW"]
    bp, dsp = table.rows
    assert mean(bp["bits_per_byte_last"]) == pytest.approx(2.52)
    assert mean(bp["bits_per_byte_best"]) == pytest.approx(2.02)
    assert mean(dsp["difference"]) == pytest.approx(0.25)
    assert dsp["difference"].estimate.half < 1e-9  # type: ignore[union-attr] # in pairs by seed
    assert "perplexity_last" not in [column.name for column in table.columns]
    assert dsp["data"] == "text 152@16"
    best = tables.build("text-loss", runs, select="best")
    assert [c.name for c in best.columns if c.name.startswith("bits")] == [
        "bits_per_byte_best",
        "bits_per_byte_last",
    ]


def test_perplexity_is_there_where_tokens_are_subwords(runs: Path) -> None:
    for seed in range(5):
        text_run(runs, "bp-gpt-k2", seed, number="2" * 12, settings={"data.tokenizer": "a/bpe.json"},
                 test_perplexity_last=20.0, test_perplexity_best=10.0)  # fmt: skip
    rows = tables.build("text-loss", runs).rows
    (row,) = [row for row in rows if row["data"] == "text bpe.json 152@16"]
    assert mean(row["perplexity_last"]) == 20.0
    assert (
        sum(row["data"] == "text 152@16" for row in rows) == 2
    )  # another text is another row, and no baseline
    assert row["difference"] is None


def test_tables_of_accuracies_leave_texts_out(runs: Path) -> None:
    make_run(runs, "bp-resnet98-k2", epochs=training())
    # A user's own recipe on a text is in the first paper's group.
    text_run(runs, "bp-gpt-k2", 0, number="3" * 12, settings={"group": "dsp"})
    for name in ("accuracy", "headline-pipeline"):
        table = tables.build(name, runs)
        assert {row["model"] for row in table.rows} == {"resnet98"}, name
    assert {row["model"] for row in tables.build("text-loss", runs).rows} == {"gpt"}
    assert {row["model"] for row in tables.build("speedup", runs).rows} == {"gpt", "resnet98"}
    claims = tables.build("claims", runs).rows
    of_the_papers = [
        row for row in claims if not str(row["claim"]).startswith("A")
    ]  # A1 to A5 are about texts
    assert len(of_the_papers) > 10
    assert not any("gpt" in str(row) for row in of_the_papers)


def test_every_table_and_figure_takes_a_text_run(runs: Path) -> None:
    for name in tables.names():
        tables.build(name, runs, fallback=False)
    encode, _ = figures.draw_from("loss", Source(runs, fallback=False))
    svg = encode("svg").decode()
    assert "test loss [bits per byte]" in svg
    assert "train loss [nats per token]" in svg
    make_run(runs, "bp-resnet98-k2", epochs=training())
    page, _ = html.page(runs, fallback=False)
    assert "test loss, bits per byte (last)" in page


def test_diff_compares_losses_per_byte(runs: Path) -> None:
    a, b = (next(runs.glob(f"{recipe}/*/seed-0")) for recipe in BITS)
    rows = {str(row["what"]): row for row in diff.compare(str(a), str(b), runs).rows}
    assert rows["test_bits_per_byte_last"]["change"] == "0.25"
    assert "test_accuracy" not in rows
    means = {str(row["what"]): row for row in diff.compare(*BITS, runs).rows}
    assert mean(means["test_bits_per_byte_best"]["change"]) == pytest.approx(0.25)
    assert "test_accuracy_last" not in means


def test_progress_says_what_was_measured() -> None:
    text = {"test_loss": 1.5, "test_bits_per_byte": 2.164, "test_perplexity": 4.48}
    assert score_words(text) == "test 2.164 bits/byte, perplexity 4.5"
    assert score(text) == "2.164 bits/byte"
    assert score_words({"test_loss": 0.1, "test_accuracy": 97.0}) == "test accuracy 97.00 %"
    assert score({"test_accuracy": 97.0}) == "acc 97.00 %"
    assert score_words({"test_accuracy_last": None}, "_last") == ""
