"""The best share of the keys of each row, by whatever a method scores pairs with; and the share that a pair needs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.chunks import chunks
from ..core.graph import Graph
from ..core.layout import Grid
from .chosen import pairs_of

__all__ = [
    "Scores", "Share", "best_share", "hidden", "least_shares", "limits", "lowest_of", "plain", "shares_of",
    "wanted_of",
]  # fmt: skip

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

    def chosen(queries: slice) -> Tensor:
        here, least = _rows(scores, share, grid, queries)
        return here >= least

    return pairs_of(chosen, grid)


def limits(scores: Scores, share: Share, grid: Grid) -> Float[Tensor, "batch heads n"]:
    """What the scores of each row have to reach to be among the best share; infinite where nothing is."""
    found, width = torch.full(grid.shape[:3], math.inf, device=grid.device), grid.batch * grid.heads * grid.m
    for queries in chunks(grid.n if width else 0, width):
        found[:, :, queries] = _rows(scores, share, grid, queries)[1][..., 0]
    return found


def _rows(scores: Scores, share: Share, grid: Grid, queries: slice) -> tuple[Tensor, Tensor]:
    """The scores of some queries, and for each query the lowest that is among the best."""
    seen = grid.degrees()[:, None, queries, None]
    here = hidden(scores(queries), seen)
    return here, lowest_of(here, wanted_of(seen, share, grid))


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


def hidden(scores: Float[Tensor, "*shape m"], seen: Int[Tensor, "*shape2 1"]) -> Float[Tensor, "*shape m"]:
    """Scores with −∞ for what may not be seen. What a query may see are always the first keys."""
    keys = torch.arange(scores.shape[-1], device=scores.device)
    return scores.masked_fill_(keys >= seen, -math.inf) if bool((seen < len(keys)).any()) else scores


def lowest_of(scores: Float[Tensor, "*shape m"], wanted: Int[Tensor, "*shape2 1"]) -> Float[Tensor, "*shape2 1"]:
    """The lowest of the `wanted` highest scores of each row; infinite where none is wanted."""
    place = (scores.shape[-1] - wanted).clamp(0, scores.shape[-1] - 1)
    if scores.device.type == "cpu" and bool((place == place.flatten()[0]).all()):
        # On a CPU numpy's partition takes a sixth of the time of torch's topk, and its sort half.
        ordered = torch.from_numpy(np.partition(scores.numpy(), int(place.flatten()[0]), -1))
    else:
        ordered = _sorted(scores)
    return torch.where(wanted > 0, ordered.gather(-1, place), math.inf)


def _higher(scores: Float[Tensor, "*shape m"]) -> Float[Tensor, "*shape m"]:
    """How many scores of the row are higher than each."""
    ordered = _sorted(scores)
    return (scores.shape[-1] - torch.searchsorted(ordered, scores, right=True)).double()


def _sorted(scores: Tensor) -> Tensor:
    return torch.from_numpy(np.sort(scores.numpy(), -1)) if scores.device.type == "cpu" else scores.sort(-1).values
