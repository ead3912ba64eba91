"""The report of a run: one page that works offline, and figures for print; and one page that compares several runs.

>>> write_report(RunFolder("runs/demo"))
PosixPath('runs/demo/report/index.html')
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...files import whole_folder
from ..folder import RunFolder
from ..recipe import Recipe, load_recipe

__all__ = ["write_comparison", "write_report"]


def write_report(folder: RunFolder, recipe: Recipe | None = None) -> Path:
    """Write `report/index.html` and `report/figures/` from whatever the run has so far; the path of the page.

    recipe: what to show (sentences, the pipeline for parts of speech); the run's own if not given.
    """
    from .content import Content
    from .figures import write_figures
    from .page import page

    content = Content(folder, recipe or load_recipe(folder / "recipe.yaml"))
    with whole_folder(folder / "report") as target:
        (target / "index.html").write_text(page(content), encoding="utf-8")
        (target / "figures").mkdir()
        write_figures(content, target / "figures")
    return folder / "report" / "index.html"


def write_comparison(folders: Sequence[RunFolder], path: Path | None = None) -> Path:
    """Write one page of several runs; beside the first, named after all of them, unless there is a path."""
    from .comparison import compare
    from .content import Content

    if path is None:
        # A folder may be given as `.`.
        names = [folder.path.resolve() for folder in folders]
        path = names[0].parent / f"compare-{'-'.join(one.name for one in names)}.html"
    return compare([Content(folder, load_recipe(folder / "recipe.yaml")) for folder in folders], path)
