"""From a wanted recall or sparsity to the setting of a dial, per head: quantiles of what pairs need.

A pair needs the least setting of the dial that predicts it. So one pass over some sequences says for every setting how
many gold pairs it finds, and how many of all. Of a long sequence, some queries stand for all, each against every key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..core.chunks import chunks
from ..core.layout import Grid
from ..errors import InputError
from ..learning.sample import Sample, batches
from .base import Finder
from .budget import Curve

__all__ = ["Needs"]

_Picked = tuple[Int[Tensor, " _"], Float[Tensor, " _"]]

# Pairs per sequence that stand for all that may be seen.
DRAWN = 4096
# Queries of a sequence that are looked at, at the most: where there are more, in runs of so many, evenly spread. All
# pairs of 16,384 tokens would take an hour, and say no more than a thousand of their queries do.
QUERIES, RUN = 1024, 64
# Settings of which it is known what a head has, at the most: from one of the drawn pairs to all, in equal ratios.
SETTINGS = 128
# So much more than a pair needs is its setting: products are rounded differently where others are computed with them.
HAIR = 1e-6


@dataclass(frozen=True, eq=False)
class _Quantiles:
    """What pairs of one head need, in order, and the share of all up to each."""

    needed: Float[Tensor, " pairs"]
    upto: Float[Tensor, " pairs"]

    @staticmethod
    def of(needed: Tensor, weights: Tensor) -> _Quantiles:
        needed, order = needed.sort()
        upto = weights[order].cumsum(0)
        return _Quantiles(needed, upto / upto[-1].clone() if len(upto) else upto)

    def share(self, setting: float) -> float:
        """The share of pairs that a setting predicts; NaN if there are none."""
        if not len(self.needed):
            return math.nan
        count = int(torch.searchsorted(self.needed, torch.tensor(setting, dtype=torch.float64), right=True))
        return float(self.upto[count - 1]) if count else 0.0

    def least(self, share: float) -> float:
        """The least setting that predicts such a share; the highest that any pair needs if none does."""
        if not len(self.needed):
            return -math.inf
        place = int(torch.searchsorted(self.upto, torch.tensor(share - 1e-9, dtype=torch.float64)))
        finite = self.needed[self.needed < math.inf]
        return float(finite[min(place, len(finite) - 1)]) if len(finite) else -math.inf


class Needs:
    """What the gold pairs of some sequences, and pairs drawn from all, need of a finder's dial, per head.

    >>> needs = Needs(finder, samples, Window(11))
    >>> finder.turned(needs.settings(recall=0.95))

    extra: what the finder is united with: these pairs need nothing.
    Recall and sparsity are means over sequences, as everywhere; a sequence without gold pairs in a head is left out.
    Sequences of up to 1,024 queries are looked at whole: a recall is then reached with no gold pair more than it takes.
    Of longer ones, that holds for the 1,024 queries that are looked at, each as likely as the others.
    """

    def __init__(self, finder: Finder, samples: Iterable[Sample], extra: Finder | None = None, seed: int = 0) -> None:
        dial = finder.dial
        if dial is None:
            raise InputError("finder", finder.about.name, "a method with a dial, whose graphs are nested")
        self._dial = dial
        generator = torch.Generator().manual_seed(seed)
        gold: list[list[tuple[Tensor, ...]]] = []
        drawn: list[list[tuple[Tensor, ...]]] = []
        for sample in batches(samples):
            found = _pass(finder, sample, extra, generator)
            gold = gold or [[] for _ in found[0]]
            drawn = drawn or [[] for _ in found[1]]
            for kept, new in ((gold, found[0]), (drawn, found[1])):
                for head, part in enumerate(new):
                    kept[head].append(part)
        if not gold:
            raise InputError("samples", "none", "at least one batch of queries and keys")
        self._drawn = [_Quantiles.of(*_joined(parts)) for parts in drawn]
        self._weighed = [_joined(parts) for parts in gold]
        self._gold = [_Quantiles.of(needed, count) for needed, count, _ in self._weighed]

    def settings(self, *, recall: float | None = None, sparsity: float | None = None) -> Float[Tensor, " heads"]:
        """The least settings with this recall, or the highest with this sparsity."""
        if (recall is None) == (sparsity is None):
            raise InputError("recall, sparsity", f"{recall}, {sparsity}", "one of the two")
        if recall is not None:
            found = [each.least(recall) for each in self._gold]
        else:
            assert sparsity is not None
            found = [self._sparse_enough(each, sparsity) for each in self._drawn]
        return self._just(torch.tensor(found, dtype=torch.float64))

    def recall(self, settings: Float[Tensor, " heads"]) -> Float[Tensor, " heads"]:
        """The recall on these sequences; NaN for a head without gold pairs."""
        return _shares(self._gold, settings)

    def sparsity(self, settings: Float[Tensor, " heads"]) -> Float[Tensor, " heads"]:
        """The sparsity on these sequences, estimated on the pairs that were drawn."""
        return 1 - _shares(self._drawn, settings)

    def curves(self) -> list[Curve]:
        """What every head has as its dial is turned: the share of its pairs, and of its weight, that are found."""
        found = []
        for gold, drawn, (needed, _, weights) in zip(self._gold, self._drawn, self._weighed, strict=True):
            weight, count = _Quantiles.of(needed, weights), len(drawn.needed)
            places = torch.logspace(0, math.log2(max(count, 1)), SETTINGS, 2.0, dtype=torch.float64).long() - 1
            needed = drawn.needed[places[places < count].unique()]
            needed = torch.cat([torch.tensor([-math.inf], dtype=torch.float64), needed[needed < math.inf]])
            settings = self._just(needed).unique().tolist()
            shares = (tuple(each.share(one) for one in settings) for each in (drawn, weight, gold))
            found.append(Curve(tuple(settings), *shares))
        return found

    def _just(self, needed: Float[Tensor, " _"]) -> Float[Tensor, " _"]:
        """Settings that pairs which need so much just have."""
        settings = needed.clamp(min=self._dial.least)
        return settings if self._dial.whole else (settings * (1 + HAIR)).clamp(max=self._dial.most)

    @staticmethod
    def _sparse_enough(pairs: _Quantiles, sparsity: float) -> float:
        count = int(torch.searchsorted(pairs.upto, torch.tensor(1 - sparsity + 1e-9, dtype=torch.float64), right=True))
        # Pairs that need the same come in together, or not at all.
        inside = pairs.needed[:count]
        if count < len(pairs.needed):
            inside = inside[inside < pairs.needed[count]]
        inside = inside[inside < math.inf]
        return float(inside[-1]) if len(inside) else -math.inf


def _shares(pairs: list[_Quantiles], settings: Tensor) -> Float[Tensor, " heads"]:
    return torch.tensor([each.share(one) for each, one in zip(pairs, settings.tolist(), strict=True)])


def _joined(parts: list[tuple[Tensor, ...]]) -> list[Tensor]:
    return [torch.cat(each) for each in zip(*parts, strict=True)]


def _pass(
    finder: Finder, sample: Sample, extra: Finder | None, generator: torch.Generator
) -> tuple[list[tuple[Tensor, ...]], list[tuple[Tensor, ...]]]:
    """What gold pairs and drawn pairs of a batch need, per head, and what each counts: 1 together per sequence.

    Of gold pairs twice: all the same, and by the weight that attention gives them.
    """
    grid = sample.layout.of(sample.q, sample.k)
    q, k = finder.compared(sample.q, sample.k)
    covered = None if extra is None else extra.on(sample.q, sample.k, grid)
    runs = _runs(grid.n, generator)
    drawn = _draw(grid, runs, generator)
    found: tuple[list[_Picked], list[_Picked]] = ([], [])
    weights = []
    for run in runs:
        gold, weight = _gold(sample.part(run), run, grid)
        for some in chunks(run.stop - run.start, grid.batch * grid.heads * grid.m):
            queries = slice(run.start + some.start, run.start + some.stop)
            needed = finder.needed(q, k, grid, queries)
            if covered is not None:
                needed = torch.where(covered.mask(queries), -math.inf, needed)
            for numbers, kept in zip((gold, drawn), found, strict=True):
                kept.append(_picked(needed, numbers[_within(numbers, queries, grid)], queries, grid))
            weights.append(weight[_within(gold, queries, grid)])
    return _by_head(found[0], grid, torch.cat(weights)), _by_head(found[1], grid)


def _runs(n: int, generator: torch.Generator) -> list[slice]:
    """The queries to look at: all, or runs of them at equal distances from a random one on."""
    if n <= QUERIES:
        return [slice(0, n)]
    count, every = QUERIES // RUN, -(-n // RUN)
    start = float(torch.rand((), generator=generator, dtype=torch.float64))
    places = [int((start + place) * every / count) for place in range(count)]
    return [slice(RUN * place, min(n, RUN * (place + 1))) for place in places]


def _gold(part: Sample, run: slice, grid: Grid) -> tuple[Int[Tensor, " pairs"], Float[Tensor, " pairs"]]:
    """The gold pairs of a run of queries, as their numbers among all, and their weights."""
    gold, weights = part.weighed_gold
    pairs, n = gold.pairs(), max(run.stop - run.start, 1)
    head, i = pairs.rows // n, pairs.rows % n + run.start
    return (head * grid.n + i) * max(grid.m, 1) + pairs.keys, weights.double()


def _draw(grid: Grid, runs: list[slice], generator: torch.Generator) -> Int[Tensor, " pairs"]:
    """Pairs of some queries that may be seen, drawn uniformly in each sequence, alike in all heads: their numbers."""
    every, degrees = grid.degrees(), torch.zeros_like(grid.degrees())
    for run in runs:
        degrees[:, run] = every[:, run]
    ends = degrees.cumsum(-1)
    numbers = [torch.zeros(0, dtype=torch.long, device=grid.device)]
    for b in range(grid.batch):
        total = int(ends[b, -1]) if grid.n else 0
        if total:
            u = (torch.rand(DRAWN, generator=generator, dtype=torch.float64) * total).long().to(grid.device)
            i = torch.searchsorted(ends[b], u, right=True)
            # What a query may see are always the first keys.
            j = u - (ends[b] - degrees[b])[i]
            heads = torch.arange(b * grid.heads, (b + 1) * grid.heads, device=grid.device)[:, None]
            numbers.append(((heads * grid.n + i) * grid.m + j).flatten())
    return torch.cat(numbers)


def _within(numbers: Int[Tensor, " pairs"], queries: slice, grid: Grid) -> slice | Bool[Tensor, " pairs"]:
    """Which pairs are of some queries."""
    if queries.stop - queries.start == grid.n:
        return slice(None)
    i = numbers // grid.m % grid.n
    return (i >= queries.start) & (i < queries.stop)


def _picked(needed: Tensor, numbers: Int[Tensor, " some"], queries: slice, grid: Grid) -> _Picked:
    """The heads of pairs, numbered through all sequences, and what they need, out of the table of some queries."""
    head, i, j = numbers // (grid.n * grid.m), numbers // grid.m % grid.n, numbers % grid.m
    flat = needed.expand(*grid.shape[:2], -1, -1).flatten(0, 1)
    return head, flat[head, i - queries.start, j]


def _by_head(found: list[_Picked], grid: Grid, weights: Tensor | None = None) -> list[tuple[Tensor, ...]]:
    """What pairs need and what they count, per head: all pairs of a sequence together 1, also by their weights."""
    head, needed = (torch.cat(each) for each in zip(*found, strict=True))
    columns = [needed]
    for measure in (torch.ones_like(head, dtype=torch.double), *(() if weights is None else (weights,))):
        sums = torch.zeros(grid.batch * grid.heads, dtype=torch.double, device=head.device).index_add_(0, head, measure)
        columns.append(measure / sums[head])
    number = head % grid.heads
    return [tuple(column[number == each].cpu() for column in columns) for each in range(grid.heads)]
