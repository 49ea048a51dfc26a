"""Where a report reads from: the user's runs, or the project's reference runs where the user has none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro import paths
from repro.report.stored.current import current
from repro.report.stored.group import Group
from repro.report.stored.origin import with_origin
from repro.report.stored.variants import named
from repro.store import StoredRun, read_runs

Wanted = Callable[[StoredRun], bool]


@dataclass
class Found:
    """The groups that a report asked for, what is wrong with them, and whether they are reference runs."""

    groups: list[Group]
    problems: list[str]
    reference: bool

    def caption(self) -> list[str]:
        """A line that says so where these are not the user's own runs."""
        if not self.reference or not self.groups:
            return []
        return ["Reference runs of the project (results/reference), not runs of yours."]

    def environment(self) -> dict[str, Any]:
        """Machines, versions and commits behind the groups, for JSON and HTML."""
        runs = [run for group in self.groups for run in group.complete]

        def every(read: Callable[[StoredRun], Any]) -> list[str]:
            return sorted({str(value) for run in runs if (value := read(run)) not in (None, "")})

        return {
            "source": "reference" if self.reference else "runs",
            "machines": every(lambda r: (r.result or {}).get("machine") or r.environment.get("processor")),
            "threads": every(lambda r: (r.result or {}).get("threads")),
            "torch": every(lambda r: r.environment.get("torch")),
            "commits": every(lambda r: (r.environment.get("git") or {}).get("commit")),
            "dirty": any(bool((r.environment.get("git") or {}).get("dirty")) for r in runs),
        }


@dataclass
class Source:
    """Stored runs under `root`; `profile` None takes every profile.

    `reference` reads the reference runs only; without `fallback` they do not stand in where the user has none.
    """

    root: Path
    profile: str | None = None
    reference: bool = False
    fallback: bool = True
    _read: dict[Path, tuple[list[StoredRun], list[tuple[str, str, int]]]] = field(
        default_factory=dict, repr=False
    )

    def find(self, wanted: Wanted, *, timing_only: bool = False) -> Found:
        """Groups of the runs that are `wanted`; the reference runs where the user has not one of them.

        Runs that trained nothing are found only by who asks for them (`timing_only`), and then alone.
        """
        for root in [*([] if self.reference else [self.root]), *self._project()]:
            runs, unreadable = self._runs(root)
            kept = [r for r in runs if self._asked(r) and trained(r) is not timing_only and wanted(r)]
            if kept:
                reference = root.resolve() == paths.reference().resolve()
                every = [with_origin(g, forgiving=reference) for g in grouped(kept, unreadable)]
                groups, problems = current(every)
                known = {(run.recipe_name, run.hash) for run in runs}
                problems += [
                    f"{name} ({number}): seed {seed} is unreadable (recipe.yaml)"
                    for name, number, seed in unreadable
                    if (name, number) not in known
                ]
                return _checked(named(groups), problems, reference)
        return Found([], [], self.reference)

    def bench(self, name: str) -> tuple[dict[str, Any] | None, bool]:
        """The stored rows of `repro bench <name>` (None: not run), and whether they are the reference's.

        Files `<name>-<part>.json` beside it add their rows: the same benchmark of other networks.
        """
        own = [] if self.reference else [self.root, self.root.parent, Path("results")]
        for root in [*own, *self._project()]:
            folder = paths.bench(root)
            parts = [
                _rows_of(path) for path in (folder / f"{name}.json", *sorted(folder.glob(f"{name}-*.json")))
            ]
            if parts[0] is not None:
                rows = [row for part in parts if part is not None for row in part["rows"]]
                return {**parts[0], "rows": rows}, root.resolve() == paths.reference().resolve()
        return None, self.reference

    def _project(self) -> list[Path]:
        """The reference runs' folder, where they may be read."""
        return [paths.reference()] if self.reference or self.fallback else []

    def _asked(self, run: StoredRun) -> bool:
        return self.profile is None or run.recipe.get("profile") == self.profile

    def _runs(self, root: Path) -> tuple[list[StoredRun], list[tuple[str, str, int]]]:
        if root not in self._read:
            runs = read_runs(root)
            self._read[root] = runs, _unreadable(root, runs)
        return self._read[root]


