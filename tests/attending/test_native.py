"""The native kernel against the oracle in float64: one law over layouts, graphs, alphas and sizes, with gradients.

Everything runs twice: with vector instructions, and with the plain twin of the kernels.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sparsefinder import Graph, InputError, Layout, attention
from sparsefinder.attending import native

KERNELS = ("best", "plain")


@pytest.fixture(params=KERNELS, autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test here runs with vector instructions and without."""
    monkeypatch.setenv("SPARSEFINDER_KERNEL", request.param)
    return str(request.param)


def draw(
    *shapes: tuple[int, ...], seed: int = 0, spread: float = 1.5, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    factors = [spread] + [1.0] * (len(shapes) - 1)
    return [(torch.randn(shape, generator=generator) * f).to(dtype) for shape, f in zip(shapes, factors, strict=True)]


def assert_same(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    graph: Graph | None = None,
    *,
    alpha: float | Tensor = 1.5,
    layout: Layout = Layout(),
    tolerance: float = 1e-5,
    gradients: bool = True,
    exact: bool = False,
) -> None:
    """Native equals reference, result and gradients, up to the rounding of the scores."""
    results = []
    for backend, dtype in (("reference", torch.float64), ("native", torch.float32)):
        inputs = [x.detach().to(dtype).requires_grad_(gradients) for x in (q, k, v)]
        chosen = alpha
        if isinstance(alpha, Tensor):
            chosen = alpha.detach().to(dtype).requires_grad_(gradients)
            inputs.append(chosen)
        out = attention(
            inputs[0], inputs[1], inputs[2], graph, alpha=chosen, layout=layout, backend=backend, exact=exact
        )
        result = [out.detach().double()]
        if gradients:
            upstream = draw(tuple(out.shape), seed=99, dtype=dtype)[0]
            result += [x.double() for x in torch.autograd.grad(out, inputs, upstream)]
        results.append(result)
    # Scores are rounded to float32, so the error grows with them.
    longest = [float(x.double().norm(dim=-1).max()) if x.numel() else 0.0 for x in (q, k)]
    largest = longest[0] * longest[1] / math.sqrt(q.shape[-1])
    for ours, wanted in zip(results[1], results[0], strict=True):
        size = max(1.0, largest / 8) * max(1.0, float(wanted.abs().max()) if wanted.numel() else 1.0)
        torch.testing.assert_close(ours, wanted, atol=tolerance * size, rtol=0)


SIZES = [
    (100, 100, 64, 64),
    (37, 533, 32, 32),
    (130, 610, 128, 128),
    (70, 71, 17, 5),
    (1, 1, 64, 64),
    (1, 700, 64, 64),
    (3, 4500, 32, 16),
    (50, 1, 8, 8),
]


@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.05, 1.25, 1.3, 1.75], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_dense(size: tuple[int, int, int, int], alpha: float) -> None:
    n, m, d, e = size
    q, k, v = draw((2, 4, n, d), (2, 2, m, d), (2, 2, m, e))
    # Between 1.5 and 2 the slope p^(2 − α) of a small weight p falls steeply, and its rounding counts for more.
    assert_same(q, k, v, alpha=alpha, tolerance=1e-4 if 1.5 < alpha < 2 else 1e-5)


def test_steep_alpha_forward() -> None:
    """Above 2 a weight leaves the support with an infinite slope: gradients there are not a matter of float32."""
    q, k, v = draw((2, 4, 60, 32), (2, 4, 90, 32), (2, 4, 90, 32))
    assert_same(q, k, v, alpha=2.5, gradients=False, tolerance=1e-4)


def test_alpha_per_head_and_its_gradient() -> None:
    q, k, v = draw((2, 4, 60, 32), (2, 4, 90, 32), (2, 4, 90, 32))
    assert_same(q, k, v, alpha=torch.tensor([1.5, 2.0, 1.2, 1.6]), tolerance=1e-4)
    band = Graph.band(-20, 20, Layout().of(q, k))
    assert_same(q, k, v, band, alpha=torch.tensor([1.5, 1.0, 1.2, 1.0]), tolerance=1e-4)


