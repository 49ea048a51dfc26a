"""The claims of the DSP paper, D1 to D8 (arXiv 1909.02625)."""

from __future__ import annotations

from repro.report.claims.accuracy_and_memory_rules import as_accurate, dni_loses, memory_as_formula
from repro.report.claims.claim import Claim
from repro.report.claims.gap_rules import gap_shrinks, norm_falls, staleness_costs
from repro.report.claims.margins import ACCURACY
from repro.report.claims.speed_rules import absorbs_jitter, faster, less_slowdown

PAPER = "arXiv 1909.02625"
QUICK = "--seeds 5 --profile quick"
JITTER = f"repro run straggler-dsp-resnet98 straggler-dsp-resnet98-s1470 --set blocks=2 {QUICK}"
STALENESS = f"repro run gradient-gap-dsp-resnet98 gradient-gap-dsp-resnet98-s1470 {QUICK}"

CLAIMS = (
    Claim(
        "D1", "DSP trains faster than BP, and than FR under each locking rule", f"{PAPER}, abstract",
        "ratio of seconds per batch, interval on the log scale; blocks on devices or cores of their own only; where "
        "training was measured in turn, its rounds decide (repro bench methods)",
        "repro run bp-resnet98-k2 fr-resnet98-k2 dsp-resnet98-k2 --seeds 5 --profile quick", faster,
    ),
    Claim(
        "D2", "best test accuracy of DSP is not below that of BP", f"{PAPER}, body",
        f"difference of best test accuracy in pairs by seed; a margin of {ACCURACY} points (ours)",
        "repro run bp-resnet98 dsp-resnet98 dsp-resnet98-s630 dsp-resnet98-s1470 --seeds 5 --profile quick", as_accurate,
    ),
    Claim(
        "D3", "DSP slows down less than FR under the same random delays", f"{PAPER}, Table 2",
        "difference of slow-downs in points, in pairs by seed; Holm over the settings; where they were measured in turn, "
        "timing only, those rounds decide, with Holm over settings and K (repro bench delays)",
        "repro run straggler-fr-resnet98 straggler-dsp-resnet98 straggler-dsp-resnet98-s1470 --set blocks=2 "
        "--seeds 5 --profile quick", less_slowdown,
    ),
    Claim(
        "D4", "the gradient difference to BP per parameter shrinks during training", f"{PAPER}, Fig. 5",
        "||G_DSP - G_BP|| / parameters of each block, shown the block farthest from the rule: last 20 recorded steps over "
        "the first 20 with full queues",
        "repro run gradient-gap-dsp-resnet98 gradient-gap-dsp-resnet98-s1470 --seeds 5 --profile quick", gap_shrinks,
    ),
    Claim(
        "D5", "memory grows with the queues as the formula says", "the definition of the queues; the formula is ours",
        "counted activations, queues and graphs over the formula, the block farthest from 1; and the same of what the "
        "longest queues add",
        "repro run dsp-resnet98 dsp-resnet98-s630 dsp-resnet98-s1470 --seeds 5 --profile quick", memory_as_formula,
    ),
    Claim(
        "D6", "SGD and momentum SGD drive the true gradient's norm down under DSP", f"{PAPER}, Theorems 1 and 2",
        "norm of BP's gradient at the same weights: mean of the last 20 recorded steps over the first batch at the initial "
        "weights",
        "repro run gradient-gap-dsp-resnet98 gradient-gap-dsp-resnet98-sgd --seeds 5 --profile quick", norm_falls,
    ),
    Claim(
        "D7", "longer queues absorb more jitter, and cost staleness", f"{PAPER}, body",
        "longest against shortest queues: slow-down in points (as in D3), and each block's gradient difference after 100 "
        "steps as a ratio, shown the block farthest from the rule",
        f"{JITTER} && {STALENESS}", lambda e: [*absorbs_jitter(e), *staleness_costs(e)],
    ),
    Claim(
        "D8", "DNI loses accuracy against BP", f"{PAPER} and public reruns",
        "difference of best test accuracy in pairs by seed",
        "repro run bp-resnet98 dni-resnet98 cdni-resnet98 --seeds 5 --profile quick", dni_loses, ("accuracy", "dni"),
    ),
)  # fmt: skip
