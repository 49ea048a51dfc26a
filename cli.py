"""The command line: one short function per verb; everything heavy is imported inside."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from repro.commands import completion
from repro.commands.launchers import Launcher
from repro.errors import ReproError, UserError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Reproduce, question and extend two lines of work on faster CNN training.",
)


class Device(StrEnum):
    """Where blocks run."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Engine(StrEnum):
    """How a run is carried out; it changes no number."""

    auto = "auto"
    processes = "processes"
    sequential = "sequential"


class Select(StrEnum):
    """Which test accuracy a table states."""

    last = "last"
    best = "best"


RecipeName = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="a recipe's name, or a path to a YAML file", autocompletion=completion.recipes
    ),
]
RecipeNames = Annotated[
    list[str],
    typer.Argument(
        metavar="RECIPE...", help="names, or paths to YAML files", autocompletion=completion.recipes
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", help="paper, reference, quick or smoke", autocompletion=completion.profiles),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="override a setting", autocompletion=completion.settings),
]
SweepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=V1,V2",
        help="run every value; several keys make all combinations",
        autocompletion=completion.settings,
    ),
]
RunsOption = Annotated[Path | None, typer.Option("--runs", help="folder of runs instead of results/runs")]
JsonOption = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]
DeviceOption = Annotated[Device, typer.Option("--device", help="where blocks run")]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="a process per block, or all blocks in turn on one core or GPU")
]


def _refuse_out(out: Path | None) -> None:
    from repro.commands.runs_folder import refuse_out

    refuse_out(out)


# Where runs lay before --runs; refused with a sentence.
OldOutOption = Annotated[Path | None, typer.Option("--out", hidden=True, callback=_refuse_out)]


