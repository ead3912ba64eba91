"""The best keys of rows, by scores that are there: in C++ where that can be, without sorting."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from .. import compiled
from ..compiled import capsule
from .chosen import Listed, rows_of

__all__ = ["best_keys", "hidden", "in_order", "lowest_of"]


def best_keys(
    scores: Float[Tensor, "batch heads count m"],
    seen: Int[Tensor, "batch 1 count 1"],
    wanted: Int[Tensor, "batch heads count 1"],
) -> Listed:
    """The keys with the `wanted` highest scores among the first `seen`, and what scores as the last of them does."""
    if not _natively(scores):
        least = lowest_of(hidden(scores, seen), wanted)
        return rows_of((scores >= least) & (torch.arange(scores.shape[-1], device=scores.device) < seen))
    assert compiled.module is not None
    rows, ends = _rows(scores), _of_each(seen, scores)
    limits, counts = _reach(rows, ends, _of_each(wanted, scores))
    starts = pad(counts.cumsum(0), (1, 0))
    keys = torch.empty(int(starts[-1]), dtype=torch.long)
    compiled.module.list_keys(
        capsule(rows), capsule(ends), capsule(limits), capsule(starts), capsule(keys), torch.get_num_threads(),
        compiled.plain(),
    )  # fmt: skip
    return counts.reshape(scores.shape[:3]), keys


def lowest_of(scores: Float[Tensor, "*shape m"], wanted: Int[Tensor, "*shape2 1"]) -> Float[Tensor, "*shape2 1"]:
    """The lowest of the `wanted` highest scores of each row; infinite where none is wanted."""
    if _natively(scores):
        every = torch.full((scores.shape[:-1].numel(),), scores.shape[-1])
        return _reach(_rows(scores), every, _of_each(wanted, scores))[0].reshape(*scores.shape[:-1], 1)
    place = (scores.shape[-1] - wanted).clamp(0, scores.shape[-1] - 1)
    return torch.where(wanted > 0, in_order(scores).gather(-1, place), math.inf)


def hidden(scores: Float[Tensor, "*shape m"], seen: Int[Tensor, "*shape2 1"]) -> Float[Tensor, "*shape m"]:
    """Scores with −∞ for what may not be seen. What a query may see are always the first keys."""
    keys = torch.arange(scores.shape[-1], device=scores.device)
    return scores.masked_fill_(keys >= seen, -math.inf) if bool((seen < len(keys)).any()) else scores


def in_order(scores: Tensor) -> Tensor:
    """The scores of each row, the lowest first."""
    # On a CPU numpy's sort takes half the time of torch's.
    return torch.from_numpy(np.sort(scores.numpy(), -1)) if scores.device.type == "cpu" else scores.sort(-1).values


def _natively(scores: Tensor) -> bool:
    return compiled.module is not None and scores.device.type == "cpu" and scores.dtype == torch.float32


def _reach(rows: Tensor, seen: Tensor, wanted: Tensor) -> tuple[Float[Tensor, " rows"], Int[Tensor, " rows"]]:
    """How low the best of each row reach, and how many there are."""
    assert compiled.module is not None
    limits, counts = torch.empty(len(rows)), torch.empty(len(rows), dtype=torch.long)
    compiled.module.reach(
        capsule(rows), capsule(seen), capsule(wanted), capsule(limits), capsule(counts), torch.get_num_threads(),
        compiled.plain(),
    )  # fmt: skip
    return limits, counts


def _rows(scores: Float[Tensor, "*shape m"]) -> Float[Tensor, "rows m"]:
    return scores.detach().reshape(scores.shape[:-1].numel(), scores.shape[-1]).contiguous()


def _of_each(numbers: Int[Tensor, "*shape 1"], scores: Float[Tensor, "*shape2 m"]) -> Int[Tensor, " rows"]:
    """A number for each row of the scores."""
    return numbers.expand(*scores.shape[:-1], 1).reshape(-1).contiguous()
