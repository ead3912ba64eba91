"""The best share of the keys of each row, by whatever a method scores pairs with; and the share that a pair needs."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.chunks import chunks
from ..core.graph import Graph
from ..core.layout import Grid
from .best import best_keys, hidden, in_order, lowest_of
from .chosen import Listed, listed

__all__ = ["Scores", "Share", "best_share", "least_shares", "limits", "plain", "shares_of", "wanted_of"]

# One for all heads, or one per head.
Share = int | float | Float[Tensor, " heads"]
# The scores of some queries with all keys.
Scores = Callable[[slice], Float[Tensor, "batch heads count m"]]

# A little is taken off a number of keys before it is rounded up: 0.1 · 30 keys is 3, not the 4 of its rounding error.
ROUNDING = 1e-6


def plain(tokens: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Tokens to compute scores of: without gradients, of 32 bits at least."""
    return tokens.detach().to(torch.promote_types(tokens.dtype, torch.float32))


def best_share(scores: Scores, share: Share, grid: Grid) -> Graph:
    """For each query the share of the keys it may see that score best, rounded up, and what scores as the last does."""

    def rows(queries: slice) -> Listed:
        seen = grid.degrees()[:, None, queries, None]
        return best_keys(scores(queries), seen, wanted_of(seen, share, grid))

    return listed(rows, grid)


def limits(scores: Scores, share: Share, grid: Grid) -> Float[Tensor, "batch heads n"]:
    """What the scores of each row have to reach to be among the best share; infinite where nothing is."""
    found, width = torch.full(grid.shape[:3], math.inf, device=grid.device), grid.batch * grid.heads * grid.m
    for queries in chunks(grid.n if width else 0, width):
        seen = grid.degrees()[:, None, queries, None]
        found[:, :, queries] = lowest_of(hidden(scores(queries), seen), wanted_of(seen, share, grid))[..., 0]
    return found


def least_shares(scores: Float[Tensor, "batch heads count m"], grid: Grid, queries: slice) -> Tensor:
    """The least share with which each pair of some queries is among the best of its row."""
    seen = grid.degrees()[:, None, queries, None]
    return shares_of(hidden(scores, seen), seen)


def shares_of(scores: Float[Tensor, "*shape m"], seen: Int[Tensor, "*shape2 1"]) -> Float[Tensor, "*shape m"]:
    """The least share that is rounded up to one key more than those that score higher."""
    return (_higher(scores) + ROUNDING).mul_(1 + 1e-9).div_(seen.clamp(min=1))


def wanted_of(
    seen: Int[Tensor, "batch #heads count 1"], share: Share, grid: Grid
) -> Int[Tensor, "batch heads count 1"]:
    """How many keys are a share of so many, rounded up."""
    per_head = torch.as_tensor(share, dtype=torch.float64, device=grid.device).expand(grid.heads)[:, None, None]
    return (seen * per_head - ROUNDING).ceil().long()


def _higher(scores: Float[Tensor, "*shape m"]) -> Float[Tensor, "*shape m"]:
    """How many scores of the row are higher than each."""
    ordered = in_order(scores)
    return (scores.shape[-1] - torch.searchsorted(ordered, scores, right=True)).double()
