"""Maps that are not straight: a layer of units beside queries and keys, so that few dimensions say more.

What a unit says of a token, ReLU(x·w + b), is one more number of it, and a map to r dimensions takes those too. So
nothing else has to know: a widened token is a token of more dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..core.mapping import Layer, widened
from .moments import Moments
from .projection import Projection
from .rows import GoldRows, learn_rows, level
from .sample import Sample, batches

__all__ = ["bend"]


def bend(
    scores: Projection,
    samples: Iterable[Sample],
    steps: int,
    units: int,
    *,
    rate: float = 0.01,
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[Projection, Layer, Layer]:
    """As `refine`, with so many units for queries and so many for keys; returns maps of widened tokens, and the layers.

    Learning begins with the given maps: nothing is made of what the units say, which are random.
    """
    generator, found = torch.Generator().manual_seed(seed), Moments.of(samples)
    wide = [pad(each, (0, 0, 0, units)).requires_grad_() for each in level(scores)]
    layers = []
    for squares, count in ((found.queries, found.query_count), (found.keys, found.key_count)):
        heads, d, _ = squares.shape
        # Units answer with about one, whatever the size of tokens.
        size = (squares.diagonal(dim1=-2, dim2=-1).sum(-1) / count).clamp(min=1e-30).sqrt().float()
        drawn = torch.randn(heads, d, units, generator=generator).to(size) / size[:, None, None]
        layers.append(pad(drawn, (0, 0, 0, 1)).requires_grad_())

    def loss(rows: GoldRows) -> Tensor:
        q, k = (
            widened(tokens[None], layer)[0] @ each
            for tokens, layer, each in zip((rows.q, rows.k), layers, wide, strict=True)
        )
        return rows.to_find(q @ k.mT)

    learn_rows([*wide, *layers], loss, samples, steps, rate, seed, progress)
    queries, keys, query_layer, key_layer = (each.detach() for each in (*wide, *layers))
    seen = Moments.of(
        replace(each, q=widened(each.q, query_layer), k=widened(each.k, key_layer)) for each in batches(samples)
    )
    return seen.sized(queries, keys), query_layer, key_layer
