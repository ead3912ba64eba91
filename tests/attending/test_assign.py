"""The kernels that find buckets against loops over tokens, with vector instructions and without."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sparsefinder import compiled
from sparsefinder.finders import Quantization
from sparsefinder.finders.centroids import highest


@pytest.fixture(params=["best", "plain"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled.module is not None, "the kernels were not built"
    monkeypatch.setenv("SPARSEFINDER_KERNEL", request.param)


def places(token: Tensor, centroids: Tensor, offsets: Tensor, count: int) -> list[int]:
    """By sorting; of equal ones, the first."""
    scores = [float(token.double() @ c.double() + o) for c, o in zip(centroids, offsets, strict=True)]
    return sorted(range(len(scores)), key=lambda place: -scores[place])[:count]


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("clusters", [5, 8, 67])
@pytest.mark.parametrize("length", [0, 1, 7, 8, 30])
@pytest.mark.parametrize("turned", [False, True], ids=["by token", "by dimension"])
def test_the_highest_centroids(length: int, clusters: int, count: int, turned: bool) -> None:
    generator = torch.Generator().manual_seed(length + clusters)
    # Small whole numbers: products are exact, and many are equal.
    tokens = torch.randint(-3, 4, (2, 3, length, 5), generator=generator).float()
    centroids = torch.randint(-3, 4, (3, clusters, 5), generator=generator).float()
    offsets = torch.randint(-9, 1, (3, clusters), generator=generator).float()
    given = tokens.mT.contiguous().mT if turned else tokens
    found = highest(given, centroids, offsets, count)
    assert found.shape == (2, 3, length, count)
    for b, h, i in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(length)).tolist():
        assert found[b, h, i].tolist() == places(tokens[b, h, i], centroids[h], offsets[h], count)


@pytest.mark.parametrize("beta", [1, 2, 9])
@pytest.mark.parametrize("length", [1, 8, 21])
def test_bins_between_edges(length: int, beta: int) -> None:
    generator = torch.Generator().manual_seed(length)
    # Whole numbers again: tokens lie on edges too.
    q, k = torch.randint(-4, 5, (2, 1, 2, length, 3), generator=generator).float().unbind()
    edges = torch.randint(-4, 5, (2, 3, beta - 1), generator=generator).float().sort(-1).values
    (piece,) = Quantization(beta, "quantiles", None, edges, edges)(q, k).pieces
    for tokens, bins in ((q, piece.queries), (k, piece.keys)):
        for h, i, r in torch.cartesian_prod(torch.arange(2), torch.arange(length), torch.arange(3)).tolist():
            passed = sum(float(tokens[0, h, i, r]) >= edge for edge in edges[h, r].tolist())
            assert int(bins[0, h, i, r]) == r * beta + passed
