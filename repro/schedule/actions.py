"""A schedule as data: for each block a fixed list of actions that prints compactly and parses back.

One block of DSP with m_k = 2, five batches:

    F0 F1 F2 R0 B0 U0 F3 R1 B1 U1 F4 R2 B2 U2 R3 B3 U3 R4 B4 U4
    \\______/ \\______/                        \\______________/
     fill     one step                          drain
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a block does in one action; the value is the letter it prints as."""

    FORWARD = "F"  # take input i, compute, hand the output over
    RECOMPUTE = "R"  # replay the stored input i through the present weights
    BACKWARD = "B"  # take gradient i (or the loss), back-propagate, hand the input's gradient down
    UPDATE = "U"  # optimiser step with the gradient of batch i
    EVALUATE = "E"  # forward the whole test set; the number is the epoch
    AWAIT_GRADIENT = "G"  # wait until gradient i has come (mailbox locking); B takes it later
    AWAIT_FORWARDS = "A"  # wait until every block has forwarded batch i (barrier locking)
    MODULE = "M"  # regress the synthetic-gradient module on gradient i (DNI)


@dataclass(frozen=True, slots=True)
class Action:
    """One action of one block. `room` overrides how many handed-over messages may wait (None: the queue's length)."""

    kind: Kind
    batch: int
    micro: int = 0
    room: int | None = None

    def __str__(self) -> str:
        micro = f".{self.micro}" if self.micro else ""
        room = f"^{self.room}" if self.room is not None else ""
        return f"{self.kind.value}{self.batch}{micro}{room}"

    @classmethod
    def parse(cls, text: str) -> Action:
        """Inverse of str()."""
        match = re.fullmatch(r"([FRBUEGAM])(\d+)(?:\.(\d+))?(?:\^(\d+))?", text)
        if match is None:
            raise ValueError(f"'{text}' is not an action")
        kind, batch, micro, room = match.groups()
        return cls(Kind(kind), int(batch), int(micro or 0), None if room is None else int(room))


def parse_actions(text: str) -> list[Action]:
    """Read a line of actions separated by blanks."""
    return [Action.parse(word) for word in text.split()]


@dataclass(frozen=True)
class Schedule:
    """The actions of K blocks and the queues between them.

    `actions(k)` yields block k's actions in their fixed order. `output_room[k]` / `gradient_room[k]` is the
    number of finished messages that may wait between block k and k+1 (upwards) / k and k-1 (downwards):
    after handing over message n a block waits until message n - room has been taken; 0 hands over directly.
    `recompute[k]`: the forward keeps no graph, R makes it. Otherwise the forward's own graph is kept, with
    the weights of that time. `staleness[k]` = m_k. `kept_versions`: batch i is forwarded, replayed and
    back-propagated at W^(max(0, i - m_k)) whatever has been updated since, so a block keeps m_k older versions.
    `present_weights`: the backward through a kept graph reads the weights of now.
    """

    num_blocks: int
    num_batches: int
    staleness: tuple[int, ...]
    output_room: tuple[int, ...]
    gradient_room: tuple[int, ...]
    recompute: tuple[bool, ...]
    block_actions: Callable[[int], Iterable[Action]]
    synthetic: bool = False  # backward uses the block's own synthetic gradient; M takes the true one
    kept_versions: bool = False
    present_weights: bool = False

    def actions(self, block: int) -> Iterator[Action]:
        """Block `block`'s actions from first to last."""
        return iter(self.block_actions(block))

    def most_in_flight(self, block: int) -> int:
        """The most (micro-)batches that have been forwarded in `block` and not yet back-propagated; walks all actions."""
        most = held = 0
        for action in self.actions(block):
            held += (action.kind is Kind.FORWARD) - (action.kind is Kind.BACKWARD)
            most = max(most, held)
        return most

    def grid(self) -> str:
        """One line of text a block; for small schedules."""
        return "\n".join(" ".join(map(str, self.actions(k))) for k in range(self.num_blocks))
