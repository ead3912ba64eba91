"""The sentences of a report follow from its points."""

from __future__ import annotations

import numpy as np

from sparsefinder.lab.report.charts import Cloud, FullScore, score_cloud
from sparsefinder.lab.report.methods import series_of
from sparsefinder.lab.report.points import MeasuredSetting
from sparsefinder.lab.report.verdict import methods_table, verdict


def cloud(**points: list[tuple[float, float]]) -> Cloud:
    """Points (sparsity, quality) of methods."""
    settings = [
        MeasuredSetting(name, "raw", f'{{"n": {place}}}', 0, 1)
        for name, each in points.items()
        for place in range(len(each))
    ]
    pairs = np.array([pair for each in points.values() for pair in each])
    return Cloud(series_of((name, "raw") for name in points), settings, pairs[:, 0], pairs[:, 1])


def test_a_method_that_is_nowhere_beaten_dominates() -> None:
    points = cloud(kmeans=[(0.9, 0.96), (0.5, 1.0)], window=[(0.8, 0.7), (0.5, 0.99)])
    first, at_95, at_99 = verdict(points, None, None, 0.9)
    assert first.startswith("K-means dominates on sparsity and recall")
    assert "k-means: it leaves out 90.0 % of the pairs (n 0, 1 global)" in at_95
    assert "window 50.0 %" in at_99


def test_none_dominates_where_frontiers_cross() -> None:
    points = cloud(kmeans=[(0.9, 0.5)], window=[(0.5, 0.9)])
    first, at_95, _ = verdict(points, None, None, 0.9)
    assert first.startswith("No method dominates")
    assert at_95 == "No setting reaches a recall of 95 %; the highest is 90.0 %."


def test_bounds_do_not_compete() -> None:
    points = cloud(kmeans=[(0.9, 0.96)], window=[(0.8, 0.9)], topk=[(0.99, 1.0)], oracle=[(0.98, 1.0)])
    first, at_95, at_99 = verdict(points, None, None, 0.9)
    assert first.startswith("K-means dominates")
    assert "the sparsest is k-means" in at_95
    assert at_99.startswith("No setting reaches")


def test_the_score_of_the_full_model_is_what_others_are_held_against() -> None:
    def row(method: str, sparsity: float, score: float) -> dict[str, object]:
        return {
            "method": method, "inputs": "raw", "setting": "{}", "window": 0, "globals": 1, "kinds": "encoder",
            "score": score, "sparsity": sparsity,
        }  # fmt: skip

    recall = cloud(kmeans=[(0.9, 0.96)], window=[(0.8, 0.9)], routing=[(0.8, 0.9)])
    score = FullScore("perplexity", 10.0, lower_is_better=True)
    scores = score_cloud(
        [row("full", 0, 10.0), row("kmeans", 0.95, 10.05), row("window", 0.7, 10.3)], score, recall.series
    )
    assert scores is not None
    assert verdict(recall, scores, score, 0.9)[-1] == (
        "Within 1 % of the full model's perplexity (10.00), the sparsest is k-means at 95.0 %, above the gold sparsity "
        "of 90.0 %."
    )
    lines = {line.series.method: line for line in methods_table(recall, scores, score)}
    assert lines["kmeans"].at_score is not None
    assert lines["window"].at_score is None
    assert {method: line.scored for method, line in lines.items()} == {"kmeans": 1, "window": 1, "routing": 0}
