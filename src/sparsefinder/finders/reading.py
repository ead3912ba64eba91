"""What finding reads about keys, in bytes: the counts that several methods share. `Finder.reads` says what counts."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["NUMBER", "of_blocks", "of_keys", "per_head"]

# Bytes of a number: float32, or which cluster or bucket it is.
NUMBER = 4


def of_keys(m: int, d: int) -> float:
    """So many numbers of each key: with d, the keys themselves."""
    return float(NUMBER) * m * d


def of_blocks(n: int, m: int, block: int, size: int, besides: int = 0) -> float:
    """So many numbers of each block of keys, and of some vectors besides, read once for each block of queries."""
    return NUMBER * float(-(-m // block) + besides) * size * -(-n // block) / max(1, n)


def per_head(setting: int | float | Tensor) -> float:
    """The mean over heads of what each has one of, or all the same."""
    return float(torch.as_tensor(setting, dtype=torch.float64).mean())
