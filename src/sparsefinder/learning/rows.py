"""Gold rows: queries of a sequence, all its keys, and the weights of entmax. What rankings of keys are learned from.

`refine`: inner products that approximate the scores are learned further, so that gold keys come first in their row, and
about as far above the others in every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..attending.gold import gold_shares, heaviest
from ..core.entmax import entmax
from ..errors import InputError
from .learn import descend
from .moments import Moments
from .projection import Projection
from .sample import Sample, batches

__all__ = ["GoldRows", "learn_rows", "level", "refine"]

# Queries to a step of learning. With them come all keys of their sequence.
QUERIES = 64


@dataclass(frozen=True, eq=False)
class GoldRows:
    """Queries of one sequence, its keys, which of them each query may see, and the weights that gold ones get."""

    q: Float[Tensor, "heads count d"]
    k: Float[Tensor, "heads m d"]
    seen: Bool[Tensor, "count m"]
    weights: Float[Tensor, "heads count m"]

    @staticmethod
    def of(sample: Sample, b: int, generator: torch.Generator) -> GoldRows | None:
        """Some queries of a sequence, drawn from those with a choice of keys; None if it has no such."""
        degrees = sample.layout.of(sample.q, sample.k).degrees()[b]
        choosing = (degrees > 1).nonzero().squeeze(-1)
        if not len(choosing):
            return None
        some = choosing[torch.randperm(len(choosing), generator=generator)[:QUERIES].to(choosing.device)]
        # What a query may see are always the first keys.
        q, k = sample.q[b, :, some].float(), sample.k[b, :, : int(degrees.max())].float()
        seen = torch.arange(k.shape[1], device=k.device) < degrees[some, None]
        scores = (q * sample.score_scale @ k.mT).masked_fill(~seen, -math.inf)
        alpha = sample.alpha[:, None, None] if isinstance(sample.alpha, Tensor) else sample.alpha
        weights, shares = entmax(scores, alpha), gold_shares(sample.alpha, sample.mass)
        if shares is not None:
            weights = weights * heaviest(weights, shares.expand(len(weights)))
        return GoldRows(q, k, seen, weights)

    def cross_entropy(
        self, scores: Float[Tensor, "heads count m"], wanted: Float[Tensor, "heads count m"]
    ) -> Float[Tensor, ""]:
        """Of the softmax of scores and a distribution over the keys of each row: least where they are the same."""
        logarithms = scores.masked_fill(~self.seen, -math.inf).log_softmax(-1).masked_fill(~self.seen, 0.0)
        # The sum over heads, so that each learns as it would alone.
        return -(wanted * logarithms).sum(-1).mean(-1).sum()

    def fenchel_young(
        self, scores: Float[Tensor, "heads count m"], wanted: Float[Tensor, "heads count m"]
    ) -> Float[Tensor, ""]:
        """Of the 1.5-entmax of scores and a distribution over the keys of each row: none where they are the same.

        With p = entmax(z) it is Ω(y) + (p − y)·z − Ω(p), Ω(p) = ⁴⁄₃ (Σ p^1.5 − 1), and p − y its gradient: what is far
        below the threshold of its row, and should be, does not count (Peters et al., 2019, arXiv:1905.05702).
        """
        visible = scores.masked_fill(~self.seen, 0.0)
        with torch.no_grad():
            found = entmax(scores.detach().masked_fill(~self.seen, -math.inf))
            rest = 4 / 3 * (wanted.pow(1.5) - found.pow(1.5)).sum(-1)
        return (((found - wanted) * visible).sum(-1) + rest).mean(-1).sum()

    def to_find(self, scores: Float[Tensor, "heads count m"]) -> Float[Tensor, ""]:
        """What scores lack to have the entmax of rows give weight to all gold keys alike: all are to be found."""
        gold = (self.weights > 0).float()
        return self.fenchel_young(scores, gold / gold.sum(-1, keepdim=True).clamp(min=1))


def learn_rows(
    parameters: Sequence[Tensor],
    loss: Callable[[GoldRows], Tensor],
    samples: Iterable[Sample],
    steps: int,
    rate: float,
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> None:
    """Change parameters by steps of Adam down the loss, a sequence at a time; samples are read as often as it takes.

    Steps become shorter to the end, along a cosine.

    progress: called after every step with its number and the loss.
    """
    if steps < 1:
        raise InputError("steps", steps, "a number of steps from 1 upwards")
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    step = 0
    while step < steps:
        before = step
        for sample in batches(samples):
            order = torch.randperm(len(sample.q), generator=generator).tolist()
            found = (GoldRows.of(sample, b, generator) for b in order)
            for rows in islice((each for each in found if each is not None), steps - step):
                value = descend(optimizer, partial(loss, rows))
                schedule.step()
                step += 1
                if progress is not None:
                    progress(step, value)
            if step == steps:
                break
        if step == before:
            raise InputError("samples", "no query with a choice of keys", "at least one to learn from")


def refine(
    scores: Projection,
    samples: Iterable[Sample],
    steps: int,
    *,
    rate: float = 0.02,
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Projection:
    """Learn maps whose inner products are scores further, so that their entmax gives weight to all gold keys alike.

    A sketch of few dimensions cannot have all scores right; it need not, for keys far below the row's threshold. Gold
    keys count alike, whatever their weight: all are to be found. The loss is of whole rows, and knows of the row's
    threshold what `Sketch` knows with its slack: what lacks too much to all better ones is out, and has no gradient.
    """
    queries, keys = (tensor.clone().requires_grad_() for tensor in level(scores))

    def loss(rows: GoldRows) -> Tensor:
        return rows.to_find(rows.q @ queries @ (rows.k @ keys).mT)

    learn_rows([queries, keys], loss, samples, steps, rate, seed, progress)
    return Moments.of(samples).sized(queries.detach(), keys.detach())


def level(scores: Projection) -> tuple[Float[Tensor, "heads d r"], Float[Tensor, "heads d r"]]:
    """The maps of queries and of keys at the same size, with the same products: steps of Adam have one of their own."""
    sizes = [tensor.square().mean((-1, -2), keepdim=True).sqrt() for tensor in (scores.queries, scores.keys)]
    even = (sizes[1] / sizes[0].clamp(min=1e-30)).clamp(min=1e-30).sqrt()
    return scores.queries * even, scores.keys / even
