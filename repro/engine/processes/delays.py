"""Random delays of a block, the same for every method (dsp.md, section 5; the paper's own definition is unknown)."""

from __future__ import annotations

import time

from repro.engine.block.stopwatch import Stopwatch
from repro.recipe import StragglerSpec
from repro.seeding import derive


class Straggler:
    """Before batch i, with `probability`, block k sleeps `delay` times its typical compute time per batch.

    Whether batch i of block k is delayed is a function of (seed, k, i) alone. `typical` fixes the compute
    time (measured in the run without delays); otherwise it is the median of the batches so far.
    """

    def __init__(self, spec: StragglerSpec, seed: int, block: int, typical: float | None = None) -> None:
        self.spec, self.seed, self.block, self.typical = spec, seed, block, typical
        self.active = spec.probability > 0 and spec.delay > 0
        self.count = 0

    def delayed(self, batch: int) -> bool:
        """Whether this block is delayed before `batch`."""
        return derive(self.seed, "straggler", self.block, batch) < self.spec.probability * 2**63

    def sleep(self, batch: int, watch: Stopwatch) -> None:
        """Sleep if `batch` is one of the delayed ones."""
        if self.delayed(batch):
            self.count += 1
            time.sleep(self.spec.delay * (self.typical if self.typical is not None else watch.typical()))
