"""Pareto frontiers: of points of sparsity and quality, those that no other point beats in both. Sec. 5 of the paper.

Both are better the higher they are. A perplexity is turned round first: `quality(12.5, 10.0, "lower")` is the share 0.8
of what the full model reaches, as `quality(20.0, 25.0, "higher")` is for BLEU. That puts scores of every kind between 0
(nothing, or an infinite perplexity) and about 1 (the full model), so that (0, 0) is the reference of every hypervolume.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from .errors import InputError

__all__ = ["frontier", "hypervolume", "quality", "quality_at", "sparsity_at"]

# Columns: sparsity and quality. A point that has a NaN counts for nothing.
Points = Float[np.ndarray, "count 2"]


def frontier(points: Points) -> Int[np.ndarray, " some"]:
    """The places of the points that no other dominates, from the least sparse to the most; of equal ones, the first.

    >>> frontier(np.array([[0.5, 0.9], [0.8, 0.7], [0.4, 0.8]]))
    array([0, 1])
    """
    places = np.flatnonzero(~np.isnan(points).any(-1))
    sparsity, value = points[places].T if len(places) else np.zeros((2, 0))
    # From the most sparse down, and of those equally sparse the best first: each that is better than all before stays.
    order = np.lexsort((places, -value, -sparsity))
    best = np.maximum.accumulate(value[order]) if len(order) else value
    ahead = np.ones(len(order), np.bool_)
    ahead[1:] = value[order][1:] > best[:-1]
    return places[order[ahead]][::-1]


def hypervolume(points: Points, reference: tuple[float, float] = (0.0, 0.0)) -> float:
    """The area between the reference and the frontier: what is dominated by at least one point."""
    shifted = points - np.array(reference)
    above = shifted[(shifted > 0).all(-1)]
    sparsity, value = above[frontier(above)].T if len(above) else np.zeros((2, 0))
    return float((np.diff(sparsity, prepend=0.0) * value).sum())


def quality_at(points: Points, sparsity: float) -> float | None:
    """The best quality among the points that are at least this sparse; None if there is none."""
    enough = points[points[:, 0] >= sparsity, 1]
    return None if np.isnan(enough).all() else float(np.nanmax(enough))


def sparsity_at(points: Points, wanted: float) -> float | None:
    """The highest sparsity among the points of at least this quality; None if there is none."""
    enough = points[points[:, 1] >= wanted, 0]
    return None if np.isnan(enough).all() else float(np.nanmax(enough))


def quality(score: float, full: float, better: str) -> float:
    """A score as a share of the full model's, turned round where lower is better."""
    if better not in ("lower", "higher"):
        raise InputError("better", repr(better), '"lower" or "higher"')
    return score / full if better == "higher" else full / score
