"""`repro bench NAME`: measure, print, keep the rows in results/bench/ for the tables, compare with older ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.errors import UserError, nearest
from repro.recipe import parse_overrides

if TYPE_CHECKING:
    from repro.benchmarks.turns import Turns

NAMES = (
    "compute",
    "delays",
    "engine",
    "gradient",
    "growth",
    "kernels",
    "methods",
    "peers",
    "pipeline",
    "sequential",
    "startup",
)
ALL = "all"
# the order; what is cut off comes last
IN_ALL = (
    "peers",
    "pipeline",
    "engine",
    "compute",
    "sequential",
    "startup",
    "growth",
    "kernels",
    "gradient",
    "methods",
    "delays",
)

Rows = list[dict[str, Any]]


def run_bench(name: str | None, as_json: bool, settings: Sequence[str], compare: Path | None) -> int:
    """Run the benchmark `name` ("all": every one of them), or read the JSON that `name` is a path of.

    `settings` change its size. With `compare` also says what became slower: exit code 1 then; 130 after Ctrl-C.
    """
    old = None if compare is None else read(compare)
    if name is None:
        if old is None:
            raise UserError(f"give the name of a benchmark: {', '.join((*NAMES, ALL))}")
        name = ALL if len(old) > 1 else next(iter(old))
    if name.endswith(".json"):
        found, interrupted = read(Path(name)), False
    elif name in NAMES or name == ALL:
        found, interrupted = _measure(name, parse_overrides(settings, aliases=False))
    else:
        known = (*NAMES, ALL)
        raise UserError(f"unknown benchmark '{name}'.{nearest(name, known)} Allowed: {', '.join(known)}")
    _print(found, name, as_json)
    worse = _compare(old, found) if old is not None else False
    return 130 if interrupted else int(worse)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Stored benchmarks by name: a file of one of them, or of all. UserError where it is neither."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if "benches" in document:
            return {str(k): dict(v) for k, v in document["benches"].items()}
        if isinstance(document["rows"], list):
            return {str(document.get("name", path.stem)): document}
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UserError(f"{path} is not what `repro bench` writes: give a JSON file of results/bench")


def _measure(name: str, options: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], bool]:
    """Measure and store; what was interrupted is kept beside, not in the place of, the last whole one."""
    from repro import paths
    from repro.benchmarks.turns import Turns
    from repro.planning.machine import environment
    from repro.store import to_json, write_atomically

    folder = paths.bench(Path("results"))
    if name == ALL:
        _only(options, ["rounds", "minutes"])
        print(f"{len(IN_ALL)} benchmarks, at most 4 minutes each by default", file=sys.stderr, flush=True)
    found: dict[str, dict[str, Any]] = {}
    interrupted = False
    for each in IN_ALL if name == ALL else (name,):
        turns = Turns(each)
        rows = _BENCHMARKS[each](dict(options), turns)
        interrupted = turns.interrupted
        found[each] = {"name": each, "rows": rows, "environment": environment(), "settings": options}
        file = folder / (f"{each}.interrupted.json" if interrupted else f"{each}.json")
        write_atomically(file, to_json(found[each], indent=1) + "\n")
        if interrupted:
            break
    if name == ALL:
        file = folder / ("all.interrupted.json" if interrupted else "all.json")
        write_atomically(file, to_json({"benches": found}, indent=1) + "\n")
        print(f"written to {file}", file=sys.stderr, flush=True)
    return found, interrupted


def _print(found: Mapping[str, dict[str, Any]], name: str, as_json: bool) -> None:
    from repro.store import to_json

    if as_json:
        print(
            to_json(
                {"benches": found} if name == ALL or len(found) > 1 else found[next(iter(found))], indent=1
            )
        )
        return
    for document in found.values():
        print("\n".join(as_text(document["rows"])))


def _compare(old: Mapping[str, dict[str, Any]], new: Mapping[str, dict[str, Any]]) -> bool:
    """Print what became slower; whether anything did. On stderr: stdout holds the rows."""
    from repro.benchmarks.compare import slower

    worse, compared = [], 0
    for name in [n for n in new if n in old]:
        machines = [
            (d.get("environment") or {}).get("processor") for d in (old[name], new[name])
        ]  # where the names of two machines differ, their times say nothing about the program
        found, count = slower(old[name]["rows"], new[name]["rows"], same_machine=machines[0] == machines[1])
        worse += [f"{name}: slower: {words}" for words in found]
        compared += count
    if not compared:
        raise UserError("--compare: the two benchmarks have no measurement in common")
    for line in worse:
        print(line, file=sys.stderr)
    verdict = (
        f"{len(worse)} of {compared} numbers became worse"
        if worse
        else f"none of {compared} numbers became worse"
    )
    print(f"{verdict} (beyond the ranges of both runs)", file=sys.stderr)
    return bool(worse)


def as_text(rows: Rows) -> list[str]:
    """Lines: what all rows share, then a table; a number with its smallest and largest round behind it."""
    names = [
        k
        for k in dict.fromkeys(k for row in rows for k in row)
        if not k.endswith(("_low", "_high", "_n", "_rounds"))
    ]
    shared = [
        n for n in names if len(rows) > 1 and all(n in row and row[n] == rows[0].get(n) for row in rows)
    ]
    columns = [n for n in names if n not in shared]
    cells = [columns, *([_cell(row, n) for n in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = ["  ".join(f"{n} {_cell(rows[0], n)}" for n in shared)] if shared else []
    return [
        *lines,
        *("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells),
    ]


def _cell(row: Mapping[str, Any], name: str) -> str:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    around = f" [{_short(low)} .. {_short(high)}]" if low is not None and low != high else ""
    return _short(row.get(name)) + around


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if value is None:
        return "-"
    return json.dumps([round(v, 3) for v in value]) if isinstance(value, list) else str(value)


def _engine(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.engine import EngineBench

    if isinstance(options.get("methods"), str):
        options = {**options, "methods": tuple(str(options["methods"]).split(","))}
    return _rows_of(EngineBench, options, turns)


def _pipeline(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.pipeline import PipelineBench

    return _rows_of(PipelineBench, options, turns)


def _peers(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.peers import PeersBench

    return _rows_of(PeersBench, options, turns)


def _rows_of(bench: Any, options: dict[str, Any], turns: Turns) -> Rows:
    """The rows of a benchmark whose settings are the fields of a class."""
    _only(options, [f.name for f in fields(bench) if not f.name.startswith("_") and f.name != "turns"])
    turns.rounds, turns.minutes = options.get("rounds"), options.get("minutes", turns.minutes)
    rows: Rows = bench(**options, turns=turns).rows()
    return rows


def _compute(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.compute import ComputeBench

    return _rows_of(ComputeBench, options, turns)


def _growth(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.growth import GrowthBench

    return _rows_of(GrowthBench, options, turns)


def _startup(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks import startup

    _only(options, ["rounds", "minutes"])
    turns.rounds, turns.minutes = options.get("rounds"), options.get("minutes", turns.minutes)
    return startup.rows(turns)


def _kernels(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.kernel_rounds import KernelsBench

    return _rows_of(KernelsBench, options, turns)


def _gradient(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.gradient_turns import GradientBench

    return _rows_of(GradientBench, options, turns)


def _methods(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.method_rounds import MethodsBench

    return _rows_of(MethodsBench, options, turns)


def _delays(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.delay_sweep import DelaysBench

    return _rows_of(DelaysBench, options, turns)


def _sequential(options: dict[str, Any], turns: Turns) -> Rows:
    from repro.benchmarks.one_process import SequentialBench

    if isinstance(options.get("methods"), str):
        options = {**options, "methods": tuple(str(options["methods"]).split(","))}
    return _rows_of(SequentialBench, options, turns)


def _only(options: dict[str, Any], known: Sequence[str]) -> None:
    for key in options:
        if key not in known:
            raise UserError(f"unknown setting '{key}'.{nearest(key, known)} Allowed: {', '.join(known)}")


_BENCHMARKS: dict[str, Callable[[dict[str, Any], Turns], Rows]] = {
    "compute": _compute,
    "delays": _delays,
    "engine": _engine,
    "gradient": _gradient,
    "growth": _growth,
    "kernels": _kernels,
    "methods": _methods,
    "peers": _peers,
    "pipeline": _pipeline,
    "sequential": _sequential,
    "startup": _startup,
}