def experiment(run: StoredRun) -> str:
    """The kind of run: train, straggler, gradient-gap or bias."""
    return str(run.recipe.get("experiment") or (run.result or {}).get("experiment") or "train")


def trained(run: StoredRun) -> bool:
    """Whether the run trained a network; in a timing-only run blocks waited instead of computing."""
    return not run.recipe.get("timing_only", False)


def pipelined(run: StoredRun) -> bool:
    """Whether the run is of the groups that are about pipelines."""
    return in_group(run, "dsp") or in_group(run, "asynchronous")


def on_text(run: StoredRun) -> bool:
    """Whether the run's samples are sequences of a text, which have losses and no accuracy."""
    data = run.recipe.get("data")
    return isinstance(data, Mapping) and data.get("name") == "text"


def in_group(run: StoredRun, group: str) -> bool:
    """Whether the run belongs to `group` (dsp, gradient-approximation or asynchronous)."""
    return str(run.recipe.get("group") or (run.result or {}).get("group") or "dsp") == group


def asked_for(run: StoredRun) -> set[int]:
    """The seeds that the command which made this run asked for, as far as its command line tells."""
    words = [str(word) for word in run.environment.get("command") or ()]
    line = " ".join(words)
    many = re.search(r"--seeds[ =](\d+)", line)
    some = re.search(r"--seed-list[ =]([\d,]+)", line)
    if many:
        return set(range(min(int(many.group(1)), 10_000)))
    return {int(word) for word in some.group(1).split(",") if word} if some else set()


def grouped(runs: list[StoredRun], unreadable: list[tuple[str, str, int]]) -> list[Group]:
    sets: dict[tuple[str, str, str], list[StoredRun]] = {}
    for run in runs:
        sets.setdefault((run.recipe_name, run.hash, str(run.recipe.get("profile", ""))), []).append(run)
    groups = []
    for (recipe, number, profile), members in sets.items():
        broken = {seed for name, h, seed in unreadable if (name, h) == (recipe, number)}
        started = {run.seed for run in members} | broken | set().union(*map(asked_for, members))
        groups.append(
            Group(recipe, number, profile, tuple(members), tuple(sorted(started)), tuple(sorted(broken)))
        )  # fmt: skip
    return groups


def _checked(groups: list[Group], problems: list[str], reference: bool) -> Found:
    """Collect what is wrong: groups whose recipe has changed since, seeds that are not complete."""
    for group in groups:
        if group.stale:
            problems.append(
                f"{group.recipe} ({group.profile}, {group.hash}): stale, the recipe has changed since: {group.stale}"
            )
        problems += group.problems()
    return Found(groups, problems, reference)


def _unreadable(root: Path, runs: list[StoredRun]) -> list[tuple[str, str, int]]:
    """Seed folders that `read_runs` left out although their result, if any, belongs there (recipe.yaml is broken)."""
    seen = {run.folder.path for run in runs}
    found = []
    for path in sorted(root.glob("*/*/seed-*")):
        digits = path.name.removeprefix("seed-")
        if path in seen or not path.is_dir() or not digits.isdigit() or str(int(digits)) != digits:
            continue
        result: Any = None
        with suppress(OSError, ValueError):
            result = json.loads((path / "result.json").read_text(encoding="utf-8"))
        here = (path.parent.parent.name, path.parent.name, int(digits))
        if (
            not isinstance(result, dict)
            or (result.get("recipe"), result.get("hash"), result.get("seed")) == here
        ):
            found.append(here)
    return found


def _rows_of(file: Path) -> dict[str, Any] | None:
    """What `repro bench` stored; None where there is nothing that can be read."""
    with suppress(OSError, ValueError):
        found = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(found, dict) and isinstance(found.get("rows"), list):
            return found
    return None
