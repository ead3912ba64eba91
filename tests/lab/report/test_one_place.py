"""Summary, points, page, figures and command line say the same numbers: gold lines, sparsities, means, volumes."""

from __future__ import annotations

import base64
import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from typer.testing import CliRunner

from sparsefinder.core.pareto import hypervolume
from sparsefinder.lab.cli import app
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.figures_pareto import pareto_figure
from sparsefinder.lab.report.page import page as page_of

from .made_up import SCORE_GOLD, Sizes, make_run

KINDS = {"u1": "<u1", "u2": "<u2", "f4": "<f4"}


@pytest.fixture(scope="module", params=["perplexity", "BLEU"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    sizes = Sizes(layers=2, heads=2, settings=4, examples=0)
    return make_run(tmp_path_factory.mktemp("run") / "made-up", sizes, metric=request.param, timing=False)


@pytest.fixture(scope="module")
def said(run: RunFolder) -> str:
    result = CliRunner().invoke(app, ["points", str(run.path)], env={"COLUMNS": "160"})
    assert result.exit_code == 0
    return result.output


def _table(run: RunFolder, name: str, said: str) -> list[dict[str, str]]:
    """A table that the command line wrote."""
    assert said
    with (run / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _page(run: RunFolder) -> dict[str, Any]:
    whole = page_of(Content(run, load_recipe(run / "recipe.yaml")))
    (data,) = re.findall(r'id="data">(.*?)</script>', whole, re.S)
    return json.loads(data)


def _column(encoded: dict[str, str]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(encoded["data"]), KINDS[encoded["kind"]])


def _places(data: dict[str, Any], cloud: dict[str, Any]) -> list[tuple[str, str]]:
    """The label of each point's series, and the words of its setting."""
    own, extra = _column(cloud["own"]), _column(cloud["extra"])
    return [
        (
            data["series"][series]["label"],
            ", ".join(filter(None, (cloud["ownWords"][own[place]], cloud["extraWords"][extra[place]]))),
        )
        for place, series in enumerate(_column(cloud["series"]))
    ]


def test_everybody_has_the_same_points(run: RunFolder, said: str) -> None:
    content, data = Content(run, load_recipe(run / "recipe.yaml")), _page(run)
    figure = pareto_figure(content)
    assert figure is not None
    rows = _table(run, "points.csv", said)
    for cloud, measured, axes, which in (
        (data["recall"], content.recall, figure.axes[0], ["recall"]),
        (data["scores"], content.scores, figure.axes[1], ["perplexity", "BLEU"]),
    ):
        assert measured is not None
        mine = [row for row in rows if row["measure"] in which and row["method"] != "full"]
        order = {
            (one.method, one.inputs, one.own, str(one.window), str(one.globals)): place
            for place, one in enumerate(measured.settings)
        }
        places = [order[row["method"], row["inputs"], row["setting"], row["window"], row["globals"]] for row in mine]
        assert sorted(places) == list(range(len(measured.settings)))
        sign = -1 if data["score"]["lower"] and cloud is data["scores"] else 1
        columns = {
            "sparsity": _column(cloud["x"]), "value": sign * _column(cloud["y"]), "frontier": _column(cloud["best"]),
            **{name: _column(each) for name, each in cloud["told"].items()},
        }  # fmt: skip
        assert {"precision", "full_recall", "empty_rows", "pooled_sparsity", "pooled_recall"} <= set(columns)
        for name, values in columns.items():
            assert np.allclose([float(row[name]) for row in mine], values[places], rtol=1e-6, atol=1e-6), name
        words = _places(data, cloud)
        assert [words[place][1] for place in places] == [measured.settings[place].words() for place in places]
        # The faint marks of the figure are all points.
        marks = [each for each in axes.collections if isinstance(each, PathCollection)]
        drawn = np.concatenate([np.asarray(each.get_offsets()) for each in marks])
        assert np.allclose(np.sort(drawn[:, 0]), np.sort([float(row["sparsity"]) for row in mine]))
        assert np.allclose(np.sort(drawn[:, 1]), np.sort([float(row["value"]) for row in mine]))
        # Page and print have the same axes: where less is better, both are upside down.
        (left, right), (bottom, top) = cloud["limits"]
        assert axes.get_xlim() == (left, right)
        assert axes.get_ylim() == (sign * bottom, sign * top)


def test_everybody_has_the_same_gold_lines(run: RunFolder, said: str) -> None:
    content, data = Content(run, load_recipe(run / "recipe.yaml")), _page(run)
    rows = _table(run, "summary.csv", said)
    (gold,) = {float(row["gold_sparsity"]) for row in rows if row["gold_sparsity"]}
    (score_gold,) = {float(row["score_gold_sparsity"]) for row in rows if row["score_gold_sparsity"]}
    assert score_gold == SCORE_GOLD != pytest.approx(gold, abs=0.01)
    assert (data["recall"]["gold"], data["scores"]["gold"]) == (gold, score_gold)
    figure = pareto_figure(content)
    assert figure is not None
    for axes, wanted in zip(figure.axes, (gold, score_gold), strict=True):
        (star,) = [line for line in axes.lines if line.get_marker() == "*"]
        dashed = [line for line in axes.lines if line.get_linestyle() == "--" and len(set(line.get_xdata())) == 1]
        assert [line.get_xdata()[0] for line in (star, *dashed)] == [wanted, wanted]
    printed = " ".join(said.split())
    assert f"gold graphs: {100 * gold:.1f} % sparse on the 64 sequences of the traces" in printed
    assert f"gold graphs: {100 * score_gold:.1f} % sparse on the 64 sequences that" in printed
    (sentence,) = [one for one in data["verdict"] if "gold sparsity" in one]
    assert f"gold sparsity of {100 * score_gold:.1f} % on the same sequences" in sentence


def test_everybody_has_the_same_volumes(run: RunFolder, said: str) -> None:
    data, points = _page(run), _table(run, "points.csv", said)
    (full,) = [float(row["value"]) for row in points if row["method"] == "full"]
    rows = {(row["method"], row["inputs"]): row for row in _table(run, "summary.csv", said)}
    lines = {data["series"][line["series"]]["label"]: line for line in data["methods"]}
    content = Content(run, load_recipe(run / "recipe.yaml"))
    for series in content.series:
        row, line = rows[series.key], lines[series.label]
        mine = [point for point in points if (point["method"], point["inputs"]) == series.key]
        for measure, prefix, short in (("recall", "", "within"), (data["score"]["metric"], "score_", "scoreWithin")):
            pairs = np.array(
                [[float(one["sparsity"]), float(one["value"])] for one in mine if one["measure"] == measure]
            )
            if measure != "recall":
                pairs[:, 1] = full / pairs[:, 1] if data["score"]["lower"] else pairs[:, 1] / full
            value = float(row[f"{prefix}hypervolume"])
            assert value == pytest.approx(hypervolume(pairs))
            assert line["scoreHypervolume" if prefix else "hypervolume"] == value
            low, high = (float(row[f"{prefix}hypervolume_{end}"]) for end in ("low", "high"))
            assert line[short] == [low, high]
            assert low < value < high
        assert f"{float(row['hypervolume']):.3f}" in said


def test_the_numbers_of_the_verdict_are_those_of_the_summary(run: RunFolder, said: str) -> None:
    content, data = Content(run, load_recipe(run / "recipe.yaml")), _page(run)
    rows = {(row["method"], row["inputs"]): row for row in _table(run, "summary.csv", said)}
    rivals = {one.label: rows[one.key] for one in content.series if one.competes}
    verdict, metric = data["verdict"], data["score"]["metric"]
    for quality, prefix, counted in (
        ("recall", "", ("points", "sequences")),
        (metric, "score_", ("scored", "score_sequences")),
    ):
        (sentence,) = [one for one in verdict if f"By hypervolume of sparsity and {quality}" in one]
        number = {
            label: float(row[f"{prefix}hypervolume"]) for label, row in rivals.items() if row[f"{prefix}hypervolume"]
        }
        first, second, third = sorted(number, key=lambda label: -number[label])[:3]
        low, high = (float(rivals[first][f"{prefix}hypervolume_{end}"]) for end in ("low", "high"))
        settings = sum(int(row[counted[0]]) for row in rivals.values())
        assert f"over {settings:,} settings and n = {rivals[first][counted[1]]} sequences, {first}: " in sentence
        assert f": {number[first]:.3f} [{low:.3f}, {high:.3f}]; next {second} " in sentence
        for label in (second, third):
            assert re.search(
                rf"{re.escape(label)} (not told apart \()?{number[first] - number[label]:.3f} \[", sentence
            )
    for wanted in (95, 99):
        reached = {label: float(row[f"sparsity_at_{wanted}"] or "nan") for label, row in rivals.items()}
        reached = {label: value for label, value in reached.items() if value == value}
        (sentence,) = [one for one in verdict if f"a recall of {wanted} %" in one]
        if reached:
            first = max(reached, key=lambda label: reached[label])
            assert f"the sparsest is {first}: it leaves out {100 * reached[first]:.1f} % [" in sentence
        missing = len(rivals) - len(reached)
        assert (f"{missing} of the methods never get there" in sentence) == (0 < missing < len(rivals))


def test_a_setting_is_found_by_its_place_also_beside_one_that_cannot_be_drawn(tmp_path: Path) -> None:
    """The charts of single heads name settings by their place among all."""
    import pyarrow.parquet as parquet

    folder = make_run(tmp_path / "run", Sizes(layers=1, heads=2, settings=3, examples=0), timing=False)
    file = folder / "points/recall/part-0.parquet"
    table = parquet.read_table(file).to_pydict()
    # The first setting of the first method has no recall in any head.
    table["recall"] = [float("nan") if place < 2 else one for place, one in enumerate(table["recall"])]
    parquet.write_table(parquet.read_table(file).set_column(10, "recall", [table["recall"]]), file)
    content, data = Content(folder, load_recipe(folder / "recipe.yaml")), _page(folder)
    assert content.points is not None
    words = _places(data, data["recall"])
    assert len(words) == len(content.points.settings)
    assert np.isnan(_column(data["recall"]["y"])).sum() == 1
    for setting in np.unique(_column(data["heads"]["frontiers"][0]["setting"])):
        assert words[setting][1] == content.points.settings[setting].words()
