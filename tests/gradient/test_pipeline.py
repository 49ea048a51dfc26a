"""Inside the K-process engine every estimator gives the bits of the one-process oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.errors import MissingError
from repro.planning.gradient_plan import check_gradient, fallback_words, summary
from repro.planning.run_plan import make_plan
from repro.verification import compare


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        ("random", {"name": "ddg"}),
        ("sampled", {"name": "gpipe", "micro": 2}),
        ("top1", {"name": "dsp", "staleness": "p=1 q=1"}),
    ],
)
def test_equals_oracle(
    estimator: str, method: dict[str, Any], tiny: Callable[..., Any], tmp_path: Path
) -> None:
    """Kept graphs (ddg), replayed forwards (dsp) and micro-batches (gpipe): the numbers never depend on the cut."""
    recipe = tiny(
        **{
            "method": method,
            "blocks": 2,
            "max_steps": 8,
            "gradient.estimator": estimator,
            "gradient.schedule": "s3",
        }
    )
    found = compare(recipe, 0, "cpu", tmp_path)
    assert found.holds(0.0), "\n".join(found.lines(0.0))


def test_what_measured_left_out_enters_the_realised_fraction(tiny: Callable[..., Any]) -> None:
    plan = make_plan(tiny(**{"gradient.estimator": "zero", "gradient.schedule": "measured"}), "cpu")
    report = {"uses": {}, "fallbacks": [{"layer": "a", "reason": "autocast", "count": 2}], "kernels": {}}
    assert summary(plan, [report])["fraction_layers"] is None
    everything = {str(n): True for n in range(1, 99)}
    assert summary(plan, [{**report, "faster": everything}])["fraction_layers"] == 1.0
    found = summary(plan, [{**report, "faster": {**everything, "1": False}}])
    assert 0 < found["fraction_layers"] < 1
    assert fallback_words(found) == "full gradient in place of the estimate: a (autocast, 2 times)"
    assert fallback_words({**found, "fallbacks": []}) == ""


def test_bias_runs_refuse_a_kernel_that_is_not_here(
    tiny: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    plan = make_plan(tiny(**{"experiment": "bias", "gradient.kernel": "cupy"}), "cpu")
    with pytest.raises(MissingError, match="needs a CUDA GPU"):
        check_gradient(plan)
