"""Inside the K-process engine every estimator gives the bits of the one-process oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro.verification import compare


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        ("random", {"name": "ddg"}),
        ("sampled", {"name": "gpipe", "micro": 2}),
        ("top1", {"name": "dsp", "staleness": "p=1 q=1"}),
    ],
)
def test_equals_oracle(estimator: str, method: dict[str, Any], tiny: Callable[..., Any], tmp_path: Path) -> None:
    """Kept graphs (ddg), replayed forwards (dsp) and micro-batches (gpipe): the numbers never depend on the cut."""
    recipe = tiny(
        **{"method": method, "blocks": 2, "max_steps": 8, "gradient.estimator": estimator, "gradient.schedule": "s3"}
    )
    found = compare(recipe, 0, "cpu", tmp_path)
    assert found.holds(0.0), "\n".join(found.lines(0.0))
