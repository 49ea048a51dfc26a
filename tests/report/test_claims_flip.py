"""Each claim's verdict follows its runs: invented ones that hold it, that do not, and that cannot say."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from repro.report import tables
from repro.store import to_json
from tests.report.factory import make_run, training

YES, NO, UNTESTABLE = "reproduced", "not reproduced", "not testable here"
EQUAL_TIME, EQUAL_POINTS = "equal within 2 %", "equal within 0.5 points"
Write = Callable[[Path], object]


def verdicts(root: Path, claim: str) -> list[str]:
    return [str(row["verdict"]) for row in tables.build("claims", root).rows if row["claim"] == claim]


def each(root: Path, names: Mapping[str, Mapping[str, Any]], seeds: int = 3, **fields: Any) -> None:
    """Three seeds of each recipe; numbers in the fields of a recipe drift a little with the seed, alike in all."""
    for name, own in names.items():
        for seed in range(seeds):
            moved = {key: _moved(value, seed) for key, value in {**fields, **own}.items()}
            make_run(root, name, seed, **moved)


def _moved(value: Any, seed: int) -> Any:
    return value(seed) if callable(value) else value


def speed(**seconds: float) -> Write:
    """Time per batch at K = 2, FR under all rules."""
    rules = {
        "fr_mailbox": "fr-resnet98-k2",
        "fr_barrier": "fr-resnet98-barrier",
        "fr_free": "fr-resnet98-free",
    }

    def write(root: Path) -> None:
        for name, value in seconds.items():
            recipe = rules.get(name, f"{name}-resnet98-k2")
            each(
                root,
                {recipe: {"seconds_per_batch": lambda s, v=value: v * (1 + s / 50)}},
                settings={"blocks": 2},
            )

    return write


def accuracy(**best: float) -> Write:
    return lambda root: each(
        root,
        {
            f"{m}-resnet98": {"epochs": lambda s, b=b, m=m: training(9, best=b + s + 0.01 * len(m) * s)}
            for m, b in best.items()
        },
    )


def slowdown(percents: Mapping[str, float], **fields: Any) -> Write:
    def found(percent: float) -> Callable[[int], dict[str, float]]:
        return lambda s: {
            "clean_seconds": 10.0,
            "delayed_seconds": 10.0 + (percent + s * (1 + percent / 99)) / 10,
        }

    names = {f"straggler-{m}": {"straggler": found(p)} for m, p in percents.items()}
    return lambda root: each(root, names, settings={"blocks": 2}, **fields)


def gap(trends: Mapping[str, float], *, last_block: float | None = None, hump: float = 0.0) -> Write:
    """Per recipe the value at the end of the first hundred steps over that at the start.

    `last_block`: the same of block 2 alone. `hump`: added to the norm of the gradient from step 1 to step 50.
    """

    def rows(trend: float) -> Callable[[int], list[dict[str, Any]]]:
        def at(t: int, s: int, trend: float = trend) -> float:
            return (1 + (trend - 1) * t / 100) * (1 + 0.01 * s + 0.001 * s * t / 100)

        def row(t: int, s: int) -> dict[str, Any]:
            large = 100 * at(t, s)  # the first blocks' differences hide the last one's in a mean
            difference = [large, large, at(t, s, last_block or trend)]
            return {"difference": difference, "gradient_norm": at(t, s) + (hump if 0 < t < 50 else 0.0)}

        return lambda s: [{"kind": "gap", "step": t, **row(t, s)} for t in range(100)]

    return lambda root: each(
        root, {f"gradient-gap-dsp-resnet98{r}": {"extra_rows": rows(t)} for r, t in trends.items()}
    )


def memory(short: float, long: float) -> Write:
    """Counted bytes of block 0 for short and long queues where the formula says 4 and 8 million."""

    def block_0(counted: float, formula: float) -> dict[str, Any]:
        return {
            "activation_bytes": [int(counted * 1e6), 10**6, 10**6], "static_bytes": [0, 0, 0],
            "memory_formula_bytes": [int(formula * 1e6), 10**6, 10**6],
        }  # fmt: skip

    return lambda root: each(
        root, {"dsp-resnet98": block_0(short, 4), "dsp-resnet98-s1470": block_0(long, 8)}, seeds=1
    )


def saved(recipe: str, percent: float) -> Write:
    """Time that a recipe saves of the full gradient's."""
    full = f"full-{recipe.split('-')[1]}"
    times = {full: 100.0, recipe: 100.0 - percent}
    return lambda root: each(
        root, {name: {"train_seconds": lambda s, t=t: t * (1 + s / 99) + s / 50} for name, t in times.items()}
    )