@app.command("list")
def list_recipes(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD]...", help="show the recipes that all words match")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="dsp, gradient-approximation or asynchronous", autocompletion=completion.groups),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="only this method, for example fr or top1", autocompletion=completion.methods),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="only this network", autocompletion=completion.models)
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="only this data set (of profile paper)", autocompletion=completion.data_sets),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What recipes there are; words and options narrow it down: name, method, model, data, K, what it reproduces."""
    from repro.commands.listing import list_recipes

    list_recipes(words or [], group, method, model, data, as_json)


@app.command()
def show(
    recipe: RecipeName,
    profile: ProfileOption = None,
    settings: SetOption = None,
    runs: RunsOption = None,
    _out: OldOutOption = None,
    as_json: JsonOption = False,
) -> None:
    """The resolved recipe, what was changed, published numbers, runs done and left, predicted time."""
    from repro.commands.show import show_recipe

    show_recipe(recipe, profile, settings or [], runs, as_json)


@app.command()
def run(
    recipes: RecipeNames,
    seeds: Annotated[int | None, typer.Option(help="run seeds 0..N-1 (default 1)")] = None,
    seed_list: Annotated[str | None, typer.Option(help="run these seeds, for example 0,3")] = None,
    profile: ProfileOption = None,
    settings: SetOption = None,
    sweep: SweepOption = None,
    runs: RunsOption = None,
    _out: OldOutOption = None,
    device: DeviceOption = Device.auto,
    dry_run: Annotated[bool, typer.Option(help="resolve and print the plan, run nothing")] = False,
    timing_only: Annotated[
        bool,
        typer.Option(help="straggler recipes: blocks wait instead of computing, for K up to 16 on two cores"),
    ] = False,
    fail_fast: Annotated[bool, typer.Option(help="stop at the first seed that fails")] = False,
    fresh: Annotated[bool, typer.Option(help="run again what is finished or was cut off")] = False,
    engine: EngineOption = Engine.auto,
    jobs: Annotated[int, typer.Option(help="runs at once, each with its own cores or GPUs")] = 1,
    force: Annotated[bool, typer.Option("--force", help="let more jobs share what there is")] = False,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="TRACKER", help="also tell tensorboard, mlflow, or path/to/file.py:function"),
    ] = None,
    launcher: Annotated[
        Launcher,
        typer.Option(
            help="torchrun: blocks on several hosts, the same command on each; slurm: a job for every seed"
        ),
    ] = Launcher.local,
    nnodes: Annotated[int | None, typer.Option(help="torchrun: number of hosts")] = None,
    rdzv: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="torchrun: where the hosts meet")
    ] = None,
    partition: Annotated[str | None, typer.Option(help="slurm: the partition (default SLURM's own)")] = None,
    time: Annotated[
        str | None, typer.Option(metavar="LIMIT", help="slurm: of a job, for example 90, 2h, 1-12:00:00")
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option("--at-once", metavar="N", help="slurm: jobs of an array that may run at a time"),
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="slurm: more for sbatch, for example account=physics, mem=16GB"
        ),
    ] = None,
) -> None:
    """Run recipes, all of them seed by seed; finished seeds are skipped, cut-off ones resumed."""
    from repro.cluster.options import QueueOptions
    from repro.commands.run import run_recipes

    settings = [*(settings or []), *(["timing_only=true"] if timing_only else [])]
    code = run_recipes(
        recipes, seeds, seed_list, profile, settings, sweep or [], runs, device.value,
        dry_run, fail_fast, fresh, engine.value, jobs, force, launcher.value, nnodes, rdzv,
        QueueOptions(partition, time, at_once, slurm or ()), log or (),
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
def table(
    name: Annotated[
        str | None,
        typer.Argument(
            help="which table; without a name, the names are listed", autocompletion=completion.tables
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="txt, md, csv, latex or json")] = "txt",
    select: Annotated[Select, typer.Option(help="last or best test accuracy")] = Select.last,
    profile: ProfileOption = None,
    strict: Annotated[bool, typer.Option(help="exit 1 where seeds are missing, failed or stale")] = False,
    reference: Annotated[bool, typer.Option(help="show the committed reference runs")] = False,
    at: Annotated[
        float | None, typer.Option(metavar="LOSS", help="time-to-loss: the test loss to reach")
    ] = None,
    runs: RunsOption = None,
    _out: OldOutOption = None,
) -> None:
    """A table from stored results."""
    from repro.commands.reports import print_table

    raise typer.Exit(print_table(name, format, select.value, profile, strict, reference, runs, at))


@app.command()
def figures(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="which figures; default all", autocompletion=completion.figures
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="svg, png, pdf, separated by commas")] = "svg,png",
    profile: ProfileOption = None,
    reference: Annotated[bool, typer.Option(help="draw the committed reference runs")] = False,
    runs: RunsOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder for the pictures")] = None,
) -> None:
    """Plots from stored results."""
    from repro.commands.reports import draw_figures

    raise typer.Exit(draw_figures(names or [], format, profile, reference, runs, out))


@app.command()
def verify(
    recipes: RecipeNames,
    profile: ProfileOption = None,
    settings: SetOption = None,
    steps: Annotated[int, typer.Option(help="batches to train")] = 30,
    seed: Annotated[int, typer.Option(help="seed of both")] = 0,
    device: DeviceOption = Device.cpu,
    engine: EngineOption = Engine.processes,
) -> None:
    """Compare an engine with the oracle, a plain program of the same rule; exit 0 only if they agree."""
    from repro.commands.verify import verify_recipes

    raise typer.Exit(
        verify_recipes(recipes, profile, settings or [], steps, seed, device.value, engine.value)
    )


@app.command()
def plan(
    recipe: RecipeName,
    blocks: Annotated[str | None, typer.Option(help="K, or several: 2,3,4,8,16 compares all methods")] = None,
    layer_times: Annotated[
        Path | None, typer.Option(help="seconds of your own layers (JSON, as --json writes)")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="of the links between blocks, for example 10GB/s")
    ] = None,
    latency: Annotated[str | None, typer.Option(help="of a message, for example 20us")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="draw speed-up against K per method (svg, png, pdf)")
    ] = None,
    replicas: Annotated[
        str | None, typer.Option(help="R, or several: each pipeline with 1/R of a batch")
    ] = None,
    hosts: Annotated[
        int | None, typer.Option(help="hosts of as many devices each; links are those between them", min=1)
    ] = None,
    per_host: Annotated[
        int | None, typer.Option(help="devices of a host, in the place of --hosts", min=1)
    ] = None,
    jitter: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|measured",
            help="propose DSP's queues for recorded compute times: a file, or `measured` in stored runs",
        ),
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="throughput that the queues may lose to jitter (default 2%)")
    ] = None,
    runs: RunsOption = None,
    profile: ProfileOption = None,
    settings: SetOption = None,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Measure layer costs; show the cut, the schedule as a timeline, predicted time per batch and speed-up."""
    from repro.commands.plan import Asked, show

    asked = Asked(
        blocks, layer_times, bandwidth, latency, figure, jitter, loss, runs, replicas, hosts, per_host
    )
    show(recipe, asked, profile, settings or [], device.value, as_json)


