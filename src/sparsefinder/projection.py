"""Projection: per-head linear maps of queries and keys to a few dimensions, learned, principal, or of low-rank scores.

*Learned* (`learn`, Eq. 7 of the paper): a query comes nearer to the keys it attends to than to others, by a margin.
*Principal* (`principal`): the directions in which queries and keys vary most. What learning is compared with.
*Low-rank* (`low_rank`): inner products of r numbers that come closest to the scores themselves, by SVD; `refine` then
learns them further, so that they put the right keys first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor

from .errors import InputError
from .layout import Layout
from .pieces import Blocks
from .sample import Chunk, Sample, block_vectors

__all__ = ["Projection", "learn", "low_rank", "principal", "refine"]

# How far a query and a key are apart on the average when learning begins, squared, in margins. With 2, 4 or 8
# recall on real heads differed by 0.04 at the most; left at the size of queries and keys, where the margin is nothing,
# it was up to 0.2 lower after as many steps.
MARGINS_APART = 4.0


@dataclass(frozen=True, eq=False)
class Projection:
    """A map from d to r dimensions for the queries of each head and one for its keys; shared ones are the same tensor.

    >>> near = learn([Sample(q, k)], r=4)
    >>> near.of_queries(q).shape  # (batch, heads, n, 4)
    """

    queries: Float[Tensor, "heads d r"]
    keys: Float[Tensor, "heads d r"]

    def of_queries(self, q: Float[Tensor, "batch heads n d"]) -> Float[Tensor, "batch heads n r"]:
        return _mapped("q", q, self.queries)

    def of_keys(self, k: Float[Tensor, "batch heads m d"]) -> Float[Tensor, "batch heads m r"]:
        return _mapped("k", k, self.keys)

    @property
    def shared(self) -> bool:
        """Whether queries and keys have the same map."""
        return self.queries is self.keys

    def save(self, path: str | Path) -> None:
        """Write the maps to a safetensors file."""
        maps = {"shared": self.queries} if self.shared else {"queries": self.queries, "keys": self.keys}
        save_file({name: tensor.detach().contiguous().cpu() for name, tensor in maps.items()}, path)

    @classmethod
    def load(cls, path: str | Path) -> Projection:
        """Read what `save` wrote."""
        maps = load_file(path)
        if set(maps) not in ({"shared"}, {"queries", "keys"}):
            raise InputError("path", f"{path}, a file of {sorted(maps)}", "a file that Projection.save wrote")
        return cls(maps["shared"], maps["shared"]) if "shared" in maps else cls(maps["queries"], maps["keys"])


def learn(
    samples: Iterable[Sample],
    r: int = 4,
    *,
    shared: bool = True,
    margin: float = 1.0,
    rate: float = 0.01,
    triples: int | None = None,
    summed: bool = False,
    block: int = 1,
    chunk: Chunk = "mean",
    epochs: int = 1,
    held_out: Iterable[Sample] | None = None,
    start: Literal["principal", "random"] = "principal",
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Projection:
    """Learn the maps of a layer's heads, all at once, by the hinge loss over positive and negative keys of each query.

    For every gold pair one negative key is drawn, uniformly from the keys that the query may see and that are not gold;
    the loss is [ω + ‖q' − k'₊‖² − ‖q' − k'₋‖²]₊, and a step of Adam follows each sample.

    samples: batches of one layer, read once for each epoch and once before, and never kept.
    shared: one map for queries and keys, or one each.
    margin, rate: ω, and Adam's learning rate.
    triples: of this many gold pairs of a sample at most, drawn anew each time; all if None.
    summed: the loss of a query is the sum over its gold pairs, instead of every pair counting alike.
    block: learn for blocks of this many tokens: gold if any pair in them is.
    chunk: a block is the "mean" of its tokens, or their r numbers each laid end to end ("concat", as the authors do).
    held_out: stop after the first epoch that does not raise the recall on these samples, and return the best maps.
    start: from principal directions, or from random ones, which need many more steps.
    progress: called after every step with its number and the loss.
    """
    if r < 1 or block < 1 or epochs < 1:
        raise InputError("r, block, epochs", f"{r}, {block}, {epochs}", "numbers from 1 upwards")
    generator = torch.Generator().manual_seed(seed)
    parts = block if chunk == "concat" else 1
    moments = _Moments.of(samples if parts > 1 else (_blocked(sample, block) for sample in samples))
    # Tokens laid end to end are as far apart as all of them together.
    first = _start(moments, r, margin / parts, start, generator)
    maps = [first.clone().requires_grad_() for _ in range(1 if shared else 2)]
    optimizer = torch.optim.Adam(maps, lr=rate)
    step, best, kept = 0, -1.0, [tensor.detach() for tensor in maps]
    for _ in range(epochs):
        for sample in samples:
            found = _Triples.of(sample, block, triples, generator, chunk)
            if found is None:
                continue
            loss = _descend(optimizer, partial(found.loss, maps[0], maps[-1], margin, summed))
            step += 1
            if progress is not None:
                progress(step, loss)
        reached = 0.0 if held_out is None else _near(maps, held_out, block, chunk, seed)
        if held_out is not None and reached <= best:
            break
        best, kept = reached, [tensor.detach().clone() for tensor in maps]
    if step == 0:
        raise InputError("samples", "no query with both a gold key and another", "at least one to learn from")
    return Projection(kept[0], kept[-1])


def principal(samples: Iterable[Sample], r: int = 4) -> Projection:
    """The r directions in which the queries and keys of a head, taken together, vary most: PCA."""
    directions = _Moments.of(samples).directions(r).float()
    return Projection(directions, directions)


def low_rank(samples: Iterable[Sample], r: int = 8) -> Projection:
    """Maps whose inner product q'·k' is the best approximation of rank r to a head's scores, up to a constant a row.

    With the second moments C_q of queries and C_k of centred keys, C_q^½ C_k^½ = U S Vᵀ gives q' = Uᵀ C_q^−½ q and
    k' = S Vᵀ C_k^−½ k = Uᵀ C_q^½ k. Entmax does not see a constant added to a row, so keys may be centred. Queries come
    out white, so that the distance of two keys is the error that taking one for the other makes in the scores.
    """
    found = _Moments.of(samples)
    of_queries = found.queries / found.query_count
    mean = found.key_sums / found.key_count
    of_keys = found.keys / found.key_count - mean[:, :, None] * mean[:, None]
    root, inverse = _roots(of_queries)
    u = torch.linalg.svd(root @ _roots(of_keys)[0]).U[..., : _fitting(r, of_keys)]
    return Projection((inverse @ u * found.scale).float(), (root @ u).float())


def refine(
    projection: Projection,
    samples: Iterable[Sample],
    steps: int,
    *,
    margin: float = 1.0,
    rate: float = 0.01,
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Projection:
    """Learn maps whose inner products are scores further: gold keys come before others in their row, by a margin.

    A step of Adam for each sample, which are read as often as it takes: on [ω + q'·k'₋ − q'·k'₊]₊, with a negative key
    for every gold pair as in `learn`. A sketch of few dimensions cannot have all scores right; it need not, for keys
    far below the row's best.
    """
    if steps < 1:
        raise InputError("steps", steps, "a number of steps from 1 upwards")
    generator = torch.Generator().manual_seed(seed)
    maps = [tensor.clone().requires_grad_() for tensor in (projection.queries, projection.keys)]
    optimizer = torch.optim.Adam(maps, lr=rate)
    step = 0
    while step < steps:
        before = step
        for sample in islice(samples, steps - step):
            found = _Triples.of(sample, 1, None, generator)
            if found is None:
                continue
            loss = _descend(optimizer, partial(found.score_loss, maps[0], maps[1], margin))
            step += 1
            if progress is not None:
                progress(step, loss)
        if step == before:
            raise InputError("samples", "no query with both a gold key and another", "at least one to learn from")
    return Projection(*(tensor.detach() for tensor in maps))


def _descend(optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> float:
    """A step down the loss, and what it was."""
    with torch.enable_grad():
        value = loss()
        optimizer.zero_grad()
        value.backward()
    optimizer.step()
    return value.item()


@dataclass(frozen=True, eq=False)
class _Triples:
    """Queries with a key that they attend to and one that they could but do not: rows and keys of flattened tokens."""

    q: Float[Tensor, "batch heads n d"]
    k: Float[Tensor, "batch heads m d"]
    rows: Int[Tensor, " count"]
    positive: Int[Tensor, " count"]
    negative: Int[Tensor, " count"]
    parts: int = 1

    @staticmethod
    def of(
        sample: Sample, block: int, most: int | None, generator: torch.Generator, chunk: Chunk = "mean"
    ) -> _Triples | None:
        """One for every gold pair, or for `most` of them; None if there is none."""
        gold, q, k = sample.gold, sample.q, sample.k
        visible = gold.grid.degrees()
        (pairs,) = gold.pieces
        assert isinstance(pairs, Blocks), "a gold graph is a list of its pairs"
        if block > 1:
            pairs = gold.coarse_pairs(block)
            blocked = _blocked(sample, block, chunk)
            q, k = blocked.q, blocked.k
            # A block of queries may see what its last real query may.
            padded = torch.nn.functional.pad(visible, (0, -visible.shape[1] % block))
            visible = -(-padded.unflatten(1, (-1, block)).amax(-1) // block)
        parts = block if chunk == "concat" else 1
        heads, n, m = q.shape[1], q.shape[2] // parts, k.shape[2] // parts
        rows, keys = pairs.rows, pairs.blocks
        seen = visible[rows // (heads * n), rows % n]
        others = seen - pairs.offsets.diff()[rows]
        chosen = (others > 0).nonzero().squeeze(-1)
        if most is not None and len(chosen) > most:
            chosen = chosen[torch.randint(len(chosen), (most,), generator=generator).to(chosen.device)]
        if len(chosen) == 0:
            return None
        # What a query may see is a run of keys from 0 on. The u-th of them that is not gold lies after as many gold
        # ones as have at most u others before them, and those can be looked up: no key is drawn in vain.
        place = torch.arange(len(keys), device=keys.device) - pairs.offsets[rows]
        before = rows * (m + 1) + keys - place
        rows, others = rows[chosen], others[chosen]
        random = torch.rand(len(chosen), generator=generator, dtype=torch.float64).to(keys.device)
        u = (random * others).long()
        passed = torch.searchsorted(before, rows * (m + 1) + u, right=True) - pairs.offsets[rows]
        first = rows // n * m
        return _Triples(q, k, rows, first + keys[chosen], first + u + passed, parts)

    def mapped(self, for_queries: Tensor, for_keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Each query, its key and the other one, where they are compared."""
        size = self.parts * for_queries.shape[-1]
        q = (self.q.to(for_queries.dtype) @ for_queries).reshape(-1, size)
        k = (self.k.to(for_keys.dtype) @ for_keys).reshape(-1, size)
        return q.index_select(0, self.rows), k.index_select(0, self.positive), k.index_select(0, self.negative)

    def apart(self, for_queries: Tensor, for_keys: Tensor) -> tuple[Tensor, Tensor]:
        """The squared distances of each query from its key and from the other one."""
        query, positive, negative = self.mapped(for_queries, for_keys)
        return (query - positive).square().sum(-1), (query - negative).square().sum(-1)

    def score_loss(self, for_queries: Tensor, for_keys: Tensor, margin: float) -> Tensor:
        query, positive, negative = self.mapped(for_queries, for_keys)
        return (margin + (query * (negative - positive)).sum(-1)).clamp(min=0).mean()

    def loss(self, for_queries: Tensor, for_keys: Tensor, margin: float, summed: bool) -> Tensor:
        near, far = self.apart(for_queries, for_keys)
        gap = near - far
        if summed:
            numbers, place = torch.unique(self.rows, return_inverse=True)
            gap = gap.new_zeros(len(numbers)).index_add(0, place, gap)
        return (margin + gap).clamp(min=0).mean()


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums over the real queries and keys of each head: of their outer products, of themselves, and how many."""

    queries: Float[Tensor, "heads d d"]
    keys: Float[Tensor, "heads d d"]
    query_sums: Float[Tensor, "heads d"]
    key_sums: Float[Tensor, "heads d"]
    query_count: int
    key_count: int
    scale: float

    @staticmethod
    def of(samples: Iterable[Sample]) -> _Moments:
        total: _Moments | None = None
        for sample in samples:
            parts: list[Tensor] = []
            for tokens, real in ((sample.q, sample.real_queries()), (sample.k, sample.real_keys())):
                each = tokens.transpose(1, 2)[real].transpose(0, 1).double()
                parts += [each.mT @ each, each.sum(1)]
            counts = int(sample.real_queries().sum()), int(sample.real_keys().sum())
            here = _Moments(parts[0], parts[2], parts[1], parts[3], *counts, sample.score_scale)
            total = here if total is None else total._with(here)
        if total is None or 0 in (total.query_count, total.key_count):
            raise InputError("samples", "no token", "at least one batch of queries and keys")
        return total

    def directions(self, r: int) -> Float[Tensor, "heads d r"]:
        """The r directions of the highest variance of queries and keys together."""
        count = self.query_count + self.key_count
        mean = (self.query_sums + self.key_sums) / count
        covariance = (self.queries + self.keys) / count - mean[:, :, None] * mean[:, None]
        return torch.linalg.eigh(covariance).eigenvectors.flip(-1)[..., : _fitting(r, covariance)].contiguous()

    def mean_distance(self, maps: Float[Tensor, "heads d r"]) -> Float[Tensor, " heads"]:
        """The mean squared distance of a query and a key, both mapped."""
        query, key = (self.query_sums / self.query_count)[:, None], (self.key_sums / self.key_count)[:, None]
        moments = self.queries / self.query_count + self.keys / self.key_count - query.mT @ key - key.mT @ query
        return (maps * (moments @ maps)).sum((-1, -2))

    def _with(self, other: _Moments) -> _Moments:
        return _Moments(
            self.queries + other.queries,
            self.keys + other.keys,
            self.query_sums + other.query_sums,
            self.key_sums + other.key_sums,
            self.query_count + other.query_count,
            self.key_count + other.key_count,
            self.scale,
        )


def _start(
    moments: _Moments, r: int, margin: float, start: str, generator: torch.Generator
) -> Float[Tensor, "heads d r"]:
    """Where learning begins: at a size where a margin matters, the same for every head."""
    if start == "principal":
        maps = moments.directions(r)
    elif start == "random":
        heads, d = moments.key_sums.shape
        maps = torch.randn(heads, d, r, generator=generator, dtype=torch.float64).to(moments.keys.device)
    else:
        raise InputError("start", repr(start), '"principal" or "random"')
    apart = moments.mean_distance(maps).clamp(min=torch.finfo(torch.float64).tiny)
    return (maps * (MARGINS_APART * margin / apart).sqrt()[:, None, None]).float()


@torch.no_grad()
def _near(maps: list[Tensor], samples: Iterable[Sample], block: int, chunk: Chunk, seed: int) -> float:
    """The share of gold pairs that are nearer than all but a tenth of the others: a recall at about 90 % sparsity."""
    generator = torch.Generator().manual_seed(seed)
    recalls: list[Tensor] = []
    for sample in samples:
        found = _Triples.of(sample, block, None, generator, chunk)
        if found is None:
            continue
        near, far = found.apart(maps[0], maps[-1])
        head = found.rows // (found.q.shape[2] // found.parts) % found.q.shape[1]
        for number in head.unique():
            others = far[head == number]
            least = others.kthvalue(max(1, len(others) // 10)).values
            recalls.append((near[head == number] <= least).float().mean())
    if not recalls:
        raise InputError("held_out", "no query with both a gold key and another", "at least one to measure on")
    return torch.stack(recalls).mean().item()


def _blocked(sample: Sample, block: int, chunk: Chunk = "mean") -> Sample:
    """Every block of tokens as one, its mean; or tokens as they are, as many as whole blocks have."""
    if block == 1:
        return sample
    if chunk == "concat":
        q, k = (
            block_vectors(tokens, lengths, block, chunk).unflatten(-1, (block, -1)).flatten(2, 3)
            for tokens, lengths in ((sample.q, sample.layout.query_lengths), (sample.k, sample.layout.key_lengths))
        )
        return Sample(q, k, Layout(sample.layout.causal), sample.score_scale, sample.alpha)
    layout = sample.layout
    lengths = [None if each is None else -(-each // block) for each in (layout.key_lengths, layout.query_lengths)]
    return Sample(
        block_vectors(sample.q, layout.query_lengths, block),
        block_vectors(sample.k, layout.key_lengths, block),
        Layout(layout.causal, lengths[0], query_lengths=lengths[1]),
        sample.score_scale,
        sample.alpha,
    )


def _mapped(name: str, tokens: Tensor, maps: Float[Tensor, "heads d r"]) -> Tensor:
    if tokens.shape[1] != maps.shape[0] or tokens.shape[-1] != maps.shape[1]:
        want = f"{maps.shape[0]} heads of {maps.shape[1]} dimensions, as the projection was made for"
        raise InputError(name, f"shape {tuple(tokens.shape)}", want)
    # Turned round, the product has long rows instead of very short ones, which a CPU computes many times as fast.
    return (maps.mT @ tokens.to(maps.dtype).mT).mT


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
