"""SeerAttention: blocks by a gate that is learned from the teacher's weights. Gao et al., 2024, arXiv:2410.13276."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.chunks import chunks
from ..core.graph import Graph
from ..core.layout import Grid
from ..learning.gate import learn_gate, pooled_keys, pooled_queries
from ..learning.sample import Sample
from .about import FIT, LEARNED, About, Dial, Look
from .base import Fitting, Keys, Learned, Queries, Settings
from .centroids import ranks, slots
from .checks import whole
from .reading import of_blocks
from .registry import register
from .tiles import chosen_blocks, legal_blocks

__all__ = ["SeerAttention"]


@register
@dataclass(frozen=True, eq=False)
class SeerAttention(Learned):
    """Give each block of queries the k blocks of keys for which a learned gate says most.

    >>> SeerAttention(block=16, k=4).fit([Sample(q, k)])(q, k)

    Mean queries, and of keys the greatest, the least and the mean of each dimension, are mapped by a matrix per head;
    their product is the gate. It learns the greatest weight that the teacher gives in each block, in shares of the
    block of queries: entmax weights here, softmax ones in the paper.

    The paper pools queries and keys before their rotary embedding, and turns them by the positions of blocks; here they
    are pooled as attention gets them.

    k: one number for all heads, or one per head.
    r: how many dimensions the gate compares in; as many as queries have if None.
    steps: how many of Adam it learns in.

    On a GPU it waits for the device once, for how many blocks there are, and with a k per head for the largest.
    """

    block: int = field(metadata=FIT)
    k: int | Int[Tensor, " heads"]
    r: int | None = field(default=None, metadata=FIT)
    steps: int = field(default=300, metadata=FIT)
    query_maps: Float[Tensor, "heads d r"] | None = field(default=None, metadata=LEARNED)
    key_maps: Float[Tensor, "heads three_d r"] | None = field(default=None, metadata=LEARNED)

    about = About(
        "seerattention", "SeerAttention", "rival", compares="scores", paper="Gao et al., 2024, arXiv:2410.13276",
        dials=(Dial("k", whole=True),), grid={"block": (16,)},
        words={
            "block": "blocks of {} token(s)", "k": "the best {} block(s)", "r": "a gate of {} dimension(s)",
            "steps": "learned in {} step(s)",
        },
        look=Look("#006978", "#a0f0ff", "s"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        whole(1, block=self.block)
        whole(0, k=self.k, steps=self.steps)
        if self.r is not None:
            whole(1, r=self.r)

    @property
    def query_wise(self) -> bool:
        # The mean of a block holds tokens after its first one.
        return False

    def fit(self, samples: Iterable[Sample], how: Fitting = Fitting()) -> SeerAttention:
        """Learn the gate from the weights of the teacher."""
        maps = learn_gate(
            samples, self.block, self.r, self.steps, rate=how.rate, tokens=how.tokens, seed=how.seed
        )  # fmt: skip
        return replace(self, query_maps=maps[0], key_maps=maps[1])

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        most = int(self.k.amax()) if isinstance(self.k, Tensor) else self.k
        found = []
        for gate in self._gates(q, k, grid):
            best, chosen = gate.topk(min(most, gate.shape[-1]), -1)
            found.append(slots(torch.where(best > -math.inf, chosen, -1), self.k))
        return chosen_blocks(torch.cat(found, 2), self.block, self.block, grid) if found else Graph(grid)

    def needed(self, q: Queries, k: Keys, grid: Grid, queries: slice) -> Settings:
        found = [ranks(gate.argsort(-1, descending=True)) for gate in self._gates(q, k, grid)]
        rows = torch.arange(grid.n, device=grid.device)[queries] // self.block
        if not found:
            return q.new_zeros(grid.batch, grid.heads, len(rows), grid.m).double()
        columns = torch.arange(grid.m, device=grid.device) // self.block
        return torch.cat(found, 2)[:, :, rows][..., columns].double()

    def _gates(self, q: Queries, k: Keys, grid: Grid) -> Iterator[Float[Tensor, "batch heads some blocks"]]:
        """What the gate says for some blocks of queries at a time; −∞ for blocks of which nothing may be seen."""
        assert self.query_maps is not None
        assert self.key_maps is not None
        if not grid.m:
            return
        q, k = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k))
        layout, kind = grid.layout, q.dtype
        queries = pooled_queries(q, layout.query_lengths, self.block) @ self.query_maps.to(kind)
        keys = pooled_keys(k, layout.key_lengths, self.block) @ self.key_maps.to(kind)
        for rows in chunks(queries.shape[2], grid.batch * grid.heads * keys.shape[2]):
            legal = legal_blocks(grid, self.block, 0, 0, rows)
            yield (queries[:, :, rows] @ keys.mT).masked_fill(~legal, -math.inf)

    def cost(self, n: int, m: int, d: int) -> float:
        r = d if self.query_maps is None else self.query_maps.shape[-1]
        rows, columns = -(-n // self.block), -(-m // self.block)
        return min(float(rows * d + columns * 3 * d + rows * columns) * r, float(n) * m * d)

    def reads(self, n: int, m: int, d: int) -> float:
        return of_blocks(n, m, self.block, d if self.query_maps is None else self.query_maps.shape[-1])
