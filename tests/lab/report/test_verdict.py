"""The sentences of a report follow from its points; what could as well be chance is not called a difference."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from sparsefinder.core.ratios import weighted_means
from sparsefinder.lab.report.charts import Cloud, FullScore
from sparsefinder.lab.report.methods import Series, series_of
from sparsefinder.lab.report.rankings import methods_table
from sparsefinder.lab.report.verdict import verdict
from sparsefinder.lab.sweep.measured import Measured
from sparsefinder.lab.sweep.measured_setting import MeasuredSetting

N = 40


def cloud(
    spread: float = 0.001,
    n: int = N,
    gold: float = 0.9,
    full: float = 1.0,
    measure: str = "recall",
    series: list[Series] | None = None,
    **points: list[tuple[float, float]],
) -> Cloud:
    """Points (sparsity, value) of methods, and sequences around them: of each method by itself, as far as `spread`."""
    random = np.random.default_rng(0)
    settings, means, every = [], [], []
    for name, each in points.items():
        noise = random.normal(0, 1, (2, n))
        noise = (noise - noise.mean(-1, keepdims=True)) * spread
        for place, pair in enumerate(each):
            settings.append(MeasuredSetting(name, "raw", f'{{"n": {place}}}', 0, 1))
            means.append(pair)
            every.append(np.array(pair)[:, None] + noise)
    x, y = np.array(means, np.float64).T
    by_sequence = np.stack(every)

    def drawn(counts: Any) -> tuple[Any, Any, Any, Any]:
        one = np.ones((*counts.shape[:-1], 1))
        sparsity, value = (weighted_means(by_sequence[:, side], counts) for side in (0, 1))
        return sparsity, value, gold * one, full * one

    better = "lower" if measure == "perplexity" else "higher"
    measured = Measured(measure, better, settings, {"sparsity": x, "value": y}, gold, full, n, drawn)
    return Cloud(series or series_of((name, "raw") for name in points), measured)


def test_a_method_that_is_nowhere_beaten_dominates() -> None:
    points = cloud(kmeans=[(0.9, 0.96), (0.52, 1.0)], window=[(0.8, 0.7), (0.5, 0.99)])
    first, dominance, at_95, at_99 = verdict(points, None, None)
    assert first.startswith("Which method finds the teacher's pairs, whatever the sparsity? By hypervolume of sparsity")
    assert re.search(r"over 4 settings and n = 40 sequences, k-means: 0\.885 \[0\.88\d, 0\.88\d\]; next window", first)
    assert dominance.startswith("K-means dominates on sparsity and recall")
    assert dominance.endswith("(in 100 % of draws; n = 40).")
    assert re.search(
        r"k-means: it leaves out 90\.0 % \[\d\d\.\d, \d\d\.\d\] of the pairs \(1 global token; n = 40\)", at_95
    )
    assert re.search(r"next window .*points \[.*\] behind", at_99)


def test_none_dominates_where_frontiers_cross() -> None:
    points = cloud(kmeans=[(0.9, 0.5)], window=[(0.5, 0.9)])
    _, dominance, at_95, _ = verdict(points, None, None)
    assert dominance == (
        "No method dominates all others on sparsity and recall: of the 2 points on the common frontier, 1 [1, 1] of "
        "k-means and 1 [1, 1] of window (n = 40)."
    )
    assert re.fullmatch(r"No setting reaches a recall of 95 %; the highest is 90\.0 % \[.*\] \(n = 40\)\.", at_95)


def test_what_could_be_chance_is_no_difference() -> None:
    points = {"kmeans": [(0.901, 0.971)], "window": [(0.9, 0.97)]}
    sure, unsure = (verdict(cloud(spread, **points), None, None) for spread in (1e-5, 0.05))
    assert re.search(r"next window 0\.002 \[0\.002, 0\.002\] behind\.$", sure[0])
    assert sure[1].startswith("K-means dominates")
    assert re.search(r"next window 0\.1 points \[0\.1, 0\.1\] behind\.$", sure[2])
    assert re.search(r"next window not told apart \(0\.002 \[−0\.\d+, 0\.\d+\] behind\)\.$", unsure[0])
    assert "but that is not sure (in " in unsure[1]
    assert re.search(r"next window not told apart \(0\.1 points \[−\d+\.\d, \d+\.\d\] behind\)", unsure[2])


def test_of_one_sequence_nothing_follows() -> None:
    first, dominance, at_95, _ = verdict(cloud(n=1, kmeans=[(0.9, 0.96)], window=[(0.2, 0.97)]), None, None)
    for sentence in (first, dominance, at_95):
        assert "n = 1" in sentence
    assert "not told apart" in first
    assert "not told apart" in at_95


def test_bounds_do_not_compete() -> None:
    points = cloud(kmeans=[(0.9, 0.96)], window=[(0.8, 0.9)], topk=[(0.99, 1.0)], oracle=[(0.98, 1.0)])
    _, dominance, at_95, at_99 = verdict(points, None, None)
    assert dominance.startswith("K-means dominates")
    assert "the sparsest is k-means" in at_95
    assert at_99.startswith("No setting reaches")


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        (0.90, r"above the gold sparsity of 90\.0 % on the same sequences \(5\.0 \[.*\] points apart"),
        (0.97, r"below the gold sparsity of 97\.0 % on the same sequences \(−2\.0 \[.*\] points apart"),
        (
            0.951,
            r"not told apart from the gold sparsity of 95\.1 % on the same sequences \(−0\.1 \[",
        ),
    ],
)
def test_the_score_of_the_full_model_is_what_others_are_held_against(gold: float, said: str) -> None:
    recall = cloud(kmeans=[(0.9, 0.96)], window=[(0.8, 0.9)], routing=[(0.8, 0.9)])
    score = FullScore("perplexity", 10.0, lower_is_better=True)
    scores = cloud(
        0.01, gold=gold, full=10.0, measure="perplexity", series=list(recall.series), kmeans=[(0.95, 10.05)],
        window=[(0.7, 10.3)],
    )  # fmt: skip
    sentence = verdict(recall, scores, score)[-1]
    assert re.match(
        r"Within 1 % of the full model's perplexity \(10\.00 \[10\.00, 10\.00\]; n = 40\), the sparsest is k-means at "
        r"95\.0 % \[.*\], " + said,
        sentence,
    )  # fmt: skip
    lines = {line.series.method: line for line in methods_table(recall, scores, score)}
    assert lines["kmeans"].at_score is not None
    assert lines["window"].at_score is None
    assert {method: line.scored for method, line in lines.items()} == {"kmeans": 1, "window": 1, "routing": 0}
    assert lines["window"].score_hypervolume == pytest.approx(0.7 * 10 / 10.3)
    assert lines["routing"].score_hypervolume is None


def test_rankings_that_disagree_are_said_to_and_only_if_they_do() -> None:
    recall = cloud(kmeans=[(0.9, 0.96)], window=[(0.8, 0.9)])
    score = FullScore("BLEU", 30.0, lower_is_better=False)

    def said(spread: float, kmeans: float) -> str:
        scores = cloud(
            spread, full=30.0, measure="BLEU", series=list(recall.series), kmeans=[(0.8, kmeans)], window=[(0.8, 25.0)]
        )
        return next(one for one in verdict(recall, scores, score) if "rankings" in one or "put the" in one)

    assert said(0.01, 20.0) == (
        "The two rankings disagree, since the questions differ: k-means is ahead of window in recall and behind in "
        "BLEU (n = 40 and 40)."
    )
    assert said(0.01, 28.0) == (
        "Recall and BLEU put the 2 methods that have both in the same order; 1 of 1 pairs of them are told apart in "
        "both (n = 40 and 40)."
    )
    assert "differences within their intervals (n = 40 and 40)" in said(4.0, 24.9)
