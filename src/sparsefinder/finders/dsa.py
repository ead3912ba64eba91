"""DeepSeek sparse attention: a few small heads that say which keys count. DeepSeek-AI, 2025, arXiv:2512.02556."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from ..core.graph import Graph
from ..core.layout import Grid
from ..core.mapping import mapped
from ..learning.moments import low_rank
from ..learning.rows import GoldRows, learn_rows
from ..learning.sample import Sample
from .about import FIT, LEARNED, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings
from .checks import between, whole
from .reading import of_keys
from .registry import register
from .shares import Scores, best_share, least_shares, plain

__all__ = ["LightningIndexer"]

# How long other small heads are beside the two that learning begins with, and how long its steps are beside those of
# maps that begin further away.
LITTLE, RATE = 0.1, 0.3


@register
@dataclass(frozen=True, eq=False)
class LightningIndexer(Learned):
    """Connect each query to the keys with the highest index score, Σ_j w_j(q) · ReLU(q_j · k'), of small learned heads.

    >>> LightningIndexer(r=8, share=0.1).fit([Sample(q, k)])(q, k)

    The paper has one indexer for all heads of a layer, made of hidden states. Here every head has its own, made of its
    queries and keys, because every head has a graph of its own. As there, it learns to give keys the weights of the
    teacher, by the cross-entropy of its scores' softmax and these; but the teacher is an entmax one, and stays.
    Learning begins with scores of low rank, as a sketch has them: from a random start it takes long to come as far.

    r: dimensions of the small heads, which share their keys.
    share: of the keys that a query may see, rounded up, with what scores as high as the last of them. One, or one per
    head.
    indexers: how many small heads.
    steps: of learning, on some queries of a sequence each.
    query_maps, key_maps, gates: what q_j, k' and w_j are made with. Of gates, the last row is added to all.
    """

    r: int = field(metadata=FIT)
    share: int | float | Float[Tensor, " heads"]
    indexers: int = field(default=4, metadata=FIT)
    steps: int = field(default=400, metadata=FIT)
    query_maps: Float[Tensor, "heads d indexers_times_r"] | None = field(default=None, metadata=LEARNED)
    key_maps: Float[Tensor, "heads d r"] | None = field(default=None, metadata=LEARNED)
    gates: Float[Tensor, "heads inputs indexers"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "dsa", "DSA indexer", "rival", compares="scores", paper="DeepSeek-AI, 2025, arXiv:2512.02556",
        dials=(Dial("share", most=1, every_pair=True),), grid={"r": (8,)},
        words={"r": "{} dimension(s)", "share": "keeps the best {%} of keys", "indexers": "{} small head(s)",
               "steps": "learned in {} steps"},
        look=Look("#1a1a6e", "#7c83ff", "P"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, r=self.r, indexers=self.indexers)
        whole(0, steps=self.steps)
        between(0, 1, share=self.share)

    @property
    def grouped(self) -> bool:
        return True

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> LightningIndexer:
        """Learn the small heads of all heads at once, from where two of them make scores of rank r."""
        maps = _start(samples, self.r, self.indexers, how.seed)

        def loss(rows: GoldRows) -> Tensor:
            return rows.cross_entropy(_scores(rows.q[None], rows.k[None], *maps)(slice(None))[0], rows.weights)

        if self.steps:
            learn_rows([each.requires_grad_() for each in maps], loss, samples, self.steps, RATE * how.rate, how.seed)
        query_maps, key_maps, gates = (each.detach() for each in maps)
        return replace(self, query_maps=query_maps, key_maps=key_maps, gates=gates)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return best_share(self._index(q, k), self.share, grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        return least_shares(self._index(q, k)(queries), grid, queries)

    def _index(self, q: Queries, k: Keys) -> Scores:
        assert self.query_maps is not None
        assert self.key_maps is not None
        assert self.gates is not None
        return _scores(plain(q), plain(k), self.query_maps, self.key_maps, self.gates)

    def cost(self, n: int, m: int, d: int) -> float:
        wide = self.indexers * (self.r + 1)
        return float(n) * m * wide + float(n) * d * wide + float(m) * d * self.r

    def reads(self, n: int, m: int, d: int) -> float:
        return of_keys(m, self.r)


def _scores(q: Tensor, k: Tensor, query_maps: Tensor, key_maps: Tensor, gates: Tensor) -> Scores:
    keys, weights = mapped(k, key_maps).mT, mapped(pad(q, (0, 1), value=1.0), gates)
    small = mapped(q, query_maps).unflatten(-1, (gates.shape[-1], -1))

    def scores(queries: slice) -> Tensor:
        total: Tensor | None = None
        for head in range(gates.shape[-1]):
            part = (small[:, :, queries, head] @ keys).relu() * weights[:, :, queries, head, None]
            total = part if total is None else total + part
        assert total is not None
        return total

    return scores


def _start(samples: Iterable[Sample], r: int, indexers: int, seed: int) -> list[Tensor]:
    """Two small heads that make scores of rank r, ReLU(z) − ReLU(−z) = z, and others that are random, and little."""
    scores, generator = low_rank(samples, r), torch.Generator().manual_seed(seed)
    # Steps of Adam have a size of their own: queries and keys are given the same.
    sizes = [_size(each) for each in (scores.queries, scores.keys)]
    even = (sizes[1] / sizes[0]).sqrt()
    queries, keys = scores.queries * even, scores.keys / even
    heads, d, _ = queries.shape
    drawn = torch.randn(heads, d, indexers, r, generator=generator).to(queries)
    maps = LITTLE * drawn * _size(queries)[..., None]
    for head, sign in zip(range(indexers), (1, -1), strict=False):
        maps[:, :, head] = sign * queries
    signs = torch.tensor([1.0 if head % 2 == 0 else -1.0 for head in range(indexers)], device=queries.device)
    gates = torch.cat([torch.zeros(heads, d, indexers, device=queries.device), signs.expand(heads, 1, -1)], 1)
    return [maps.flatten(2), keys, gates]


def _size(maps: Float[Tensor, "heads d r"]) -> Float[Tensor, "heads 1 1"]:
    return maps.square().mean((-1, -2), keepdim=True).clamp(min=1e-30).sqrt()
