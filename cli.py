"""The command line: one short function per verb; everything heavy is imported inside."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from repro.errors import ReproError, UserError

app = typer.Typer(
    add_completion=False,
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
    str, typer.Argument(metavar="RECIPE", help="a recipe's name, or a path to a YAML file")
]
RecipeNames = Annotated[list[str], typer.Argument(metavar="RECIPE...", help="names, or paths to YAML files")]
ProfileOption = Annotated[str | None, typer.Option("--profile", help="paper, reference, quick or smoke")]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override a setting")]
OutOption = Annotated[Path | None, typer.Option("--out", help="folder of runs instead of results/runs")]
JsonOption = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]
DeviceOption = Annotated[Device, typer.Option("--device", help="where blocks run")]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="a process per block, or all blocks in turn on one core or GPU")
]


@app.command("list")
def list_recipes(
    group: Annotated[str | None, typer.Option(help="dsp or gradient-approximation")] = None,
    as_json: JsonOption = False,
) -> None:
    """Every recipe: name, method, model, data, what it reproduces."""
    from repro.commands.listing import show_catalogue

    show_catalogue(group, as_json)


@app.command()
def show(
    recipe: RecipeName,
    profile: ProfileOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """The resolved recipe, what was changed, published numbers, runs done and left, predicted time."""
    from repro.commands.show import show_recipe

    show_recipe(recipe, profile, settings or [], out, as_json)


@app.command()
def run(
    recipes: RecipeNames,
    seeds: Annotated[int | None, typer.Option(help="run seeds 0..N-1 (default 1)")] = None,
    seed_list: Annotated[str | None, typer.Option(help="run these seeds, for example 0,3")] = None,
    profile: ProfileOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    device: DeviceOption = Device.auto,
    dry_run: Annotated[bool, typer.Option(help="resolve and print the plan, run nothing")] = False,
    fail_fast: Annotated[bool, typer.Option(help="stop at the first seed that fails")] = False,
    fresh: Annotated[bool, typer.Option(help="run again what is finished or was cut off")] = False,
    engine: EngineOption = Engine.auto,
    jobs: Annotated[int, typer.Option(help="runs at once, each with its own cores or GPUs")] = 1,
    force: Annotated[bool, typer.Option("--force", help="let more jobs share what there is")] = False,
) -> None:
    """Run recipes, all of them seed by seed; finished seeds are skipped, cut-off ones resumed."""
    from repro.commands.run import run_recipes

    code = run_recipes(
        recipes, seeds, seed_list, profile, settings or [], out, device.value, dry_run, fail_fast, fresh,
        engine.value, jobs, force,
    )  # fmt: skip
    raise typer.Exit(code)


@app.command()
def table(
    name: Annotated[
        str | None, typer.Argument(help="which table; without a name, the names are listed")
    ] = None,
    format: Annotated[str, typer.Option(help="txt, md, csv, latex or json")] = "txt",
    select: Annotated[Select, typer.Option(help="last or best test accuracy")] = Select.last,
    profile: ProfileOption = None,
    strict: Annotated[bool, typer.Option(help="exit 1 where seeds are missing, failed or stale")] = False,
    reference: Annotated[bool, typer.Option(help="show the committed reference runs")] = False,
    out: OutOption = None,
) -> None:
    """A table from stored results."""
    from repro.commands.reports import print_table

    raise typer.Exit(print_table(name, format, select.value, profile, strict, reference, out))


@app.command()
def figures(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="which figures; default all")
    ] = None,
    format: Annotated[str, typer.Option(help="svg, png, pdf, separated by commas")] = "svg,png",
    profile: ProfileOption = None,
    reference: Annotated[bool, typer.Option(help="draw the committed reference runs")] = False,
    runs: Annotated[Path | None, typer.Option(help="folder of runs instead of results/runs")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder for the pictures")] = None,
) -> None:
    """Plots from stored results."""
    from repro.commands.reports import draw_figures

    raise typer.Exit(draw_figures(names or [], format, profile, reference, runs, out))


@app.command()
def verify(
    recipe: RecipeName,
    profile: ProfileOption = None,
    settings: SetOption = None,
    steps: Annotated[int, typer.Option(help="batches to train")] = 30,
    seed: Annotated[int, typer.Option(help="seed of both")] = 0,
    device: DeviceOption = Device.cpu,
    engine: EngineOption = Engine.processes,
) -> None:
    """Compare an engine with the oracle, a plain program of the same rule; exit 0 only if they agree."""
    from repro.commands.verify import verify_recipe

    raise typer.Exit(verify_recipe(recipe, profile, settings or [], steps, seed, device.value, engine.value))


@app.command()
def plan(
    recipe: RecipeName,
    devices: Annotated[int | None, typer.Option(help="number of blocks K")] = None,
    profile: ProfileOption = None,
    settings: SetOption = None,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Measure layer costs; show the cut, the schedule as a timeline, predicted time per batch and speed-up."""
    from repro.commands.plan import show_plan

    show_plan(recipe, devices, profile, settings or [], device.value, as_json)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="engine, kernels, peers, sequential or startup")],
    as_json: JsonOption = False,
    settings: SetOption = None,
) -> None:
    """Measure speed as ratios within one run."""
    from repro.commands.bench import run_bench

    raise typer.Exit(run_bench(name, as_json, settings or []))


@app.command()
def diff(a: str, b: str, out: OutOption = None) -> None:
    """Two runs or two recipes: settings, environment, losses, final numbers."""
    from repro.commands.reports import print_diff

    print_diff(a, b, out)


@app.command()
def report(
    out: Annotated[
        Path | None, typer.Option("--out", help="the HTML file to write (default results/report.html)")
    ] = None,
    runs: Annotated[Path | None, typer.Option(help="folder of runs instead of results/runs")] = None,
    profile: ProfileOption = None,
    reference: Annotated[bool, typer.Option(help="show the committed reference runs")] = False,
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
        write_page(out or Path("results/report.html"), runs, profile, reference)


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """Versions, devices, threads, data sets found, what is missing and how to get it."""
    from repro.commands.doctor import report

    report(as_json)


def main() -> Any:
    """Entry point of the console script: errors become one sentence and an exit code."""
    try:
        code = app(standalone_mode=False)
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
