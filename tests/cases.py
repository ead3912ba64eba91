"""The matrix that laws are tested over: layouts, graphs of every piece and mixture, and strategies that make more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from sparsefinder import Graph, Layout
from sparsefinder.core import graph
from sparsefinder.core.layout import Grid
from sparsefinder.core.pieces import Diagonals

B, H, N, M, D = 2, 4, 17, 19, 8
# The implementations that run on a CPU; those for GPUs have tests of their own.
BACKENDS = ("reference", "portable", "native")

LAYOUTS: dict[str, Layout] = {
    "plain": Layout(),
    "causal": Layout(causal=True),
    "padded": Layout(key_lengths=torch.tensor([M, 7]), query_lengths=torch.tensor([N, 5])),
    "no keys": Layout(key_lengths=torch.tensor([0, 3])),
    "causal padded": Layout(True, torch.tensor([12, M]), 2, torch.tensor([10, N])),
    "decoding": Layout(causal=True, query_offset=torch.tensor([2, -3])),
}


def chance(*shape: int, share: float) -> Tensor:
    return torch.rand(*shape) < share


def bucket_graph(grid: Grid, buckets: int = 5, query_slots: int = 1, key_slots: int = 1) -> Graph:
    return Graph.buckets(
        torch.randint(-1, buckets, (grid.batch, grid.heads, grid.n, query_slots)),
        torch.randint(-1, buckets, (grid.batch, grid.heads, grid.m, key_slots)),
        grid,
    )


def block_graph(grid: Grid, size: int, share: float = 0.3) -> Graph:
    return Graph.blocks(chance(grid.batch, 1, -(-grid.n // size), -(-grid.m // size), share=share), size, grid)


def diagonal_graph(grid: Grid, share: float) -> Graph:
    return Graph(grid, (Diagonals(chance(grid.batch, grid.heads, grid.n + grid.m - 1, share=share)),))


GRAPHS: dict[str, Callable[[Grid], Graph]] = {
    "full": Graph.full,
    "nothing": Graph,
    "band": lambda grid: Graph.band(-2, 1, grid),
    "half band": lambda grid: Graph.band(None, -1, grid),
    "columns": lambda grid: Graph.columns(chance(1, grid.heads, grid.m, share=0.2), grid),
    "diagonals": lambda grid: diagonal_graph(grid, 0.2),
    "lines": lambda grid: diagonal_graph(grid, 0.9) | Graph.columns(chance(1, grid.heads, grid.m, share=0.2), grid),
    "rows": lambda grid: Graph.rows(chance(grid.batch, 1, grid.n, share=0.2), grid),
    "buckets": bucket_graph,
    "many buckets": lambda grid: bucket_graph(grid, 7, 2, 3),
    "blocks": lambda grid: block_graph(grid, 4),
    "blocks of one": lambda grid: block_graph(grid, 1, 0.1),
    "pairs": lambda grid: Graph.of_dense(chance(*grid.shape, share=0.1), grid),
    "block band": lambda grid: block_graph(grid, 4) | Graph.band(-1, 1, grid),
    "mixture": lambda grid: bucket_graph(grid, 5, 2, 1) | Graph.band(-2, 2, grid) | block_graph(grid, 3),
    "intersection": lambda grid: bucket_graph(grid, 2) & Graph.band(-6, 6, grid),
}


def tensors(*shape: int, **kwargs: Any) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, **kwargs)


def inputs(
    kv_heads: int = 2, batch: int = B, heads: int = H, n: int = N, m: int = M, d: int = D, e: int = 5
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values in float64. Sharp scores, so that supports are small."""
    return 2 * tensors(batch, heads, n, d), tensors(batch, kv_heads, m, d), tensors(batch, kv_heads, m, e)


@st.composite
def layouts(draw: st.DrawFn, batch: int, n: int, m: int) -> Layout:
    def lengths(most: int) -> Tensor | None:
        given = draw(st.none() | st.lists(st.integers(0, most), min_size=batch, max_size=batch))
        return None if given is None else torch.tensor(given, dtype=torch.long)

    offset = draw(st.integers(-3, m) | st.lists(st.integers(-3, m), min_size=batch, max_size=batch).map(torch.tensor))
    return Layout(draw(st.booleans()), lengths(m), offset, lengths(n))


@st.composite
def grids(draw: st.DrawFn, largest: int = 12) -> Grid:
    batch, heads = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    n, m = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    return Grid(batch, heads, n, m, draw(layouts(batch, n, m)), torch.device("cpu"))


def on_the_threshold(alpha: float, seed: int) -> tuple[Tensor, Tensor]:
    """Scores that float32 holds exactly, some of them exactly on the threshold; and which get weight.

    Weights are chosen, sixteenths or less that sum to one, and the scores that give them follow: z = τ + p^a / a.
    """
    generator = torch.Generator().manual_seed(seed)
    parts = 64 if alpha < 5 else 16
    count = int(torch.randint(1, 8, (), generator=generator))
    cuts = torch.randperm(parts - 1, generator=generator)[:count].sort().values + 1
    weights = torch.cat([cuts[:1], cuts.diff(), parts - cuts[-1:], torch.zeros(3)]).double() / parts
    threshold = float(torch.randint(-3, 4, (), generator=generator))
    above = torch.cat([weights ** (alpha - 1) / (alpha - 1), torch.full((20,), -2.0, dtype=torch.float64)])
    above = above[torch.randperm(len(above), generator=generator)]
    return threshold + above, above > 0


Recipe = tuple[Any, ...]


@st.composite
def recipes(draw: st.DrawFn, depth: int = 2) -> Recipe:
    """How to build a graph: a piece of any kind, or a union or intersection of graphs."""
    kinds = ["band", "columns", "diagonals", "rows", "buckets", "blocks", "pairs", "full", "nothing"]
    kind = draw(st.sampled_from(kinds + ["or", "and"] * (depth > 0)))
    if kind in ("or", "and"):
        return kind, draw(recipes(depth - 1)), draw(recipes(depth - 1))
    if kind == "band":
        ends = st.none() | st.integers(-9, 9)
        return kind, draw(ends), draw(ends)
    if kind == "buckets":
        return kind, draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return kind, draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])), draw(st.integers(1, 5) | st.sampled_from([8, 16, 64]))


def build(recipe: Recipe, grid: Grid) -> Graph:
    kind, *given = recipe
    if kind in ("or", "and"):
        one, two = (build(part, grid) for part in given)
        return one | two if kind == "or" else one & two
    if kind == "band":
        return Graph.band(*given, grid)
    if kind == "buckets":
        return bucket_graph(grid, *given)
    share, size = given
    if kind == "columns":
        return Graph.columns(chance(grid.batch, 1, grid.m, share=share), grid)
    if kind == "diagonals":
        return diagonal_graph(grid, share)
    if kind == "rows":
        return Graph.rows(chance(1, grid.heads, grid.n, share=share), grid)
    if kind == "blocks":
        return block_graph(grid, size, share)
    if kind == "pairs":
        return Graph.of_dense(chance(*grid.shape, share=share), grid)
    return Graph.full(grid) if kind == "full" else Graph(grid)


@contextmanager
def counting_by(listed: int) -> Iterator[None]:
    """Graphs count pairs by lists where `listed` is 0, by matrices where it is large: it must not matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "LISTED", listed)
        yield
