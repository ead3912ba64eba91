"""Everything that a report shows, worked out once: for the page and for the figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...traces.store import Traces
from ..bench.points import read_bench
from ..folder import RunFolder
from ..recipe import Recipe
from ..sweep.settings import FULL
from .bench import BenchResults, bench_results
from .charts import Cloud, FullScore, HeadFrontiers, fixed_window, head_frontiers, recall_cloud, score_cloud
from .clusters import ClusterTags, cluster_tags
from .examples import SentenceTokens, read_examples
from .map_finders import map_finders
from .methods import Series, series_of
from .overview import read_score
from .points import RecallPoints, read_recall_points, read_rows
from .speech import NoTaggerError, tagger
from .timing import RunningTimes, running_times

__all__ = ["Content"]


@dataclass(frozen=True, eq=False)
class Content:
    """A run as a report sees it. Nothing is read before it is asked for; what the run does not have is None."""

    folder: RunFolder
    recipe: Recipe

    @cached_property
    def points(self) -> RecallPoints | None:
        return read_recall_points(self.folder)

    @cached_property
    def accuracy(self) -> list[dict[str, Any]]:
        return read_rows(self.folder, "accuracy")

    @cached_property
    def series(self) -> list[Series]:
        """The lines of all charts together, so that a method looks the same in each."""
        settings = () if self.points is None else self.points.settings
        pairs = {(one.method, one.inputs) for one in settings}
        return series_of(
            pairs | {(row["method"], row["inputs"]) for row in self.accuracy if row["method"] != FULL.method}
        )

    @cached_property
    def recall(self) -> Cloud | None:
        return None if self.points is None else recall_cloud(self.points, self.series)

    @cached_property
    def score(self) -> FullScore | None:
        """The full model's score: on the same data as the points if it is among them."""
        about = read_score(self.folder)
        full = next((row for row in self.accuracy if row["method"] == FULL.method), None)
        if full is None and not about:
            return None
        better = about.get("better") or ("lower" if full and full["metric"] == "perplexity" else "higher")
        if full is not None:
            about = {**full, "value": full["score"], "details": json.loads(full["details"])}
        return FullScore(
            about["metric"], float(about["value"]), better == "lower", about["sequences"], about["details"]
        )

    @cached_property
    def scores(self) -> Cloud | None:
        return None if self.score is None else score_cloud(self.accuracy, self.score, self.series)

    @cached_property
    def heads(self) -> list[HeadFrontiers]:
        """Frontiers of single heads: with all windows, and with the one that the paper fixes, if there is one."""
        if self.points is None or self.recall is None:
            return []
        window = fixed_window(self.points)
        return [head_frontiers(self.recall, self.points, one) for one in ([None] if window is None else [None, window])]

    @cached_property
    def traces(self) -> Traces | None:
        path = self.folder / "traces/valid"
        return Traces.open(path) if (path / "index.json").is_file() else None

    @cached_property
    def examples(self) -> list[SentenceTokens]:
        return [] if self.traces is None else read_examples(self.folder)

    @cached_property
    def finders(self) -> dict[str, Any]:
        return map_finders(self.folder, self.recipe) if self.examples else {}

    @cached_property
    def clusters(self) -> list[ClusterTags] | str:
        """Parts of speech in clusters; where there are none, why."""
        if self.traces is None or not self.examples:
            return "This run kept no sentences: `trace.examples` in its recipe says how many."
        try:
            found = cluster_tags(self.traces, self.examples, self.finders, tagger(self.recipe.report.pos))
        except NoTaggerError as reason:
            return str(reason)
        return found or "This run has no k-means finder, whose clusters could be looked at."

    @cached_property
    def timing(self) -> RunningTimes | None:
        return None if self.score is None else running_times(read_rows(self.folder, "timing"), self.score)

    @cached_property
    def bench(self) -> BenchResults | None:
        return bench_results(read_bench(self.folder))
