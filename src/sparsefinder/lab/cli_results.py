"""The commands that show what was measured: as a page, as a table, and over several teachers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .folder import check_folder

__all__ = ["leaderboard", "points", "report", "scores"]


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folder of a run, or of several.")],
    pos: Annotated[str | None, typer.Option(help="A spaCy pipeline for parts of speech: en_core_web_sm, say.")] = None,
    to: Annotated[
        Path | None, typer.Option(help="The page of several runs; beside the first, named after all, if not given.")
    ] = None,
) -> None:
    """Write the report page and the figures of a run, from what there is; or one page that compares several runs.

    Examples:
        sparsefinder report runs/demo-mlm --pos en_core_web_sm

        sparsefinder report runs/demo-mt-de runs/demo-mt-fr
    """
    from .quiet import quiet
    from .recipe import load_recipe
    from .run import say_unfinished

    folders = [check_folder(run) for run in runs]
    recipe = load_recipe(folders[0] / "recipe.yaml", [] if pos is None else [f"report.pos={pos}"])
    quiet()
    from .report import write_comparison, write_report

    if len(folders) > 1:
        print(f"The page: {write_comparison(folders, to)}")
    else:
        print(f"The page: {write_report(folders[0], recipe)}")
    for folder in folders:
        say_unfinished(folder)


def points(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    sort: Annotated[str, typer.Option(help="A column of summary.csv, best first.")] = "hypervolume",
    every: Annotated[bool, typer.Option("--all", help="More columns, for a terminal of 120.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print summary.csv instead of a table.")] = False,
    chart: Annotated[Path | None, typer.Option(help="Also write a chart of sparsity and recall, as SVG.")] = None,
    only: Annotated[str, typer.Option(help="Methods that the chart has, with commas between; all if empty.")] = "",
) -> None:
    """Print how every method does: pairs skipped at high recall, and what is kept at the teacher's own sparsity.

    All columns go to summary.csv in the folder of the run, and every point, with whether it is on its method's
    frontier, to points.csv.

    Examples:
        sparsefinder points runs/demo-mlm

        sparsefinder points runs/demo-mlm --sort recall_at_gold --all

        sparsefinder points runs/demo-mlm --csv > methods.csv

        sparsefinder points runs/demo-mlm --chart pareto.svg --only sketch,distance,kmeans,window
    """
    from .run import say_unfinished, unfinished
    from .sweep.printed import print_summary, summary_csv
    from .sweep.summary import measured

    folder = check_folder(run)
    if only and chart is None:
        raise InputError("only", only, "--chart FILE with it: the table has all methods")
    if not measured(folder):
        want = ": ".join(filter(None, ["one that was swept", unfinished(folder)]))
        raise InputError("RUN", f"{run}, where nothing was measured yet", want)
    if chart is not None:
        from .report.figures_pareto import write_pareto

        write_pareto(folder, chart, [name for name in only.split(",") if name])
    print(summary_csv(folder, sort), end="") if as_csv else print_summary(folder, sort, every)
    say_unfinished(folder)


def leaderboard(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, one of each teacher.")],
    sort: Annotated[str, typer.Option(help="A column of the CSV, best first.")] = "hypervolume",
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV, also of every teacher, instead of a table.")
    ] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a table for a page of Markdown.")] = False,
    chart: Annotated[
        Path | None, typer.Option(help="Also write a chart of sparsity and recall, a panel for each run, as SVG.")
    ] = None,
) -> None:
    """Print how every method does over several teachers: what it finds, what finding costs, and what time it saves.

    Times are those of `sparsefinder bench RUN`, where there are any. `sparsefinder report RUN RUN...` has the same on
    its page. docs/leaderboard.md says how to enter a method of your own.

    Examples:
        sparsefinder leaderboard runs/demo-mlm runs/demo-mt-de

        sparsefinder leaderboard runs/* --sort sparsity_at_95 --chart leaderboard.svg --csv > leaderboard.csv
    """
    from . import leaderboard as board

    if as_csv and as_markdown:
        raise InputError("--markdown", "--csv beside it", "one of them")
    folders = [check_folder(run) for run in runs]
    found = board.standings(folders, sort)
    if chart is not None:
        from .report.figures_leaderboard import write_chart

        write_chart(folders, found, chart)
    if as_csv or as_markdown:
        print(board.as_csv(found) if as_csv else board.as_markdown(found), end="")
    else:
        board.print_standings(found)


def scores(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; fits to one teacher, or several.")
    ],
    only: Annotated[str, typer.Option(help="Methods, with commas between; all if empty.")] = "",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, of every run, instead of a table.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a table for a page of Markdown.")] = False,
    chart: Annotated[
        Path | None, typer.Option(help="Also write a chart of sparsity and score, a panel for each teacher, as SVG.")
    ] = None,
) -> None:
    """Print what predicting attention costs the model: its score with every setting that was run inside it.

    Runs whose full model has the same score are fits to one teacher, with other seeds say, and share a table.

    Examples:
        sparsefinder scores runs/demo-mlm

        sparsefinder scores runs/demo-mlm runs/demo-mlm-1 --only sketch,distance,window

        sparsefinder scores runs/demo-mt-de runs/demo-mt-fr --chart scores.svg --markdown > scores.md
    """
    from . import scores as inside

    if as_csv and as_markdown:
        raise InputError("--markdown", "--csv beside it", "one of them")
    found = inside.teachers([check_folder(run) for run in runs], [name for name in only.split(",") if name])
    if chart is not None:
        from .report.figures_scores import write_chart

        write_chart(found, chart)
    if as_csv or as_markdown:
        print(inside.as_csv(found) if as_csv else inside.as_markdown(found), end="")
    else:
        inside.print_scores(found)
