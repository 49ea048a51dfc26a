"""A whole set of invented reference runs: what every table, figure and claim can be made from, in a second or two."""

from __future__ import annotations

import random
from pathlib import Path

from repro.store import to_json
from tests.report.factory import make_run, training

SEEDS = 3
PIPELINE = {  # best accuracy
    "bp": 80.0, "gpipe": 79.0, "dni": 60.0, "fr": 79.9, "ddg": 79.5, "dsp": 79.8,
}  # fmt: skip
SECONDS = {"bp": 0.30, "gpipe": 0.26, "fr": 0.22, "ddg": 0.20, "dsp": 0.17}  # per batch, K = 2
SLOW = {"bp": 60.0, "fr": 40.0, "ddg": 38.0, "dsp": 25.0, "dsp-s630": 15.0, "dsp-s1470": 9.0}  # percent
GRADIENT = {  # best accuracy, seconds of training
    "full-resnet20": (85.0, 10.0), "zero-resnet20-s1": (84.0, 9.3), "random-resnet20-s1": (83.0, 9.9),
    "top1-resnet20-s1": (84.5, 9.5), "top1-resnet20-s1-paper": (84.1, 9.5), "sampled-resnet20-s1": (84.8, 9.6),
    "full-resnet14": (84.7, 7.0), "full-cnn2": (86.0, 5.0), "top1-cnn2": (85.0, 5.4),
}  # fmt: skip


def write_reference(root: Path, *, profile: str = "reference", seeds: int = SEEDS) -> None:
    """Every kind of run under `root`, each seed a little different, and the benchmarks under `root`/bench."""
    for seed in range(seeds):
        drift = random.Random(seed).uniform(-0.4, 0.4)
        _pipeline(root, profile, seed, drift)
        _gaps(root, profile, seed, drift)
        for name, (best, seconds) in GRADIENT.items():
            uses = {"uses": {"full": 14, "top1": 5}} if not name.startswith("full") else None
            rows = training(6, best=best + drift + random.Random(f"{name}{seed}").uniform(-0.2, 0.2))
            noise = 1 + random.Random(f"{name}{seed}").uniform(-0.002, 0.002)
            make_run(
                root, name, seed, profile=profile, epochs=rows, train_seconds=seconds * noise, gradient=uses,
                begun=1e9 + seed,
            )  # fmt: skip
        bias = [
            {"layer": layer, "estimator": e, "scale": "natural", "pairs": 30, "relative_bias": b + seed / 100,
             "relative_bias_low": low, "relative_bias_high": b + 0.1, "cosine": 0.5, "cosine_low": 0.4, "cosine_high": 0.6,
             "mean_cosine": 0.7, "norm_ratio": 1.1}
            for layer in ("stage1.0.conv1", "stage3.2.conv2")
            for e, b, low in (("top1", 0.6, 0.5), ("sampled", 0.02, 0.0))
        ]  # fmt: skip
        make_run(root, "bias-resnet20", seed, profile=profile, steps=0, bias=bias, begun=1e9)
    _benchmarks(root / "bench")


def _pipeline(root: Path, profile: str, seed: int, drift: float) -> None:
    extra = {"dsp-resnet98-s630": 79.5, "dsp-resnet98-s1470": 78.9}
    for name, best in {**{f"{m}-resnet98": b for m, b in PIPELINE.items()}, **extra}.items():
        noise = random.Random(f"{name}{seed}").uniform(-0.2, 0.2)
        queues = {"dsp-resnet98-s630": 2, "dsp-resnet98-s1470": 4}.get(name, 1) * 500_000
        make_run(
            root, name, seed, profile=profile, epochs=training(8, best=best + drift + noise), begun=1e9 + seed,
            oversubscribed=True, cores=2, activation_bytes=[2_000_000 + queues, 2_000_000, 2_000_000],
            memory_formula_bytes=[3_000_000 + queues, 3_000_000, 3_000_000],
            timeline=_spans() if seed == 0 else None,
        )  # fmt: skip
    for method, seconds in SECONDS.items():
        name = f"{method}-resnet98-k2"
        noise = 1 + random.Random(f"{name}{seed}").uniform(-0.01, 0.01)
        make_run(
            root, name, seed, profile=profile, epochs=training(8, best=PIPELINE[method] + drift), begun=1e9,
            seconds_per_batch=seconds * noise, busy_seconds=[0.145, 0.15],
        )  # fmt: skip
    for name, percent in SLOW.items():
        method, _, setting = name.partition("-")
        found = {"clean_seconds": 10.0, "delayed_seconds": 10.0 * (1 + (percent + drift) / 100)}
        recipe = f"straggler-{method}-resnet98" + (f"-{setting}" if setting else "")
        make_run(root, recipe, seed, profile=profile, epochs=training(2), straggler=found, begun=1e9)