# At α = 2 the gradient jumps where a key gets weight, so that rounding shows, unless all scores are equal.
@pytest.mark.parametrize(("spread", "alpha"), [(0.0, 2.0), (0.0, 1.5), (0.02, 1.5), (0.2, 1.5), (0.5, 1.5), (0.1, 1.3)])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_of_which_much_has_weight(spread: float, threads: int, alpha: float) -> None:
    """Nearly equal scores, as of fresh weights: gradients come of whole matrices there, and of lists elsewhere."""
    q, k, v = draw((2, 4, 130, 40), (2, 2, 130, 40), (2, 2, 130, 24))
    # Some heads are sparse in any case.
    q = spread * q * torch.tensor([1.0, 1.0, 20.0, 20.0])[:, None, None]
    lengths = torch.tensor([130, 61])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for layout in (Layout(), Layout(causal=True), Layout(key_lengths=lengths, query_lengths=lengths)):
            # Of equal weights, what α changes adds up to nothing, and only rounding is left.
            per_head = torch.full((4,), alpha) if spread else alpha
            assert_same(q, k, v, alpha=per_head, layout=layout, tolerance=1e-4)
        assert_same(q, k, v, Graph.band(-20, 20, Layout().of(q, q)), alpha=alpha, tolerance=1e-4)
    finally:
        torch.set_num_threads(before)


