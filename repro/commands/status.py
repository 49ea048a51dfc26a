"""`repro status`: how far every seed is, once or until nothing runs and nothing waits."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from repro import paths
from repro.commands.reports import TABLE_FORMATS, one_of, prints_unicode
from repro.commands.resolve import choose_seeds, is_file
from repro.commands.runs_folder import holds_runs, runs_to_read
from repro.errors import UserError
from repro.recipe.suite import recipe_settings
from repro.report.pages.formats import render
from repro.report.table import Column, Table, Value
from repro.standing.seed_standing import Standing, State, iso
from repro.standing.survey import Survey

DEFAULT_SEEDS = 5  # that a recipe is expected to have, as `repro show` counts them
WATCH_SECONDS = 2.0
COLUMNS = [
    Column("recipe", "recipe"),
    Column("profile", "profile"),
    Column("settings", "settings", wrap=30),
    Column("hash", "hash"),
    Column("seed", "seed", number=True),
    Column("state", "state"),
    Column("progress", "progress"),
    Column("where", "where"),
    Column("job", "job"),
    Column("since", "since"),
    Column("ends", "expected end"),
    Column("note", "note", wrap=60),
    *(Column(name, name, hidden=True) for name in ("batch", "batches", "epoch", "epochs")),
]


def show_status(
    names: Sequence[str],
    seeds: int | None,
    seed_list: str | None,
    watch: bool,
    format: str,
    runs: Path | None,
    period: float = WATCH_SECONDS,
) -> int:
    """Print a row for each seed; with `watch` again every `period` seconds. Returns the exit code.

    Without RECIPE all that has been begun or submitted; with it also the seeds that are not started.
    """
    one_of("--format", format, TABLE_FORMATS)
    if watch and format != "txt":
        raise UserError(f"--watch shows a screen, or lines; take --format {format} without it")
    survey = Survey(_folder(runs))
    recipes = [_name(name, survey.runs) for name in names]
    asked = (
        choose_seeds(seeds, seed_list) if (seeds, seed_list) != (None, None) else list(range(DEFAULT_SEEDS))
    )
    if watch:
        return _watch(survey, recipes, asked, period)
    rows = survey.take(recipes, asked)
    if not rows and format == "txt":
        print(f"nothing has been run in {survey.runs}", file=sys.stderr)
        return 0
    ascii_only = format == "txt" and not prints_unicode()
    sys.stdout.write(render(_table(rows, survey.runs, format != "txt"), format, ascii=ascii_only))
    return 0


def _folder(runs: Path | None) -> Path:
    if runs is not None and not (runs.is_dir() and not holds_runs(runs) and (runs / ".cluster").is_dir()):
        return runs_to_read(runs)
    return runs or paths.runs()


def _name(word: str, runs: Path) -> str:
    """The folder's name of a recipe; UserError where neither the suite nor the runs know it."""
    if is_file(word):
        if not Path(word).is_file():
            raise UserError(f"there is no recipe file at {word}")
        return Path(word).stem
    return word if (runs / word).is_dir() else str(recipe_settings(word)["name"])


def _table(rows: Iterable[Standing], runs: Path, machine: bool) -> Table:
    rows = list(rows)
    counts = Counter(row.state for row in rows)
    summary = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
    shown = [c for c in COLUMNS if machine or c.hidden or any(_cell(row, c.name) for row in rows)]
    cell = _machine if machine else _cell
    cells: list[dict[str, Value]] = [{c.name: cell(row, c.name) for c in COLUMNS} for row in rows]
    return Table("status", shown, cells, [f"{runs}: {summary}"])


def _machine(row: Standing, name: str) -> str | int | float | None:
    """A cell for programs: whole dates, numbers as numbers."""
    if name in ("since", "ends"):
        return iso(getattr(row, name))
    return _cell(row, name) if name == "progress" else getattr(row, name)


def _cell(row: Standing, name: str) -> str | int:
    if name == "progress":
        return _progress(row)
    if name in ("since", "ends"):
        return _when(getattr(row, name))
    value = getattr(row, name)
    return "" if value is None else value if isinstance(value, int) else str(value)


def _progress(row: Standing) -> str:
    words = []
    if row.epoch is not None and row.epochs:
        words.append(f"epoch {row.epoch}/{row.epochs}")
    if row.batch is not None and row.state is not State.DONE:
        words.append(f"batch {row.batch}/{row.batches}" if row.batches else f"batch {row.batch}")
    return ", ".join(words)


def _when(seconds: float | None) -> str:
    """The time of today, the date and time of another day."""
    if seconds is None:
        return ""
    then = datetime.fromtimestamp(seconds)
    return then.strftime("%H:%M:%S" if then.date() == datetime.now().date() else "%Y-%m-%d %H:%M")


def _watch(survey: Survey, recipes: Sequence[str], seeds: Sequence[int], period: float) -> int:
    """A screen that renews itself, in a pipe a line for each change; ends when nothing runs or waits."""
    if sys.stdout.isatty():
        return _live(survey, recipes, seeds, period)
    before: dict[tuple[object, ...], tuple[object, ...]] = {}
    while True:
        rows = survey.take(recipes, seeds)
        for row in rows:
            key, now = (
                (row.recipe, row.profile, row.settings, row.hash, row.seed),
                (row.state, row.epoch, row.job),
            )
            if before.get(key) != now:
                before[key] = now
                print(f"{datetime.now():%H:%M:%S} {_line(row)}", flush=True)
        if not any(row.open for row in rows):
            return 0
        time.sleep(period)


def _line(row: Standing) -> str:
    name = " ".join(filter(None, (row.recipe, row.settings)))
    ends = f"ends {_when(row.ends)}" if row.ends else ""
    job = f"job {row.job}" if row.job else ""
    words = [_progress(row), row.where, job, ends, row.note]
    return f"{name} seed {row.seed}: " + ", ".join(filter(None, (str(row.state), *words)))


def _live(survey: Survey, recipes: Sequence[str], seeds: Sequence[int], period: float) -> int:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        while True:
            rows = survey.take(recipes, seeds)
            first = sorted(rows, key=lambda row: not row.open) if len(rows) > console.height - 6 else rows
            live.update(Text(render(_table(first, survey.runs, False), "txt"), no_wrap=True), refresh=True)
            if not any(row.open for row in rows):
                return 0
            time.sleep(period)
