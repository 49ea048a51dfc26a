"""What cannot be trained is refused when the run is planned, with the field and what to give instead."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from repro.errors import UserError
from repro.models import LayerFactory
from repro.planning.run_plan import make_plan


def small(tiny: Callable[..., Any], batch: int, samples: int, side: int = 4, **more: Any) -> Any:
    """resnet8 ends in maps of 1x1 on images of 4x4."""
    data = {
        "name": "synthetic",
        "batch_size": batch,
        "train_limit": samples,
        "test_limit": 8,
        "image_size": side,
    }
    return tiny(
        model={"name": "resnet8"}, blocks=2, epochs=1, **{"data": {**data, **more.pop("data", {})}, **more}
    )


@pytest.mark.parametrize(
    ("batch", "samples", "method", "words"),
    [
        (
            8,
            16,
            {"name": "gpipe", "micro": 8},
            r"method\.micro = 8 on a batch of 8 samples.* 1x1 map.* in 1\.\.4, or larger",
        ),
        (
            8,
            11,
            {"name": "gpipe", "micro": 2},
            r"method\.micro = 2 on a batch of 3 samples.* in 1\.\.1, .*last_batch=drop",
        ),
        (
            8,
            9,
            {"name": "bp"},
            r"data\.last_batch = 'keep' leaves a batch of 1 .* give data\.last_batch=drop",
        ),
        (1, 4, {"name": "bp"}, r"data\.batch_size = 1: .* give data\.batch_size >= 2"),
    ],
)
def test_one_value_has_no_variance(
    tiny: Callable[..., Any], batch: int, samples: int, method: Any, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        make_plan(small(tiny, batch, samples, method=method), "cpu")


def test_what_has_a_variance_is_planned(tiny: Callable[..., Any]) -> None:
    gpipe = {"name": "gpipe", "micro": 4}
    make_plan(small(tiny, 8, 16, method=gpipe), "cpu")
    make_plan(small(tiny, 8, 16, side=8, method={"name": "gpipe", "micro": 8}), "cpu")
    make_plan(small(tiny, 8, 11, method=gpipe, data={"last_batch": "drop"}), "cpu")
    make_plan(small(tiny, 8, 9, max_steps=1), "cpu")  # the small batch is never met


@pytest.mark.parametrize("blocks", [1, 2])
def test_tied_layers_are_refused(
    tiny: Callable[..., Any], blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tied = nn.Conv2d(3, 3, 3, padding=1)
    factories = [LayerFactory("first", lambda: tied), LayerFactory("second", lambda: nn.Sequential(tied))]
    monkeypatch.setattr("repro.models.layers", lambda *_: factories)
    with pytest.raises(UserError, match=r"first\.weight and second\.0\.weight"):
        make_plan(tiny(blocks=blocks), "cpu")
