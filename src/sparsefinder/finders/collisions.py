"""Hash tables: in how many of them a query and a key meet, and how many it takes until they have met often enough."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["tables_needed"]


def tables_needed(
    of_queries: Int[Tensor, "batch heads n tables"], of_keys: Int[Tensor, "batch heads m tables"], times: int
) -> Int[Tensor, "batch heads n m"]:
    """After how many tables a query and a key have had the same hash so many times; one more than all for never.

    times: at most as many as there are tables.
    """
    shape = (*of_queries.shape[:3], of_keys.shape[2])
    met = torch.zeros(shape, dtype=torch.uint8, device=of_queries.device)
    needed = torch.ones(shape, dtype=torch.int16, device=of_queries.device)
    for one, two in zip(of_queries.unbind(-1), of_keys.unbind(-1), strict=True):
        met += one[..., None] == two[..., None, :]
        needed += met < times
    return needed
