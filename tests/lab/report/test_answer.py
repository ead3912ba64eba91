"""The sentence of the first screen: its numbers are those of summary.csv and points.csv, and it says what there is."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report.answer import answer, shown_first
from sparsefinder.lab.report.bench import bench_results
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.timing import running_times
from sparsefinder.lab.sweep.summary import write_summary

from ..bench.made_up import rows as bench_rows
from .made_up import Sizes, make_run
from .test_verdict import cloud

SIZES = Sizes(layers=2, heads=2, settings=8, examples=0)
FINDING = re.compile(
    r"At 95 % recall \*(.+?)\* skips ([\d.]+) % \[([\d.]+), ([\d.]+)\] of the pairs((?:, \*.+?\* [\d.]+ % \[.+?\])*);"
)
MODEL = re.compile(
    r"inside the model \*(.+?)\* skips ([\d.]+) % \[.+?\] at 9\d % recall and (costs|gains) ([\d.]+)( %)? "
    r"\[([\d.]+), ([\d.]+)\] (\w+)"
)


def rows_of(folder: RunFolder, name: str) -> list[dict[str, str]]:
    with (folder / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("metric", ["perplexity", "BLEU"])
def test_each_number_is_in_the_tables(tmp_path: Path, metric: str) -> None:
    folder = make_run(tmp_path / "run", SIZES, metric=metric, timing=False)
    write_summary(folder)
    said = Content(folder, load_recipe(folder / "recipe.yaml")).answer
    assert said is not None
    summary, points = rows_of(folder, "summary.csv"), rows_of(folder, "points.csv")
    found = FINDING.match(said.sentence)
    assert found, said.sentence
    label, share, low, high, others = found.groups()
    # Sketch is the best of all, distance of the paper's, and the other is of others: one of each family.
    assert label == "sketch"
    best = {row["method"]: float(row["sparsity_at_95"] or 0) for row in summary if row["inputs"] != "pca"}
    assert float(share) == pytest.approx(100 * best["sketch"], abs=0.51 if float(share).is_integer() else 0.051)
    assert float(low) <= float(share) <= float(high)
    named = dict(re.findall(r"\*(.+?)\* ([\d.]+) %", others))
    assert "distance" in next(iter(named))
    assert float(named["Routing Transformer"]) == pytest.approx(100 * best["routing"], abs=0.51)
    assert len(named) == 2

    inside = MODEL.search(said.sentence)
    assert inside, said.sentence
    who, sparsity, word, change, unit, *within, what = inside.groups()
    mine = [row for row in points if row["measure"] == metric and row["method"] == "sketch"]
    good = [row for row in mine if float(row["recall"]) >= 0.95]
    place = max(good, key=lambda row: float(row["sparsity"]))
    (full,) = [float(row["value"]) for row in points if row["method"] == "full"]
    value = float(place["value"])
    worse = 100 * (value / full - 1) if metric == "perplexity" else full - value
    assert (who, word, what) == ("sketch", "costs", metric)
    assert float(sparsity) == pytest.approx(100 * float(place["sparsity"]), abs=0.51)
    assert float(change) == pytest.approx(worse, abs=0.051)
    assert (unit is not None) == (metric == "perplexity")
    assert float(within[0]) <= float(change) <= float(within[1])
    assert said.rests_on.startswith("n = 64 sequences for recall, 64 inside the model;")
    assert "`sparsefinder bench RUN`" in said.sentence


def test_a_leader_that_was_not_run_inside_the_model_is_followed_by_one_that_was() -> None:
    recall = cloud(sketch=[(0.9, 0.96)], kmeans=[(0.8, 0.96)], window=[(0.3, 0.96)])
    scores = cloud(1e-4, full=10.0, measure="perplexity", series=list(recall.series), kmeans=[(0.7, 10.5)])
    scores.measured.columns["recall"] = np.array([0.97])  # type: ignore[index]
    said = answer(recall, scores)
    assert "; inside the model *k-means* skips 70.0 % [70.0, 70.0] at 97 % recall and costs 5.0 %" in said.sentence
    scores.measured.columns["recall"] = np.array([0.8])  # type: ignore[index]
    assert (
        "inside the model the highest recall of *k-means* is 80 %, which skips 70.0 %"
        in answer(recall, scores).sentence
    )


def test_what_could_be_chance_is_no_cost() -> None:
    recall = cloud(sketch=[(0.9, 0.96)])
    scores = cloud(2.0, full=10.0, measure="perplexity", series=list(recall.series), sketch=[(0.9, 10.1)])
    scores.measured.columns["recall"] = np.array([0.97])  # type: ignore[index]
    assert re.search(
        r"costs no perplexity that could be told \(\+1\.0 % \[−[\d.]+, \+[\d.]+\]\)", answer(recall, scores).sentence
    )


def test_a_change_that_could_be_chance_has_the_sign_of_its_measure() -> None:
    recall = cloud(sketch=[(0.9, 0.96)])
    for measure, unit in (("BLEU", ""), ("perplexity", " %")):
        for value, sign in ((9.0, "−"), (11.0, "+")):
            scores = cloud(20.0, full=10.0, measure=measure, series=list(recall.series), sketch=[(0.9, value)])
            scores.measured.columns["recall"] = np.array([0.97])  # type: ignore[index]
            said = answer(recall, scores).sentence
            found = re.search(
                rf"costs no {measure} that could be told \((.)10?\.0{unit} \[(.)[\d.]+, (.)[\d.]+\]\)", said
            )
            assert found, said
            assert found.groups() == (sign, "−", "+")


def test_what_gets_there_only_with_all_pairs_skips_none() -> None:
    said = answer(cloud(sketch=[(0.9, 0.96)], window=[(0.0, 1.0), (0.9, 0.2)]), None).sentence
    assert said.startswith("At 95 % recall *sketch* skips 90.0 % [")
    assert "of the pairs, *window* none; " in said


def test_where_no_method_gets_there_it_says_so() -> None:
    said = answer(cloud(kmeans=[(0.9, 0.5)], window=[(0.5, 0.9)]), None)
    assert said.sentence.startswith(
        "No method finds 95 % of the pairs that the teacher uses; the most is 90 %, by *window*"
    )


def made_up_bench(faster: float) -> list[dict[str, Any]]:
    """A benchmark whose finders are all so many times as fast as they were, against the same softmax."""
    changed = []
    for row in bench_rows(2048):
        if row["method"] in ("sketch", "distance", "window"):
            ratios = {name: row[name] * faster for name in row if name.startswith("to_softmax")}
            row = row | ratios | {name: row[name] / faster for name in ("find", "attend", "alone")}
        changed.append(row)
    return changed


def test_a_leader_that_is_faster_is_said_to_be_and_at_which_length() -> None:
    recall = cloud(sketch=[(0.9, 0.96)], window=[(0.3, 0.96)])
    rows = made_up_bench(1.0)
    (sketch,) = [row for row in rows if row["method"] == "sketch"]
    said = answer(recall, None, bench_results(rows)).sentence
    low, high = (f"{sketch[f'to_softmax_{end}']:.1f}" for end in ("low", "high"))
    assert (
        f"*sketch* makes attention {sketch['to_softmax']:.1f}× ({low}–{high}) as fast as softmax at 2,048 tokens."
        in said
    )
    # Where another method leads, the fastest is named beside it.
    leads = cloud(window=[(0.9, 0.96)], sketch=[(0.3, 0.96)])
    said = answer(leads, None, bench_results(rows)).sentence
    assert (
        "Attention with *window* is only 0.2× (0.2–0.2) as fast as softmax at 2,048 tokens, the fastest, *sketch*, "
        in said
    )


def test_a_leader_that_keeps_all_pairs_makes_nothing_faster() -> None:
    rows = [row | {"sparsity": 0.0, "recall": 1.0} if row["method"] == "sketch" else row for row in made_up_bench(1.0)]
    said = answer(cloud(sketch=[(0.9, 0.96)]), None, bench_results(rows)).sentence
    assert "At 2,048 tokens skipping does not pay yet: *sketch*, set for the least time, keeps all pairs, and " in said
    assert "makes attention" not in said


def test_where_nothing_got_faster_it_says_why_length_sparsity_and_the_cost_of_finding() -> None:
    rows = made_up_bench(0.04)
    (sketch,) = [row for row in rows if row["method"] == "sketch"]
    (softmax,) = [row for row in rows if row["method"] == "softmax"]
    said = answer(cloud(sketch=[(0.9, 0.96)]), None, bench_results(rows)).sentence
    find, attend, all_pairs = (f"{1000 * one:.3g} ms" for one in (sketch["find"], sketch["attend"], softmax["alone"]))
    assert (
        f"Nothing got faster at 2,048 tokens: the fastest, *sketch*, takes {find} to find and {attend} to attend to "
        f"4 % of the pairs, softmax {all_pairs} for all."
    ) in said


def test_the_timings_of_a_recipe_are_said_where_there_is_no_benchmark(tmp_path: Path) -> None:
    content = Content(folder := make_run(tmp_path / "run", SIZES), load_recipe(folder / "recipe.yaml"))
    timing, recall = content.timing, content.recall
    assert timing is not None
    assert recall is not None
    # BigBird with two blocks is the fastest: 20 seconds and a little, of which attention is 40 %, softmax takes 48.
    said = answer(recall, None, None, timing, 512).sentence
    assert re.search(
        r"\. \*sketch\* was not timed \(`sparsefinder bench RUN` does\); of what was timed, \*BigBird\* with 2 blocks "
        r"is the fastest: attention is 2\.\d× as fast as softmax at 512 tokens, with perplexity [\d.]+ in place of 11",
        said,
    )
    slow = [dict(row) | {"attention_seconds": 100.0} if row["block"] else dict(row) for row in timing.rows]
    said = answer(recall, None, None, running_times(slow, timing.score), 512).sentence
    why = r"of what was timed nothing got faster at 512 tokens: .* takes 5\.2× the time of softmax to find 20 % of the"
    assert re.search(why, said)


def test_charts_show_at_first_who_is_on_the_common_frontier_or_named() -> None:
    # Routing is behind k-means everywhere, and named as the best of others; quantization is neither.
    points = cloud(
        kmeans=[(0.9, 0.96)], sketch=[(0.95, 0.9), (0.85, 0.97)], routing=[(0.7, 0.96)], quantization=[(0.6, 0.96)],
        oracle=[(0.97, 1.0)],
    )  # fmt: skip
    shown = [points.series[number].method for number in shown_first(points)]
    assert sorted(shown) == ["kmeans", "oracle", "routing", "sketch"]


def test_of_one_sequence_there_is_no_interval() -> None:
    said = answer(cloud(n=1, kmeans=[(0.9, 0.96)]), None)
    assert "*k-means* skips 90 % [?] of the pairs" in said.sentence
    assert said.rests_on.startswith("n = 1 sequence for recall;")
