"""Finders that count while a model runs on them: how sparse graphs are, and what the model itself would attend to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...core.graph import Graph
from ...core.layout import Grid, Layout
from ...core.moving import moved
from ...core.ratios import mean, recall, sparsity
from ...finders import About, Finder, Place
from ...finders.base import Keys, Queries
from ...learning.sample import Sample
from .masks import GraphMasks
from .tally import GoldPairs, tally

__all__ = ["Watched", "mean_ratios"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Watched(Finder):
    """A finder whose graphs are counted as the model runs on them: pairs of each head, over all calls.

    place: the layer, with its scale and α.
    last: every call has the whole prefix again, so that only its last query is new.
    """

    finder: Finder
    place: Place
    last: bool
    pairs: dict[str, Array] = field(default_factory=dict)

    about = About("watched", "watched", "reference")

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        graph = self.finder.on(q, k, grid)
        # Counted on the CPU, wherever the model runs.
        counted, (q, k, layout) = graph.to("cpu"), moved((q, k, grid.layout), "cpu")
        alpha = torch.tensor(self.place.alpha) if isinstance(self.place.alpha, tuple) else self.place.alpha
        if self.last:
            end = q.shape[2] - 1
            layout = Layout(layout.causal, layout.key_lengths, end)
            shown = Graph.of_dense(counted.mask(slice(end, end + 1)), layout.of(q[:, :, end:], k))
        else:
            shown = counted
        gold = GoldPairs(Sample(q[:, :, -1:] if self.last else q, k, layout, self.place.scale, alpha), [0], [0])
        found = tally(GraphMasks(shown), gold)
        counts = {"visible": found.visible, "gold": found.gold}
        counts |= {"predicted": found.predicted[0, 0, 0], "hits": found.hits[0, 0, 0]}
        for name, each in counts.items():
            self.pairs[name] = self.pairs.get(name, 0) + each.sum(0)
        return graph

    @property
    def causal_safe(self) -> bool:
        return self.finder.causal_safe

    @property
    def query_wise(self) -> bool:
        return self.finder.query_wise

    def cost(self, n: int, m: int, d: int) -> float:
        return self.finder.cost(n, m, d)


def mean_ratios(layers: Iterable[Watched]) -> dict[str, float]:
    """Ratios of each head over all that it was called for, and their mean over heads and layers that have one."""
    called = [layer.pairs for layer in layers if layer.pairs]
    every = {name: np.concatenate([layer[name] for layer in called]) for name in called[0]}
    return {
        "sparsity": float(mean(sparsity(every["predicted"], every["visible"]))),
        "own_recall": float(mean(recall(every["hits"], every["gold"]))),
        "own_gold_sparsity": float(mean(sparsity(every["gold"], every["visible"]))),
    }
