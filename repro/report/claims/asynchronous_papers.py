"""What is claimed of asynchronous pipelines, A1 to A5; the rules were fixed before any run (docs/asynchronous.md)."""

from __future__ import annotations

from repro.report.claims.claim import Claim
from repro.report.claims.staleness_rules import (
    CORRECTED,
    MARGIN,
    correction_helps,
    look_ahead_is_enough,
    muon_stands_delay,
    replay_is_closer,
    staleness_costs_loss,
)

RUN = "repro run {} --seeds 5 --profile quick"
_LOSS = "test loss at the end (bits per byte), in pairs by seed"

CLAIMS = (
    Claim(
        "A1", "stale gradients end at a worse loss than synchronous training, and the gap grows with K",
        "arXiv 2505.01099, arXiv 1910.05124",
        f"{_LOSS}: PipeDream minus GPipe or BP of the same optimiser at each K; and the largest K minus the smallest",
        RUN.format("bp-gpt pipedream-gpt-k2 pipedream-gpt"), staleness_costs_loss,
    ),
    Claim(
        "A2", "NAdam with beta1 = 0.99 on stashed weights is not worse than synchronous GPipe with AdamW",
        "arXiv 2505.01099, abstract", f"{_LOSS}: the largest K; a margin of {MARGIN} (ours)",
        RUN.format("gpipe-gpt pipedream-gpt-nadam"), look_ahead_is_enough,
    ),
    Claim(
        "A3", "under a delay of one update AdamW degrades, Muon hardly does", "arXiv 2606.30634",
        f"{_LOSS}: 2BW minus synchronous training of the same optimiser; a margin of {MARGIN} (ours)",
        RUN.format("bp-gpt bp-gpt-muon 2bw-gpt 2bw-gpt-muon"), muon_stands_delay,
    ),
    Claim(
        "A4", "replay (FR) is closer to synchronous training than stashing (PipeDream) at the same staleness",
        "ours: the algebra of dsp.md; nobody has printed it", f"{_LOSS}: PipeDream minus FR, the same m in every block",
        RUN.format("pipedream-gpt fr-gpt"), replay_is_closer,
    ),
    Claim(
        "A5", "prediction, rescheduling and delay compensation each shrink the gap of A1",
        "arXiv 1809.02839, arXiv 1910.05124, arXiv 1609.08326",
        f"{_LOSS}: PipeDream minus PipeDream with the correction, the largest K",
        RUN.format(" ".join(["pipedream-gpt", *(f"pipedream-gpt-{word}" for word in CORRECTED.values())])),
        correction_helps,
    ),
)  # fmt: skip
