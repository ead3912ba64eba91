"""Projections that follow from the second moments of queries and keys, without learning.

*Principal*: the directions in which queries and keys vary most. What learned projections are compared with.
*Low-rank*: inner products of r numbers that come closest to the scores themselves, by SVD.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from .projection import Projection
from .sample import Sample, batches

__all__ = ["LEADING", "LENGTH", "Moments", "bounding", "low_rank", "principal", "principal_of_keys"]

# A third of what the codes of a key can be at the most (finders/codes.py): few keys are as much longer than the mean.
LENGTH = 64.0
# Where scores are bounded, what share of the dimensions leads, how long keys are made in these, and how long their
# rest: a key for which that is too long for its bytes is looked at always.
LEADING, LEAD, REST = 0.75, 96.0, 28.0


def principal(samples: Iterable[Sample], r: int = 4) -> Projection:
    """The r directions in which the queries and keys of a head, taken together, vary most: PCA."""
    directions = Moments.of(samples).directions(r).float()
    return Projection(directions, directions)


def principal_of_keys(samples: Iterable[Sample], r: int) -> Projection:
    """The r directions in which the keys of a head vary most, for queries too: products there approximate scores."""
    directions = _first(r, Moments.of(samples).key_covariance).float()
    return Projection(directions, directions)


def low_rank(samples: Iterable[Sample], r: int = 8) -> Projection:
    """Maps whose inner product q'·k' is the best approximation of rank r to a head's scores, up to a constant a row.

    With the second moments C_q of queries and C_k of centred keys, C_q^½ C_k^½ = U S Vᵀ gives q' = Uᵀ C_q^−½ q and
    k' = S Vᵀ C_k^−½ k = Uᵀ C_q^½ k. Entmax does not see a constant added to a row, so keys may be centred. Queries come
    out white, so that the distance of two keys is the error that taking one for the other makes in the scores, but for
    a factor per head: keys of all ranks come out with a mean square of LENGTH², worth rounding to whole numbers.
    """
    found = Moments.of(samples)
    of_queries, of_keys = found.queries / found.query_count, found.key_covariance
    root, inverse = _roots(of_queries)
    u = torch.linalg.svd(root @ _roots(of_keys)[0]).U
    # Uᵀ C_q^½ k has a mean square of tr(C_q C_k), whatever the rank that is kept.
    square = (of_queries * of_keys.mT).sum((-1, -2)).clamp(min=1e-30)
    longer = (LENGTH / square.sqrt())[:, None, None]
    u = u[..., : _fitting(r, of_keys)]
    return Projection((inverse @ u * found.scale / longer).float(), (root @ u * longer).float())


def leading(d: int) -> int:
    """How many of d dimensions lead: an even number."""
    return max(2, int(LEADING * d) // 2 * 2)


def bounding(samples: Iterable[Sample]) -> tuple[Projection, Float[Tensor, "heads d"]]:
    """Maps of all dimensions whose inner product is that of a query and a centred key, and the mean of keys.

    The directions of the highest variance of queries and keys, each weighed alike, come first: so what is left out from
    some dimension on is short in both, and the product of both lengths a bound worth having (core/bounded.py). Each
    dimension is as long in queries as in keys, and keys come out as long as codes want them.
    """
    found = Moments.of(samples)
    of_queries, of_keys = found.queries / found.query_count, found.key_covariance
    weighed = sum(
        each / each.diagonal(dim1=1, dim2=2).sum(-1).clamp(min=1e-30)[:, None, None] for each in (of_queries, of_keys)
    )
    basis = torch.linalg.eigh(weighed).eigenvectors.flip(-1)
    variances = [(basis * (each @ basis)).sum(1) for each in (of_queries, of_keys)]
    least = [each.amax(-1, keepdim=True) * 1e-6 + 1e-30 for each in variances]
    longer = ((variances[0] + least[0]) / (variances[1] + least[1])) ** 0.25
    square, lead = variances[1] * longer**2, leading(basis.shape[-1])
    front = (LEAD / square[:, :lead].sum(-1, keepdim=True).clamp(min=1e-30).sqrt()).expand(-1, lead)
    back = (REST / square[:, lead:].sum(-1, keepdim=True).clamp(min=1e-30).sqrt()).expand(-1, square.shape[1] - lead)
    longer = (longer * torch.cat([front, back], -1))[:, None]
    return Projection((basis / longer).float(), (basis * longer).float()), found.key_mean.float()


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over the real queries and keys of each head: of their outer products, of themselves, and how many."""

    queries: Float[Tensor, "heads d d"]
    keys: Float[Tensor, "heads d d"]
    query_sums: Float[Tensor, "heads d"]
    key_sums: Float[Tensor, "heads d"]
    query_count: int
    key_count: int
    scale: float

    @staticmethod
    def of(samples: Iterable[Sample]) -> Moments:
        total: Moments | None = None
        for sample in batches(samples):
            parts: list[Tensor] = []
            for tokens, real in ((sample.q, sample.real_queries()), (sample.k, sample.real_keys())):
                each = tokens.transpose(1, 2)[real].transpose(0, 1).double()
                parts += [each.mT @ each, each.sum(1)]
            counts = int(sample.real_queries().sum()), int(sample.real_keys().sum())
            here = Moments(parts[0], parts[2], parts[1], parts[3], *counts, sample.score_scale)
            total = here if total is None else total._with(here)
        if total is None or 0 in (total.query_count, total.key_count):
            raise InputError("samples", "no token", "at least one batch of queries and keys")
        return total

    @property
    def key_mean(self) -> Float[Tensor, "heads d"]:
        return self.key_sums / self.key_count

    @property
    def key_covariance(self) -> Float[Tensor, "heads d d"]:
        return self.keys / self.key_count - self.key_mean[:, :, None] * self.key_mean[:, None]

    def directions(self, r: int) -> Float[Tensor, "heads d r"]:
        """The r directions of the highest variance of queries and keys together."""
        count = self.query_count + self.key_count
        mean = (self.query_sums + self.key_sums) / count
        return _first(r, (self.queries + self.keys) / count - mean[:, :, None] * mean[:, None])

    def mean_distance(self, maps: Float[Tensor, "heads d r"]) -> Float[Tensor, " heads"]:
        """The mean squared distance of a query and a key, both mapped."""
        query, key = (self.query_sums / self.query_count)[:, None], (self.key_sums / self.key_count)[:, None]
        moments = self.queries / self.query_count + self.keys / self.key_count - query.mT @ key - key.mT @ query
        return (maps * (moments @ maps)).sum((-1, -2))

    def sized(self, queries: Float[Tensor, "heads d r"], keys: Float[Tensor, "heads d r"]) -> Projection:
        """Maps with the same products, of which those of keys are as long as codes want them."""
        kept = keys.double()
        square = (kept * (self.keys / self.key_count @ kept)).sum((-1, -2)).clamp(min=1e-30)
        longer = (LENGTH / square.sqrt())[:, None, None].float()
        return Projection(queries / longer, keys * longer)

    def _with(self, other: Moments) -> Moments:
        return Moments(
            self.queries + other.queries,
            self.keys + other.keys,
            self.query_sums + other.query_sums,
            self.key_sums + other.key_sums,
            self.query_count + other.query_count,
            self.key_count + other.key_count,
            self.scale,
        )


def _first(r: int, covariance: Float[Tensor, "heads d d"]) -> Float[Tensor, "heads d r"]:
    """The r directions of the highest variance."""
    return torch.linalg.eigh(covariance).eigenvectors.flip(-1)[..., : _fitting(r, covariance)].contiguous()


def _fitting(r: int, square: Float[Tensor, "heads d d"]) -> int:
    if not 1 <= r <= square.shape[-1]:
        raise InputError("r", r, f"a number of dimensions from 1 to the {square.shape[-1]} of the heads")
    return r


def _roots(square: Float[Tensor, "heads d d"]) -> tuple[Tensor, Tensor]:
    """C^½ and C^−½; directions without any variance stay out of both."""
    values, vectors = torch.linalg.eigh(square)
    real = values > values.amax(-1, keepdim=True) * 1e-9
    root = torch.where(real, values, 0.0).sqrt()
    inverse = torch.where(real, 1 / torch.where(real, root, 1.0), 0.0)
    return vectors * root[:, None] @ vectors.mT, vectors * inverse[:, None] @ vectors.mT
