"""What a user sees while seeds run: a live bar on a terminal, plain lines otherwise; all on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repro.planning.run_plan import Plan


BarState = tuple[str, int, int, str, str, str]  # title, batches in all, batches done, loss, score, rate


def score_words(numbers: Mapping[str, Any], end: str = "") -> str:
    """What an evaluation says besides the loss: "test accuracy 97.00 %", of a text "test 2.31 bits/byte, perplexity 24".

    `end`: behind each field's name, "_last" in result.json; "" where there is nothing.
    """
    words = []
    if (accuracy := numbers.get(f"test_accuracy{end}")) is not None:
        words.append(f"test accuracy {accuracy:.2f} %")
    if (bits := numbers.get(f"test_bits_per_byte{end}")) is not None:
        words.append(f"test {bits:.3f} bits/byte")
    if (perplexity := numbers.get(f"test_perplexity{end}")) is not None:
        words.append(f"perplexity {perplexity:.1f}")
    return ", ".join(words)


def score(numbers: Mapping[str, float]) -> str:
    """The same for a bar: "acc 97.00 %" or "2.310 bits/byte"."""
    bits = numbers.get("test_bits_per_byte")
    return f"acc {numbers['test_accuracy']:.2f} %" if bits is None else f"{bits:.3f} bits/byte"


class Progress:
    """Plain lines: one at the start, one per epoch, one at the end. No colour, no carriage return."""

    def __init__(self) -> None:
        self.title = ""
        self.total = 0
        self._samples, self._unit = 0, "images"
        self._begin = time.monotonic()
        self._spoken = 0.0

    def say(self, text: str) -> None:
        """Print a line at once."""
        print(text, file=sys.stderr, flush=True)

    def start(self, plan: Plan, seed: int, done: int) -> None:
        """A seed begins (at batch `done`)."""
        self.title = f"{plan.title} seed {seed}"
        self.total, self._samples = plan.num_batches, 0
        self._unit = "sequences" if plan.reads_text else "images"
        self._begin = self._spoken = time.monotonic()
        self._cut(plan, done)

    def _cut(self, plan: Plan, done: int) -> None:
        where = f"{plan.blocks} block{'s' if plan.blocks > 1 else ''}{plan.recipe.of_replicas} on "
        where += ", ".join(sorted(set(plan.devices)))
        self.say(
            f"{self.title}: {plan.num_batches - done} batches, {where}, {plan.threads} thread(s) each"
            + (f", on {', '.join(dict.fromkeys(plan.hosts))}" if plan.hosts else "")
            + _shared(plan)
        )

    def step(self, batch: int, loss: float, samples: int) -> None:
        """A batch has been trained."""
        self._samples += samples
        now = time.monotonic()
        if now - self._spoken > 15.0:  # long epochs: a sign of life
            self._spoken = now
            self.say(f"{self.title}: batch {batch + 1}/{self.total}, loss {loss:.4f}, {self.rate()}")

    def epoch(self, epoch: int, numbers: dict[str, float]) -> None:
        """An epoch has been evaluated."""
        self._spoken = time.monotonic()
        self.say(
            f"{self.title}: epoch {epoch}, train loss {numbers['train_loss']:.4f}, test loss "
            f"{numbers['test_loss']:.4f}, {score_words(numbers)}, {self.rate()}"
        )

    def end(self, text: str) -> None:
        """A seed has ended, one way or the other."""
        self.say(f"{self.title}: {text}")

    def bar(self, seat: int, state: BarState | None) -> None:
        """Where the run on a seat stands, of several at once; None: it has ended. Plain lines show no bars."""

    def close(self) -> None:
        """Leave the screen in order."""

    def rate(self) -> str:
        """Images (sequences of a text) per second since the seed began."""
        seconds = time.monotonic() - self._begin
        return f"{self._samples / seconds:.0f} {self._unit}/s" if seconds > 0 else ""


def _shared(plan: Plan) -> str:
    if plan.engine == "sequential":
        return ", in turn in one process"
    return ", more blocks than cores: times are no speed-up" if plan.oversubscribed else ""


class LiveProgress(Progress):
    """A Rich bar with loss, accuracy or bits per byte, images/s and time left."""

    def __init__(self, console: Any) -> None:
        super().__init__()
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._console = console
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}  {task.fields[score]}  {task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._bars.start()
        self._task: Any = None
        self._score = ""
        self._seats: dict[int, Any] = {}  # the bars of several runs at once

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _cut(self, plan: Plan, done: int) -> None:
        super()._cut(plan, done)
        self._score = ""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(
            self.title, total=self.total, completed=done, loss="-", score="", rate=""
        )

    def step(self, batch: int, loss: float, samples: int) -> None:
        """Move the bar."""
        self._samples += samples
        self._bars.update(
            self._task, completed=batch + 1, loss=f"{loss:.4f}", score=self._score, rate=self.rate()
        )

    def epoch(self, epoch: int, numbers: dict[str, float]) -> None:
        """Print the epoch's line above the bar."""
        self._score = score(numbers)
        super().epoch(epoch, numbers)

    def bar(self, seat: int, state: BarState | None) -> None:
        """One bar a seat."""
        if state is None:
            if seat in self._seats:
                self._bars.remove_task(self._seats.pop(seat))
            return
        title, total, done, loss, found, rate = state
        if seat not in self._seats:
            self._seats[seat] = self._bars.add_task(title, total=total, loss="-", score="", rate="")
        self._bars.update(
            self._seats[seat],
            description=title,
            total=total,
            completed=done,
            loss=loss,
            score=found,
            rate=rate,
        )

    def close(self) -> None:
        """Stop the live display."""
        self._bars.stop()


def progress_for_terminal() -> Progress:
    """The live form where stderr is a capable terminal, plain lines otherwise."""
    if not sys.stderr.isatty():
        return Progress()
    from rich.console import Console

    console = Console(stderr=True)
    return LiveProgress(console) if console.is_terminal and not console.is_dumb_terminal else Progress()
