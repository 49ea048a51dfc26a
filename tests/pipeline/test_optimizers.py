"""Every optimiser: torch's class in the engine, written out in the oracle, the same bits; and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from repro import models
from repro.engine.block.build import build_block
from repro.engine.block.learning_rate import learning_rate
from repro.engine.block.optimizer import BlockOptimizer
from repro.errors import UserError
from repro.oracle.update_rules import Rule, clipped, rate_of
from repro.planning.optimizer_rules import inner_matrices, named_layers, optimizer_words
from repro.planning.run_plan import make_plan
from repro.recipe import run_hash
from repro.recipe.optimizers import OptimizerSpec, parse_optimizer
from tests.pipeline.in_process import engine, oracle, resumed

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.001},
    "adamw": {"name": "adamw", "lr": 0.003},
    "nadam": {"name": "nadam", "lr": 0.003, "weight_decay": 0.01, "beta1": 0.99},
    "muon": {"name": "muon", "lr": 0.01, "adamw_lr": 0.003, "filters": "flatten"},
    "muon-rms": {
        "name": "muon",
        "lr": 0.01,
        "adjust_lr": "match_rms_adamw",
        "nesterov": False,
        "filters": "flatten",
    },
}
SHAPES = {"inner.weight": (6, 4), "wide.weight": (3, 7), "bias": (5,)}


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_written_out_optimiser_has_the_bits_of_torchs_class(name: str, decay: float) -> None:
    """Twenty updates at changing rates; one weight gets no gradient in every third."""
    spec = parse_optimizer({**OPTIMIZERS[name], "weight_decay": decay})
    matrices = frozenset(n for n in SHAPES if n != "bias") if name.startswith("muon") else frozenset()
    layer = nn.Module()
    draw = torch.Generator().manual_seed(1)
    for full, shape in SHAPES.items():
        layer.register_parameter(full.replace(".", "_"), nn.Parameter(torch.randn(shape, generator=draw)))
    full_names = {f"layer.{n.replace('.', '_')}": n for n in SHAPES}
    theirs = BlockOptimizer(
        [("layer", layer)], spec, 10, matrices={full for full, n in full_names.items() if n in matrices}
    )
    ours = {full: w.detach().clone() for full, w in zip(full_names, theirs.weights, strict=True)}
    rule = Rule(spec, frozenset(f for f, n in full_names.items() if n in matrices), 0, 1)
    for t in range(20):
        for full, w in zip(full_names, theirs.weights, strict=True):
            if full.endswith("bias") and t % 3 == 0:
                continue
            g = torch.randn(w.shape, generator=draw)
            w.grad = g.clone()
            ours[full] = rule.step(full, ours[full], g, rate_of(spec, rule.top(full), t, 10, 2), decay)
        theirs.step(t)
        for full, w in zip(full_names, theirs.weights, strict=True):
            assert torch.equal(w, ours[full]), (full, t)


@pytest.mark.parametrize("method", ["ddg", "dsp", "gpipe"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_engine_and_oracle_agree(name: str, method: str, tiny: Callable[..., Any]) -> None:
    """Stashed weights (renewed with the state), replayed inputs, micro-batches; warm-up, cosine, clipping on."""
    shape = {
        "warmup_steps": 3,
        "warmup_start": 1e-4,
        "schedule": "cosine",
        "cosine_floor": 0.1,
        "clip_norm": 1.0,
    }
    recipe = tiny(
        method={"name": method}, blocks=3, optimizer={**OPTIMIZERS[name], **shape}, max_steps=10, epochs=2
    )
    found = engine(recipe)
    assert len(found.losses) == 10
    assert found == oracle(recipe)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_resumed_run_has_the_bits_of_an_untouched_one(
    name: str, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    recipe = tiny(method={"name": "ddg"}, blocks=2, optimizer=OPTIMIZERS[name], epochs=2)
    assert resumed(recipe, tmp_path) == engine(recipe)


@pytest.mark.parametrize(("name", "copies"), [("sgd", 1), ("adamw", 2), ("nadam", 2), ("muon", 1)])
def test_the_state_is_counted(name: str, copies: int, tiny: Callable[..., Any]) -> None:
    """Weights and gradients, and as many tensors of their size as the optimiser keeps."""
    recipe = tiny(optimizer=OPTIMIZERS[name], max_steps=2)
    block = engine(recipe).workers[0].block
    weights = sum(w.numel() * 4 for w in block.optimizer.weights)
    buffers = sum(b.numel() * b.element_size() for _, layer in block.layers for b in layer.buffers())
    state = block.static_bytes() - 2 * weights - buffers
    low = copies * weights if name != "muon" else weights  # Muon keeps one, its AdamW two and a count
    assert (
        low <= state <= copies * weights + (weights if name == "muon" else 8 * len(block.optimizer.weights))
    )


def test_beta1_by_block_follows_its_weight_versions(tiny: Callable[..., Any]) -> None:
    """0.9 + 0.09 m_k / K; it changes numbers, and engine and oracle agree on it."""
    spec = {"name": "nadam", "lr": 0.003, "beta1_per_block": True}
    recipe = tiny(method={"name": "ddg"}, blocks=3, optimizer=spec, max_steps=6)
    found = engine(recipe)
    betas = [w.block.optimizer.parts[0].param_groups[0]["betas"][0] for w in found.workers]
    assert betas == pytest.approx([0.96, 0.93, 0.9])
    assert found == oracle(recipe)
    plain = tiny(method={"name": "ddg"}, blocks=3, optimizer={**spec, "beta1_per_block": False}, max_steps=6)
    assert engine(plain) != found


def test_layers_without_weight_decay_and_a_doubled_rate_go_with_every_optimiser(
    tiny: Callable[..., Any],
) -> None:
    for name in ("adamw", "muon"):
        spec = {**OPTIMIZERS[name], "weight_decay": 0.5, "weight_decay_layers": ["conv1", "conv4"]}
        method = {"name": "fr", "double_first_lr": True}
        recipe = tiny(method=method, blocks=2, optimizer=spec, max_steps=5)
        assert engine(recipe) == oracle(recipe)


# -- learning rate and clipping ---------------------------------------------------------------------------


def test_the_rate_by_hand() -> None:
    """Four updates of warm-up from 0.2 to 1, then half a cosine to a tenth over the eight that are left of twelve."""
    spec = parse_optimizer(
        {"lr": 1.0, "warmup_steps": 4, "warmup_start": 0.2, "schedule": "cosine", "cosine_floor": 0.1}
    )
    rates = [learning_rate(spec, t, 6, 12) for t in range(14)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[8] == pytest.approx(0.55)
    assert rates[12:] == pytest.approx([0.1, 0.1])
    assert rates == [rate_of(spec, spec.lr, t, 6, 2) for t in range(14)]
    step = parse_optimizer({"lr": 1.0, "warmup_steps": 2, "milestones": [1], "decay": 0.5})
    assert [learning_rate(step, t, 3) for t in range(5)] == [0.0, 0.5, 1.0, 0.5, 0.5]


def test_clipping_is_by_the_norm_of_all_gradients() -> None:
    gradients = [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]
    assert clipped(gradients, 10.0)[0].equal(gradients[0])
    assert torch.cat([g.flatten() for g in clipped(gradients, 1.0)]).norm() == pytest.approx(1.0, rel=1e-5)


def test_a_run_that_is_cut_short_has_the_rates_of_the_whole(tiny: Callable[..., Any]) -> None:
    """`verify --steps` gives the first updates of the run, so the cosine ends where the epochs do."""
    spec = {"lr": 0.05, "schedule": "cosine"}
    short, long = (engine(tiny(optimizer=spec, epochs=2, max_steps=n)).losses for n in (4, 9))
    assert [short[t] for t in range(4)] == [long[t] for t in range(4)]


# -- Muon's rule --------------------------------------------------------------------------------------------


def layers_with(*weights: tuple[str, nn.Module]) -> list[tuple[str, nn.Module]]:
    return list(weights)


def test_muons_matrices_are_those_of_inner_layers() -> None:
    layers = layers_with(
        ("drop", nn.Dropout()),
        ("embed", nn.Linear(4, 8)),
        ("block", nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.Embedding(3, 8), nn.Conv2d(2, 2, 3))),
        ("head", nn.Linear(8, 2)),
        ("flat", nn.Flatten()),
    )
    plain, flat = ({"name": "muon"}, {"name": "muon", "filters": "flatten"})
    assert inner_matrices(layers, parse_optimizer(plain)) == {"block.1.weight"}
    assert inner_matrices(layers, parse_optimizer(flat)) == {"block.1.weight", "block.3.weight"}
    assert inner_matrices(layers, parse_optimizer("adamw")) == frozenset()


def test_the_rule_is_printed(tiny: Callable[..., Any]) -> None:
    recipe = tiny(model={"name": "cnn2"}, optimizer={"name": "muon", "filters": "adamw"})
    factories = models.layers(recipe.model, (3, 16, 16), 3)
    assert optimizer_words(recipe, factories) == (
        "muon for 2 inner matrices (fc1.linear.weight, fc2.linear.weight), adamw for 8 other weights"
    )
    assert len(named_layers(factories)) == 5
    assert optimizer_words(tiny(), factories) == "sgd"


def test_the_cut_does_not_change_which_weights_are_muons(tiny: Callable[..., Any]) -> None:
    for blocks in (1, 3):
        spec = {"name": "muon", "filters": "adamw"}
        plan = make_plan(tiny(model={"name": "cnn2"}, blocks=blocks, optimizer=spec), "cpu")
        built = [build_block(plan, k, 0, plan.schedule()) for k in range(blocks)]
        own = [
            tuple(p.shape)
            for block in built
            for part in block.optimizer.parts
            if isinstance(part, torch.optim.Muon)
            for group in part.param_groups
            for p in group["params"]
        ]
        assert sorted(own) == [(192, 384), (384, 1024)]


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (
            {"name": "adamww"},
            ["optimizer.name = 'adamww'", "Did you mean 'adamw'?", "sgd, adamw, nadam, muon"],
        ),
        ({"name": "adamw", "momentum": 0.9}, ["optimizer.momentum", "sgd and muon, not of adamw", "beta1"]),
        ({"beta1": 0.9}, ["optimizer.beta1", "not of sgd"]),
        (
            {"name": "adamw", "betas": [0.9, 0.99]},
            ["unknown setting 'optimizer.betas'", "Did you mean 'beta"],
        ),
        ({"name": "adamw", "beta1": 1.0}, ["optimizer.beta1 = 1.0", "less than 1"]),
        ({"name": "nadam", "beta2": -0.1}, ["optimizer.beta2 = -0.1", "greater than or equal to 0"]),
        ({"name": "muon", "ns_steps": 0}, ["optimizer.ns_steps = 0"]),
        ({"name": "nadam", "beta1": 0.99, "beta1_per_block": True}, ["beta1 = 0.99", "beta1_per_block"]),
        ({"clip_norm": 0}, ["optimizer.clip_norm = 0", "greater than 0"]),
        ({"clip_norm": 1.0, "clip": "global"}, ["clip = 'global'", "every block would wait", "block"]),
        ({"schedule": "cosine", "milestones": [1]}, ["milestones = [1]", "'step', not to 'cosine'"]),
        ({"cosine_floor": 0.1}, ["cosine_floor", "schedule = cosine"]),
        ({"warmup_start": 0.01}, ["warmup_start = 0.01", "warmup_steps >= 1"]),
        ({"schedule": "cosine", "cosine_steps": 5, "warmup_steps": 5}, ["cosine_steps = 5", "more than 5"]),
    ],
)
def test_a_wrong_setting_is_named(
    optimizer: dict[str, Any], words: list[str], tiny: Callable[..., Any]
) -> None:
    with pytest.raises(UserError) as caught:
        tiny(optimizer=optimizer)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer": {"warmup_steps": 15}}, ["optimizer.warmup_steps = 15", "14 updates", "at most 14"]),
        ({"optimizer": {"name": "muon"}}, ["conv2.conv.weight is a filter", "flatten", "adamw"]),
        ({"optimizer": {"name": "muon", "filters": "adamw"}}, ["tiny has no matrix in an inner layer"]),
        (
            {"optimizer": {"name": "muon", "filters": "flatten"}, "memory_format": "channels_last"},
            ["filters = 'flatten'", "memory_format=contiguous"],
        ),
    ],
)
def test_what_does_not_fit_the_network_or_the_run_is_named(
    changes: dict[str, Any], words: list[str], tiny: Callable[..., Any]
) -> None:
    with pytest.raises(UserError) as caught:
        make_plan(tiny(**changes, epochs=2), "cpu")
    for word in words:
        assert word in str(caught.value)


# -- identity -----------------------------------------------------------------------------------------------


def test_new_settings_count_only_where_they_are_used(tiny: Callable[..., Any]) -> None:
    def number(**optimizer: Any) -> str:
        return run_hash(tiny(optimizer=optimizer), device="cpu", data_identity="d", cut=())

    assert number(lr=0.1) == number(lr=0.1, schedule="step", warmup_steps=0, clip="block")
    variants: list[dict[str, Any]] = [
        {}, {"warmup_steps": 2}, {"schedule": "cosine"}, {"clip_norm": 1.0}, {"name": "adamw"}, {"name": "nadam"},
        {"name": "muon"}, {"name": "adamw", "beta1": 0.8},
    ]  # fmt: skip
    assert len({number(**variant) for variant in variants}) == len(variants)


def test_another_name_replaces_the_settings_of_the_one_before() -> None:
    from repro.recipe.reading import merge

    base = {"optimizer": {"lr": 0.1, "momentum": 0.9}}
    assert merge(base, {"optimizer": {"name": "adamw", "lr": 0.01}}) == {
        "optimizer": {"name": "adamw", "lr": 0.01}
    }
    assert merge(base, {"optimizer": {"name": "sgd", "lr": 0.2}})["optimizer"]["momentum"] == 0.9
    assert isinstance(parse_optimizer("adamw"), OptimizerSpec)
