"""Delayed: back-propagation with a gradient that is `delay` updates late in the whole network (ours; a control).

What: W^(t+1) = W^(t) - lr g_t(W^(t-d)), with W^(t-d) = W^(0) for t < d: forward and backward of batch t meet the same
weights, d updates old, in every block. It is asynchronous training with one constant delay and no partition, so it
tells what staleness alone costs. d = 0 is BP. The blocks run in BP's order, so K changes no number and gains no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from repro.methods.bp import BP
from repro.methods.method import Method
from repro.schedule import Schedule


class Delayed(Method):
    """Back-propagation `delay` updates late."""

    name: Literal["delayed"] = "delayed"
    delay: Annotated[int, Field(ge=0, strict=True)] = 1

    def schedule(self, blocks: int, num_batches: int, evaluations: Mapping[int, int]) -> Schedule:
        """BP's, at the weights of `delay` updates ago; `delay` older versions are kept."""
        plain = BP().schedule(blocks, num_batches, evaluations)
        return replace(plain, staleness=(self.delay,) * blocks, kept_versions=self.delay > 0)

    def label(self, blocks: int) -> str:
        """Delayed(d=1)."""
        return f"Delayed(d={self.delay})"
