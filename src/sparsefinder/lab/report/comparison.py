"""Several runs on one page: beside each other, on the same axes, with the same methods in the same colours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...files import write_text
from ..leaderboard import standings
from ..sweep.measured_setting import NO_PARAMETERS
from ..sweep.summary import COSTED, RECALLS
from .answer import shown_first
from .charts import Cloud, Range
from .content import Content
from .methods import Series, series_of
from .page import written
from .page_data import series_data
from .rankings import methods_table

__all__ = ["compare"]


def compare(runs: Sequence[Content], path: Path) -> Path:
    """Write the page of several runs; the path. Runs that measured the same score share its axis as well."""
    for run in runs:
        if run.recall is None:
            raise InputError("RUN", run.folder.path, "runs that have points: `sparsefinder sweep RUN` measures them")
    series = series_of(one.key for run in runs for one in run.series)
    recalls = [Cloud(series, run.measured_recall) for run in runs if run.measured_recall is not None]
    shown = {number for one in recalls for number in shown_first(one)}
    names = [run.folder.path.resolve().name for run in runs]
    data: dict[str, Any] = {
        "name": " · ".join(names), "description": f"{len(runs)} runs, side by side",
        "series": [series_data(one) for one in series], "shown": sorted(shown), "recall": None, "scores": None,
        "limits": _common([one.limits for one in recalls]), "wanted": COSTED,
        "runs": [_run(run, recall, series, path) for run, recall in zip(runs, recalls, strict=True)],
        "leaderboard": _leaderboard(runs, series),
    }  # fmt: skip
    _share_axes(data["runs"])
    write_text(path, written(data))
    return path


def _run(run: Content, recall: Cloud, series: Sequence[Series], path: Path) -> dict[str, Any]:
    scores = None if run.scores is None else Cloud(series, run.scores.measured)
    at = RECALLS.index(COSTED)
    lines = []
    for line in methods_table(recall, None, None):
        best = line.at_recall[at]
        words = None if best is None else recall.settings[best.place].words() or NO_PARAMETERS
        lines.append({
            "series": series.index(line.series), "hypervolume": line.hypervolume,
            "reached": None if best is None else {"sparsity": best.sparsity, "words": words},
        })  # fmt: skip
    assert run.answer is not None
    return {
        "name": run.folder.path.resolve().name, "description": run.recipe.description, "answer": run.answer.to_page(),
        "page": os.path.relpath(run.folder / "report/index.html", path.resolve().parent),
        "recall": recall.to_page(), "scores": None if scores is None else scores.to_page(),
        "score": None if run.score is None else run.score.to_page(), "methods": lines,
        "limits": None if scores is None else scores.limits,
    }  # fmt: skip


def _leaderboard(runs: Sequence[Content], series: Sequence[Series]) -> list[dict[str, Any]]:
    """The means over all runs, with the number of each method's line."""
    numbers = {one.key: number for number, one in enumerate(series)}
    return [
        {
            "series": numbers[one.method, one.inputs],
            "place": one.place,
            "teachers": len(one.teachers),
            "means": one.means,
        }
        for one in standings([run.folder for run in runs])
    ]


def _share_axes(runs: Sequence[dict[str, Any]]) -> None:
    """Charts of the same score get the same axes."""
    for metric in {run["score"]["metric"] for run in runs if run["limits"] is not None}:
        mine = [run for run in runs if run["limits"] is not None and run["score"]["metric"] == metric]
        common = _common([run["limits"] for run in mine])
        for run in mine:
            run["limits"] = common


def _common(limits: Sequence[tuple[Range, Range]]) -> list[list[float]]:
    """Axes that hold all of several."""
    every = np.array(limits)
    return np.stack([every[..., 0].min(0), every[..., 1].max(0)], -1).tolist()
