"""HashAttention: learned bits of queries and keys, by how many they differ in. Desai et al., 2024, arXiv:2412.14468."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ..core.graph import Graph
from ..core.layout import Grid
from ..core.mapping import mapped
from ..core.pieces import Rule
from ..core.pieces.rules import FAR
from ..learning.moments import Moments, low_rank
from ..learning.rows import GoldRows, learn_rows
from ..learning.sample import Sample
from .about import FIT, LEARNED, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings
from .checks import between, whole
from .registry import register
from .shares import Scores, least_shares, limits, plain

__all__ = ["HashAttention"]

# Bits that a processor compares in the time of a multiplication.
WORD = 64


@register
@dataclass(frozen=True, eq=False)
class HashAttention(Learned):
    """Connect each query to the keys whose learned bits differ from its own in the fewest places.

    >>> HashAttention(bits=32, share=0.1).fit([Sample(q, k)])(q, k)

    A bit is the sign of what a small network of a head says of a query or a key, with one hidden layer and ReLU.

    share: of the keys that a query may see, rounded up, with what differs as little as the last of them. One, or one
    per head.
    hidden: the width of the hidden layer; that of the head if None. The paper has two such layers.
    steps: of learning, on some queries of a sequence each; it begins with random hyperplanes. The paper tells gold keys
    from others one by one; here the gold keys of a row are to come before its others, which is all a share asks for.
    query_layer, query_signs, key_layer, key_signs: to the hidden layer and from it to bits; last rows are added to all.
    """

    bits: int = field(metadata=FIT)
    share: int | float | Float[Tensor, " heads"]
    hidden: int | None = field(default=None, metadata=FIT)
    steps: int = field(default=400, metadata=FIT)
    query_layer: Float[Tensor, "heads inputs hidden"] | None = field(default=None, metadata=LEARNED)
    query_signs: Float[Tensor, "heads outputs bits"] | None = field(default=None, metadata=LEARNED)
    key_layer: Float[Tensor, "heads inputs hidden"] | None = field(default=None, metadata=LEARNED)
    key_signs: Float[Tensor, "heads outputs bits"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "hash-attention", "HashAttention", "rival", compares="scores", paper="Desai et al., 2024, arXiv:2412.14468",
        dials=(Dial("share", most=1, every_pair=True),), grid={"bits": (32,)},
        words={"bits": "{} bits", "share": "keeps the best {%} of keys", "hidden": "a hidden layer of {}",
               "steps": "learned in {} steps"},
        look=Look("#8e24aa", "#dd8cf5", "D"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, bits=self.bits)
        whole(0, steps=self.steps)
        if self.hidden is not None:
            whole(2, hidden=self.hidden)
        between(0, 1, share=self.share)

    @property
    def grouped(self) -> bool:
        return True

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> HashAttention:
        """Learn the networks of all heads at once: gold keys should have more bits in common with their query."""
        maps = _start(samples, self.bits, self.hidden, how.seed)

        def loss(rows: GoldRows) -> Tensor:
            # Between steps of the sign there is nothing to descend: so numbers from −1 to 1 stand for bits.
            q, k = (_network(each[None], *own)[0].tanh() for each, own in ((rows.q, maps[:2]), (rows.k, maps[2:])))
            gold = (rows.weights > 0).to(q)
            return rows.cross_entropy(q @ k.mT, gold / gold.sum(-1, keepdim=True).clamp(min=1))

        if self.steps:
            learn_rows([each.requires_grad_() for each in maps], loss, samples, self.steps, how.rate, how.seed)
        layer, signs, key_layer, key_signs = (each.detach() for each in maps)
        return replace(self, query_layer=layer, query_signs=signs, key_layer=key_layer, key_signs=key_signs)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        queries, keys = self._codes(q, k)
        # A rule compares whole numbers where they are used: products of ±1 are bits in common less those that differ.
        reach = limits(_products(queries, keys), self.share, grid).clamp(-FAR, FAR).int()
        ranks = torch.full((grid.heads,), queries.shape[-1], device=grid.device)
        return Graph(grid, (Rule(queries, keys, reach, grid, ranks, relative=False),))

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        return least_shares(_products(*self._codes(q, k))(queries), grid, queries)

    def _codes(self, q: Queries, k: Keys) -> tuple[Tensor, Tensor]:
        """The bits of queries and of keys."""
        assert self.query_layer is not None
        assert self.query_signs is not None
        assert self.key_layer is not None
        assert self.key_signs is not None
        return (
            _signed(_network(plain(q), self.query_layer, self.query_signs)),
            _signed(_network(plain(k), self.key_layer, self.key_signs)),
        )

    def cost(self, n: int, m: int, d: int) -> float:
        hidden = d if self.hidden is None else self.hidden
        return float(n + m) * hidden * (d + self.bits) + float(n) * m * -(-self.bits // WORD)

    def reads(self, n: int, m: int, d: int) -> float:
        return float(m) * self.bits / 8


def _network(
    tokens: Float[Tensor, "batch token_heads length d"],
    layer: Float[Tensor, "heads inputs hidden"],
    signs: Float[Tensor, "heads outputs bits"],
) -> Float[Tensor, "batch heads length bits"]:
    """What the networks say of tokens, before the sign."""
    inside = mapped(pad(tokens, (0, 1), value=1.0), layer).relu()
    return mapped(pad(inside, (0, 1), value=1.0), signs)


def _signed(numbers: Float[Tensor, "*shape bits"]) -> Int[Tensor, "*shape codes"]:
    """Bits as 1 and −1; where their number is odd, a 0 more, because rules take an even number."""
    return pad(torch.where(numbers > 0, 1, -1).to(torch.int8), (0, numbers.shape[-1] % 2))


def _products(queries: Tensor, keys: Tensor) -> Scores:
    turned = keys.float().mT
    return lambda some: queries[:, :, some].float() @ turned


def _start(samples: Iterable[Sample], bits: int, hidden: int | None, seed: int) -> list[Tensor]:
    """Networks whose bits are the sides of random hyperplanes where products are scores of low rank.

    The hidden layer has a pair of units for each dimension, ReLU(x) − ReLU(−x) = x; what is left of it is random.
    """
    generator = torch.Generator().manual_seed(seed)
    found = Moments.of(samples)
    heads, d = found.key_mean.shape
    width = hidden or max(d, 2)
    scores = low_rank(samples, min(d, width // 2))
    r = scores.keys.shape[-1]
    planes = torch.randn(r, bits, generator=generator, dtype=torch.float64).to(found.keys.device)
    signs = torch.cat([planes, -planes, planes.new_zeros(width - 2 * r + 1, bits)])
    maps = []
    for each, mean, squares in (
        (scores.queries.double(), torch.zeros_like(found.key_mean), found.queries / found.query_count),
        (scores.keys.double(), found.key_mean, found.key_covariance),
    ):
        size = (each * (squares @ each)).sum((-1, -2), keepdim=True).clamp(min=1e-30).sqrt()
        own = torch.cat([each, -mean[:, None] @ each], 1) / size
        more = torch.randn(heads, d + 1, width - 2 * r, generator=generator, dtype=torch.float64).to(own)
        maps.append(torch.cat([own, -own, more * own.square().mean((-1, -2), keepdim=True).sqrt()], -1).float())
        maps.append(signs.expand(heads, -1, -1).float().contiguous())
    return maps
