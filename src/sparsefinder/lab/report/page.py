"""The page: one HTML file with its styles, scripts and data inside, which asks the network for nothing."""

from __future__ import annotations

import base64
import html
from importlib.resources import files
from string import Template
from typing import Any

from .content import Content
from .encoding import safe_json
from .maps import attention_maps
from .methods import Series, style
from .overview import facts, provenance
from .verdict import RECALLS, Line, methods_table, verdict

__all__ = ["page"]

# Letters of data at most: a page stays under 15 MB. Maps get what the rest leaves.
MOST = 13_000_000


def page(content: Content) -> str:
    """The whole page as HTML."""
    return Template((files(__package__) / "assets/template.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(f"{content.recipe.name} – Sparsefinder"),
        styles="\n".join(_assets(".css").values()),
        modules=safe_json({"imports": {f"report/{name}": _url(name, text) for name, text in _assets(".js").items()}}),
        data=safe_json(_data(content)),
    )


def _assets(ending: str) -> dict[str, str]:
    """The files of one kind, by name. Nothing rests on their order: scripts import, and styles keep to their own."""
    found = sorted((one for one in (files(__package__) / "assets").iterdir() if one.name.endswith(ending)), key=str)
    return {one.name: one.read_text(encoding="utf-8") for one in found}


def _url(name: str, script: str) -> str:
    """A module as an address that holds it. Consoles and debuggers show the name.

    Browsers import modules by address, and pages opened from a disk may import no other file. An import map names the
    addresses: so modules stay files that say what they take from each other, and nobody needs a bundler. They say
    `report/chart.js` and not `./chart.js`, since nothing is relative to an address like these.
    """
    return f"data:text/javascript;base64,{base64.b64encode(f'{script}//# sourceURL=report/{name}'.encode()).decode()}"


def _data(content: Content) -> dict[str, Any]:
    """What the scripts find in the element `data`."""
    recipe, points, score = content.recipe, content.points, content.score
    data: dict[str, Any] = {
        "name": recipe.name,
        "description": recipe.description,
        "facts": facts(content.folder, recipe, score, points, 0 if points is None else len(points.settings)),
        "series": [_series(one) for one in content.series],
        "score": None if score is None else {
            "metric": score.metric, "value": score.value, "lower": score.lower_is_better, "axis": score.axis,
        },
        "recall": None, "scores": None, "heads": None, "verdict": [], "methods": [],
        "maps": None, "clusters": None, "timing": None,
        "provenance": provenance(content.folder, recipe),
    }  # fmt: skip
    if points is not None and content.recall is not None:
        data["verdict"] = verdict(content.recall, content.scores, score, points.gold)
        lines = methods_table(content.recall, content.scores, score)
        data["methods"] = [_line(content, line) for line in lines]
        data["gold"] = points.gold
        data["recalls"] = RECALLS
        data["recall"] = content.recall.to_page()
        data["heads"] = {
            "names": [{"kind": kind, "layer": layer, "head": head} for kind, layer, head in points.heads],
            "gold": [round(float(one), 4) for one in points.gold_by_head],
            "frontiers": [one.to_page() for one in content.heads],
        }
    if content.scores is not None:
        data["scores"] = content.scores.to_page()
    clusters = content.clusters
    data["clusters"] = (
        {"why": clusters} if isinstance(clusters, str) else {"found": [one.to_page() for one in clusters]}
    )
    data["clusters"]["sentences"] = len({one.sequence for one in content.examples})
    if content.timing is not None:
        data["timing"] = content.timing.to_page()
        for method in (*data["timing"]["methods"], *data["timing"]["lines"]):
            method["style"] = _style(method["method"], 0)
    if content.traces is not None and content.examples and recipe.report.sentences:
        left = MOST - len(safe_json(data))
        data["maps"] = attention_maps(content.traces, content.examples, content.finders, recipe.report.sentences, left)
    return data


def _series(one: Series) -> dict[str, Any]:
    return {"label": one.label, "method": one.method, "competes": one.competes, **_style(one.method, one.rank)}


def _style(method: str, rank: int) -> dict[str, Any]:
    look = style(method)
    return {"light": look.light, "dark": look.dark, "marker": look.marker, "rank": rank}


def _line(content: Content, line: Line) -> dict[str, Any]:
    recall, scores = content.recall, content.scores
    assert recall is not None
    reached = [
        None if one is None else {"sparsity": one.sparsity, "words": recall.settings[one.place].words()}
        for one in line.at_recall
    ]
    at_score = None
    if line.at_score is not None and scores is not None:
        at_score = {"sparsity": line.at_score.sparsity, "words": scores.settings[line.at_score.place].words()}
    return {
        "series": content.series.index(line.series), "points": line.points, "hypervolume": line.hypervolume,
        "reached": reached, "scored": line.scored, "score": at_score,
    }  # fmt: skip
