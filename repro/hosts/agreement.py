"""What every process tells the others before a run, and whether all of it fits together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from repro import paths
from repro.recipe import Recipe


@dataclass(frozen=True)
class Hello:
    """One process: where it is, what it runs on, and what it has been asked to run."""

    rank: int
    node: int  # the host's number
    local_rank: int
    host: str  # its name, with the address where another host has the same name
    address: str
    torch: str
    code: str  # digest of this package's source
    device: str
    cores: int
    gpus: int
    processor: str
    recipes: list[dict[str, Any]]  # settings, but for how they are carried out

    def to_text(self) -> str:
        """For torchrun's store."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Hello:
        """Inverse of `to_text`."""
        return cls(**json.loads(text))


def settings(recipe: Recipe) -> dict[str, Any]:
    """What two hosts must agree about: all but `runtime`, which changes no number."""
    found: dict[str, Any] = recipe.model_dump(mode="json", exclude={"runtime": True})
    found["data"].pop(
        "path", None
    )  # each host has its own folder; what it holds is compared later, with the hash
    return found


def digest(recipe: dict[str, Any]) -> str:
    """A short name of `settings`."""
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]


def code_digest() -> str:
    """12 hex digits over the source of this package."""
    total = hashlib.sha256()
    for file in sorted(paths.PACKAGE.rglob("*.py")):
        total.update(file.relative_to(paths.PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return total.hexdigest()[:12]


def disagreement(hellos: Sequence[Hello]) -> str | None:
    """The first thing about which two hosts differ, with both values; None where all agree."""
    first = hellos[0]
    for other in hellos[1:]:
        for what, here, there in (
            ("torch is", first.torch, other.torch),
            ("the code of repro is", first.code, other.code),
            ("the device is", first.device, other.device),
        ):
            if here != there:
                return f"the hosts differ: {what} {here} on {first.host} and {there} on {other.host}"
        if words := _recipes_differ(first, other):
            return words
    return None


def _recipes_differ(first: Hello, other: Hello) -> str | None:
    here, there = ([str(r["name"]) for r in h.recipes] for h in (first, other))
    if here != there:
        return (
            f"the hosts were asked for different recipes: {', '.join(here)} on {first.host} and "
            f"{', '.join(there)} on {other.host}"
        )
    for mine, theirs in zip(first.recipes, other.recipes, strict=True):
        for key, a, b in _differences(mine, theirs):
            return (
                f"the hosts differ: {mine['name']} has {key} = {json.dumps(a)} on {first.host} (settings {digest(mine)}) "
                f"and {json.dumps(b)} on {other.host} (settings {digest(theirs)})"
            )
    return None


def _differences(a: Any, b: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            yield from _differences(a.get(name), b.get(name), f"{key}.{name}" if key else name)
    elif a != b:
        yield key, a, b


def told_apart(hellos: Sequence[Hello]) -> list[Hello]:
    """The same with names of hosts that are different for different hosts."""
    nodes = {(h.host, h.node) for h in hellos}
    twice = {name for name, _ in nodes if sum(other == name for other, _ in nodes) > 1}
    return [
        Hello(**{**asdict(h), "host": f"{h.host} ({h.address})"}) if h.host in twice else h for h in hellos
    ]


def placement(hellos: Sequence[Hello]) -> list[int]:
    """The process that has each rank of the run: a host's ranks are neighbours, hosts follow each other by their lowest.

    A pipeline of K blocks on n hosts so crosses from one host to another n - 1 times, the fewest possible. Of several
    replicas the ranks of one pipeline follow each other: with as many processes on a host as blocks, or a multiple of
    them, no pipeline crosses at all.
    """
    lowest: dict[int, int] = {}
    for hello in hellos:
        lowest[hello.node] = min(hello.rank, lowest.get(hello.node, hello.rank))
    return [h.rank for h in sorted(hellos, key=lambda h: (lowest[h.node], h.rank))]
