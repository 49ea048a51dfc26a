"""What a user sees while seeds run: a live bar on a terminal, plain lines otherwise; all on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repro.planning.run_plan import Plan


BarState = tuple[str, int, int, str, str, str]  # title, batches in all, batches done, loss, accuracy, rate


class Progress:
    """Plain lines: one at the start, one per epoch, one at the end. No colour, no carriage return."""

    def __init__(self) -> None:
        self.title = ""
        self.total = 0
        self._images = 0
        self._begin = time.monotonic()
        self._spoken = 0.0

    def say(self, text: str) -> None:
        """Print a line at once."""
        print(text, file=sys.stderr, flush=True)

    def start(self, plan: Plan, seed: int, done: int) -> None:
        """A seed begins (at batch `done`)."""
        self.title = f"{plan.title} seed {seed}"
        self.total, self._images = plan.num_batches, 0
        self._begin = self._spoken = time.monotonic()
        self._cut(plan, done)

    def _cut(self, plan: Plan, done: int) -> None:
        where = (
            f"{plan.blocks} block{'s' if plan.blocks > 1 else ''} on {', '.join(sorted(set(plan.devices)))}"
        )
        self.say(
            f"{self.title}: {plan.num_batches - done} batches, {where}, {plan.threads} thread(s) each"
            + _shared(plan)
        )

    def step(self, batch: int, loss: float, samples: int) -> None:
        """A batch has been trained."""
        self._images += samples
        now = time.monotonic()
        if now - self._spoken > 15.0:  # long epochs: a sign of life
            self._spoken = now
            self.say(f"{self.title}: batch {batch + 1}/{self.total}, loss {loss:.4f}, {self.rate()}")

    def epoch(self, epoch: int, numbers: dict[str, float]) -> None:
        """An epoch has been evaluated."""
        self._spoken = time.monotonic()
        self.say(
            f"{self.title}: epoch {epoch}, train loss {numbers['train_loss']:.4f}, test loss "
            f"{numbers['test_loss']:.4f}, test accuracy {numbers['test_accuracy']:.2f} %, {self.rate()}"
        )

    def end(self, text: str) -> None:
        """A seed has ended, one way or the other."""
        self.say(f"{self.title}: {text}")

    def bar(self, seat: int, state: BarState | None) -> None:
        """Where the run on a seat stands, of several at once; None: it has ended. Plain lines show no bars."""

    def close(self) -> None:
        """Leave the screen in order."""

    def rate(self) -> str:
        """Images per second since the seed began."""
        seconds = time.monotonic() - self._begin
        return f"{self._images / seconds:.0f} images/s" if seconds > 0 else ""


def _shared(plan: Plan) -> str:
    if plan.engine == "sequential":
        return ", in turn in one process"
    return ", more blocks than cores: times are no speed-up" if plan.oversubscribed else ""


class LiveProgress(Progress):
    """A Rich bar with loss, accuracy, images/s and time left."""

    def __init__(self, console: Any) -> None:
        super().__init__()
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._console = console
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}  acc {task.fields[accuracy]}  {task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._bars.start()
        self._task: Any = None
        self._accuracy = "-"
        self._seats: dict[int, Any] = {}  # the bars of several runs at once

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _cut(self, plan: Plan, done: int) -> None:
        super()._cut(plan, done)
        self._accuracy = "-"
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(
            self.title, total=self.total, completed=done, loss="-", accuracy="-", rate=""
        )

    def step(self, batch: int, loss: float, samples: int) -> None:
        """Move the bar."""
        self._images += samples
        self._bars.update(
            self._task, completed=batch + 1, loss=f"{loss:.4f}", accuracy=self._accuracy, rate=self.rate()
        )

    def epoch(self, epoch: int, numbers: dict[str, float]) -> None:
        """Print the epoch's line above the bar."""
        self._accuracy = f"{numbers['test_accuracy']:.2f} %"
        super().epoch(epoch, numbers)

    def bar(self, seat: int, state: BarState | None) -> None:
        """One bar a seat."""
        if state is None:
            if seat in self._seats:
                self._bars.remove_task(self._seats.pop(seat))
            return
        title, total, done, loss, accuracy, rate = state
        if seat not in self._seats:
            self._seats[seat] = self._bars.add_task(title, total=total, loss="-", accuracy="-", rate="")
        self._bars.update(
            self._seats[seat],
            description=title,
            total=total,
            completed=done,
            loss=loss,
            accuracy=accuracy,
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
