"""The seeds of one recipe under one hash: what a cell of a table is computed from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from repro.report.stats import mean_interval
from repro.report.table import Measured, Runs
from repro.store import COMPLETE, StoredRun

OPTIMIZER_NAMES = {"adamw": "AdamW", "nadam": "NAdam", "muon": "Muon"}
Reader = Callable[[StoredRun], Any]
ELSEWHERE = frozenset({"num_workers", "path", "tokenizer"})  # settings of the data that change no number
OF_TEXTS = ("path", "tokenizer")  # but they say which text it is
LATER = frozenset({"context", "tokenizer"})  # that older runs do not mention: no value means no such setting


@dataclass(frozen=True)
class Group:
    """All seeds of (recipe, hash, profile). `started`: seeds begun, unreadable or asked for; `mark`: for the reader."""

    recipe: str
    hash: str
    profile: str
    runs: tuple[StoredRun, ...]
    started: tuple[int, ...]
    unreadable: tuple[int, ...] = ()
    marks: tuple[str, ...] = ()
    counted: Mapping[str, Any] = field(default_factory=dict)  # the settings that can change a number, flat
    changed: Mapping[str, tuple[Any, Any]] = field(
        default_factory=dict
    )  # by the command: (recipe's own, here)
    stale: str = ""  # how the recipe has changed since; "" where it has not
    variant: tuple[tuple[str, Any], ...] = ()  # (setting, value) that tell the row from others of its method

    @property
    def complete(self) -> list[StoredRun]:
        """Runs that finished; only these enter a mean."""
        return [run for run in self.runs if run.status == COMPLETE]

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved recipe as stored with the first seed."""
        return self.runs[0].recipe

    def fact(self, name: str, default: Any = "") -> Any:
        """A field of result.json from the first run that has it."""
        for run in self.runs:
            if run.result is not None and run.result.get(name) is not None:
                return run.result[name]
        return default

    @property
    def label(self) -> str:
        """The method as tables print it, with the approximated gradient where there is one."""
        words = str(self.fact("label") or _label(self.settings)) + update_label(self.settings)
        words += f", {self.replicas} replicas" if self.replicas > 1 else ""
        gradient = gradient_label(self.settings)
        if not gradient:
            return words
        return gradient if words == "BP" and self.blocks == 1 else f"{words}, {gradient}"

    @property
    def title(self) -> str:
        """The label, and behind it what tells the row from others of its method: "BP, lr 0.02"."""
        return ", ".join((self.label, *self.variant_words))

    @property
    def legend(self) -> str:
        """The title as figures print it, which have no column for notes."""
        return self.title + (" (stale)" if self.stale else "")

    @property
    def variant_words(self) -> list[str]:
        """ "lr 0.02" for each setting of `variant`."""
        return [f"{name} {value_words(value)}" for name, value in self.variant]

    @property
    def method(self) -> str:
        """Name of the method: bp, dsp, ..."""
        return str(self.fact("method") or _nested(self.settings, "method", "name"))

    @property
    def model(self) -> str:
        """Name of the network."""
        return str(self.fact("model") or _nested(self.settings, "model", "name"))

    @property
    def data(self) -> str:
        """Name of the data set."""
        return str(self.fact("data") or _nested(self.settings, "data", "name"))

    @property
    def blocks(self) -> int:
        """K."""
        return int(self.fact("blocks", 0) or self.settings.get("blocks", 1))

    @property
    def replicas(self) -> int:
        """R: pipelines that share every batch."""
        return int(self.settings.get("replicas", 1))

    @property
    def length(self) -> tuple[Any, Any]:
        """How long it trains: (epochs, max_steps)."""
        return self.settings.get("epochs"), self.settings.get("max_steps")

    @property
    def device(self) -> str:
        """Device type, or "" while no seed has a result."""
        return str(self.fact("device"))

    @property
    def machine(self) -> str:
        """Processor or GPU; several are joined by " / "."""
        return " / ".join(sorted({machine(run) for run in self.runs if run.result is not None}))

    @property
    def threads(self) -> str:
        """Threads of a block; several, where seeds differ, are joined by " / "."""
        return " / ".join(sorted({threads(run) for run in self.runs if run.result is not None}))

    @property
    def oversubscribed(self) -> bool:
        """Whether any seed had more blocks than devices or cores."""
        return any(bool((run.result or {}).get("oversubscribed")) for run in self.runs)

    @property
    def timed(self) -> bool:
        """Whether any seed has times that may be read."""
        return any(run.timed for run in self.complete) or not self.complete

    def values(self, read: str | Reader) -> dict[int, float]:
        """{seed: number} of the complete seeds; a field's name, or a function of the run. Leaves out what is no number."""
        found = {}
        for run in self.complete:
            value = (run.result or {}).get(read) if isinstance(read, str) else read(run)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
                found[run.seed] = float(value)
        return found

    def measured(self, read: str | Reader) -> Measured:
        """Mean of `values` over the seeds, with its interval."""
        found = self.values(read)
        return Measured(mean_interval(found.values()), len(self.started), (self.behind(found),))

    def behind(self, seeds: Iterable[int]) -> Runs:
        """What a number of these seeds names as its runs."""
        return Runs(self.recipe, self.hash, self.profile, tuple(sorted(seeds)))

    def marked(self, mark: str) -> Group:
        """The same group with one more mark."""
        return replace(self, marks=(*self.marks, mark))

    def problems(self) -> list[str]:
        """One line for each way in which seeds are not complete, with the seeds that ended so."""
        reasons = dict.fromkeys(self.started, "asked for and never started")
        reasons.update(dict.fromkeys(self.unreadable, "unreadable (recipe.yaml or env.json)"))
        for run in self.runs:
            reasons.pop(run.seed, None)
            if run.status != COMPLETE:
                words = run.note or str((run.result or {}).get("error") or "")
                reasons[run.seed] = run.status + (f": {words.splitlines()[0]}" if words else "")
        seeds: dict[str, list[int]] = {}
        for seed in sorted(reasons):
            seeds.setdefault(reasons[seed], []).append(seed)
        name = f"{self.recipe} ({self.profile}, {self.hash})"
        return [
            f"{name}: seed{'s' if len(found) > 1 else ''} {', '.join(map(str, found))} {reason}"
            for reason, found in seeds.items()
        ]

    def split(self) -> list[Group]:
        """One group per (machine, threads), so that times are never mixed; unfinished seeds stay with the first."""
        kinds = sorted({(machine(r), threads(r)) for r in self.complete})
        if len(kinds) < 2:
            return [self]
        parts = []
        for i, kind in enumerate(kinds):
            here = [r for r in self.runs if (r.status == COMPLETE and (machine(r), threads(r)) == kind)]
            if i == 0:
                here += [r for r in self.runs if r.status != COMPLETE]
            others = {r.seed for r in self.runs} - {r.seed for r in here}
            started = tuple(
                s for s in self.started if s not in others and (i == 0 or s in {r.seed for r in here})
            )
            part = replace(
                self, runs=tuple(here), started=started, unreadable=self.unreadable if i == 0 else ()
            )
            parts.append(part.marked("seeds on several machines or thread counts, one row each"))
        return parts