def _gaps(root: Path, profile: str, seed: int, drift: float) -> None:
    for setting, size in (("", 1.0), ("-s1470", 3.0)):
        for optimizer in ("", "-sgd"):
            rows = [
                {"kind": "gap", "step": t, "difference": [size * (1 + drift / 10) / (t + 30)] * 3, "cosine": [0.9] * 3,
                 "gradient_norm": 2.0 / (t + 10) * (1 + drift / 10)}
                for t in [*range(100), *range(100, 150, 10)]
            ]  # fmt: skip
            name = f"gradient-gap-dsp-resnet98{setting}{optimizer}"
            make_run(root, name, seed, profile=profile, epochs=training(2), extra_rows=rows, begun=1e9)


def _spans() -> list[list[object]]:
    return [
        [block, f"{kind}{i}", 3 * i + block + at, 3 * i + block + at + 1, False]
        for block in range(3)
        for i in range(9)
        for at, kind in enumerate("FBU")
    ]


def _benchmarks(folder: Path) -> None:
    def timed(name: str, value: float) -> dict[str, float]:
        return {name: value, f"{name}_low": 0.98 * value, f"{name}_high": 1.02 * value, f"{name}_n": 5}

    kernels = [
        {"shape": shape, "layout": layout, "kernel": "cpu", "n": 11, "error": 1e-7, "chosen": True,
         **timed("dense_ms", 20.0), **timed("ms", 20.0 / ratio), **timed("ratio", ratio)}
        for shape, ratio in (("16->16 @32", 4.0), ("512->512 @2", 2.0))
        for layout in ("contiguous", "channels_last")
    ]  # fmt: skip
    mean = {"shape": "geometric mean", "layout": "fastest", "kernel": "cpu", "ratio": 1.5}
    network = {"model": "resnet20", "layout": "channels_last", "n": 31, "seconds": 0.2}
    networks = [
        {**network, "estimator": "full", "schedule": "none"},
        {**network, "estimator": "full", "schedule": "s1", "filter_seconds": 0.01},
        {**network, "estimator": "zero", "schedule": "s1", "filter_seconds": 1e-4, **timed("saved", 0.05)},
        {**network, "estimator": "top1", "schedule": "s1", "filter_seconds": 0.004, **timed("saved", 0.03),
         **timed("share_of_zero", 0.6), **timed("filter_share_of_zero", 0.6)},
    ]  # fmt: skip
    engine = [
        {"method": method, "blocks": 2, "model": "resnet98", "bound": 1.7, "oversubscribed": False,
         "memory_over_formula": [1.01, 1.02], **timed("seconds_per_batch", 1 / speed), **timed("overhead", 1.02),
         **timed("speedup_over_bp", speed), **timed("share_of_bound", 0.98)}
        for method, speed in (("BP", 1.0), ("DSP(1,0;2,0)", 1.7), ("FR (free)", 1.7), ("FR (barrier)", 1.2))
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("kernels", [*kernels, mean, *networks]), ("engine", engine)):
        document = {"rows": rows, "environment": {"processor": "Test processor, 4 cores"}}
        (folder / f"{name}.json").write_text(to_json(document, indent=1) + "\n")
