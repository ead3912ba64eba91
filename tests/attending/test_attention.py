"""Attention: every implementation against the dense oracle, and the laws that hold for all of them."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sparsefinder import Graph, InputError, Layout, attention, entmax, gold_graph
from sparsefinder.attending import portable
from sparsefinder.core.layout import Grid

from ..cases import BACKENDS, GRAPHS, LAYOUTS, H, M, N, Recipe, build, grids, inputs, on_the_threshold, recipes, tensors

ALPHA = torch.tensor([1.2, 1.5, 1.7, 2.0], dtype=torch.float64)


@pytest.fixture(params=["gathered", "dense"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make `portable` take one of its two ways, whatever it thinks is cheaper."""
    monkeypatch.setattr(
        portable, "_gathering_pays", lambda call: request.param == "gathered" and call.graph is not None
    )
    return str(request.param)


def by_hand(q: Tensor, k: Tensor, v: Tensor, pairs: Tensor, alpha: float) -> Tensor:
    """One row at a time, over the keys that the row has."""
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=q.dtype)
    shared = q.shape[1] // k.shape[1]
    for b, h, i in torch.cartesian_prod(*(torch.arange(size) for size in q.shape[:3])).tolist():
        keys = pairs[b, h, i].nonzero()[:, 0]
        if len(keys):
            scores = k[b, h // shared, keys] @ q[b, h, i] / q.shape[-1] ** 0.5
            out[b, h, i] = entmax(scores, alpha) @ v[b, h // shared, keys]
    return out


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["full", "nothing", "mixture", "pairs"])
def test_the_oracle_by_hand(kind: str, layout: str, alpha: float) -> None:
    q, k, v = inputs()
    graph = GRAPHS[kind](LAYOUTS[layout].of(q, k))
    wanted = by_hand(q, k, v, graph.dense(), alpha)
    torch.testing.assert_close(attention(q, k, v, graph, alpha=alpha, backend="reference"), wanted)


def results(q: Tensor, k: Tensor, v: Tensor, graph: Graph | None, more: dict[str, Any]) -> list[Tensor]:
    """Output, weights, and gradients in everything that can have one."""
    leaves = [q, k, v, *(x for x in more.values() if isinstance(x, Tensor))]
    for leaf in leaves:
        leaf.requires_grad_()
    out, weights = attention(q, k, v, graph, return_weights=True, **more)
    upstream = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [
        out,
        weights.to_dense(),
        *torch.autograd.grad(out, leaves, upstream, allow_unused=True, materialize_grads=True),
    ]


@pytest.mark.parametrize("more", ["plain", "softmax", "alpha and bias"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [*GRAPHS, "none"])
def test_portable_equals_the_oracle(kind: str, layout: str, more: str, way: str) -> None:
    q, k, v = inputs()
    graph = None if kind == "none" else GRAPHS[kind](LAYOUTS[layout].of(q, k))
    arguments: dict[str, Any] = {"layout": LAYOUTS[layout], "scale": 0.3}
    if more == "softmax":
        arguments |= {"alpha": 1.0}
    elif more == "alpha and bias":
        arguments |= {"alpha": ALPHA.clone(), "bias": tensors(1, H, N, M)}
    wanted = results(q, k, v, graph, arguments | {"backend": "reference"})
    for got, want in zip(results(q, k, v, graph, arguments | {"backend": "portable"}), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("n", "m", "layout", "torchs"),
    [
        (17, 19, Layout(), True),
        (17, 17, Layout(causal=True), True),
        (1, 19, Layout(causal=True, query_offset=18), True),
        (1, 19, Layout(causal=True, query_offset=17), False),
        (17, 19, Layout(causal=True, query_offset=2), False),
        (17, 17, Layout(causal=True, key_lengths=torch.tensor([17, 3])), False),
        (0, 19, Layout(), False),
    ],
)
def test_softmax_over_all_pairs_is_torchs_attention_where_that_says_the_same(
    n: int, m: int, layout: Layout, torchs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = inputs(n=n, m=m)
    arguments: dict[str, Any] = {"layout": layout, "alpha": 1.0, "scale": 0.3}
    wanted = results(q, k, v, None, arguments | {"backend": "reference"})
    called = []
    own = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *x, **y: called.append(1) or own(*x, **y)
    )
    for got, want in zip(results(q, k, v, None, arguments | {"backend": "auto"}), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)
    assert bool(called) == torchs


@pytest.mark.parametrize("n", [1, 2, 7, 17, 33])
def test_blocks_may_be_larger_than_what_is_left_of_the_queries(n: int, way: str) -> None:
    q, k, v = inputs(batch=1, heads=2, kv_heads=2, n=n, m=n)
    chosen = torch.ones(1, 2, -(-n // 16), -(-n // 16), dtype=torch.bool).tril()
    graph = Graph.blocks(chosen, 16, Layout().of(q, k))
    wanted = results(q, k, v, graph, {"backend": "reference"})
    for got, want in zip(results(q, k, v, graph, {"backend": "portable"}), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


@given(recipes(), grids(), st.sampled_from([1.3, 1.5, 2.0]))
def test_portable_equals_the_oracle_on_made_up_graphs(recipe: Recipe, grid: Grid, alpha: float) -> None:
    graph = build(recipe, grid)
    q, k, v = inputs(kv_heads=1, batch=grid.batch, heads=grid.heads, n=grid.n, m=grid.m)
    more = {"layout": grid.layout, "alpha": alpha}
    wanted = results(q, k, v, graph, more | {"backend": "reference"})
    for got, want in zip(results(q, k, v, graph, more | {"backend": "portable"}), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
@given(recipes(), grids(), st.sampled_from([1.25, 1.5, 2.0]))
def test_sparse_consistency(backend: str, recipe: Recipe, grid: Grid, alpha: float) -> None:
    """Proposition 1, and the same for gradients: any graph that holds the gold pairs gives the full result."""
    kind, tolerance = (torch.float32, 1e-4) if backend == "native" else (torch.float64, 1e-7)
    q, k, v = (x.to(kind) for x in inputs(kv_heads=1, batch=grid.batch, heads=grid.heads, n=grid.n, m=grid.m))
    gold = gold_graph(q.double(), k.double(), alpha, grid.layout)
    more = {"layout": grid.layout, "alpha": alpha, "backend": backend}
    full = results(q, k, v, None, more)
    superset = results(q, k, v, gold | build(recipe, gold.grid), more)
    for got, want in zip(superset, full, strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    wrong = attention(q, k, v, build(recipe, gold.grid), exact=True, **more)
    torch.testing.assert_close(wrong, attention(q, k, v, **more), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", ["plain", "causal"])
def test_padding_and_batch_invariance(backend: str, layout: str) -> None:
    """A sequence in a padded batch, whatever stands in the padding, gets what it gets alone."""
    q, k, v = (x.float() for x in inputs(n=N, m=N))
    lengths = torch.tensor([9, N])
    wild = [x.clone() for x in (q, k, v)]
    for x in wild:
        x[0, :, 9:] = 1e3
    batch = attention(*wild, layout=Layout(LAYOUTS[layout].causal, lengths, 0, lengths), backend=backend)
    alone = attention(q[:1, :, :9], k[:1, :, :9], v[:1, :, :9], layout=LAYOUTS[layout], backend=backend)
    torch.testing.assert_close(batch[:1, :, :9], alone)
    assert (batch[0, :, 9:] == 0).all()
    torch.testing.assert_close(batch[1:], attention(q[1:], k[1:], v[1:], layout=LAYOUTS[layout], backend=backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_and_queries_may_be_permuted(backend: str) -> None:
    q, k, v = (x.float() for x in inputs())
    keys, queries = torch.randperm(M), torch.randperm(N)
    out = attention(q, k, v, backend=backend)
    torch.testing.assert_close(attention(q, k[:, :, keys], v[:, :, keys], backend=backend), out)
    torch.testing.assert_close(attention(q[:, :, queries], k, v, backend=backend), out[:, :, queries])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", GRAPHS)
def test_nothing_leaks_from_the_future(backend: str, kind: str) -> None:
    q, k, v = (x.float() for x in inputs(n=N, m=N))
    layout = Layout(causal=True)
    graph = GRAPHS[kind](layout.of(q, k))
    out = attention(q, k, v, graph, layout=layout, backend=backend)
    changed_k, changed_v = k.clone(), v.clone()
    changed_k[:, :, 10:], changed_v[:, :, 10:] = 7.0, -7.0
    again = attention(q, changed_k, changed_v, graph, layout=layout, backend=backend)
    assert torch.equal(out[:, :, :10], again[:, :, :10])


@pytest.mark.parametrize("backend", BACKENDS)
def test_decoding_step_by_step_is_the_whole(backend: str) -> None:
    q, k, v = (x.float() for x in inputs(n=N, m=N))
    whole = attention(q, k, v, layout=Layout(causal=True), backend=backend)
    for step in range(N):
        seen = slice(0, step + 1)
        layout = Layout(causal=True, query_offset=step)
        one = attention(q[:, :, step : step + 1], k[:, :, seen], v[:, :, seen], layout=layout, backend=backend)
        torch.testing.assert_close(one, whole[:, :, step : step + 1])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(backend: str, dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in inputs())
    out = attention(q, k, v, backend=backend)
    assert out.dtype == dtype
    wanted = attention(q.double(), k.double(), v.double(), backend="reference")
    torch.testing.assert_close(out.double(), wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_sizes(backend: str) -> None:
    q, k, v = torch.randn(2, 4, 0, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 3)
    assert attention(q, k, v, backend=backend).shape == (2, 4, 0, 3)
    none = attention(torch.randn(2, 4, 3, 8), k[:, :, :0], v[:, :, :0], backend=backend)
    assert torch.equal(none, torch.zeros(2, 4, 3, 3))
    assert attention(q[:0], k[:0], v[:0], backend=backend).shape == (0, 4, 0, 3)
    assert attention(torch.randn(0, 4, 3, 8), k[:0], v[:0], backend=backend).shape == (0, 4, 3, 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", GRAPHS)
def test_weights_are_what_was_used(backend: str, kind: str) -> None:
    q, k, v = (x.float() for x in inputs())
    graph = GRAPHS[kind](Layout().of(q, k))
    out, weights = attention(q, k, v, graph, backend=backend, return_weights=True)
    assert weights.is_sparse
    assert not weights.requires_grad
    torch.testing.assert_close(weights.to_dense() @ v.repeat_interleave(2, 1), out)
    assert not (weights.to_dense() > 0)[~graph.dense()].any()
    # Sparse tensors are taken at their word that entries are in order, and none is there twice.
    assert weights.is_coalesced()
    batch, head, query, key = weights.indices()
    assert ((((batch * H + head) * N + query) * M + key).diff() > 0).all()


def test_dropout_drops_and_keeps_the_mean(way: str) -> None:
    q, k, v = (x.float() for x in inputs())
    graph = GRAPHS["blocks"](Layout().of(q, k))
    torch.manual_seed(1)
    many = torch.stack([attention(q, k, v, graph, dropout=0.3) for _ in range(400)])
    assert many.std(0).max() > 0
    torch.testing.assert_close(many.mean(0), attention(q, k, v, graph), rtol=0.3, atol=0.3)


def test_dropout_is_the_same_in_the_backward_pass(way: str) -> None:
    """Chunks are computed twice in training; the second time the same weights must be dropped."""
    q, k, v = inputs()
    graph = GRAPHS["blocks"](Layout().of(q, k))
    v.requires_grad_()
    out = attention(q, k, v, graph, dropout=0.5, backend="portable")
    (grad,) = torch.autograd.grad(out, v, out.detach())
    # The output is linear in v, so <out, out> = <v, dv> exactly if both passes dropped the same.
    torch.testing.assert_close((grad * v).sum(), out.square().sum())


MEASURE = """
import torch
from sparsefinder import Graph, Layout, attention
peak = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
n, heads, d = 16384, 4, 64
q, k, v = (torch.randn(1, heads, n, d) for _ in range(3))
graph = {graph}
attention(q[:, :, :64], k[:, :, :64], v[:, :, :64], backend="portable")
before = peak()
out = attention(q, k, v, graph, backend="portable", layout=Layout(causal=True))
assert out.isfinite().all()
print((peak() - before) / 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("graph", ["None", "Graph.band(-200, 200, Layout(causal=True).of(q, k))"])
def test_portable_never_holds_n_times_m(graph: str) -> None:
    """16,384 queries and keys of 4 heads: the scores alone would be 4 GiB, twice over the limit."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.format(graph=graph)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 2000


Q, K, V = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": Q[0]}, r"q: got a tensor of shape \(4, 6, 8\), want a tensor of four dimensions"),
        ({"k": K.long()}, "k: got a tensor of torch.int64, want floating-point"),
        ({"v": V.double()}, r"v: got torch.float64 on cpu, want the type and device of q"),
        (
            {"k": torch.randn(2, 3, 7, 8), "v": torch.randn(2, 3, 7, 8)},
            "k: got 3 heads, want a number of heads that divides",
        ),
        ({"k": torch.randn(2, 2, 7, 9)}, r"k: got shape \(2, 2, 7, 9\), want \(2, heads, keys, 8\)"),
        ({"v": torch.randn(2, 2, 5, 8)}, r"v: got shape \(2, 2, 5, 8\), want \(2, 2, 7, any\)"),
        ({"backend": "cuda"}, "backend: got 'cuda', want one of 'auto', 'reference', 'portable'"),
        ({"alpha": 0.0}, "alpha: got 0.0"),
        ({"alpha": 0.5, "backend": "native"}, "'native', which takes no alpha below 1"),
        ({"alpha": torch.tensor(-0.5)}, "alpha: got values down to -0.5"),
        (
            {"alpha": torch.full((3,), 1.5)},
            r"alpha: got a tensor of shape \(3,\), want one value, or one for each of 4",
        ),
        ({"scale": float("nan")}, "scale: got nan"),
        ({"dropout": 1.5}, "dropout: got 1.5"),
        ({"bias": torch.zeros(6, 6)}, r"bias: got a tensor of shape \(6, 6\), want one that broadcasts"),
        ({"graph": Graph.full(Layout().of(Q, K[:, :, :5]))}, r"graph: got a graph for \(2, 4, 6, 5\), want one for"),
        ({"layout": Layout(key_lengths=torch.tensor([1, 2, 3]))}, "layout.key_lengths: got shape"),
    ],
)
def test_errors_name_the_argument(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"q": Q, "k": K, "v": V} | change
    with pytest.raises(InputError, match=words):
        attention(**arguments)


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("alpha", [2.0, 3.0, 5.0])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_key_on_the_threshold_is_outside(backend: str, alpha: float, n: int) -> None:
    """Where the gradient jumps all implementations take the same side: as if the key were not there."""
    for seed in range(40):
        scores, inside = on_the_threshold(alpha, seed)
        m = len(scores)
        q, k, v = (
            torch.ones(1, 2, n, 1),
            scores.float()[None, None, :, None].repeat(1, 2, 1, 1),
            torch.randn(1, 2, m, 3),
        )
        grid, more = Layout().of(q, k), {"alpha": alpha, "scale": 1.0, "backend": backend}
        full, without = (Graph.columns(which.expand(1, 2, -1), grid) for which in (inside | True, inside))
        none, every, wanted = (results(q.clone(), k.clone(), v.clone(), graph, more) for graph in (None, full, without))
        for found in (none, every):
            assert ((found[1] > 0) == inside).all(), seed
            for got, want in zip(found, wanted, strict=True):
                # Slopes are p^(2 − α), up to so much for the least weights.
                torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5 * {2.0: 1, 3.0: 64, 5.0: 16**3}[alpha])
