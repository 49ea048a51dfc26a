"""All trackers of a run, in a thread of their own: one that raises, or hangs, is left behind, and the run goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Full, Queue
from typing import Any

from repro.trackers.named import factory
from repro.trackers.tracker import Row, Run, Tracker

ROOM = 100_000  # rows that a slow tracker may lie behind
PATIENCE_SECONDS = 20.0  # for trackers to hear the rest when the run has ended

Say = Callable[[str], None]


def check(words: Sequence[str]) -> None:
    """Raise UserError, or MissingError with the command that helps, where a word of --log means no tracker here."""
    for word in words:
        factory(word)


class Audience:
    """Passes rows on to the trackers that `words` name."""

    def __init__(
        self, words: Sequence[str], run: Callable[[], Run], say: Say, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._hearers = [_Hearer(word, say, patience) for word in dict.fromkeys(words)]
        self._run = run  # asked for before the first row: a resumed run knows its first batch only then

    def row(self, row: Row) -> None:
        """A row as it goes to metrics.jsonl."""
        for hearer in self._hearers:
            hearer.begin_once(self._run)
            hearer.put("row", dict(row))

    def end(self, result: Mapping[str, Any]) -> None:
        """The run has ended; waits for the trackers, but not for long."""
        for hearer in self._hearers:
            hearer.begin_once(self._run)
            hearer.put("end", dict(result))
        for hearer in self._hearers:
            hearer.join()


class _Hearer:
    def __init__(self, word: str, say: Say, patience: float) -> None:
        self._word, self._say, self._patience = word, say, patience
        self._queue: Queue[tuple[str, Any]] = Queue(ROOM)
        self._gone = False
        self._thread: threading.Thread | None = None

    def begin_once(self, run: Callable[[], Run]) -> None:
        if self._thread is None:
            self._queue.put(("begin", run()))
            self._thread = threading.Thread(target=self._listen, name=f"repro log {self._word}", daemon=True)
            self._thread.start()

    def put(self, what: str, content: Any) -> None:
        if self._gone:
            return
        try:
            self._queue.put_nowait((what, content))
        except Full:
            self._leave(f"lies {ROOM} rows behind")

    def join(self) -> None:
        if self._thread is not None and not self._gone:
            self._thread.join(self._patience)
            if self._thread.is_alive():
                self._leave(f"has not taken the last rows within {self._patience:g} s")

    def _listen(self) -> None:
        try:
            tracker: Tracker = factory(self._word)()
            while not self._gone:
                what, content = self._queue.get()
                getattr(tracker, what)(content)
                if what == "end":
                    return
        except Exception as error:
            self._leave(f"{type(error).__name__}: {' '.join(str(error).split())}")

    def _leave(self, why: str) -> None:
        if not self._gone:
            self._gone = True
            self._say(f"--log {self._word}: {why}; it hears no more of this run, whose own files have all")
