"""What the fork server imports before it forks workers: the engine, and what torch.optim imports at first use."""

from __future__ import annotations

import torch._dynamo

import repro.engine.processes.entry

__all__ = ["repro", "torch"]
