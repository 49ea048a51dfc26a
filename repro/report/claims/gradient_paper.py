"""The claims of the gradient-approximation paper, G1 to G9 (arXiv 1908.05460)."""

from __future__ import annotations

from repro.report.claims.approximation_rules import (
    CEILING,
    QUICK,
    kernel_wins,
    random_slower,
    saves_too,
    smaller_net,
    unbiased,
    within_a_tenth,
)
from repro.report.claims.claim import Claim, at_least, below
from repro.report.claims.margins import ACCURACY, SHARE_OF_TIME

PAPER = "arXiv 1908.05460"
_TIME = "mean seconds per step against the full gradient, in pairs by seed"
_TURNS = "where training steps were measured in turn, these decide: ratios within a round"
_TIMES = f"{_TIME}; {_TURNS}"
NETS = ("resnet20", "vgg19")

CLAIMS = (
    Claim(
        "G1", "at least 7 % less wall-clock for ResNet-20 and VGG-19 (s1)", f"{PAPER}, abstract", _TIMES,
        f"repro run full-resnet20 top1-resnet20-s1 full-vgg19 top1-vgg19-s1 {QUICK}",
        lambda e: [f for m in NETS for f in saves_too(m, "top1 s1", f"top1-{m}-s1", at_least(7.0, 0.0), e)],
    ),
    Claim(
        "G2", "3.5 % less wall-clock for ResNet-20", f"{PAPER}, body", _TIMES,
        f"repro run full-resnet20 top1-resnet20-s1 {QUICK}",
        lambda e: saves_too("resnet20", "top1 s1", "top1-resnet20-s1", at_least(3.5, 0.0), e),
    ),
    Claim(
        "G3", "accuracy within 0.1 point of full under some schedule", f"{PAPER}, body",
        "difference of best test accuracy in pairs by seed; one-sided, Holm over the schedules",
        f"repro run full-resnet20 top1-resnet20-s1 top1-resnet20-s2 top1-resnet20-s3 {QUICK}", within_a_tenth,
    ),
    Claim(
        "G4", "the kernel beats the library's dense filter gradient on each shape", f"{PAPER}, body",
        "median dense time / median kernel time, with quartiles", "repro bench kernels", kernel_wins,
    ),
    Claim(
        "G5", "the 2-layer CNN gets slower", f"{PAPER}, body", _TIMES, f"repro run full-cnn2 top1-cnn2 {QUICK}",
        lambda e: saves_too("cnn2", "top1 alternate", "top1-cnn2", below(0.0, SHARE_OF_TIME), e),
    ),
    Claim(
        "G6", "random gradients are slower than top1", f"{PAPER}, body",
        f"ratio of mean seconds per step, in pairs by seed; {_TURNS}",
        f"repro run random-resnet20-s1 top1-resnet20-s1 {QUICK}", random_slower,
    ),
    Claim(
        "G7", "ResNet-14 is competitive with approximated ResNet-20", f"{PAPER}, body",
        f"best accuracy (Welch; a margin of {ACCURACY} points, ours) and time per step (a margin of 5 %, ours); {_TURNS}",
        f"repro run full-resnet14 top1-resnet20-s1 {QUICK}", smaller_net,
    ),
    Claim(
        "G8", "the top1 estimate is unbiased", f"{PAPER}, Sec. 2.3",
        "relative bias over random (input, dy) pairs at untrained layers", f"repro run bias-resnet20 {QUICK}", unbiased,
    ),
    Claim(
        "G9", "a 25 % schedule saves at most 8.3 %, measured with zero", "our arithmetic: a quarter of a third", _TIMES,
        f"repro run full-resnet20 zero-resnet20-s1 full-vgg19 zero-vgg19-s1 {QUICK}",
        lambda e: [f for m in NETS for f in saves_too(m, "zero s1", f"zero-{m}-s1", below(CEILING), e)],
    ),
)  # fmt: skip
