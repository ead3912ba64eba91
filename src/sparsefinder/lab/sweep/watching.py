"""Finders that count while a model runs on them: how sparse graphs are, and what the model itself would attend to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...attending.gold import mass_missed
from ...core.graph import Graph
from ...core.layout import Grid
from ...core.moving import moved
from ...core.ratios import every_ratio, mean, sparsity
from ...finders import About, Finder, Place
from ...finders.base import Keys, Queries
from ...learning.sample import Sample
from .masks import GraphMasks
from .tally import GoldPairs, tally

__all__ = ["OWN", "Stepped", "Watched", "by_sequence", "decoding_sparsity", "mean_missed", "mean_ratios"]

Array = NDArray[Any]

# The ratios of a model that runs on predicted graphs: its own gold graphs differ from the teacher's.
OWN = {
    "sparsity": "sparsity", "recall": "own_recall", "precision": "own_precision", "full_recall": "own_full_recall",
    "empty_rows": "empty_rows", "gold_sparsity": "own_gold_sparsity",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Through(Finder):
    """A finder that predicts what another one does."""

    finder: Finder

    about = About("watched", "watched", "reference")

    @property
    def causal_safe(self) -> bool:
        return self.finder.causal_safe

    @property
    def query_wise(self) -> bool:
        return self.finder.query_wise

    def cost(self, n: int, m: int, d: int) -> float:
        return self.finder.cost(n, m, d)

    def reads(self, n: int, m: int, d: int) -> float:
        return self.finder.reads(n, m, d)


@dataclass(frozen=True, eq=False)
class Watched(_Through):
    """A finder whose graphs are held against what the model would attend to there: counts of each sequence and head.

    place: the layer, with its scale and α.
    """

    place: Place
    calls: list[dict[str, Array]] = field(default_factory=list)
    # The share of the weight on pairs that graphs do not have: of each call, by sequence and head.
    missed: list[Array] = field(default_factory=list)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        graph = self.finder.on(q, k, grid)
        # Counted on the CPU, wherever the model runs.
        counted, (q, k, layout) = graph.to("cpu"), moved((q, k, grid.layout), "cpu")
        alpha = torch.tensor(self.place.alpha) if isinstance(self.place.alpha, tuple) else self.place.alpha
        self.missed.append(mass_missed(counted, q, k, alpha, self.place.scale).numpy())
        found = tally(
            GraphMasks(counted), GoldPairs(Sample(q, k, layout, self.place.scale, alpha, self.place.mass), [0], [0])
        )
        # Of one prediction, with no window and no global token.
        self.calls.append({name: each[0, 0, 0] if each.ndim > 2 else each for name, each in vars(found).items()})
        return graph

    @property
    def counts(self) -> dict[str, Array]:
        """The counts of all calls, sequence after sequence: [sequences, heads]."""
        return {name: np.concatenate([call[name] for call in self.calls]) for name in self.calls[0]}


@dataclass(frozen=True, eq=False)
class Stepped(_Through):
    """A finder whose pairs are added up as a model decodes on it, whatever its steps and beams are.

    last: every call has the whole prefix again, so that only its last query is new.
    """

    last: bool
    pairs: dict[str, Array] = field(default_factory=dict)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        graph = self.finder.on(q, k, grid)
        new = slice(grid.n - 1 if self.last else 0, grid.n)
        counts = {"predicted": graph.mask(new).sum((0, 2, 3)), "visible": grid.degrees()[:, new].sum()}
        for name, each in counts.items():
            self.pairs[name] = self.pairs.get(name, 0) + each.cpu().numpy()
        return graph


def mean_ratios(layers: Iterable[Watched]) -> dict[str, float]:
    """The mean of every ratio over sequences, layers and heads that have one; `pooled_` is that of all counts added."""
    counts = [layer.counts for layer in layers if layer.calls]
    ratios = [every_ratio(each) for each in counts]
    pooled = every_ratio({name: np.array(sum(each[name].sum() for each in counts)) for name in counts[0]})
    macro = {own: float(mean(np.concatenate([each[name].ravel() for each in ratios]))) for name, own in OWN.items()}
    return macro | {f"pooled_{own}": float(pooled[name]) for name, own in OWN.items()}


def by_sequence(layers: Iterable[Watched]) -> dict[str, Array]:
    """Sparsity, recall and gold sparsity of each sequence: the mean over layers and heads, all called for the same."""
    ratios = [every_ratio(layer.counts) for layer in layers if layer.calls]
    return {
        name: mean(np.concatenate([each[name] for each in ratios], -1), -1)
        for name in ("sparsity", "recall", "gold_sparsity")
    }


def mean_missed(layers: Iterable[Watched]) -> float:
    """The share of the weight that the pairs of no graph have: the mean over sequences, layers and heads."""
    return float(mean(np.concatenate([each.ravel() for layer in layers for each in layer.missed])))


def decoding_sparsity(layers: Iterable[Stepped]) -> float:
    """The sparsity of all steps together in each head, and the mean over layers and heads."""
    called = [layer.pairs for layer in layers if layer.pairs]
    return float(mean(np.concatenate([sparsity(pairs["predicted"], pairs["visible"]) for pairs in called])))
