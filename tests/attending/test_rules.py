"""Rules: the kernels use exactly the pairs that a rule stands for, and these are what its numbers say.

Everything runs twice: with vector instructions, and with the plain twin of the kernels.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sparsefinder import Graph, InputError, Layout, attention
from sparsefinder.attending import native
from sparsefinder.core.codes import key_codes, query_codes
from sparsefinder.core.entmax import entmax
from sparsefinder.core.layout import Grid
from sparsefinder.core.pieces import Band, Bands, Buckets, Near, Rule, Sketched
from sparsefinder.core.pieces.rules import best_of, lacking

HEADS = 3


@pytest.fixture(params=("best", "plain"), autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEFINDER_KERNEL", request.param)


def _layouts(n: int, m: int) -> list[Layout]:
    return [
        Layout(),
        Layout(causal=True),
        Layout(key_lengths=torch.tensor([m, m // 3]), query_lengths=torch.tensor([n, n // 2])),
        Layout(causal=True, query_offset=max(m - n, 0)),
        Layout(True, torch.tensor([m, m // 2]), torch.tensor([0, 3])),
    ]


def _codes(n: int, length: int, generator: torch.Generator, few: bool) -> Tensor:
    """Codes with many equal products where they are few."""
    most = 2 if few else 20
    return torch.randint(-most, most + 1, (2, HEADS, n, length), generator=generator).to(torch.int8)


def _rule(grid: Grid, seed: int, relative: bool, few: bool, buckets: int) -> Rule:
    generator = torch.Generator().manual_seed(seed)
    length = 2 * int(torch.randint(1, 10, (), generator=generator))
    queries, keys = _codes(grid.n, length, generator, few), _codes(grid.m, length, generator, few)
    ranks = torch.tensor([length, 2 * (length // 4), 0])
    queries *= torch.arange(length) < ranks[:, None, None]
    # From nothing at all to more than any sum of squares of a short row.
    limits = (2 ** (17 * torch.rand(2, HEADS, grid.n, generator=generator))).int() - 2
    if not relative:
        limits = torch.randint(-60, 8 if few else 60, limits.shape, generator=generator).int()
    among = None
    if buckets:
        sizes = (grid.n, 3), (grid.m, 1)
        among = Buckets(*(torch.randint(-1, buckets, (2, HEADS, *size), generator=generator) for size in sizes))
    return Rule(queries, keys, limits, grid, ranks, relative, among)


def _stands_for(rule: Rule, b: int, h: int, i: int) -> set[int]:
    """The keys of a row, one product after the other."""
    grid = rule.grid
    keys = [j for j in range(grid.m) if bool(grid.visible(torch.tensor(b), torch.tensor(i), torch.tensor(j)))]
    if rule.among is not None:
        mine = set(rule.among.queries[b, h, i].tolist()) - {-1}
        keys = [j for j in keys if int(rule.among.keys[b, h, j, 0]) in mine]
    query = rule.queries[b, h, i].tolist()
    products = {j: sum(x * y for x, y in zip(query, rule.keys[b, h, j].tolist(), strict=True)) for j in keys}
    if not products:
        return set()
    limit = int(rule.limits[b, h, i])
    if not rule.relative:
        return {j for j, product in products.items() if product >= limit}
    lacks = {j: sum((p - product) ** 2 for p in products.values() if p > product) for j, product in products.items()}
    return {j for j, square in lacks.items() if limit >= 0 and square <= limit**2}


def _assert_used(graph: Graph, layout: Layout, d: int, seed: int) -> None:
    """The kernels give what they give for the list of the graph's pairs, and the same gradients.

    And look at so many pairs, where no other piece has some of them too.
    """
    generator = torch.Generator().manual_seed(seed)
    grid = graph.grid
    q, k, v = (torch.randn(2, HEADS, size, d, generator=generator) * 2 for size in (grid.n, grid.m, grid.m))
    assert all(native._knows(piece, graph) for piece in graph.pieces)
    results = []
    for one in (graph, Graph(grid, (graph.pairs(),))):
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        with native.counting() as counted:
            out = attention(inputs[0], inputs[1], inputs[2], one, layout=layout, backend="native")
        # A band is looked at in tiles.
        if len(one.pieces) == 1 and not isinstance(graph.pieces[0], Bands):
            assert torch.equal(counted.pairs, graph.count())
        results.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    for ours, listed in zip(*results, strict=True):
        # Scores are summed up in another order, so that weights differ by their rounding.
        torch.testing.assert_close(ours, listed, atol=2e-4 * max(1.0, float(listed.detach().abs().max())), rtol=0)


@given(
    seed=st.integers(0, 10_000), n=st.integers(1, 70), m=st.sampled_from([1, 5, 31, 32, 33, 70, 200]),
    place=st.integers(0, 4), relative=st.booleans(), few=st.booleans(), buckets=st.sampled_from([0, 0, 1, 5]),
    window=st.booleans(),
)  # fmt: skip
def test_rules_are_used_pair_by_pair(
    seed: int, n: int, m: int, place: int, relative: bool, few: bool, buckets: int, window: bool
) -> None:
    layout = _layouts(n, m)[place]
    grid = Grid(2, HEADS, n, m, layout, torch.device("cpu"))
    rule = _rule(grid, seed, relative, few, buckets)
    graph = Graph(grid, (rule,))
    dense = graph.dense()
    for i in range(0, n, max(1, n // 4)):
        for h in range(HEADS):
            assert set(dense[1, h, i].nonzero().flatten().tolist()) == _stands_for(rule, 1, h, i)
    if window:
        graph = Graph.band(-2, 1, grid) | graph | Graph(grid, (_rule(grid, seed + 1, True, few, 0),))
    _assert_used(graph, layout, 8, seed)


@given(
    seed=st.integers(0, 10_000), m=st.integers(1, 60), size=st.sampled_from([3, 50, 5000]), limit=st.integers(0, 9000)
)
def test_what_lacks_little_is_what_entmax_gives_weight_to(seed: int, m: int, size: int, limit: int) -> None:
    products = torch.randint(-size, size, (3, m), generator=torch.Generator().manual_seed(seed)).double()
    lacks = lacking(products)
    # Scores of which 2 is the limit and half of what there is up to the root of the next whole number.
    weights = entmax(products * 2 / (limit + 1 / (4 * limit + 2)), alpha=1.5)
    assert torch.equal(weights > 0, lacks <= limit)
    reach = best_of(products, torch.full((3,), limit))
    assert torch.equal(products >= reach[:, None], lacks <= limit)
    hidden = torch.cat([products, torch.full((3, 2), -math.inf)], -1)
    assert torch.equal(lacking(hidden), torch.cat([lacks, torch.full((3, 2), math.inf)], -1))
    # Whatever is hidden, and without anything that is not.
    assert torch.equal(best_of(hidden, torch.full((3,), limit)), reach)
    nothing = best_of(hidden[:, m:], torch.full((3,), limit))
    assert not bool((products.max() >= nothing).any())


@pytest.mark.parametrize("m", [1024, 1025, 2500])
@pytest.mark.parametrize("causal", [False, True])
def test_rules_of_long_rows_know_the_best_of_all_chunks(m: int, causal: bool) -> None:
    layout = Layout(causal, query_offset=m - 19 if causal else 0)
    grid = Grid(2, HEADS, 19, m, layout, torch.device("cpu"))
    for buckets in (0, 2):
        rule = _rule(grid, m, True, False, buckets)
        _assert_used(Graph(grid, (rule,)), layout, 16, 1)


@given(
    seed=st.integers(0, 10_000), n=st.integers(1, 70), m=st.sampled_from([1, 5, 16, 17, 70, 200]),
    place=st.integers(0, 4), r=st.integers(1, 6), t=st.sampled_from([0.0, 0.1, 1.0, 2.5]),
)  # fmt: skip
def test_near_pairs_are_used_pair_by_pair(seed: int, n: int, m: int, place: int, r: int, t: float) -> None:
    layout = _layouts(n, m)[place]
    grid = Grid(2, HEADS, n, m, layout, torch.device("cpu"))
    generator = torch.Generator().manual_seed(seed)
    queries, keys = (torch.randn(2, HEADS, size, r, generator=generator) for size in (n, m))
    # Some keys lie exactly at the distance.
    same = min(n, m) // 2
    keys[:, :, :same] = queries[:, :, :same]
    keys[:, :, :same, 0] += t
    radii = torch.tensor([t, t / 2, 2 * t]).square()
    graph = Graph(grid, (Near(queries, keys, radii),))
    far = (queries.double()[:, :, :, None] - keys.double()[:, :, None]).square().sum(-1)
    clear = (far - radii.double()[:, None, None]).abs() > 1e-5
    expected = (far <= radii.double()[:, None, None]) & Graph.full(grid).dense()
    assert torch.equal(graph.dense()[clear], expected[clear])
    _assert_used(graph, layout, 8, seed)
    _assert_used(graph | Graph(grid, (_rule(grid, seed, True, True, 0),)), layout, 8, seed)


@given(
    seed=st.integers(0, 10_000), n=st.integers(1, 40), m=st.sampled_from([1, 5, 33, 70]), place=st.integers(0, 4),
    r=st.integers(1, 12), groups=st.sampled_from([1, 3]), buckets=st.sampled_from([0, 4]), slack=st.floats(0, 6),
)  # fmt: skip
def test_codes_that_the_kernels_make_are_those_that_anyone_makes(
    seed: int, n: int, m: int, place: int, r: int, groups: int, buckets: int, slack: float
) -> None:
    layout = _layouts(n, m)[place]
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(2, heads, size, 12, generator=generator) for heads, size in ((HEADS, n), (HEADS // groups, m)))
    query_maps, key_maps = (torch.randn(HEADS, 12, r, generator=generator) * size for size in (0.02, 15.0))
    grid, among = Grid(2, HEADS, n, m, layout, torch.device("cpu")), None
    if buckets:
        sizes = (n, 2), (m, 1)
        among = Buckets(*(torch.randint(-1, buckets, (2, HEADS, *size), generator=generator) for size in sizes))
    slacks = torch.tensor([slack, 0.0, float("inf")], dtype=torch.float64)
    ranks = torch.tensor([r, max(r - 3, 0), r])
    graph = Graph(grid, (Sketched(q, k, query_maps, key_maps, slacks, ranks, grid, among),))
    _assert_used(graph, layout, 8, seed)
    rule = graph.pieces[0]
    assert isinstance(rule, Sketched)
    # The last head has all there is to see, and the best of a row is in whatever the slack.
    looked_at = Graph.full(grid) if among is None else Graph(grid, (among,))
    dense = graph.dense()
    assert torch.equal(dense[:, 2], looked_at.dense()[:, 2])
    assert torch.equal(dense.any(-1), looked_at.dense().any(-1))
    _assert_used(graph | Graph(grid, (_rule(grid, seed, True, True, 0),)), layout, 8, seed)


@pytest.mark.parametrize("causal", [False, True])
def test_what_a_sketch_finds_is_where_exact_attention_looks_first(causal: bool) -> None:
    m, generator = native.LEAST_SCREENED + 100, torch.Generator().manual_seed(0)
    layout = Layout(causal, query_offset=m - 30 if causal else 0)
    q, k, v = (torch.randn(1, HEADS, size, 16, generator=generator) * 2 for size in (30, m, m))
    grid, slack = layout.of(q, k), torch.tensor([0.5, 3.0, 0.0], dtype=torch.float64)
    maps = (torch.randn(HEADS, 16, 4, generator=generator) * size for size in (0.02, 15.0))
    graph = Graph(grid, (Sketched(q, k, *maps, slack, torch.tensor([4, 3, 0]), grid),))
    found = attention(q, k, v, graph, layout=layout, exact=True, backend="native")
    torch.testing.assert_close(found, attention(q, k, v, layout=layout, backend="reference"), atol=1e-4, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_a_sketch_of_every_pair_is_used_as_such_among_many_keys(causal: bool) -> None:
    """Heads without a dimension have all pairs, most of which can be proven to get no weight."""
    m, generator = native.LEAST_SCREENED + 300, torch.Generator().manual_seed(0)
    layout = Layout(causal, query_offset=m - 30 if causal else 0)
    q, k, v = (torch.randn(1, HEADS, size, 16, generator=generator) * 2 for size in (30, m, m))
    grid, slack = layout.of(q, k), torch.tensor([0.0, 3.0, 0.0], dtype=torch.float64)
    maps = (torch.randn(HEADS, 16, 4, generator=generator) * size for size in (0.02, 15.0))
    graph = Graph(grid, (Band(-2, 2), Sketched(q, k, *maps, slack, torch.tensor([0, 3, 0]), grid)))
    with native.counting() as counted:
        found = attention(q, k, v, graph, layout=layout, backend="native")
    torch.testing.assert_close(found, attention(q, k, v, graph, layout=layout, backend="reference"), atol=1e-4, rtol=0)
    assert int(counted.pairs[0, 0]) < 30 * m // 3
    assert torch.equal(graph.dense()[:, ::2], Graph.full(grid).dense()[:, ::2])


@given(seed=st.integers(0, 10_000), n=st.integers(1, 70), m=st.sampled_from([1, 5, 70]), place=st.integers(0, 4))
def test_bands_of_heads_are_used_pair_by_pair(seed: int, n: int, m: int, place: int) -> None:
    layout = _layouts(n, m)[place]
    grid = Grid(2, HEADS, n, m, layout, torch.device("cpu"))
    reach = torch.randint(-1, 20, (HEADS,), generator=torch.Generator().manual_seed(seed))
    graph = Graph(grid, (Bands(reach),))
    for h, far in enumerate(reach.tolist()):
        alone = Graph.band(-far, far, grid).dense() if far >= 0 else Graph(grid).dense()
        assert torch.equal(graph.dense()[:, h], alone[:, h])
    _assert_used(graph, layout, 8, seed)


@given(seed=st.integers(0, 10_000), r=st.integers(1, 128), size=st.sampled_from([0.01, 1.0, 30.0, 1e4]))
def test_no_product_of_codes_leaves_sixteen_bits(seed: int, r: int, size: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(1, 1, 6, r, generator=generator) * size
    points[..., 0, :], points[..., 1, :] = 0.0, size
    keys, (queries, units) = key_codes(points), query_codes(points)
    products = queries.long() @ keys.long().mT
    assert int(products.abs().max()) < 1 << 15
    assert int(queries.abs().max()) <= 63
    assert torch.equal(keys, key_codes(points.double()))
    # Queries have codes with an error of a half, and of the last digit of what they are multiplied by.
    scaled = points.double() * units.double()[..., None]
    assert float((scaled - queries[..., :r].double()).abs().max()) <= 0.5 + 1e-4


def test_what_is_not_finite_is_refused() -> None:
    points = torch.tensor([[[[1.0, float("nan")]]]])
    for rounded in (key_codes, query_codes):
        for one in (points, points.double(), points.nan_to_num(nan=float("inf"))):
            with pytest.raises(InputError, match="NaN or infinity"):
                rounded(one)
