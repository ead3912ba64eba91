"""Blocks that are counted come besides a window and global tokens, whoever unites them, and no key enters twice."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sparsefinder import GlobalTokens, Graph, Layout, Window, attention
from sparsefinder.finders import BigBird, BlockCentroids, BlockTopK, Distance, Finder, Fitting
from sparsefinder.finders.dials import Needs
from sparsefinder.finders.fixed import united
from sparsefinder.learning.sample import Sample

HEADS, D, BLOCKS = 2, 6, 12
SIZES = (1, 2, 4, 16)


def _tokens(size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    q, k = torch.randn(2, 2, HEADS, BLOCKS * size, D, generator=torch.Generator().manual_seed(seed)).unbind()
    return q, k


def _methods(size: int, count: int) -> dict[str, Finder]:
    q, k = _tokens(size, seed=1)
    centroids = BlockCentroids(size, count, 5).fit([Sample(q, k)], Fitting(restarts=1))
    return {"v1": BlockTopK(size, count), "v2": centroids, "BigBird": BigBird(count, size, window=0, globals=0)}


def _blocks(pairs: Tensor, size: int) -> Tensor:
    """Which blocks of keys have a pair with each block of queries: [..., rows, columns]."""
    return pairs.unflatten(-2, (-1, size)).unflatten(-1, (-1, size)).any(-1).any(-2)


def _whole(pairs: Tensor, size: int) -> Tensor:
    return pairs.unflatten(-2, (-1, size)).unflatten(-1, (-1, size)).all(-1).all(-2)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("window", "few"), [(0, 0), (3, 1), (33, 2)])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["v1", "v2", "BigBird"])
def test_as_many_blocks_as_asked_for_come_besides(name: str, size: int, window: int, few: int, count: int) -> None:
    """Exactly so many blocks that were not whole already; v2 has at most so many, as centroids may take fewer."""
    q, k = _tokens(size)
    found = united(_methods(size, count)[name], window, few)(q, k).dense()
    fixed = (Window(window) | GlobalTokens(few))(q, k).dense()
    assert (found | ~fixed).all()
    added = _whole(found, size) & ~_whole(fixed, size)
    # Rows of global tokens are full: nothing can be added to them.
    rows = ~_whole(fixed, size).all(-1)
    rows &= torch.arange(BLOCKS) * size >= few
    free = (~_whole(fixed, size)).sum(-1).clamp(max=count)
    counted = added.sum(-1)
    assert (counted[rows] <= count).all()
    if name != "v2":
        assert torch.equal(counted[rows], free[rows])
    # Beyond the window and the global tokens there is nothing but whole blocks.
    assert torch.equal(_blocks(found & ~fixed, size)[rows], added[rows])


@pytest.mark.parametrize("name", ["v1", "v2", "BigBird"])
def test_a_method_that_counts_keeps_the_larger_of_two_windows(name: str) -> None:
    one = replace(_methods(2, 2)[name], window=9, globals=1)  # type: ignore[call-arg]
    q, k = _tokens(2)
    for window, few in ((3, 0), (9, 1)):
        assert torch.equal(united(one, window, few)(q, k).dense(), one(q, k).dense())
    assert (united(one, 15, 3)(q, k).dense() | ~(Window(15) | GlobalTokens(3))(q, k).dense()).all()


def test_other_methods_are_united_as_they_are() -> None:
    q, k = _tokens(2)
    union = Distance(2.0) | Window(3) | GlobalTokens(1)
    assert torch.equal(united(Distance(2.0), 3, 1)(q, k).dense(), union(q, k).dense())


@pytest.mark.parametrize("layout", [Layout(), Layout(causal=True)], ids=["plain", "causal"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["v1", "v2", "BigBird"])
def test_no_key_enters_twice(name: str, size: int, layout: Layout) -> None:
    """Blocks, window and global tokens overlap in part: the result is that over the pairs as a set."""
    q, k = _tokens(size)
    graph = united(_methods(size, 3)[name], 3, 1)(q, k, layout)
    assert torch.equal(graph.degrees(), graph.dense().sum(-1))
    wanted = attention(q, k, k, Graph.of_dense(graph.dense(), graph.grid), layout=layout, backend="reference")
    for backend in ("portable", "native"):
        torch.testing.assert_close(attention(q, k, k, graph, layout=layout, backend=backend), wanted)


@pytest.mark.parametrize("name", ["v1", "v2"])
def test_a_wanted_recall_is_met_besides_a_window(name: str) -> None:
    """The dial counts what comes besides, so that the setting it finds holds with the window it was found with."""
    q, k = (3 * x for x in _tokens(4))
    one, sample = united(_methods(4, 0)[name], 3, 1), Sample(q, k)
    settings = Needs(one, [sample]).settings(recall=0.7)
    gold = sample.gold.dense()

    def recall(setting: Tensor) -> Tensor:
        found = one.turned(setting)(q, k).dense()
        return ((found & gold).sum((-1, -2)) / gold.sum((-1, -2))).mean(0)

    assert (recall(settings) >= 0.7 - 1e-6).all()
    assert (settings > 0).any()
    # One block less is too few.
    assert (recall((settings - 1).clamp(min=0))[settings > 0] < 0.7).all()
