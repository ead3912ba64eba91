"""Everything that a report shows, worked out once: for the page and for the figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...errors import SparsefinderError
from ...finders import finder_class
from ...finders.registry import parameters_of
from ...traces.store import Traces
from ..bench.points import read_bench
from ..folder import RunFolder
from ..recipe import Recipe
from ..sweep.measured import Measured, measured_recall, measured_scores
from ..sweep.measured_setting import MeasuredSetting
from ..sweep.settings import FULL
from .answer import Answer, answer
from .bench import BenchResults, bench_results
from .charts import Cloud, FullScore, HeadFrontiers, fixed_window, head_frontiers
from .clusters import ClusterTags, cluster_tags
from .examples import SentenceTokens, read_examples
from .map_finders import leading_settings, map_finders
from .methods import Series, series_of
from .overview import read_score
from .points import RecallPoints, read_recall_points, read_rows
from .speech import NoTaggerError, tagger
from .timing import RunningTimes, running_times
from .training import TrainingCurves, training_curves
from .validation import ValidationText

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
    def measured_recall(self) -> Measured | None:
        return measured_recall(self.folder)

    @cached_property
    def measured_scores(self) -> Measured | None:
        return measured_scores(self.folder)

    @cached_property
    def series(self) -> list[Series]:
        """The lines of all charts together, so that a method looks the same in each."""
        every = [one.methods for one in (self.measured_recall, self.measured_scores) if one is not None]
        recall = () if self.measured_recall is None else self.measured_recall.methods
        return series_of(key for keys in every for key in keys if key[0] != FULL.method or key in recall)

    @cached_property
    def recall(self) -> Cloud | None:
        return None if self.measured_recall is None else Cloud(self.series, self.measured_recall)

    @cached_property
    def score(self) -> FullScore | None:
        """The full model's score: on the same data as the points if it is among them."""
        about, full = read_score(self.folder), self.measured_scores
        if full is not None:
            return FullScore(full.measure, full.full, full.better == "lower", full.sequences, full.details)
        if not about:
            return None
        return FullScore(
            about["metric"], float(about["value"]), about["better"] == "lower", about["sequences"], about["details"]
        )

    @cached_property
    def scores(self) -> Cloud | None:
        if self.measured_scores is None:
            return None
        others = self.measured_scores.without(FULL.method)
        return Cloud(self.series, others) if len(others.settings) else None

    @cached_property
    def heads(self) -> list[HeadFrontiers]:
        """Frontiers of single heads: with all windows, and with the one that the paper fixes, if there is one."""
        if self.points is None or self.recall is None:
            return []
        window = fixed_window(self.points, self.recipe.task.kind)
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
        """Those that maps are shown of, the leading method first."""
        return map_finders(self.folder, self.recipe, self._leading) if self.examples else {}

    @cached_property
    def clustered(self) -> dict[str, Any]:
        """Those that have clusters, in the same order."""
        if not self.examples:
            return {}
        mine = [some for some in self._leading if "clusters" in parameters_of(finder_class(some[0].method))]
        return map_finders(self.folder, self.recipe, mine, len(mine))

    @cached_property
    def _leading(self) -> list[list[MeasuredSetting]]:
        return leading_settings(self.recall, self.recipe)

    @cached_property
    def answer(self) -> Answer | None:
        """What the first screen says; None where nothing was measured."""
        if self.recall is None:
            return None
        # Sentences to translate have no one length.
        length = None if self.recipe.task.kind == "translation" else self.recipe.task.length
        return answer(self.recall, self.scores, self.bench, self.timing, length)

    @cached_property
    def training(self) -> TrainingCurves | None:
        return training_curves(self.folder)

    @cached_property
    def clusters(self) -> list[ClusterTags] | str:
        """Parts of speech in clusters, over the validation text; where there are none, why."""
        if not self.clustered:
            return "This run has no finders yet, whose clusters could be looked at."
        try:
            pipeline = tagger(self.recipe.report.pos)
            text = ValidationText(self.folder, self.recipe)
            found = cluster_tags(text.tokens(), text.vectors(), self.clustered, pipeline)
        except NoTaggerError as reason:
            return str(reason)
        except SparsefinderError as reason:
            # The rest of the report needs neither the text nor the teacher.
            return f"Parts of speech are counted over the validation text, which could not be done: {reason}"
        return found or "This run has no k-means finder, whose clusters could be looked at."

    @cached_property
    def timing(self) -> RunningTimes | None:
        return None if self.score is None else running_times(read_rows(self.folder, "timing"), self.score)

    @cached_property
    def bench(self) -> BenchResults | None:
        return bench_results(read_bench(self.folder))