def kernels(*ratios: float) -> Write:
    def write(root: Path) -> None:
        rows = [
            {"shape": str(r), "layout": "contiguous", "kernel": "cpu", "dense_ms": r, "ms": 1.0, "n": 11, "ratio": r,
             "ratio_low": r - 0.1, "ratio_high": r + 0.1}
            for r in ratios
        ]  # fmt: skip
        (root / "bench").mkdir(parents=True)
        (root / "bench" / "kernels.json").write_text(to_json({"rows": rows}))

    return write


def turns(model: str, estimator: str, percent: float) -> Write:
    """What a schedule saves of whole steps that took turns."""
    row = {
        "model": model,
        "layout": "channels_last",
        "estimator": estimator,
        "schedule": "s1",
        "seconds": 0.2,
        "n": 31,
    }
    ends = {"saved": percent / 100, "saved_low": percent / 100 - 0.01, "saved_high": percent / 100 + 0.01}

    def write(root: Path) -> None:
        (root / "bench").mkdir(parents=True)
        (root / "bench" / "kernels.json").write_text(to_json({"rows": [{**row, **ends}]}))

    return write


def small_net(best: float, seconds: float) -> Write:
    def fields(b: float, t: float) -> dict[str, Any]:
        return {
            "epochs": lambda s: training(9, best=b + 0.01 * s),
            "train_seconds": lambda s: t * (1 + s / 99),
        }

    return lambda root: each(
        root, {"full-resnet14": fields(best, seconds), "top1-resnet20-s1": fields(90.0, 10.0)}
    )


def bias(*lows: float) -> Write:
    """Lower ends at two layers by seed: (first, second) layer alike."""

    def rows(seed: int) -> list[dict[str, Any]]:
        return [
            {"layer": layer, "estimator": "top1", "relative_bias": 0.4, "relative_bias_low": lows[seed]}
            for layer in ("a", "b")
        ]

    return lambda root: each(root, {"bias-resnet20": {"bias": rows, "steps": 0}}, seeds=len(lows))


