"""The command line: one line each into the modules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .. import __version__
from ..errors import InputError, SparsefinderError
from .cli_results import leaderboard, points, report, scores
from .folder import check_folder
from .progress import console
from .saying import print_lines, saying_how_to_go_on

if TYPE_CHECKING:
    from .recipe import Recipe

__all__ = ["app", "main"]

app = typer.Typer(
    help="Predict which query-key pairs an entmax transformer uses, and measure what that saves.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
What = Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe (YAML), or the folder of a run that has one.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe; may be repeated.")
]
Runs = Annotated[str, typer.Option(help="The folder that runs are kept in, or its URL: s3://bucket/runs.")]
Engine = Annotated[str | None, typer.Option(help="Where the work is done, local or ray, if not as in the recipe.")]
Address = Annotated[str | None, typer.Option(help="That of a Ray cluster: auto, HOST:6379, ray://HOST:10001.")]


def _version(asked: bool) -> None:
    if asked:
        print(f"sparsefinder {__version__}")
        raise typer.Exit


Version = typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")


@app.callback()
def options(version: Annotated[bool, Version] = False) -> None:
    """What goes before a command."""


def _run(what: Path, changes: list[str] | None, runs: str, until: str, engine: tuple[str | None, str | None]) -> None:
    said = {"kind": engine[0] or (engine[1] and "ray"), "address": engine[1]}
    told = [f"engine.{key}={value}" for key, value in said.items() if value]
    recipe, runs = _recipe(what, [*told, *(changes or ())], runs)
    with saying_how_to_go_on():
        from .run import run

        folder = run(recipe, runs, until, say=lambda line: console.print(line, style="bold", markup=False))
    if until in ("sweep", "report"):
        from .sweep.printed import closing

        page = f"The page: {folder / 'report' / 'index.html'}"
        print_lines([*closing(folder), *([page] if until == "report" else [])])


def _recipe(what: Path, changes: list[str] | None, runs: str) -> tuple[Recipe, str]:
    from .recipe import load_recipe

    if what.is_dir():
        return load_recipe(check_folder(what) / "recipe.yaml", changes or ()), str(what.resolve().parent)
    return load_recipe(what, changes or ()), runs


@app.command()
def check(
    recipe: What,
    changes: Changes = None,
    runs: Runs = "runs",
    times: Annotated[bool, typer.Option(help="Try all stages in small, for how long they take.")] = True,
) -> None:
    """Check a recipe as far as that goes without running it, and print the plan: stages, settings, points, time, disk.

    Times come from the same stages, run in small into a folder that is thrown away: a few steps, sequences and layers.

    Examples:
        sparsefinder check recipes/demo-mlm.yaml

        sparsefinder check recipes/demo-mlm.yaml --no-times --set "sweep.windows=[0, 11]"
    """
    asked, runs = _recipe(recipe, changes, runs)
    from .plan import plan

    print_lines(list(plan(asked, Path(runs), times)))


@app.command("run")
def run_command(
    recipe: What, changes: Changes = None, runs: Runs = "runs", engine: Engine = None, address: Address = None
) -> None:
    """Do everything a recipe says: train, trace, fit, sweep, report. What is done already is not done again.

    Examples:
        sparsefinder run recipes/demo-mlm.yaml

        sparsefinder run recipes/demo-mlm.yaml --set seed=1 --set name=second --set task.training.steps=500
    """
    _run(recipe, changes, runs, "report", (engine, address))


def _stage(name: str, says: str, example: str) -> None:
    """A command that runs a recipe up to one of its stages."""

    def command(
        recipe: What, changes: Changes = None, runs: Runs = "runs", engine: Engine = None, address: Address = None
    ) -> None:
        _run(recipe, changes, runs, name, (engine, address))

    app.command(name, help=f"{says}\n\nExample: sparsefinder {name} {example}")(command)


_stage("train", "Train the teacher; a killed training goes on from its last checkpoint.", "recipes/demo-mlm.yaml")
_stage("trace", "Record the teacher's queries and keys, after what comes before.", "recipes/demo-mlm.yaml")
_stage("fit", "Learn projections and fit finders, after what comes before.", "runs/demo-mlm")
_stage("sweep", "Measure the grid of settings, after what comes before. Finished points are kept.", "runs/demo-mlm")


for results in (report, points, scores, leaderboard):
    app.command()(results)


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
    decode: Annotated[
        bool, typer.Option("--decode", help="Decoding instead: tokens per second by cached length, 1024 to 65536.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Measure also what was measured before.")] = False,
    chart: Annotated[Path | None, typer.Option(help="Also write a chart of speed by length, as SVG.")] = None,
    alpha: Annotated[float | None, typer.Option(help="For a saved model that does not say its α.")] = None,
    runs: Runs = "runs",
) -> None:
    """Measure quality and time of every finder, beside full entmax and softmax attention: alone, and in the model.

    Finders are fitted to training data for a recall, and measured on other text. All take turns, so that what is
    compared met the same moments of the machine: leave it alone meanwhile. Results go to points/bench of the run (of
    runs/bench-NAME for a saved model), and onto the page of its report; what is there is not measured again.

    Examples:
        sparsefinder bench runs/demo-mlm

        sparsefinder bench runs/demo-mlm --methods sketch,probe --lengths 512,1024 --budget 600

        sparsefinder bench my-teacher --text wiki.txt --blocks none --chart docs/crossover.svg

        sparsefinder bench my-causal-teacher --text wiki.txt --decode --recall 0.98 --chart docs/decoding.svg
    """
    from .bench.asked import Asked
    from .bench.subject import of_model, of_run
    from .quiet import quiet
    from .showing import show_decoding, show_tables

    asked = Asked.of_words(
        methods, lengths, blocks, sizes, clusters, recall=recall, repeats=repeats, budget=budget, again=again
    )
    of_a_run = (what / "recipe.yaml").is_file()
    if of_a_run and text is not None:
        raise InputError("--text", text, f"none: {what} is the folder of a run, which has a text of its own")
    if not of_a_run and text is None and (what / "config.json").is_file():
        raise InputError("--text", "none", f"a text file, as {what} is the folder of a model and not of a run")
    with saying_how_to_go_on():
        quiet()
        subject = of_run(what) if text is None else of_model(what, text, runs, alpha)
        (show_decoding if decode else show_tables)(subject, asked, chart)


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
    """List every method with its parameters, as recipes name them, and what it does.

    A method with a dial takes recall or sparsity in its place. Methods of installed packages are listed too.
    """
    from rich.console import Console

    from .methods import listed, words

    print("\n".join(words(listed(), min(100, Console().width))))


def main() -> None:
    """Run a command; errors that were foreseen are a sentence, not a traceback."""
    try:
        app()
    except SparsefinderError as error:
        console.print(Text.assemble(("error:", "bold red"), f" {error}"), soft_wrap=not console.is_terminal)
        sys.exit(1)
