"""The runs behind a page's numbers: each recipe and hash has a number (r7), and what is needed to make it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from repro.report.pages.unbroken import unbroken
from repro.report.stored.group import Group
from repro.report.stored.source import Source
from repro.report.table import Measured, Runs, Table

Key = tuple[str, str, str]  # recipe, hash, profile


@dataclass
class Behind:
    """Numbers the runs that the tables of a page name; every reference leads to a row of `rows`."""

    groups: dict[Key, Group]
    benchmarks: dict[str, dict[str, Any]]
    _numbers: dict[Key, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = {key: f"r{i}" for i, key in enumerate(self.groups, start=1)}
        self._numbers |= {(name, "", ""): f"b{i}" for i, name in enumerate(self.benchmarks, start=1)}

    def links(self, runs: Iterable[Runs]) -> str:
        """A small link to each: "r3 r12"; its title says which recipe and seeds."""
        found = []
        for one in runs:
            number = self._numbers.get((one.recipe, one.hash, one.profile))
            if number is not None:
                found.append(f'<a href="#{number}" title="{escape(_words(one))}">{number}</a>')
        return f"<sup>{' '.join(found)}</sup>" if found else ""

    def of_recipe(self, recipe: str) -> list[Runs]:
        """All runs of a recipe, for a row that has no number of its own."""
        return [
            Runs(g.recipe, g.hash, g.profile, _seeds(g)) for g in self.groups.values() if g.recipe == recipe
        ]

    def rows(self) -> str:
        """The table of all runs."""
        lines = [_row(self._numbers[key], group) for key, group in self.groups.items()]
        lines += [_benchmark(self._numbers[name, "", ""], name, e) for name, e in self.benchmarks.items()]
        heads = ("", "recipe, profile, hash", "seeds", "environment", "to repeat; what was typed then")
        head = "".join(f"<th>{h}</th>" for h in heads)
        return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def behind(tables: Iterable[Table], source: Source) -> Behind:
    """All runs of `source`, then those of the project that stand in for them, and the benchmarks that tables name."""
    named = dict.fromkeys(_named(tables))
    groups = {_key(g): g for g in source.find(lambda run: True).groups}
    missing = {(r.recipe, r.hash, r.profile) for r in named if r.hash} - set(groups)
    if missing:
        elsewhere = [source.find(lambda run: True, timing_only=True).groups]
        if source.fallback or source.reference:
            elsewhere.append(replace(source, reference=True).find(lambda run: True).groups)
        found = {_key(g): g for members in elsewhere for g in members}
        groups |= {key: found[key] for key in sorted(missing & set(found))}
    benchmarks = {}
    for name in sorted({r.recipe for r in named if not r.hash}):
        stored, _ = source.bench(name.removeprefix("bench "))
        benchmarks[name] = (stored or {}).get("environment") or {}
    return Behind(groups, benchmarks)


def _named(tables: Iterable[Table]) -> Iterator[Runs]:
    for table in tables:
        for row in table.rows:
            for value in row.values():
                if isinstance(value, Measured):
                    yield from value.made_of


def _key(group: Group) -> Key:
    return group.recipe, group.hash, group.profile


def _seeds(group: Group) -> tuple[int, ...]:
    return tuple(run.seed for run in group.complete)


def _words(runs: Runs) -> str:
    if not runs.hash:
        return f"repro {runs.recipe}"
    seeds = ", ".join(map(str, runs.seeds)) or "none finished"
    return f"{runs.recipe}, profile {runs.profile}, {runs.hash}, seeds {seeds}"


def _row(number: str, group: Group) -> str:
    """Seeds, machine, versions, commit, and the command that makes a group's runs again."""
    runs = group.complete or list(group.runs)
    environment = runs[0].environment
    name = unbroken(", ".join((group.recipe, *group.variant_words)))
    seeds = f"{', '.join(map(str, _seeds(group)))} ({len(group.complete)}/{len(group.started)})"
    threads = f"{group.threads} thread{'' if group.threads == '1' else 's'} a block"
    typed = sorted({" ".join(map(str, r.environment.get("command") or ())) for r in runs} - {""})
    place = f"<small>{escape(group.profile)}, <code>{escape(group.hash)}</code></small>"
    cells = [
        f"<b>{number}</b>", f"{name}<br>{place}", escape(seeds), _environment(group.machine, environment, threads),
        f"<code>{unbroken(_again(group))}</code>" + "".join(f"<br><small>{unbroken(words)}</small>" for words in typed),
    ]  # fmt: skip
    return f'<tr id="{number}">' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>\n"


def _benchmark(number: str, name: str, environment: dict[str, Any]) -> str:
    machine = str(environment.get("processor") or "unknown machine")
    cells = [f"<b>{number}</b>", f"{escape(name)}<br><small>stored benchmark</small>", "",
             _environment(machine, environment), f"<code>repro {escape(name)}</code>"]  # fmt: skip
    return f'<tr id="{number}">' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>\n"


def _environment(machine: str, environment: dict[str, Any], *more: str) -> str:
    git = environment.get("git") or {}
    commit = (
        f"commit {str(git['commit'])[:10]}{' (changed)' if git.get('dirty') else ''}"
        if git.get("commit")
        else ""
    )
    versions = [
        f"{label} {environment[key]}"
        for key, label in (("torch", "PyTorch"), ("python", "Python"))
        if environment.get(key)
    ]
    words = [machine, *more, *versions, commit]
    return escape("; ".join(w for w in words if w))


def _again(group: Group) -> str:
    """The command that makes a group's runs again."""
    changed = "".join(
        f" --set {shlex.quote(f'{k}={_value(here)}')}" for k, (_, here) in group.changed.items()
    )
    return f"repro run {group.recipe} --profile {group.profile} --seeds {len(group.started)}{changed}"


def _value(value: object) -> str:
    return "null" if value is None else str(value)
