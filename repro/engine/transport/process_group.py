"""How the processes of a run find each other and talk: torch.distributed set-up, links, barrier, evaluation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from repro.engine.transport.channel import Inbox, Link, Outbox, PeerLost
from repro.engine.transport.crossing import Courier, Crossing, PinnedBuffers, SideStream
from repro.engine.transport.meeting import Meeting
from repro.engine.transport.message import Envelope
from repro.engine.transport.ports import RowSum
from repro.engine.transport.replica_sum import ReplicaSum
from repro.errors import MissingError
from repro.recipe import RuntimeSpec

_SIGNAL_TAG = (1 << 24) + 7
_AHEAD_BETWEEN_HOSTS = 2  # receives: hides the way of the word that one is posted


class Network:
    """The group of all processes of a run, block k of replica r being rank r * K + k. A single one opens nothing.

    Blocks are named by their number within this rank's pipeline. `sum_replicas`: over the replicas of this rank's block.
    """

    def __init__(
        self,
        rank: int,
        blocks: int,
        devices: tuple[str, ...],
        meeting: Meeting,
        barrier_locking: bool,
        runtime: RuntimeSpec,
    ) -> None:
        self.rank, self.blocks, self.ranks = rank, blocks, len(devices)
        self.replica, self.block = divmod(rank, blocks)
        self.sum_replicas: RowSum | None = None
        self.device = torch.device(devices[rank])
        self._groups: dict[tuple[int, int], Any] = {}
        self._gradients: dict[
            tuple[int, int], Any
        ] = {}  # (low, high) on two hosts -> the group of their gradients
        self._forwarded = -1
        self._signals: list[tuple[Any, Tensor]] = []
        self._barrier_locking = barrier_locking and blocks > 1
        self._buffers, self._courier = PinnedBuffers(), Courier()
        if self.ranks == 1:
            return
        self._meet(meeting, runtime)
        direct = meeting.own_devices(devices) and self.device.type == "cuda" and dist.is_nccl_available()
        if direct:
            # Every block has its own GPU. A group for each direction: a receive posted ahead never holds up a
            # send.
            for low in range(self.ranks - 1):
                for pair in ((low, low + 1), (low + 1, low)) if (low + 1) % blocks else ():
                    self._groups[pair] = dist.new_group(sorted(pair), backend="nccl")
            self._open_groups()
        else:
            self._part_directions(meeting.hosts, runtime)
        self._open_sums(direct, runtime)

    def _open_groups(self) -> None:
        """One number over each of this block's NCCL groups, in an order that all blocks share.

        A group's communicator is made at its first message, and whoever comes first waits for the other: a receive
        posted ahead would wait for a message that the peer sends only after it has been sent to.
        """
        for sender, receiver in self._groups:
            number = torch.zeros(1, device=self.device)
            if self.rank == sender:
                dist.send(number, receiver, group=self._groups[sender, receiver])
            elif self.rank == receiver:
                dist.recv(number, sender, group=self._groups[sender, receiver])
        torch.cuda.synchronize(self.device)

    def _part_directions(self, hosts: tuple[str, ...], runtime: RuntimeSpec) -> None:
        """Between hosts gradients have a connection of their own, beside that of outputs.

        gloo sends a tensor when it has heard that its receive is posted. On one connection for both directions this word,
        and the word that a message was taken, would wait behind the other direction's tensors.
        """
        patience = timedelta(seconds=runtime.message_seconds)
        for low in range(len(hosts) - 1):
            if (low + 1) % self.blocks and hosts[low] != hosts[low + 1]:
                pair = (low, low + 1)
                self._gradients[pair] = dist.new_group(list(pair), timeout=patience, backend="gloo")

    def _open_sums(self, direct: bool, runtime: RuntimeSpec) -> None:
        """A group of the ranks that have one block, for each block; every rank opens all of them, in one order."""
        replicas = self.ranks // self.blocks
        patience = timedelta(seconds=runtime.message_seconds)
        for block in range(self.blocks if replicas > 1 else 0):
            members = list(range(block, self.ranks, self.blocks))
            group = dist.new_group(members, timeout=patience, backend="nccl" if direct else "gloo")
            if block == self.block:
                self.sum_replicas = ReplicaSum(group, replicas, block, direct)

    def _meet(self, meeting: Meeting, runtime: RuntimeSpec) -> None:
        """Join the others; MissingError where they cannot be reached in time."""
        meeting.use_interface()
        patience = timedelta(seconds=runtime.rendezvous_seconds)
        try:
            store = meeting.store(patience)
            # gloo has one patience for meeting and for messages: meet before, with its own.
            store.set(f"here/{self.rank}", "")
            store.wait([f"here/{k}" for k in range(self.ranks)], patience)
            dist.init_process_group(
                "gloo",
                store=store,
                rank=self.rank,
                world_size=self.ranks,
                timeout=timedelta(seconds=runtime.message_seconds),
            )
        except RuntimeError as error:
            raise MissingError(
                f"block {self.rank} could not reach the others at {meeting.address} within "
                f"{runtime.rendezvous_seconds:g} s (runtime.rendezvous_seconds)"
            ) from error

    def link(self, peer: int, stream: str) -> Link:
        """The channel to a neighbour for a stream; gradients flow to lower, outputs to higher blocks."""
        upwards, other = stream == "output", self.rank - self.block + peer
        low, high = min(self.rank, other), max(self.rank, other)
        nccl = self._groups.get((low, high) if upwards else (high, low))
        apart = (low, high) in self._gradients
        own = self._gradients[low, high] if apart and stream == "gradient" else None
        ahead = _AHEAD_BETWEEN_HOSTS if apart else 1
        return Link(peer, stream, self.device, nccl, rank=other, group=own, ahead=ahead)

    def outbox(self, peer: int, stream: str) -> Outbox:
        """The sending end of a queue to a neighbour."""
        return Outbox(self._crossed(self.link(peer, stream)))

    def inbox(self, peer: int, stream: str, expected: Iterator[Envelope]) -> Inbox:
        """The receiving end of a queue from a neighbour."""
        return Inbox(self._crossed(self.link(peer, stream)), expected)

    def _crossed(self, link: Link) -> Link:
        """With a stream of its own on a GPU, so that no queue holds up another."""
        if self.device.type == "cuda":
            link.crossing = Crossing(SideStream(self.device), self._buffers, self._courier)
        return link

    def start_together(self) -> float:
        """Wait for all blocks; returns the common start (monotonic seconds)."""
        self._barrier()
        return time.monotonic()

    def finish(self, batches: int) -> None:
        """Wait for all blocks, then leave the group: nobody closes while a neighbour still receives."""
        if self._barrier_locking and self.block < self.blocks - 1:
            self.await_forward(batches - 1)  # marks that no action waited for, so that their sends end
        for work, _ in self._signals:
            work.wait()
        self._barrier()
        if self.ranks > 1:
            dist.destroy_process_group()

    def _barrier(self) -> None:
        if self.ranks == 1:
            return
        try:
            dist.barrier()
        except RuntimeError as error:
            raise PeerLost(f"the blocks did not meet: {error}") from error

    # -- barrier locking: the last block tells everyone which batch it has forwarded -------------------------

    def announce_forward(self, batch: int) -> None:
        """Last block: `batch` has been forwarded."""
        if not self._barrier_locking:
            return
        mark = torch.tensor([batch], dtype=torch.int64)
        for peer in range(self.blocks - 1):
            self._signals.append((dist.isend(mark, self.rank - self.block + peer, tag=_SIGNAL_TAG), mark))
        if len(self._signals) > 64 * self.blocks:
            self._signals.pop(0)[0].wait()

    def await_forward(self, batch: int) -> None:
        """Other blocks: wait until the last block has forwarded `batch`."""
        mark = torch.empty(1, dtype=torch.int64)
        while self._forwarded < batch:
            link = self.link(self.blocks - 1, "output")
            link.wait(link.receive(mark, _SIGNAL_TAG))
            self._forwarded = int(mark)

    # -- evaluation: its own messages, apart from the training queues
    # -----------------------------------------

    def send_now(self, peer: int, envelope: Envelope, tensor: Tensor, number: int) -> tuple[Any, Tensor]:
        """Start to send a tensor outside the queues; returns what `wait` needs."""
        buffer = envelope.buffer()
        envelope.write(buffer)
        envelope.payload(buffer).copy_(tensor)
        link = self.link(peer, "evaluation")
        return link.send(buffer, link.tag(number)), buffer

    def wait(self, sent: tuple[Any, Tensor], peer: int) -> None:
        """Wait for a send that `send_now` started."""
        self.link(peer, "evaluation").wait(sent[0])

    def receive_now(self, peer: int, envelope: Envelope, number: int) -> Tensor:
        """Receive a tensor outside the queues."""
        buffer = envelope.buffer()
        link = self.link(peer, "evaluation")
        link.wait(link.receive(buffer, link.tag(number)))
        envelope.check(buffer, peer)
        return envelope.payload(buffer).to(self.device)