def machine(run: StoredRun) -> str:
    """Where a run was made."""
    return str((run.result or {}).get("machine") or run.environment.get("processor") or "unknown machine")


def threads(run: StoredRun) -> str:
    """Threads per block of a run."""
    return str((run.result or {}).get("threads", "?"))


def value_words(value: Any) -> str:
    """A setting's value as rows are named by: 0.02, none, 3 6."""
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, list):
        return " ".join(map(value_words, value)) or "none"
    return "none" if value is None else str(value)


def numbers_of_data(group: Group) -> dict[str, Any]:
    """The data settings that can change a number."""
    data = group.settings.get("data", {})
    if not isinstance(data, Mapping):
        return {"name": data}
    left_out = ELSEWHERE - {*OF_TEXTS} if data.get("name") == "text" else ELSEWHERE
    return {k: v for k, v in data.items() if k not in left_out and (v is not None or k not in LATER)}


def data_label(group: Group) -> str:
    """The data set, with its size where it is a part or resized: "fashion-mnist 2000@16", "text 800@64" (context)."""
    data = numbers_of_data(group)
    words = str(data.get("name", group.data)) + text_words(group)
    if data.get("train_limit"):
        words += f" {data['train_limit']}"
    if size := data.get("image_size") or data.get("context"):
        words += f"@{size}"
    return words


def text_words(group: Group) -> str:
    """Which text, where it is not the embedded one, and whose tokens: " kjv.txt bpe.json"; "" for images."""
    data = numbers_of_data(group)
    return "".join(f" {Path(str(data[key])).name}" for key in OF_TEXTS if data.get(key))


def shares_start(a: Group, b: Group) -> bool:
    """Whether equal seeds of `a` and `b` share initial weights and data order, so that pairing by seed is real."""
    return _model(a) == _model(b) and numbers_of_data(a) == numbers_of_data(b)


def _model(group: Group) -> Any:
    """The network's settings; older runs do not mention those that it has not."""
    model = group.settings.get("model")
    return {k: v for k, v in model.items() if v is not None} if isinstance(model, Mapping) else model


def gradient_label(settings: Mapping[str, Any]) -> str:
    """ "top1 s1, scale 1/128" where filter gradients are approximated; "full" in that paper's recipes; else ""."""
    given = settings.get("gradient")
    gradient: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    schedule, default = gradient.get("schedule", "all"), gradient.get("estimator", "full")
    rules = [] if isinstance(schedule, str) else schedule
    used = [rule.get("estimator") or default for rule in rules] or [default]
    names = [str(name) for name in dict.fromkeys(used) if name != "full"]
    if not names:
        return "full" if settings.get("group") == "gradient-approximation" else ""
    words = f"{'+'.join(names)} {'rules' if rules else schedule}"
    return words + (", scale 1/128" if gradient.get("scale") == "paper" else "")


def update_label(settings: Mapping[str, Any]) -> str:
    """ " + prediction, AdamW": the corrections, and the optimiser where it is not SGD; "" without either."""
    words = ""
    corrections = settings.get("corrections")
    for given in corrections if isinstance(corrections, list) else []:
        name = str(given.get("name", "")) if isinstance(given, Mapping) else str(given)
        words += f" + {_correction_label(name, given)}"
    optimizer = _nested(settings, "optimizer", "name") or "sgd"
    return words if optimizer == "sgd" else f"{words}, {OPTIMIZER_NAMES.get(optimizer, optimizer)}"


def _correction_label(name: str, given: Any) -> str:
    """A built-in correction's own words; of a user's class, which no report runs, its name."""
    from repro.corrections import BUILT_IN

    try:
        return BUILT_IN[name].model_validate(given).label()
    except (KeyError, ValueError):
        return name.rpartition(":")[2]


def _label(settings: Mapping[str, Any]) -> str:
    from repro.methods import stored_method

    try:
        return stored_method(settings.get("method")).label(int(settings.get("blocks", 1)))
    except (ValueError, TypeError):
        return _nested(settings, "method", "name").upper()


def _nested(settings: Mapping[str, Any], first: str, second: str) -> str:
    value = settings.get(first, "")
    return str(value.get(second, "")) if isinstance(value, Mapping) else str(value)
