"""What was measured of every setting: averages, the gold line, and how much they could differ on other sequences.

Summary, page, figures and the command line take all of it from here, so that they cannot disagree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.pareto import frontiers, hypervolume, hypervolumes
from ...core.ratios import grouped_means, weighted_means
from ..folder import RunFolder
from ..tasks.scores import scores_of
from .bootstrap import Interval, drawn, interval, intervals
from .measured_setting import MeasuredSetting
from .points import HEAD, WHICH, Floats, Ints, averaged, mean_gold, numbered, read_points
from .settings import FULL
from .watching import OWN

__all__ = ["Draws", "Key", "Measured", "measured_recall", "measured_scores"]

SETTING = [name for name, _ in WHICH]
Key = tuple[str, str]
BySequence = Callable[[Any], tuple[Floats, Floats, Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Draws:
    """The same on sequences drawn again: a row for each draw, a column for each setting."""

    sparsity: Floats
    value: Floats
    # Of each draw: the gold sparsity, and the value of full attention.
    gold: Floats
    full: Floats


@dataclass(frozen=True, eq=False)
class Measured:
    """Sparsity and recall, or sparsity and score, of settings; in the order of these.

    measure: `recall`, or the metric of the task.
    better: whether values are better "higher" or "lower".
    columns: what is known of each setting by name, `sparsity` and `value` among it; NaN where it is undefined.
    gold: how sparse the gold graphs are on the same sequences.
    full: the value of full attention, and `details` what else was measured of it.
    sequences: how many they are means over.
    by_sequence: makes, of how often each sequence counts, what `Draws` has; None if that was not kept.
    """

    measure: str
    better: str
    settings: Sequence[MeasuredSetting]
    columns: Mapping[str, Floats]
    gold: float
    full: float
    sequences: int
    by_sequence: BySequence | None
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def sparsity(self) -> Floats:
        return self.columns["sparsity"]

    @property
    def value(self) -> Floats:
        return self.columns["value"]

    def upwards(self, values: Floats) -> Floats:
        """Values of which more is better."""
        return -values if self.better == "lower" else values

    @property
    def relative(self) -> bool:
        """Whether changes of values are told as a share of full attention's: of perplexity they are, of BLEU not."""
        return self.better == "lower"

    def change(self, value: Any, full: Any) -> Any:
        """How much larger a value is than full attention's, as a share of it or as a difference."""
        return value / full - 1 if self.relative else value - full

    @cached_property
    def quality(self) -> Floats:
        """Values as a share of full attention's."""
        return self._share(self.value, np.array(self.full))

    @cached_property
    def methods(self) -> dict[Key, Ints]:
        """The places of the settings of each method and kind of inputs."""
        keys = [(one.method, one.inputs) for one in self.settings]
        return {key: np.array([place for place, one in enumerate(keys) if one == key]) for key in dict.fromkeys(keys)}

    @cached_property
    def best(self) -> NDArray[np.bool_]:
        """Whether each setting is on the frontier of its method."""
        group = np.zeros(len(self.settings), np.int64)
        for number, places in enumerate(self.methods.values()):
            group[places] = number
        best = np.zeros(len(self.settings), np.bool_)
        best[frontiers(np.stack([self.sparsity, self.upwards(self.value)], -1), group)] = True
        return best

    @cached_property
    def draws(self) -> Draws | None:
        """Those of the bootstrap; None where there is nothing to draw from: of one sequence, there is only one draw."""
        make = self.by_sequence
        if make is None or self.sequences < 2:
            return None
        sizes = np.cumsum([len(self.settings), len(self.settings), 1])
        found = drawn(self.sequences, lambda counts: np.concatenate(make(counts), -1))
        sparsity, value, gold, full = np.split(found, sizes, -1)
        return Draws(sparsity, value, gold[:, 0], full[:, 0])

    @cached_property
    def within(self) -> Floats | None:
        """The lower and the upper ends of the intervals of all values, [2, settings]; None if there are no draws.

        As differences to full attention in the same draws: how hard the drawn sequences are is not what is asked.
        """
        draws = self.draws
        return None if draws is None else self.full + intervals(draws.value - draws.full[:, None])

    def sparsest(self, key: Key, recall: float) -> int:
        """The place of a method's sparsest setting of at least that recall; of its highest recall, if none has it."""
        places, recalls = self.methods[key], self.columns["recall"]
        good = places[recalls[places] >= recall]
        return int(good[np.argmax(self.sparsity[good])] if len(good) else places[np.nanargmax(recalls[places])])

    def volume(self, key: Key) -> float:
        """The hypervolume of a method: of sparsity and the share of full attention's value."""
        places = self.methods[key]
        return hypervolume(np.stack([self.sparsity[places], self.quality[places]], -1))

    def drawn_volume(self, key: Key) -> Floats | None:
        """The same of each draw; None if there are none."""
        draws, places = self.draws, self.methods[key]
        if draws is None:
            return None
        return hypervolumes(draws.sparsity[:, places], self._share(draws.value[:, places], draws.full[:, None]))

    def volume_interval(self, key: Key) -> Interval | None:
        draws = self.drawn_volume(key)
        return None if draws is None else interval(draws)

    def without(self, method: str) -> Measured:
        """All but the settings of a method."""
        make = self.by_sequence
        kept = np.array([place for place, one in enumerate(self.settings) if one.method != method], np.int64)

        def by_sequence(counts: Any) -> tuple[Floats, Floats, Floats, Floats]:
            assert make is not None
            sparsity, value, gold, full = make(counts)
            return sparsity[..., kept], value[..., kept], gold, full

        return Measured(
            self.measure, self.better, [self.settings[place] for place in kept],
            {name: each[kept] for name, each in self.columns.items()}, self.gold, self.full, self.sequences,
            None if make is None else by_sequence, self.details,
        )  # fmt: skip

    def _share(self, values: Floats, full: Floats) -> Floats:
        """As `pareto.quality`, for many at once."""
        best, other = (full, values) if self.better == "higher" else (values, full)
        best, other = np.broadcast_arrays(best, other)
        return np.divide(other, best, out=np.full(best.shape, np.nan), where=best != 0)


