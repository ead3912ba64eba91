"""Learning projections, the heads of a layer all at once.

`learn` (Eq. 7 of the paper): a query comes nearer to the keys it attends to than to others, by a margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import InputError
from .moments import Moments
from .projection import Projection
from .sample import Pooling, Sample, batches
from .triples import Triples, blocked

__all__ = ["descend", "learn"]

# How far a query and a key are apart on the average when learning begins, squared, in margins. With 2, 4 or 8
# recall on real heads differed by 0.04 at the most; left at the size of queries and keys, where the margin is nothing,
# it was up to 0.2 lower after as many steps.
MARGINS_APART = 4.0


def learn(
    samples: Iterable[Sample],
    r: int = 4,
    *,
    shared: bool = True,
    margin: float = 1.0,
    rate: float = 0.01,
    summed: bool = False,
    block: int = 1,
    pooling: Pooling = "mean",
    epochs: int = 1,
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Projection:
    """Learn the maps of a layer's heads, all at once, by the hinge loss over positive and negative keys of each query.

    For every gold pair one negative key is drawn, uniformly from the keys that the query may see and that are not gold;
    the loss is [ω + ‖q' − k'₊‖² − ‖q' − k'₋‖²]₊, and a step of Adam follows each sample.

    samples: batches of one layer, read once for each epoch and once before, and never kept.
    shared: one map for queries and keys, or one each.
    margin, rate: ω, and Adam's learning rate.
    summed: the loss of a query is the sum over its gold pairs, instead of every pair counting alike.
    block: learn for blocks of this many tokens: gold if any pair in them is.
    pooling: a block is the "mean" of its tokens, or their r numbers each laid end to end ("concat", as the authors do).
    progress: called after every step with its number and the loss.
    """
    if r < 1 or block < 1 or epochs < 1:
        raise InputError("r, block, epochs", f"{r}, {block}, {epochs}", "numbers from 1 upwards")
    generator = torch.Generator().manual_seed(seed)
    parts = block if pooling == "concat" else 1
    moments = Moments.of(samples if parts > 1 else (blocked(sample, block) for sample in batches(samples)))
    # Tokens laid end to end are as far apart as all of them together.
    first = _start(moments, r, margin / parts)
    maps = [first.clone().requires_grad_() for _ in range(1 if shared else 2)]
    optimizer = torch.optim.Adam(maps, lr=rate)
    step = 0
    for _ in range(epochs):
        for sample in batches(samples):
            found = Triples.of(sample, block, generator, pooling)
            if found is None:
                continue
            loss = descend(optimizer, partial(found.loss, maps[0], maps[-1], margin, summed))
            step += 1
            if progress is not None:
                progress(step, loss)
    if step == 0:
        raise InputError("samples", "no query with both a gold key and another", "at least one to learn from")
    kept = [tensor.detach() for tensor in maps]
    return Projection(kept[0], kept[-1])


def descend(optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> float:
    """A step down the loss, and what it was."""
    with torch.enable_grad():
        value = loss()
        optimizer.zero_grad()
        value.backward()
    optimizer.step()
    return value.item()


def _start(moments: Moments, r: int, margin: float) -> Float[Tensor, "heads d r"]:
    """Where learning begins: principal directions, at a size where a margin matters, the same for every head."""
    maps = moments.directions(r)
    apart = moments.mean_distance(maps).clamp(min=torch.finfo(torch.float64).tiny)
    return (maps * (MARGINS_APART * margin / apart).sqrt()[:, None, None]).float()
