"""The command line: one line each into the modules."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..errors import InputError, SparsefinderError
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
def bench(
    what: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or of a saved entmax model.")],
    text: Annotated[
        Path | None, typer.Option(help="For a saved model: a text file to fit to and to measure on.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Some methods, with settings after colons: sketch,kmeans:clusters=16:top_k=2.")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(help="Tokens in a sequence: 512,1024. As far as the model goes.")
    ] = None,
    recall: Annotated[float, typer.Option(help="What finders are set for, on training data.")] = 0.95,
    repeats: Annotated[int, typer.Option(help="How often each is timed.")] = 7,
    budget: Annotated[float | None, typer.Option(help="About how many seconds it may take; the rest is left.")] = None,
    blocks: Annotated[
        str | None, typer.Option(help="Attended blocks, 2,3,4,8,16,22 if not given; none to skip.")
    ] = None,
    sizes: Annotated[str | None, typer.Option(help="Sizes of these blocks, 2,4,8,16 unless given.")] = None,
    clusters: Annotated[str | None, typer.Option(help="Clusters of v2, 2,4,8,12,16,20 unless given.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure also what was measured before.")] = False,
    chart: Annotated[Path | None, typer.Option(help="Also write a chart of time by length, as SVG.")] = None,
    alpha: Annotated[float | None, typer.Option(help="For a saved model that does not say its α.")] = None,
    runs: Runs = Path("runs"),
) -> None:
    """Measure quality and time of every finder, beside full entmax and softmax attention: alone, and in the model.

    Finders are fitted to training data for a recall, and measured on other text. All take turns, so that what is
    compared met the same moments of the machine: leave it alone meanwhile. Results go to points/bench of the run (of
    runs/bench-NAME for a saved model), and onto the page of its report; what is there is not measured again.

    Examples:
        sparsefinder bench runs/demo-mlm

        sparsefinder bench runs/demo-mlm --methods sketch,probe --lengths 512,1024 --budget 600

        sparsefinder bench my-teacher --text wiki.txt --blocks none --chart docs/crossover.svg
    """
    from transformers.utils.logging import disable_progress_bar

    from .bench.asked import Asked
    from .bench.bench import bench as measure
    from .bench.subject import of_model, of_run
    from .bench.table import print_tables

    asked = Asked.of_words(
        methods, lengths, blocks, sizes, clusters, recall=recall, repeats=repeats, budget=budget, again=again
    )
    of_a_run = (what / "recipe.yaml").is_file()
    if of_a_run and text is not None:
        raise InputError("--text", text, f"none: {what} is the folder of a run, which has a text of its own")
    if not of_a_run and text is None and (what / "config.json").is_file():
        raise InputError("--text", "none", f"a text file, as {what} is the folder of a model and not of a run")
    # A bar for every file that is read would bury the one that says how far it is.
    disable_progress_bar()
    subject = of_run(what) if text is None else of_model(what, text, runs, alpha)
    print_tables(measure(subject, asked, say=lambda line: console.print(line, highlight=False)))
    print(f"points: {subject.folder / 'points/bench'}")
    if chart is not None:
        from .report.figures_bench import write_chart

        write_chart(subject.folder, chart)
        print(f"chart: {chart}")


@app.command()
def doctor(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The folder of a benchmarked run.")] = None,
) -> None:
    """Say what runs here and why: backend, kernel, threads, and from which length each finder pays.

    Lengths are those of the run's benchmark; without one, they are measured on made-up queries and keys, in seconds.
    Ends with 1 if something is broken.

    Examples:
        sparsefinder doctor

        sparsefinder doctor runs/demo-mlm
    """
    from .doctor import examine
    from .folder import RunFolder

    if run is not None and not run.is_dir():
        raise InputError("RUN", run, "the folder of a run, or none")
    found = examine(None if run is None else RunFolder(run))
    print(found)
    if found.broken:
        raise typer.Exit(1)


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
