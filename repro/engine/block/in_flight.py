"""A batch in flight through a block, and how a checkpoint holds all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Key = tuple[int, int]  # (batch, micro-batch)


@dataclass
class Entry:
    """A batch in flight: its input, and the graph of its forward where that is kept."""

    x: Tensor  # the block's input; a leaf that receives the gradient to send down
    labels: Tensor | None = None  # last block only
    weight: float = 1.0  # share of the micro-batch in its batch
    y: Tensor | None = None  # output with graph (the weighted loss in the last block)
    weights: list[Tensor] | None = None  # the weights of that forward, where they have been renewed since
    arrived: Any = None  # event behind which the input is here, for a replay on another stream
    kept: list[Any] | None = None  # the graph's activations, where its backward reads the weights late


def as_plain(in_flight: Mapping[Key, Entry]) -> tuple[list[list[Tensor]], list[dict[str, Any]]]:
    """The older weights that entries were forwarded with, each once, and the entries, as tensors and numbers."""
    versions: list[list[Tensor]] = []
    entries = []
    for key, entry in in_flight.items():
        version = None
        if entry.weights is not None:
            known = [i for i, v in enumerate(versions) if v is entry.weights]
            version = known[0] if known else len(versions)
            if not known:
                versions.append(entry.weights)
        entries.append(
            {
                "key": key,
                "x": entry.x.detach(),
                "labels": entry.labels,
                "weight": entry.weight,
                "version": version,
                "kept": [k.tensor.detach() for k in entry.kept] if entry.kept is not None else None,
            }
        )
    return [[t.detach() for t in version] for version in versions], entries


def from_plain(
    versions: Sequence[Sequence[Tensor]], entries: Sequence[Mapping[str, Any]], first: bool
) -> list[tuple[Key, Entry]]:
    """Inverse of `as_plain`, but for the graphs; `first`: of the first block, whose input needs no gradient."""
    older = [[t.requires_grad_() for t in version] for version in versions]
    found = []
    for row in entries:
        entry = Entry(row["x"].requires_grad_(not first), row["labels"], row["weight"])
        entry.kept = row["kept"]
        entry.weights = None if row["version"] is None else older[row["version"]]
        found.append(((int(row["key"][0]), int(row["key"][1])), entry))
    return found