def measured_recall(folder: RunFolder) -> Measured | None:
    """Sparsity and recall on the traces, averaged over layers and heads; None if nothing was measured."""
    points = read_points(folder, "recall")
    if not points.num_rows:
        return None
    table = averaged(points)
    settings, columns = _columns(table, "recall")
    gold = mean_gold(points["gold_sparsity"].to_numpy(), numbered(points, HEAD)[1])
    by_sequence = _recall_by_sequence(read_points(folder, "sequences"), settings, gold)
    sequences = int(points["sequences"].to_numpy().max())
    return Measured("recall", "higher", settings, columns, gold, 1.0, sequences, by_sequence)


def measured_scores(folder: RunFolder) -> Measured | None:
    """Sparsity and score of the settings that were run inside the model, full attention among them; None if none was.

    The gold line is the full model's in the same pass. Recall and what follows from it are against the gold graphs that
    the model had as it ran on predicted ones.
    """
    table = read_points(folder, "accuracy")
    table = table.sort_by([(name, "ascending") for name in SETTING])
    full = next((row for row in table.to_pylist() if row["method"] == FULL.method), None)
    if full is None:
        return None
    names = [*table.column_names]
    for ratio, called in OWN.items():
        names[names.index(called)], names[names.index(f"pooled_{called}")] = ratio, f"pooled_{ratio}"
    settings, columns = _columns(table.rename_columns(names), "score")
    details = [json.loads(each) for each in table["details"].to_pylist()]
    for name in sorted({name for each in details for name in each}):
        columns[name.replace(" ", "_")] = np.array([each.get(name, np.nan) for each in details], np.float64)
    sparsity = _matrix(table["sequence_sparsity"])
    parts = np.array(table["sequence_parts"].to_pylist(), np.float64)
    own, gold = np.array(full["sequence_parts"]), np.array([full["sequence_gold_sparsity"]])

    def by_sequence(counts: Any) -> tuple[Floats, Floats, Floats, Floats]:
        scores = scores_of(full["metric"], np.tensordot(counts, parts, (-1, 1)))
        of_full = scores_of(full["metric"], counts @ own)[..., None]
        return weighted_means(sparsity, counts), scores, weighted_means(gold, counts), of_full

    return Measured(
        full["metric"], _better(folder, full["metric"]), settings, columns, full["own_gold_sparsity"], full["score"],
        full["sequences"], by_sequence if parts.size else None, json.loads(full["details"]),
    )  # fmt: skip


def _better(folder: RunFolder, metric: str) -> str:
    """Which way the task's score is better: its teacher's score says it, if it is there."""
    file = folder / "teacher/score.json"
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))["better"]
    return "lower" if metric == "perplexity" else "higher"


def _columns(table: pa.Table, value: str) -> tuple[list[MeasuredSetting], dict[str, Floats]]:
    """The settings of a table and its columns of numbers, one of them as `value`."""
    settings = [MeasuredSetting(*one) for one in zip(*(table[name].to_pylist() for name in SETTING), strict=True)]
    numbers = [name for name in table.column_names if table[name].type == pa.float64()]
    columns = {name: table[name].to_numpy().astype(np.float64) for name in numbers}
    return settings, {**columns, "value": columns[value]}


def _recall_by_sequence(table: pa.Table, settings: Sequence[MeasuredSetting], gold: float) -> BySequence | None:
    """Of each setting on each sequence, the mean over the heads of all layers; None in the middle of a sweep."""
    found, which = numbered(table, SETTING)
    if [MeasuredSetting(*one) for one in found] != list(settings):
        return None
    heads = table["heads"].to_numpy()
    sparsity, recall = (
        np.stack([grouped_means(one, which, len(settings), heads) for one in _matrix(table[name]).T], -1)
        for name in ("sequence_sparsity", "sequence_recall")
    )

    def by_sequence(counts: Any) -> tuple[Floats, Floats, Floats, Floats]:
        one = np.ones((*counts.shape[:-1], 1))
        return weighted_means(sparsity, counts), weighted_means(recall, counts), gold * one, one

    return by_sequence


def _matrix(lists: pa.ChunkedArray) -> Floats:
    """Lists of one length as rows."""
    rows = lists.combine_chunks()
    return rows.flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(len(rows), -1)
