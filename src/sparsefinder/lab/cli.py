"""The command line: one line each into the modules."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..errors import SparsefinderError
from .folder import check_folder
from .recipe import Recipe, load_recipe

__all__ = ["app", "main"]

app = typer.Typer(
    help="Predict which query-key pairs an entmax transformer uses, and measure what that saves.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
console = Console(stderr=True)
# Whose a method is.
FAMILIES = {"paper": "the paper", "ours": "ours", "rival": "others", "reference": "reference"}

What = Annotated[
    Path, typer.Argument(metavar="RECIPE", help="A recipe (YAML), or the folder of a run, whose recipe is taken again.")
]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe; may be repeated.")
]
Runs = Annotated[Path, typer.Option(help="The folder that runs are kept in.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def _run(what: Path, changes: list[str] | None, runs: Path, until: str) -> None:
    from transformers.utils.logging import disable_progress_bar

    from .run import run

    # A bar for every file that is read or written would bury those that say how far a stage is.
    disable_progress_bar()
    recipe, runs = _recipe(what, changes, runs)
    folder = run(recipe, runs, until, say=lambda line: console.print(f"[bold]{line}[/bold]", highlight=False))
    if until in ("sweep", "report"):
        from .sweep import print_summary

        print_summary(folder)
    if until == "report":
        print(f"report: {folder / 'report' / 'index.html'}")


def _recipe(what: Path, changes: list[str] | None, runs: Path) -> tuple[Recipe, Path]:
    if what.is_dir():
        return load_recipe(check_folder(what) / "recipe.yaml", changes or ()), what.resolve().parent
    return load_recipe(what, changes or ()), runs


@app.command("run")
def run_command(recipe: What, changes: Changes = None, runs: Runs = Path("runs")) -> None:
    """Do everything a recipe says: train, trace, fit, sweep, report. What is done already is not done again.

    Examples:
        sparsefinder run recipes/demo-mlm.yaml

        sparsefinder run recipes/demo-mlm.yaml --set seed=1 --set name=second --set task.training.steps=500
    """
    _run(recipe, changes, runs, "report")


@app.command()
def train(recipe: What, changes: Changes = None, runs: Runs = Path("runs")) -> None:
    """Train the teacher; a killed training goes on from its last checkpoint.

    Example: sparsefinder train recipes/demo-mlm.yaml
    """
    _run(recipe, changes, runs, "train")


@app.command()
def trace(recipe: What, changes: Changes = None, runs: Runs = Path("runs")) -> None:
    """Record the teacher's queries and keys, after whatever comes before that.

    Example: sparsefinder trace recipes/demo-mlm.yaml --set trace.train=200
    """
    _run(recipe, changes, runs, "trace")


@app.command()
def fit(recipe: What, changes: Changes = None, runs: Runs = Path("runs")) -> None:
    """Learn projections and fit finders, after whatever comes before that.

    Example: sparsefinder fit runs/demo-mlm
    """
    _run(recipe, changes, runs, "fit")


@app.command()
def sweep(recipe: What, changes: Changes = None, runs: Runs = Path("runs")) -> None:
    """Measure the grid of settings, after whatever comes before that. Finished points are kept.

    Example: sparsefinder sweep runs/demo-mlm --set "sweep.windows=[0, 11, 25]"
    """
    _run(recipe, changes, runs, "sweep")


@app.command()
def report(
    run: RunPath,
    pos: Annotated[str | None, typer.Option(help="A spaCy pipeline for parts of speech: en_core_web_sm, say.")] = None,
) -> None:
    """Write the report page and the figures of a run, from what there is.

    Example: sparsefinder report runs/demo-mlm --pos en_core_web_sm
    """
    from .report import write_report

    folder = check_folder(run)
    recipe = load_recipe(folder / "recipe.yaml", [] if pos is None else [f"report.pos={pos}"])
    print(f"report: {write_report(folder, recipe)}")


@app.command()
def points(run: RunPath) -> None:
    """Print how every method does: hypervolume, recall at the teacher's own sparsity, sparsity at high recall.

    The same goes to summary.csv in the folder of the run, and every point, with whether it is on its method's
    frontier, to points.csv.

    Example: sparsefinder points runs/demo-mlm
    """
    from .sweep import print_summary

    print_summary(check_folder(run))


@app.command()
def methods() -> None:
    """List every method with its parameters, as recipes name them.

    A method with a dial takes recall or sparsity in its place. Methods of installed packages are listed too.
    """
    from ..finders import methods
    from ..finders.registry import parameters_of

    table = Table("method", "of", "parameters", "dial", "what it does", header_style="bold")
    for name, kind in methods().items():
        says = (inspect.getdoc(kind) or "").split("\n")[0]
        dials = " or ".join(dial.field for dial in kind.about.dials)
        table.add_row(name, FAMILIES[kind.about.family], ", ".join(parameters_of(kind)), dials or "–", says)
    Console().print(table)


def main() -> None:
    """Run a command; errors that were foreseen are one line, not a traceback."""
    try:
        app()
    except SparsefinderError as error:
        console.print("[bold red]error:[/bold red]", end=" ")
        console.print(str(error), markup=False, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        sys.exit(130)
