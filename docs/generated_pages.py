"""Pages of the site that are made from the program: README, commands, tables, claims, API. A hook of mkdocs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Rooms whose public names a reader may want to use: page -> title and modules.
API = {
    "schedule": ("Schedules", ["repro.schedule.staleness", "repro.schedule.actions", "repro.schedule.decoupled",
                               "repro.schedule.simulate"]),
    "methods": ("Methods", ["repro.methods", "repro.methods.method", "repro.methods.bp", "repro.methods.gpipe",
                            "repro.methods.fr", "repro.methods.ddg", "repro.methods.fdg", "repro.methods.dni",
                            "repro.methods.dsp", "repro.methods.pipedream", "repro.methods.two_bw",
                            "repro.methods.pipemare", "repro.methods.delayed"]),
    "corrections": ("Corrections of staleness", ["repro.corrections", "repro.corrections.correction"]),
    "recipe": ("Recipes", ["repro.recipe.schema", "repro.recipe.optimizers", "repro.recipe.load", "repro.recipe.sweep",
                           "repro.recipe.identity"]),
    "gradient": ("Estimators of filter gradients", ["repro.gradient.estimators.estimator", "repro.gradient.estimators.top1",
                                                    "repro.gradient.estimators.sampled", "repro.gradient.schedules"]),
    "store": ("Runs on disk", ["repro.store", "repro.paths"]),
    "report": ("Reports", ["repro.report.stats", "repro.report.table", "repro.report.stored.source",
                           "repro.report.stored.group", "repro.report.claims.claim"]),
}  # fmt: skip


def pages() -> dict[str, str]:
    """{path below docs/: Markdown} of every generated page."""
    sys.path.insert(0, str(ROOT))
    found = {
        "index.md": overview(),
        "commands.md": commands(),
        "tables-and-figures.md": tables_and_figures(),
        "claims.md": claims(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    }
    for name, (title, modules) in API.items():
        found[f"api/{name}.md"] = f"# {title}\n\n" + "\n\n".join(f"::: {module}" for module in modules) + "\n"
    return found


def overview() -> str:
    """README.md, its links seen from docs/."""
    words = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\(docs/", "](", words)


def commands() -> str:
    """Every command with its arguments and options, as Typer knows them."""
    from typer.testing import CliRunner

    import cli

    def said(*words: str) -> str:
        done = CliRunner().invoke(
            cli.app, [*words, "--help"], prog_name="repro", terminal_width=100, env={"COLUMNS": "100"}
        )
        assert done.exit_code == 0, done.output
        return done.output.strip("\n")

    lines = ["# Commands", "", "Made from the program: this is what `repro COMMAND --help` says.", ""]
    lines += ["Exit codes: 0 done; 1 a run failed, or a check did not hold; 2 the command or the recipe is wrong; 3 hardware, "
              "data or a package is missing; 130, 143 interrupted.", ""]  # fmt: skip
    for name in sorted(
        info.name or str(info.callback.__name__) for info in cli.app.registered_commands if info.callback
    ):
        lines += [f"## repro {name}", "", "```text", said(name), "```", ""]
    return "\n".join(lines)


def tables_and_figures() -> str:
    """What `repro table` and `repro figures` offer."""
    from repro.report import figures, tables

    lines = ["# Tables and figures", "", "`repro table NAME` prints one, as txt, md, csv, latex or json.", ""]
    lines += ["| table | what it shows |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(words)} |" for name, words in tables.names().items()]
    lines += ["", "`repro figures NAME...` draws as svg, png or pdf. One colour and one marker stand for a method in all of them;",
              "settings of a method are shades of its colour.", "", "| figure | what it shows |", "|---|---|"]  # fmt: skip
    lines += [f"| `{name}` | {_cell(words)} |" for name, words in figures.names().items()]
    return "\n".join([*lines, ""])


def claims() -> str:
    """Every claim: where it is published, how it is tested, what makes its runs, and what the reference runs say."""
    from repro import paths
    from repro.report import tables
    from repro.report.claims import CLAIMS
    from repro.report.stored.source import Source
    from repro.report.table import Column, cells

    table = tables.build_from("claims", Source(paths.reference(), reference=True))
    columns = [c for c in table.columns if c.name in ("verdict", "what", "measured", "unit", "rule", "note")]
    plain = [Column(c.name, c.header, c.decimals, c.ratio) for c in columns]
    texts = cells(table, plain)
    lines = ["# Claims and their evidence", "", "From the project's reference runs, as `repro table claims --reference` has them; "
             "nothing here is typed. A verdict holds for the place named in its row.", ""]  # fmt: skip
    for claim in CLAIMS:
        rows = [
            (row, words) for row, words in zip(table.rows, texts, strict=True) if row["claim"] == claim.name
        ]
        lines += [f"## {claim.name}: {_cell(claim.statement)}", ""]
        lines += [f"* Source: {_cell(claim.source)}. Published: {_cell(str(rows[0][0]['published']))}."]
        lines += [f"* Test: {_cell(claim.statistic)}.", f"* Runs: `{claim.command}`"]
        place = "a1-to-a5" if claim.name.startswith("A") else claim.name.lower()
        lines += [f"* [What it does not say](evidence.md#{place})", ""]
        lines += ["| " + " | ".join(c.header for c in plain) + " |", "|" + "---|" * len(plain)]
        lines += ["| " + " | ".join(map(_cell, words)) + " |" for _, words in rows] + [""]
    return "\n".join(lines)


def _cell(words: str) -> str:
    words = " ".join(words.split())
    for character in "\\|*<`_[":
        words = words.replace(character, "\\" + character)
    return words


def on_files(files: Any, config: Any) -> Any:
    """mkdocs calls this: put the generated pages beside those of docs/."""
    from mkdocs.structure.files import File

    for path, content in pages().items():
        files.append(File.generated(config, path, content=content))
    return files
