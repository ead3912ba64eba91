"""An index of keys whose answer is exact: what it leaves out is proven to get no weight.

In a basis of all dimensions, q · k = q̂ · k̂ + q̂ · δk + δq · k̂ + δq · δk + (rest of q) · (rest of k), with k̂ the leading
dimensions of a key rounded to whole numbers, and δk what that leaves of them. No product is larger than that of the
lengths of both. So kept is of a key k̂, how long it is, and how long its rest is: a byte each for the lengths. What
rounding leaves is bounded by the same number for all keys; those with more than that, or with a number that no byte
holds, are looked at always.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .. import compiled
from ..compiled import Held
from .codes import LONGEST_KEY, MOST_KEY_CODE, refuse_nonfinite
from .graph import Graph
from .index import KeyIndex
from .layout import Grid, Layout
from .mapping import mapped, wide

__all__ = ["BoundedIndex"]

# As in kernels/index.h: more than rounding in float32 takes away, and how much more than mostly it may move a key.
ROUNDED_UP, LARGER = 1 + 1e-5, 1.2


class BoundedIndex(KeyIndex):
    """The leading dimensions of keys as codes, and how long the rest is: enough to rule keys out with proof.

    query_maps, key_maps: of all dimensions, such that their products are those of queries and centred keys.
    ranks: how many dimensions lead, an even number per head.
    means: what keys are centred by; entmax does not see it.
    """

    exact = True

    def __init__(
        self,
        query_maps: Float[Tensor, "heads d d"],
        key_maps: Float[Tensor, "heads d d"],
        ranks: Int[Tensor, " heads"],
        means: Float[Tensor, "heads d"],
    ) -> None:
        super().__init__(query_maps, key_maps, ranks)
        self.means, self._offsets = means, (means[:, None].double() @ key_maps.double())[:, 0].float()
        self._lay_out([rank + 2 for rank in self.ranks.tolist()])

    def graph(self, q: Float[Tensor, "batch heads n d"], layout: Layout = Layout()) -> Graph:
        """All pairs: what is ruled out depends on what was found before."""
        return Graph.full(Grid(q.shape[0], q.shape[1], q.shape[2], self.length, layout, q.device))

    def natively(self, tokens: Tensor) -> bool:
        return super().natively(tokens) and self._width <= compiled.module.MOST_CODES  # type: ignore[union-attr]

    def _hold(self) -> Held:
        assert compiled.module is not None
        maps = (wide(self.query_maps), wide(self.key_maps), self.ranks.contiguous())
        offsets = wide(self._offsets[None].float())[0]
        return Held(compiled.module.index_maps(*maps, offsets, self.means.float().contiguous()))

    def _take(self, k: Float[Tensor, "batch kv_heads count d"]) -> None:
        points = (mapped(k, self.key_maps) - self._offsets[:, None]).float()
        if not bool(points.isfinite().all()):
            refuse_nonfinite()
        codes = torch.zeros((*points.shape[:3], self._width), device=k.device)
        always = torch.zeros(points.shape[:3], dtype=torch.bool, device=k.device)
        for h, rank in enumerate(self.ranks.tolist()):
            leading, whole = points[:, h, :, :rank], points[:, h, :, :rank].round()
            rest = (points[:, h, :, rank:].square().sum(-1).sqrt() * ROUNDED_UP).ceil()
            length = (whole.square().sum(-1).sqrt() * (ROUNDED_UP * MOST_KEY_CODE / LONGEST_KEY)).ceil()
            moved = (leading - whole).square().sum(-1).sqrt() > LARGER * (rank / 12) ** 0.5
            codes[:, h, :, : rank + 2] = torch.cat([whole, rest[..., None], length[..., None]], -1)
            always[:, h] = moved | (codes[:, h].abs() > MOST_KEY_CODE).any(-1)
        self._write(codes.masked_fill(always[..., None], 0).to(torch.int8), always)
