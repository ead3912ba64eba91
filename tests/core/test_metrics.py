"""Metrics against counts by hand."""

import math

import pytest
import torch

from sparsefinder import Graph, GraphMetrics, InputError, Layout
from sparsefinder.core.layout import Grid
from sparsefinder.core.metrics import count

from ..cases import GRAPHS, LAYOUTS, B, H, M, N, counting_by


@pytest.mark.parametrize("listed", [0, 1 << 40], ids=["by lists", "by matrices"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", GRAPHS)
def test_counts_are_those_of_the_matrices(kind: str, layout: str, listed: int) -> None:
    grid = Grid(B, H, N, M, LAYOUTS[layout], torch.device("cpu"))
    predicted, gold = GRAPHS[kind](grid), GRAPHS["many buckets"](grid)
    with counting_by(listed):
        counts = count(predicted, gold)
    p, g, seen = predicted.dense(), gold.dense(), Graph.full(grid).dense()
    asked = seen.any(-1)
    assert torch.equal(counts.hits, (p & g).sum((-1, -2)))
    assert torch.equal(counts.queries, asked.sum(-1))
    assert torch.equal(counts.complete, ((p | ~g).all(-1) & asked).sum(-1))
    assert torch.equal(counts.empty, (~p.any(-1) & asked).sum(-1))
    found = counts.ratios()
    torch.testing.assert_close(found["recall"], (p & g).sum((-1, -2)) / g.sum((-1, -2)), equal_nan=True)
    torch.testing.assert_close(found["precision"], (p & g).sum((-1, -2)) / p.sum((-1, -2)), equal_nan=True)
    torch.testing.assert_close(found["sparsity"], 1 - p.sum((-1, -2)) / seen.sum((-1, -2)), equal_nan=True)
    assert ((found["full_recall"] == 1) >= (counts.hits == counts.gold) & (counts.queries > 0)).all()


def pairs(grid: Grid, *places: tuple[int, int]) -> Graph:
    """A graph of one head with these (query, key) pairs."""
    i, j = torch.tensor(places, dtype=torch.long).reshape(-1, 2).unbind(-1)
    return Graph.of_pairs(torch.zeros_like(i), torch.zeros_like(i), i, j, grid)


def test_macro_averages_heads_and_micro_pools_pairs() -> None:
    grid = Grid(1, 1, 4, 4, Layout(), torch.device("cpu"))
    metrics = GraphMetrics()
    # Three gold pairs, one found; one gold pair, found.
    metrics.update(pairs(grid, (0, 0)), pairs(grid, (0, 0), (1, 1), (2, 2)), layer="first")
    metrics.update(pairs(grid, (3, 3), (3, 2)), pairs(grid, (3, 3)), layer="second")
    macro, micro = metrics.compute(), metrics.compute("micro")
    assert macro.recall == pytest.approx((1 / 3 + 1) / 2)
    assert micro.recall == pytest.approx(2 / 4)
    assert macro.precision == pytest.approx((1 + 1 / 2) / 2)
    assert micro.precision == pytest.approx(2 / 3)
    assert macro.sparsity == pytest.approx(1 - 3 / 32)
    assert macro.gold_sparsity == pytest.approx(1 - 4 / 32)
    assert macro.full_recall == pytest.approx((2 / 4 + 1) / 2)
    assert macro.empty_rows == pytest.approx(3 / 4)
    by_head = metrics.by_head("recall")
    assert by_head["first"].tolist() == pytest.approx([1 / 3])
    assert by_head["second"].tolist() == [1.0]


@pytest.mark.parametrize(("policy", "wanted"), [("skip", 1.0), ("one", 1.0), ("zero", 0.5)])
def test_what_a_head_without_gold_counts_as(policy: str, wanted: float) -> None:
    grid = Grid(1, 1, 4, 4, Layout(), torch.device("cpu"))
    metrics = GraphMetrics(empty=policy)
    metrics.update(pairs(grid, (0, 0)), pairs(grid, (0, 0)))
    metrics.update(pairs(grid, (0, 0)), pairs(grid))
    assert metrics.compute().recall == pytest.approx(wanted)


def test_batches_add_up_to_one_batch() -> None:
    grid = Grid(B, H, N, M, Layout(), torch.device("cpu"))
    predicted, gold = GRAPHS["buckets"](grid).dense(), GRAPHS["mixture"](grid).dense()
    whole, split = GraphMetrics(), GraphMetrics()
    whole.update(Graph.of_dense(predicted, grid), Graph.of_dense(gold, grid))
    one = Grid(1, H, N, M, Layout(), grid.device)
    for b in range(B):
        split.update(Graph.of_dense(predicted[b : b + 1], one), Graph.of_dense(gold[b : b + 1], one))
    for average in ("macro", "micro"):
        first, second = vars(whole.compute(average)), vars(split.compute(average))
        assert all(math.isclose(first[name], second[name], rel_tol=1e-6) for name in first)


def test_errors() -> None:
    grid = Grid(1, 1, 4, 4, Layout(), torch.device("cpu"))
    metrics = GraphMetrics()
    with pytest.raises(InputError, match="no batch yet"):
        metrics.compute()
    with pytest.raises(InputError, match="gold: got a graph for"):
        metrics.update(Graph.full(grid), Graph.full(Grid(1, 1, 4, 5, Layout(), grid.device)))
    metrics.update(Graph.full(grid), Graph.full(grid))
    with pytest.raises(InputError, match="average: got 'median'"):
        metrics.compute("median")
    with pytest.raises(InputError, match="ratio: got 'f1'"):
        metrics.by_head("f1")
    with pytest.raises(InputError, match="empty: got 'drop'"):
        GraphMetrics("drop")