def test_gradients_of_full_rows_keep_away_from_what_got_no_weight() -> None:
    """Values that nobody may see, and the gradient of results that nobody uses, may be anything."""
    q, k, v = draw((1, 2, 60, 16), (1, 2, 60, 16), (1, 2, 60, 16))
    q, lengths = 0.02 * q, torch.tensor([40])
    found = []
    for beyond in (0.0, math.inf):
        values = v.clone()
        values[:, :, 40:] = beyond
        inputs = [each.clone().requires_grad_() for each in (q, k, values)]
        out = attention(*inputs, layout=Layout(key_lengths=lengths, query_lengths=lengths), backend="native")
        found.append(torch.autograd.grad(out[:, :, :40].sum(), inputs))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def layouts(batch: int, n: int, m: int) -> dict[str, Layout]:
    lengths = torch.tensor([m, m // 3][:batch])
    return {
        "all": Layout(),
        "causal": Layout(causal=True),
        "decoding": Layout(causal=True, query_offset=m - n),
        "ahead": Layout(causal=True, query_offset=torch.tensor([-n // 2, m][:batch])),
        "padded": Layout(key_lengths=lengths, query_lengths=torch.tensor([n, n // 2][:batch])),
        "padded causal": Layout(
            causal=True,
            query_offset=torch.tensor([3, 0][:batch]),
            key_lengths=lengths,
            query_lengths=torch.tensor([n, 0][:batch]),
        ),
    }


def graphs(layout: Layout, q: Tensor, k: Tensor) -> dict[str, Graph]:
    grid = layout.of(q, k)
    batch, heads, n, m = grid.shape
    generator = torch.Generator().manual_seed(1)

    def chance(share: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator) < share

    def bucket(most: int, *shape: int) -> Tensor:
        return torch.randint(-1, most, shape, generator=generator)

    def blocks(size: int, some_heads: int) -> Graph:
        return Graph.blocks(chance(0.3, batch, some_heads, -(-n // size), -(-m // size)), size, grid)

    found = {
        "none": Graph(grid),
        "band": Graph.band(-5, 3, grid),
        "wide band": Graph.band(-150, None, grid),
        "columns": Graph.columns(chance(0.1, batch, heads, m), grid),
        "rows": Graph.rows(chance(0.2, 1, heads, n), grid),
        "blocks 16": blocks(16, heads),
        "blocks 100": blocks(100, 1),
        "blocks 3": blocks(3, heads),
        "pairs": Graph.of_dense(chance(0.2, batch, heads, n, m), grid),
        "buckets": Graph.buckets(bucket(8, batch, heads, n, 1), bucket(9, batch, heads, m, 1), grid),
        "buckets, several slots": Graph.buckets(bucket(8, 1, heads, n, 4), bucket(9, batch, 1, m, 3), grid),
    }
    found["union"] = found["band"] | found["columns"] | found["rows"] | found["blocks 16"] | found["pairs"]
    found["union"] = found["union"] | found["buckets, several slots"] | found["buckets"]
    found["intersection"] = found["union"] & found["wide band"]
    return found


LAYOUTS = list(layouts(2, 1, 1))
GRAPHS = list(graphs(Layout(), torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1)))


@pytest.mark.parametrize("graph", [None, *GRAPHS], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_graphs_and_layouts(layout: str, graph: str | None) -> None:
    for n, m in ((65, 130), (7, 600)):
        q, k, v = draw((2, 4, n, 16), (2, 2, m, 16), (2, 2, m, 16))
        chosen = layouts(2, n, m)[layout]
        assert_same(q, k, v, None if graph is None else graphs(chosen, q, k)[graph], layout=chosen)


@pytest.mark.parametrize("alpha", [2.0, 1.3, 1.0], ids=str)
@pytest.mark.parametrize("graph", GRAPHS)
def test_graphs_at_other_alphas(graph: str, alpha: float) -> None:
    q, k, v = draw((2, 2, 70, 16), (2, 2, 90, 16), (2, 2, 90, 16))
    assert_same(q, k, v, graphs(Layout(), q, k)[graph], alpha=alpha)


Problem = tuple[Tensor, Tensor, Tensor, Graph, Layout]


@st.composite
def problems(choose: st.DrawFn) -> Callable[[], Problem]:
    """How to make any small call: sizes from 0, any union of pieces, any layout."""
    batch, kv_heads, groups = choose(st.integers(1, 2)), choose(st.integers(1, 2)), choose(st.integers(1, 2))
    n, m = choose(st.integers(0, 40)), choose(st.integers(0, 70))
    d, e = choose(st.sampled_from([1, 8, 9])), choose(st.sampled_from([1, 8, 12]))
    seed, spread = choose(st.integers(0, 1 << 20)), choose(st.sampled_from([0.0, 1.0, 8.0]))
    lengths = choose(st.none() | st.lists(st.integers(0, m), min_size=batch, max_size=batch))
    offset = choose(st.integers(-5, 60) | st.lists(st.integers(-5, 60), min_size=batch, max_size=batch))
    causal = choose(st.booleans())
    names = choose(st.lists(st.sampled_from(GRAPHS[:-1]), max_size=4, unique=True))

    def make() -> Problem:
        shapes = (batch, kv_heads * groups, n, d), (batch, kv_heads, m, d), (batch, kv_heads, m, e)
        q, k, v = draw(*shapes, seed=seed, spread=spread)
        layout = Layout(
            causal,
            None if lengths is None else torch.tensor(lengths),
            torch.tensor(offset) if isinstance(offset, list) else offset,
        )
        graph = Graph(layout.of(q, k))
        for name in names if n and m else ():
            graph = graph | graphs(layout, q, k)[name]
        return q, k, v, graph, layout

    return make


@given(problems(), st.sampled_from([1.5, 2.0, 1.4, 1.0]))
def test_any_problem(make: Callable[[], Problem], alpha: float) -> None:
    q, k, v, graph, layout = make()
    assert_same(q, k, v, graph, layout=layout, alpha=alpha, tolerance=3e-5)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.3], ids=str)
def test_ties(alpha: float) -> None:
    """Equal scores share the weight equally, however many and however large they are."""
    k, v = draw((1, 1, 300, 8), (1, 1, 300, 8))
    for size in (0.0, 1.0, 1e4):
        q = torch.full((1, 1, 5, 8), size)
        out = attention(q, torch.ones_like(k), v, alpha=alpha, backend="native")
        torch.testing.assert_close(out, v.mean(2, keepdim=True).expand_as(out), atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [1e6, 1e10, 1e14, 1e30])
@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.3, 1.0001, 3.7], ids=str)
def test_huge_scores(alpha: float, size: float) -> None:
    """Where one score stands far above the others, its value is the result."""
    q, k, v = draw((1, 2, 20, 16), (1, 2, 200, 16), (1, 2, 200, 16))
    q = q * size
    best = (q.double() @ k.double().transpose(-1, -2)).argmax(-1)
    out = attention(q, k, v, alpha=alpha, backend="native")
    torch.testing.assert_close(out, v.gather(2, best[..., None].expand(-1, -1, -1, 16)), atol=1e-4, rtol=0)


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 1e6, 1e30])
def test_softmax_over_graphs_is_softmax_however_far_scores_are_apart(size: float) -> None:
    """Also where weights are e^-64 of the best and less, and where there are very many of them."""
    q, k, v = draw((1, 2, 20, 16), (1, 2, 5000, 16), (1, 2, 5000, 16))
    q = q * size
    graph = Graph.full(Layout().of(q, k))
    out, weights = attention(q, k, v, graph, alpha=1.0, backend="native", return_weights=True)
    scores = q.double() @ k.double().transpose(-1, -2) / 4
    # Products of float32 differ by this much of the largest.
    tolerance = 1e-6 * float(1 + scores.abs().max()) if size <= 30 else 1e-4
    torch.testing.assert_close(out.double(), scores.softmax(-1) @ v.double(), atol=tolerance, rtol=0)
    torch.testing.assert_close(weights.to_dense().sum(-1), torch.ones(1, 2, 20), atol=2e-6, rtol=0)


def test_weights_are_those_of_the_reference() -> None:
    q, k, v = draw((2, 4, 30, 16), (2, 2, 50, 16), (2, 2, 50, 16))
    graph = graphs(Layout(causal=True), q, k)["union"]
    _, ours = attention(q, k, v, graph, layout=Layout(causal=True), backend="native", return_weights=True)
    _, wanted = attention(
        q.double(), k.double(), v.double(), graph, layout=Layout(causal=True), backend="reference", return_weights=True
    )
    torch.testing.assert_close(ours.to_dense().double(), wanted.to_dense(), atol=1e-5, rtol=0)


def test_strides_of_any_kind() -> None:
    base = draw((2, 60, 4, 32), (2, 60, 4, 32), (2, 60, 4, 32))
    q, k, v = (x.transpose(1, 2) for x in base)
    assert_same(q, k, v)
    assert_same(q[:, :, ::2], k[:, :, ::2], v[:, :, ::2])
    assert_same(q[..., ::2], k[..., ::2], v[..., ::2])
    assert_same(q[:, :1].expand(-1, 4, -1, -1), k[:, :1].expand(-1, 4, -1, -1), v)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_converted_at_the_edge(dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype).requires_grad_() for x in draw((1, 2, 40, 32), (1, 2, 40, 32), (1, 2, 40, 32)))
    out = attention(q, k, v, backend="native")
    assert out.dtype == dtype
    wanted = attention(q.float(), k.float(), v.float(), backend="native").to(dtype)
    torch.testing.assert_close(out, wanted, atol=0, rtol=0)
    out.sum().backward()
    assert q.grad is not None
    assert q.grad.dtype == dtype


def test_no_keys_or_no_queries() -> None:
    for n, m in ((0, 5), (5, 0), (0, 0)):
        q, k, v = draw((1, 2, n, 8), (1, 2, m, 8), (1, 2, m, 8))
        out = attention(q, k, v, backend="native")
        assert out.shape == (1, 2, n, 8)
        assert not out.any()


@pytest.mark.parametrize("number", [math.nan, math.inf], ids=str)
@pytest.mark.parametrize("n", [1, 40])
def test_numbers_that_are_not_finite_are_refused(number: float, n: int) -> None:
    q, k, v = draw((1, 2, n, 8), (1, 2, 50, 8), (1, 2, 50, 8))
    k[0, 1, 30, 2] = number
    with pytest.raises(InputError, match="scores"):
        attention(q, k, v, backend="native")
    # Padding may hold anything.
    attention(q, k, v, layout=Layout(key_lengths=torch.tensor([30])), backend="native")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c | {"alpha": 0.9}, "alpha below 1"),
        (lambda c: c | {"alpha": 1.0}, "softmax over all pairs"),
        (lambda c: c | {"dropout": 0.5}, "dropout"),
        (lambda c: c | {"bias": torch.zeros(1, 1, 1, 1)}, "bias"),
        (lambda c: c | {name: c[name].double() for name in "qkv"}, "float32"),
    ],
)
def test_refusals_name_the_reason(change: Callable[[dict[str, Any]], dict[str, Any]], reason: str) -> None:
    q, k, v = draw((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8))
    call = change({"q": q, "k": k, "v": v})
    with pytest.raises(InputError, match=reason):
        attention(**call, backend="native")
    assert attention(**call).shape == q.shape


def test_after_a_fork() -> None:
    q, k, v = draw((1, 4, 200, 32), (1, 4, 200, 32), (1, 4, 200, 32))
    wanted = attention(q, k, v, backend="native")
    child = os.fork()
    if child == 0:
        same = torch.equal(attention(q, k, v, backend="native"), wanted)
        os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_ten_threads_at_once() -> None:
    problems = [draw((1, 2, 150, 32), (1, 2, 300, 32), (1, 2, 300, 32), seed=seed) for seed in range(10)]
    wanted = [attention(q, k, v, backend="native") for q, k, v in problems]
    right: list[bool] = []

    def work(number: int) -> None:
        q, k, v = problems[number]
        right.extend(torch.equal(attention(q, k, v, backend="native"), wanted[number]) for _ in range(5))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 50
    assert all(right)


def test_long_caches_are_shared_between_threads() -> None:
    """One key head, several threads: each looks through a part of the keys."""
    q, k, v = draw((1, 3, 2, 16), (1, 1, 9000, 16), (1, 1, 9000, 16))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert_same(q, k, v)
        assert_same(q, k, v, layout=Layout(causal=True, query_offset=5000))
    finally:
        torch.set_num_threads(threads)


def test_large_graphs() -> None:
    """Sizes at which tasks, chunks and refreshes of the threshold all come into play."""
    q, k, v = draw((1, 2, 700, 16), (1, 2, 1700, 16), (1, 2, 1700, 16), spread=0.7)
    for name, graph in graphs(Layout(), q, k).items():
        if name != "intersection":
            assert_same(q, k, v, graph, gradients=False)


@pytest.mark.parametrize("spread", [0.3, 1.0, 6.0])
@pytest.mark.parametrize("hint", [None, "band", "buckets, several slots", "union"], ids=str)
@pytest.mark.parametrize("layout", ["all", "causal", "padded"])
def test_exact_whatever_the_graph(layout: str, hint: str | None, spread: float) -> None:
    """The graph decides what is looked at first, never what comes out; the screen rules out nothing that has weight."""
    q, k, v = draw((2, 2, 60, 24), (2, 1, 2300, 24), (2, 1, 2300, 24), spread=spread)
    chosen = layouts(2, 60, 2300)[layout]
    if layout == "causal":
        chosen = Layout(causal=True, query_offset=torch.tensor([1500, 20]))
    assert_same(
        q, k, v, None if hint is None else graphs(chosen, q, k)[hint], layout=chosen, exact=True, tolerance=2e-5
    )


@pytest.mark.parametrize("alpha", [2.0, 1.3], ids=str)
def test_exact_at_other_alphas(alpha: float) -> None:
    q, k, v = draw((1, 2, 60, 64), (1, 2, 2100, 64), (1, 2, 2100, 64), spread=3.0)
    assert_same(q, k, v, alpha=alpha, exact=True)


def test_exact_counts_what_it_computed() -> None:
    q, k, v = draw((1, 2, 600, 32), (1, 2, 2100, 32), (1, 2, 2100, 32), spread=6.0)
    with native.counting() as counted:
        attention(q, k, v, Graph.full(Layout().of(q, k)), backend="native")
        assert counted.pairs.tolist() == [[600 * 2100] * 2]
        attention(q, k, v, backend="native")
    assert counted.pairs.shape == (1, 2)
    assert 0 < int(counted.pairs.max()) < 600 * 2100 // 3


def test_exact_where_the_screen_does_not_pay() -> None:
    """Flat scores pass the screen in numbers; the kernel notices and computes them all."""
    q, k, v = draw((1, 1, 300, 16), (1, 1, 3000, 16), (1, 1, 3000, 16), spread=0.02)
    with native.counting() as counted:
        assert_same(q, k, v, exact=True, gradients=False)
    assert int(counted.pairs.sum()) > 300 * 3000 // 2


@pytest.mark.parametrize("spread", [0.02, 0.7, 6.0], ids=str)
@pytest.mark.parametrize("keys", [-1, 0, 1300], ids=["few", "just enough", "chunks"])
@pytest.mark.parametrize("causal", [False, True])
def test_all_pairs_are_the_same_with_and_without_the_screen(spread: float, keys: int, causal: bool) -> None:
    """Flat rows, sharp rows, rows in between; sequences of any length, and keys that heads share."""
    m = native.LEAST_SCREENED + keys
    q, k, v = draw((2, 4, 75, 16), (2, 2, m, 16), (2, 2, m, 8), spread=spread)
    lengths = torch.tensor([m, m - 301])
    layout = Layout(causal, key_lengths=lengths, query_lengths=torch.tensor([70, 75]), query_offset=m - 100)
    assert_same(q, k, v, layout=layout, gradients=False)


def test_the_same_call_gives_the_same_result() -> None:
    """Whatever thread comes first: also where some heads are screened and others are not."""
    q, k, v = draw((1, 6, 900, 16), (1, 6, 900, 16), (1, 6, 900, 16), spread=1.0)
    q = q * torch.tensor([0.01, 0.3, 0.6, 1.0, 2.0, 6.0])[:, None, None]
    first = attention(q, k, v, backend="native")
    assert all(torch.equal(first, attention(q, k, v, backend="native")) for _ in range(10))


def test_weights_too_small_for_a_float_have_no_gradient() -> None:
    """Near α = 1 a weight is a high power: what is left of it may be nothing, and that has no logarithm."""
    q, k, v = draw((1, 1, 64, 8), (1, 1, 200, 8), (1, 1, 200, 4), spread=8.0)
    assert_same(q, k, v, alpha=torch.tensor([1.05]), tolerance=1e-4)
