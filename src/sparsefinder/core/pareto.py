"""Pareto frontiers: of points of sparsity and quality, those that no other point beats in both. Sec. 5 of the paper.

Both are better the higher they are. A perplexity is turned round first: `quality(12.5, 10.0, "lower")` is the share 0.8
of what the full model reaches, as `quality(20.0, 25.0, "higher")` is for BLEU. That puts scores of every kind between 0
(nothing, or an infinite perplexity) and about 1 (the full model), so that (0, 0) is the reference of every hypervolume.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from ..errors import InputError

__all__ = ["frontier", "frontiers", "hypervolume", "hypervolumes", "quality", "quality_at", "sparsity_at"]

# Columns: sparsity and quality. A point that has a NaN or an infinity counts for nothing.
Points = Float[np.ndarray, "count 2"]
Places = Int[np.ndarray, " some"]


def frontier(points: Points) -> Places:
    """The places of the points that no other dominates, from the least sparse to the most; of equal ones, the first.

    >>> frontier(np.array([[0.5, 0.9], [0.8, 0.7], [0.4, 0.8]]))
    array([0, 1])
    """
    return frontiers(points, np.zeros(len(points), np.int64))


def frontiers(points: Points, group: Int[np.ndarray, " count"]) -> Places:
    """The frontier of each group of points, one after the other, in one pass."""
    places = np.flatnonzero(np.isfinite(points).all(-1))
    sparsity, value = points[places].T
    # From the most sparse down, and of those equally sparse the best first: each that is better than all before stays.
    order = np.lexsort((places, -value, -sparsity, -group[places]))
    rank = np.unique(value, return_inverse=True)[1]
    # As ranks, so that those of one group can be put above all of the group before without rounding.
    lifted = (rank - group[places] * (len(places) + 1))[order]
    ahead = np.ones(len(order), np.bool_)
    ahead[1:] = lifted[1:] > np.maximum.accumulate(lifted)[:-1]
    return places[order[ahead]][::-1]


def hypervolume(points: Points, reference: tuple[float, float] = (0.0, 0.0)) -> float:
    """The area between the reference and the frontier: what is dominated by at least one point."""
    shifted = points - np.array(reference)
    above = shifted[(shifted > 0).all(-1)]
    sparsity, value = above[frontier(above)].T if len(above) else np.zeros((2, 0))
    return float((np.diff(sparsity, prepend=0.0) * value).sum())


def hypervolumes(
    sparsity: Float[np.ndarray, "draws count"], value: Float[np.ndarray, "draws count"]
) -> Float[np.ndarray, " draws"]:
    """The hypervolumes of many draws of the same points, each against (0, 0), in one pass."""
    real = np.isfinite(sparsity) & np.isfinite(value)
    x, y = (np.where(real, one, 0.0).clip(min=0.0) for one in (sparsity, value))
    # From the most sparse down, each step to the next is as high as the best so far.
    order = np.argsort(-x, -1)
    x, y = np.take_along_axis(x, order, -1), np.maximum.accumulate(np.take_along_axis(y, order, -1), -1)
    return -(np.diff(x, append=0.0) * y).sum(-1)


def quality_at(points: Points, sparsity: float) -> float | None:
    """The best quality among the points that are at least this sparse; None if there is none."""
    enough = points[np.isfinite(points).all(-1) & (points[:, 0] >= sparsity), 1]
    return float(enough.max()) if len(enough) else None


def sparsity_at(points: Points, wanted: float) -> float | None:
    """The highest sparsity among the points of at least this quality; None if there is none."""
    enough = points[np.isfinite(points).all(-1) & (points[:, 1] >= wanted), 0]
    return float(enough.max()) if len(enough) else None


def quality(score: float, full: float, better: str) -> float:
    """A score as a share of the full model's, turned round where lower is better.

    NaN where the full model reaches nothing: one that has hardly been trained may have a BLEU of 0.
    """
    if better not in ("lower", "higher"):
        raise InputError("better", repr(better), '"lower" or "higher"')
    best, other = (full, score) if better == "higher" else (score, full)
    return other / best if best else math.nan
