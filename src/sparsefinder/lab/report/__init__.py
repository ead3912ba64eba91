"""The report of a run: one page that works offline, and figures for print.

>>> write_report(RunFolder("runs/demo"))
PosixPath('runs/demo/report/index.html')
"""

from __future__ import annotations

from pathlib import Path

from ...files import whole_folder
from ..folder import RunFolder
from ..recipe import Recipe, load_recipe

__all__ = ["write_report"]


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
