"""How far a neighbouring block has come by an evaluation, read off its schedule."""

from __future__ import annotations

from repro.schedule import Kind, Schedule

Key = tuple[int, int]


class Progress:
    """Follows the actions of block `peer`; a checkpoint needs to know which messages it had taken by then."""

    def __init__(self, schedule: Schedule, peer: int) -> None:
        self._actions = schedule.actions(peer)
        self._gradient_kind = Kind.MODULE if schedule.synthetic else Kind.BACKWARD
        self._epoch = -1
        self._last: dict[str, Key] = {"output": (-1, 0), "gradient": (-1, 0)}

    def taken(self, stream: str, epoch: int) -> Key:
        """The last (batch, micro-batch) of `stream` that the peer takes before it evaluates `epoch`."""
        while self._epoch < epoch:
            action = next(self._actions, None)
            if action is None:
                break
            if action.kind is Kind.EVALUATE:
                self._epoch = action.batch
            elif action.kind is Kind.FORWARD:
                self._last["output"] = (action.batch, action.micro)
            elif action.kind is self._gradient_kind:
                self._last["gradient"] = (action.batch, action.micro)
        return self._last[stream]
