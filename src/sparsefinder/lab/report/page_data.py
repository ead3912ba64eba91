"""What the page's scripts get: all that a run has to show, as values that JSON can hold."""

from __future__ import annotations

from typing import Any

from ...describing import does, whose
from ..sweep.measured_setting import NO_PARAMETERS
from ..sweep.summary import COSTED, RECALLS
from .answer import leading, shown_first
from .charts import SLIDER_STEPS, compared_at, dash, head_names
from .clusters import SIDES
from .content import Content
from .encoding import safe_json
from .maps import attention_maps
from .methods import Series, style
from .overview import facts, provenance
from .rankings import TOLERANCE, Line, methods_table
from .timing import LINES
from .verdict import verdict

__all__ = ["page_data", "series_data"]

# Bytes of data at most: with its scripts a page stays under 5 MB. Maps get what the rest leaves.
MOST_BYTES = 4_700_000


def page_data(content: Content) -> dict[str, Any]:
    """What the scripts find in the element `data`; what the run does not have is None."""
    recipe, points, score = content.recipe, content.points, content.score
    data: dict[str, Any] = {
        "name": recipe.name,
        "description": recipe.description,
        "facts": facts(content.folder, recipe, score, points, content.measured_recall, content.measured_scores),
        "series": [series_data(one) for one in content.series],
        "score": None if score is None else score.to_page(),
        "scores": None if content.scores is None else content.scores.to_page(),
        **_recall(content),
        "clusters": _clusters(content),
        "timing": _timing(content),
        "bench": _bench(content),
        "training": None if content.training is None else content.training.to_page(),
        "provenance": provenance(content.folder, recipe),
        "maps": None,
    }
    if content.traces is not None and content.examples and recipe.report.sentences:
        left = MOST_BYTES - len(safe_json(data).encode())
        data["maps"] = attention_maps(content.traces, content.examples, content.finders, recipe.report.sentences, left)
    return data


def _recall(content: Content) -> dict[str, Any]:
    """All that follows from the points of recall."""
    points, recall = content.points, content.recall
    if points is None or recall is None:
        return {"recall": None, "heads": None, "verdict": [], "methods": [], "answer": None, "shown": []}
    named = zip(points.heads, head_names(points.heads), strict=True)
    return {
        "recall": recall.to_page(),
        "answer": None if content.answer is None else content.answer.to_page(),
        "shown": shown_first(recall),
        "verdict": verdict(recall, content.scores, content.score),
        "methods": [_line(content, line) for line in methods_table(recall, content.scores, content.score)],
        "recalls": RECALLS,
        "tolerance": TOLERANCE,
        "heads": {
            "names": [
                {"kind": kind, "layer": layer, "head": head, "name": name} for (kind, layer, head), name in named
            ],
            "gold": [round(float(one), 4) for one in points.gold_by_head],
            "frontiers": [one.to_page() for one in content.heads],
            "sliderSteps": SLIDER_STEPS,
            "compared": compared_at(recall),
            "leading": leading(recall),
        },
    }


def _clusters(content: Content) -> dict[str, Any]:
    """The counts, or why there are none."""
    found = content.clusters
    if isinstance(found, str):
        return {"why": found}
    return {"found": [one.to_page() for one in found], "sides": SIDES, "sequences": found[0].sequences}


def _timing(content: Content) -> dict[str, Any] | None:
    if content.timing is None:
        return None
    timing = content.timing.to_page()
    for method in timing["methods"]:
        method["style"] = _style(method["method"], 0)
    return timing


def _bench(content: Content) -> dict[str, Any] | None:
    if content.bench is None:
        return None
    found = content.bench.to_page()
    for line in found["lines"]:
        line["style"] = _style(line["method"], line["rank"])
        line["style"]["dash"] = LINES.get(line["method"], line["style"]["dash"])
    return found


def series_data(one: Series) -> dict[str, Any]:
    """A line of the charts: its method, how it looks, what it does and whose it is."""
    about = {
        "label": one.label, "method": one.method, "inputs": one.inputs, "competes": one.competes, "bound": one.bound,
        "does": does(one.method), "whose": whose(one.method),
    }  # fmt: skip
    return about | _style(one.method, one.rank)


def _style(method: str, rank: int) -> dict[str, Any]:
    look = style(method)
    return {"light": look.light, "dark": look.dark, "marker": look.marker, "rank": rank, "dash": dash(rank)}


def _line(content: Content, line: Line) -> dict[str, Any]:
    recall, scores = content.recall, content.scores
    assert recall is not None
    reached = [
        None
        if one is None
        else {
            "sparsity": one.sparsity,
            "words": recall.settings[one.place].words() or NO_PARAMETERS,
            "cost": one.cost if wanted == COSTED else None,
        }
        for wanted, one in zip(RECALLS, line.at_recall, strict=True)
    ]
    at_score = None
    if line.at_score is not None and scores is not None:
        at_score = {
            "sparsity": line.at_score.sparsity,
            "words": scores.settings[line.at_score.place].words() or NO_PARAMETERS,
        }
    return {
        "series": content.series.index(line.series), "points": line.points, "hypervolume": line.hypervolume,
        "within": line.within, "reached": reached, "scored": line.scored, "score": at_score,
        "scoreHypervolume": line.score_hypervolume, "scoreWithin": line.score_within,
    }  # fmt: skip
