"""Data sets -> batches: `prepare` and `identity` in the parent, `load` in every process that needs samples.

A set is a `Source` (one file each). `Batches` says which samples a batch holds, from numbers alone; `Data`
joins both. Images that fit in memory stay there as uint8 and are augmented a batch at a time on the device
(`memory.py`); those that do not are read by loader processes (`image_stream.py`).
"""

from repro.data.data_sets import identity, load, prepare
from repro.data.dataset import Data

__all__ = ["Data", "identity", "load", "prepare"]