@app.command()
def bench(
    name: Annotated[
        str | None,
        typer.Argument(
            help="engine, delays, gradient, growth, kernels, methods, peers, pipeline, sequential, startup, all; or a JSON",
            autocompletion=completion.benches,
        ),
    ] = None,
    as_json: JsonOption = False,
    settings: SetOption = None,
    compare: Annotated[
        Path | None, typer.Option(help="a stored JSON: exit 1 where this became slower")
    ] = None,
) -> None:
    """Measure speed as ratios within one run; at most 4 minutes a benchmark unless --set minutes= says more."""
    from repro.commands.bench import run_bench

    raise typer.Exit(run_bench(name, as_json, settings or [], compare))


@app.command()
def diff(
    a: Annotated[str, typer.Argument(autocompletion=completion.recipes)],
    b: Annotated[str, typer.Argument(autocompletion=completion.recipes)],
    runs: RunsOption = None,
    _out: OldOutOption = None,
) -> None:
    """Two runs or two recipes: settings, environment, losses, final numbers."""
    from repro.commands.reports import print_diff

    print_diff(a, b, runs)


@app.command()
def report(
    out: Annotated[
        Path | None, typer.Option("--out", help="the file to write (default results/report.html or .tex)")
    ] = None,
    runs: RunsOption = None,
    profile: ProfileOption = None,
    reference: Annotated[bool, typer.Option(help="show the committed reference runs")] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="the write-up instead: LaTeX, and a PDF where a TeX engine is")
    ] = False,
    readme: Annotated[
        list[Path] | None,
        typer.Option(help="refresh this file's generated blocks instead of a page; may be repeated"),
    ] = None,
) -> None:
    """One self-contained HTML page: tables, figures, environment, commands; or the generated blocks of a README."""
    from repro.commands.reports import refresh_readme, write_page

    for page in readme or []:
        refresh_readme(page)
    if not readme or out is not None:
        write_page(out, runs, profile, reference, paper)


@app.command()
def status(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE]...", help="only these", autocompletion=completion.recipes),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="of a RECIPE: seeds 0..N-1 (default 5)")] = None,
    seed_list: Annotated[str | None, typer.Option(help="of a RECIPE: these seeds, for example 0,3")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="renew until nothing runs or waits")] = False,
    format: Annotated[str, typer.Option(help="txt, md, csv, latex or json")] = "txt",
    as_json: JsonOption = False,
    runs: RunsOption = None,
    _out: OldOutOption = None,
) -> None:
    """What has run, runs, waits, and what was cut off: a row for each seed."""
    from repro.commands.status import show_status

    raise typer.Exit(show_status(recipes or [], seeds, seed_list, watch, "json" if as_json else format, runs))


@app.command()
def clean(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE]...", help="only these", autocompletion=completion.recipes),
    ] = None,
    runs: RunsOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """List runs that are stale, failed or interrupted, and remove them after asking."""
    from repro.commands.clean import clean as clean_runs

    raise typer.Exit(clean_runs(recipes or [], runs, yes))


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """Versions, devices, threads, data sets found, what is missing and how to get it."""
    from repro.commands.doctor import report

    report(as_json)


def build_only(words: list[str]) -> None:
    """Give commands that `words` do not name no options: building all of them takes a third of the time of --help."""

    def named(command: Any) -> Any:
        def stub() -> None:
            """Never called."""

        stub.__name__, stub.__doc__ = command.__name__, command.__doc__
        return stub

    for info in app.registered_commands:
        if info.callback is not None and (info.name or info.callback.__name__) not in words:
            info.callback = named(info.callback)


def main() -> Any:
    """Entry point of the console script: errors become one sentence and an exit code."""
    completion.join_words_of_bash(os.environ)
    # its warnings carry C++ stacks; read when torch loads
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if "_REPRO_COMPLETE" not in os.environ:  # completion asks for the options of every command
        build_only(sys.argv[1:])
    try:
        code = app(prog_name="repro", standalone_mode=False)
        sys.stdout.flush()
    except ReproError as error:
        typer.echo(f"repro: {error}", err=True)
        code = error.exit_code
    except typer.Exit as error:
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("repro: interrupted", err=True)
        code = 130
    except BrokenPipeError:
        _discard_output()  # the reader has gone: end quietly
        code = 0
    except (
        SystemExit
    ) as error:  # Typer's way to end, where the reader has gone in the middle of the output too
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        _discard_output()
        code = 0
    except OSError as error:  # a full disk, a folder where a file should be
        typer.echo(f"repro: {error.filename or 'output'}: {error.strerror or error}", err=True)
        _discard_output()
        code = 1
    except Exception as error:  # click's own usage errors
        if not hasattr(error, "format_message"):
            raise
        typer.echo(f"repro: {error.format_message()}", err=True)
        code = UserError.exit_code
    sys.exit(code or 0)


def _discard_output() -> None:
    """What cannot be written must not be tried again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