FR = ("mailbox", "barrier", "free")
CASES: list[tuple[str, Write, Sequence[str]]] = [
    ("D1", speed(bp=0.30, dsp=0.10, fr_mailbox=0.2, fr_barrier=0.2, fr_free=0.2), [YES] * 4),
    ("D1", speed(bp=0.30, dsp=0.25, fr_mailbox=0.2, fr_barrier=0.3, fr_free=0.25), [NO, NO, YES, EQUAL_TIME]),
    ("D2", accuracy(bp=90.0, dsp=90.0), [YES]),
    ("D2", accuracy(bp=90.0, dsp=88.0), [NO]),
    ("D3", slowdown({"fr-resnet98": 40, "dsp-resnet98": 20, "dsp-resnet98-s1470": 45}), [YES, NO]),
    ("D3", slowdown({"fr-resnet98": 40, "dsp-resnet98": 20}, oversubscribed=True), [UNTESTABLE]),
    ("D4", gap({"": 0.5}), [YES]),
    ("D4", gap({"": 1.5}), [NO]),
    ("D4", gap({"": 0.5}, last_block=1.5), [NO]),
    ("D5", memory(4.1, 8.2), [YES, YES, YES]),
    ("D5", memory(6.0, 9.5), [NO, NO, YES]),
    ("D5", memory(4.4, 7.2), [YES, YES, NO]),
    ("D6", gap({"": 0.5, "-sgd": 0.6}), [YES, YES]),
    ("D6", gap({"": 0.5, "-sgd": 1.2}), [YES, NO]),
    ("D6", gap({"": 0.5}), [YES, "not run yet"]),
    ("D6", gap({"": 1.5, "-sgd": 1.5}, hump=9.0), [NO, NO]),
    ("D7", slowdown({"dsp-resnet98": 40, "dsp-resnet98-s1470": 20}), [YES]),
    ("D7", slowdown({"dsp-resnet98": 20, "dsp-resnet98-s1470": 40}), [NO]),
    ("D7", slowdown({"dsp-resnet98": 40, "dsp-resnet98-s1470": 20}, oversubscribed=True), [UNTESTABLE]),
    ("D7", gap({"": 0.5, "-s1470": 1.5}), [YES]),
    ("D7", gap({"": 1.5, "-s1470": 0.5}), [NO]),
    ("D7", gap({"": 0.5, "-s1470": 1.5}, last_block=0.9), [NO]),
    ("D8", accuracy(bp=90.0, dni=80.0), [YES]),
    ("D8", accuracy(bp=90.0, dni=90.5), [NO]),
    ("D8", accuracy(bp=90.0, dni=90.0), [EQUAL_POINTS]),
    ("D7", slowdown({"dsp-resnet98": 20, "dsp-resnet98-s1470": 20}), [EQUAL_TIME]),
    ("G5", saved("top1-cnn2", 0.0), [EQUAL_TIME]),
    ("G1", saved("top1-resnet20-s1", 8.0), [YES, "not run yet"]),
    ("G1", saved("top1-vgg19-s1", 4.0), ["not run yet", NO]),
    ("G1", turns("vgg19", "top1", 8.0), ["not run yet", YES]),
    ("G1", turns("vgg19", "top1", 5.0), ["not run yet", NO]),
    ("G2", turns("resnet20", "top1", 4.0), [YES]),
    ("G2", turns("resnet20", "top1", 3.0), [NO]),
    ("G2", saved("top1-resnet20-s1", 4.0), [YES]),
    ("G2", saved("top1-resnet20-s1", 2.0), [NO]),
    (
        "G3",
        lambda root: each(
            root,
            {
                r: {"epochs": lambda s: training(9, best=90 + s)}
                for r in ("full-resnet20", "top1-resnet20-s1")
            },
        ),
        [YES],
    ),
    (
        "G3",
        lambda root: each(
            root,
            {
                r: {"epochs": lambda s, r=r: training(9, best=90 + s + s * len(r) / 9)}
                for r in ("full-resnet20", "top1-resnet20-s1")
            },
        ),
        [NO],
    ),
    ("G4", kernels(1.5, 3.0), [YES]),
    ("G4", kernels(1.05, 3.0), [NO]),
    ("G5", saved("top1-cnn2", -5.0), [YES]),
    ("G5", saved("top1-cnn2", 5.0), [NO]),
    (
        "G6",
        lambda root: each(
            root,
            {
                "random-resnet20-s1": {"train_seconds": lambda s: 11 + s},
                "top1-resnet20-s1": {"train_seconds": lambda s: 10 + s},
            },
        ),
        [YES],
    ),
    (
        "G6",
        lambda root: each(
            root,
            {
                "random-resnet20-s1": {"train_seconds": lambda s: 9 + s},
                "top1-resnet20-s1": {"train_seconds": lambda s: 10 + s},
            },
        ),
        [NO],
    ),
    ("G7", small_net(90.0, 7.0), [YES, YES]),
    ("G7", small_net(80.0, 12.0), [NO, NO]),
    ("G8", bias(0.3, 0.3, 0.3), [NO]),
    ("G8", bias(0.0, 0.0, 0.3), [YES]),
    ("G9", saved("zero-resnet20-s1", 7.0), [YES, "not run yet"]),
    ("G9", saved("zero-resnet20-s1", 12.0), [NO, "not run yet"]),
    ("G9", turns("resnet20", "zero", 9.0), [NO, "not run yet"]),
]


@pytest.mark.parametrize(
    ("claim", "write", "expected"), CASES, ids=[f"{c}-{i}" for i, (c, *_) in enumerate(CASES)]
)
def test_verdict_follows_the_runs(tmp_path: Path, claim: str, write: Write, expected: Sequence[str]) -> None:
    write(tmp_path)
    assert verdicts(tmp_path, claim) == list(expected)


def test_every_claim_is_flipped_here() -> None:
    seen = {claim: {v for c, _, found in CASES if c == claim for v in found} for claim, *_ in CASES}
    assert len(seen) == 17
    assert all({YES, NO} <= found for found in seen.values())


@pytest.mark.parametrize("claim", sorted({claim for claim, *_ in CASES}))
def test_the_same_runs_as_reference_runs_decide_too(tmp_path: Path, reference: Path, claim: str) -> None:
    """Without runs of the user the project's stand in and are marked."""
    _, write, expected = next(case for case in CASES if case[0] == claim)
    write(reference)
    rows = [row for row in tables.build("claims", tmp_path / "none").rows if row["claim"] == claim]
    assert [row["verdict"] for row in rows] == list(expected)
    assert all("reference runs" in str(row["note"]) for row in rows if row["verdict"] != "not run yet")


def test_what_bp_does_stands_beside_the_norm_whatever_its_machine(tmp_path: Path) -> None:
    gap({"": 0.5})(tmp_path)
    rows = [
        {"kind": "gap", "step": t, "difference": [0.0] * 3, "gradient_norm": 1 + t / 100} for t in range(100)
    ]
    for seed in range(3):
        make_run(tmp_path, "gradient-gap-bp-resnet98", seed, extra_rows=rows, machine="another, 8 cores")
    found = [r for r in tables.build("claims", tmp_path).rows if r["claim"] == "D6" and r["verdict"] == YES]
    assert ["BP in the same steps: 1.90" in str(row["note"]) for row in found] == [True]
