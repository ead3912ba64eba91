"""Attention over graphs in Triton, against the dense oracle: on a GPU where there is one, else in Triton's interpreter.

The interpreter takes a thousand times as long as a GPU: sizes are small, and tiles as small as they can be.
"""

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from sparsefinder import Graph, InputError, Layout, Sample, attention
from sparsefinder.attending import api
from sparsefinder.attending.api import checked, choose
from sparsefinder.attending.triton import attend
from sparsefinder.attending.triton.tiles import Lists, known, listed
from sparsefinder.core.layout import Grid
from sparsefinder.finders import Distance, KMeans, Probe, Sketch, Window

from ..cases import GRAPHS, LAYOUTS, N, Recipe, build, grids, inputs, on_the_threshold, recipes

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Of vectors of up to 16 numbers products are taken at once, of longer ones in parts.
SMALL = attend.Tile(16, 16, 4, 1, attend.MOST_REGISTERS, 16)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles in a few tokens."""
    monkeypatch.setattr(attend, "tile_for", lambda width, bytes_each, kinds: SMALL)


def outcome(backend: str, q: Tensor, k: Tensor, v: Tensor, graph: Graph | None, more: dict[str, Any]) -> list[Tensor]:
    """Output and gradients, in float64 on the CPU."""
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    alpha = more.get("alpha")
    if isinstance(alpha, Tensor):
        more = more | {"alpha": alpha.detach().to(q).requires_grad_()}
        leaves.append(more["alpha"])
    out = attention(*leaves[:3], graph, backend=backend, **more)
    upstream = torch.linspace(-1, 1, out.numel(), device=out.device).to(out.dtype).view_as(out)
    return [each.detach().double().cpu() for each in (out, *torch.autograd.grad(out, leaves, upstream))]


def agrees(
    q: Tensor, k: Tensor, v: Tensor, graph: Graph | None, tolerance: float = 2e-5,
    dtype: torch.dtype = torch.float32, **more: Any,
) -> None:  # fmt: skip
    there = [x.to(DEVICE, dtype) for x in (q, k, v)]
    got = outcome("triton", *there, None if graph is None else graph.to(DEVICE), more)
    wanted = outcome("reference", *(x.double().cpu() for x in there), graph, more)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def small(**sizes: int) -> tuple[Tensor, Tensor, Tensor]:
    return inputs(**({"heads": 2, "kv_heads": 1} | sizes))


def ruled(kind: str, grid: Grid, q: Tensor, k: Tensor) -> Graph:
    """Graphs of finders whose pairs are never listed."""
    q, k = q.float(), k.float().repeat_interleave(q.shape[1] // k.shape[1], 1)
    generator = torch.Generator().manual_seed(0)
    centroids = torch.randn(q.shape[1], 4, q.shape[-1], generator=generator)
    if kind == "near":
        return Distance(3.5)(q, k, grid.layout)
    if kind == "k-means":
        return KMeans(4, centroids=centroids)(q, k, grid.layout)
    probe = Probe(4, 2, centroids=centroids)
    if kind == "probe":
        return probe(q, k, grid.layout)
    sample = [Sample(q, k)]
    sketch = Sketch(4, share=0.3).fit(sample) if kind == "share" else Sketch(4, slack=1.5).fit(sample)
    if kind == "cascade":
        return (probe & sketch)(q, k, grid.layout)
    return (sketch | Window(3) if kind == "sketch and window" else sketch)(q, k, grid.layout)


RULED = ("near", "k-means", "probe", "share", "sketch", "cascade", "sketch and window")


@pytest.mark.parametrize(("kind", "layout"), [
    *((kind, list(LAYOUTS)[number % len(LAYOUTS)]) for number, kind in enumerate([*GRAPHS, "none"])),
    *(("mixture", layout) for layout in ("causal padded", "no keys")),
    *(("many buckets", layout) for layout in ("decoding",)),
])  # fmt: skip
def test_it_equals_the_oracle(kind: str, layout: str) -> None:
    q, k, v = small()
    graph = None if kind == "none" else GRAPHS[kind](LAYOUTS[layout].of(q, k))
    agrees(q, k, v, graph, layout=LAYOUTS[layout], scale=0.3)


@pytest.mark.parametrize(("kind", "layout"), [*zip(RULED, [*LAYOUTS, "plain"], strict=True), ("cascade", "causal")])
def test_rules_are_asked_in_the_tile(kind: str, layout: str) -> None:
    q, k, v = small()
    agrees(q, k, v, ruled(kind, LAYOUTS[layout].of(q, k), q, k), layout=LAYOUTS[layout])


@pytest.mark.parametrize("alpha", [1.05, 1.3, 2.0, 2.5, torch.tensor([1.2, 1.9]), torch.tensor([2.0, 3.0])])
def test_any_alpha_also_per_head_with_its_gradient(alpha: float | Tensor) -> None:
    q, k, v = small(batch=1)
    agrees(q, k, v, GRAPHS["block band"](Layout().of(q, k)), 1e-4, alpha=alpha)


def test_half_precision_comes_and_goes() -> None:
    """The interpreter multiplies bfloat16 as if it were whole numbers: that needs a GPU."""
    q, k, v = small(batch=1)
    agrees(q, k, v, GRAPHS["band"](Layout().of(q, k)), 1e-2, torch.float16)


def test_vectors_may_lie_apart_and_be_of_any_size() -> None:
    """As models have them: a head's tokens are not one after the other."""
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in small(batch=1, d=33, e=20))
    agrees(q, k, v, None, layout=Layout(causal=True))


@pytest.mark.parametrize("alpha", [2.0, 3.0])
def test_a_key_on_the_threshold_is_outside(alpha: float) -> None:
    for seed in range(2):
        scores, inside = on_the_threshold(alpha, seed)
        q, k = torch.ones(1, 1, 1, 1), scores.float()[None, None, :, None]
        values = torch.eye(len(scores)).expand(1, 1, -1, -1)
        out = attention(*(x.to(DEVICE) for x in (q, k, values)), alpha=alpha, scale=1.0, backend="triton")
        assert torch.equal(out[0, 0, 0].cpu() > 0, inside), seed


def test_a_sequence_in_a_padded_batch_gets_what_it_gets_alone() -> None:
    q, k, v = (x.float().to(DEVICE) for x in small(n=N, m=N))
    lengths = torch.tensor([9, N], device=DEVICE)
    wild = [x.clone() for x in (q, k, v)]
    for x in wild:
        x[0, :, 9:] = 1e3
    batch = attention(*wild, layout=Layout(True, lengths, 0, lengths), backend="triton")
    alone = attention(q[:1, :, :9], k[:1, :, :9], v[:1, :, :9], layout=Layout(True), backend="triton")
    torch.testing.assert_close(batch[:1, :, :9], alone)
    assert (batch[0, :, 9:] == 0).all()


def test_empty_sizes() -> None:
    q, k, v = torch.randn(2, 4, 0, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 3)
    q, k, v = (x.to(DEVICE).requires_grad_() for x in (q, k, v))
    out = attention(q, k, v, backend="triton")
    assert out.shape == (2, 4, 0, 3)
    assert torch.equal(torch.autograd.grad(out.sum(), k)[0], torch.zeros_like(k))
    none = attention(torch.randn(2, 4, 3, 8, device=DEVICE), k[:, :, :0], v[:, :, :0], backend="triton")
    assert torch.equal(none, torch.zeros(2, 4, 3, 3, device=DEVICE))


def test_weights_are_what_was_used() -> None:
    q, k, v = (x.float().to(DEVICE) for x in small(batch=1))
    graph = GRAPHS["blocks"](Layout().of(q, k))
    out, weights = attention(q, k, v, graph, backend="triton", return_weights=True)
    torch.testing.assert_close(weights.to_dense() @ v.repeat_interleave(2, 1), out, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": torch.randn(1, 1, 4, 300), "k": torch.randn(1, 1, 4, 300)}, "takes vectors of at most 256 numbers"),
        ({"alpha": 1.0}, "takes no alpha up to 1"),
        ({"dropout": 0.1}, "has no dropout"),
        ({"bias": torch.zeros(4, 4)}, "takes no bias"),
    ],
)
def test_what_it_refuses(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {name: torch.randn(1, 1, 4, 8) for name in "qkv"} | change
    arguments = {name: x.to(DEVICE) if isinstance(x, Tensor) else x for name, x in arguments.items()}
    with pytest.raises(InputError, match=f"'triton', which {words}"):
        attention(**arguments, backend="triton")
    double = [torch.randn(1, 1, 4, 8, dtype=torch.float64, device=DEVICE)] * 3
    with pytest.raises(InputError, match="computes in float32"):
        attention(*double, backend="triton")


@pytest.mark.parametrize("backend", ["triton", "adasplash"])
def test_outside_the_interpreter_it_is_for_gpus(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    x = torch.randn(1, 1, 16, 16)
    with pytest.raises(InputError, match="runs on a GPU only, not on cpu"):
        attention(x, x, x, backend=backend)


def test_what_is_for_gpus_is_not_imported_on_a_cpu() -> None:
    code = (
        "import sys\n"
        "sys.modules['triton'] = sys.modules['adasplash'] = None\n"
        "import torch\n"
        "from sparsefinder import Window, attention\n"
        "q = torch.randn(1, 2, 8, 8, requires_grad=True)\n"
        "attention(q, q, q, Window(3)(q, q)).sum().backward()\n"
        "attention(q, q, q, dropout=0.5)\n"
        "ours = [name for name in sys.modules if name.startswith(('sparsefinder.attending.triton', "
        "'sparsefinder.attending.adasplash', 'sparsefinder.attending.gpu'))]\n"
        "assert not ours, ours\n"
    )
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | hidden)
    assert done.returncode == 0, done.stderr


def test_on_a_gpu_it_is_chosen_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs by AdaSplash, graphs by Triton, what neither takes by torch operations."""
    monkeypatch.setattr(api, "AUTOMATIC", {"cpu": api.AUTOMATIC["cuda"]})
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    q = torch.randn(1, 2, 32, 16)

    def chosen(graph: Graph | None = None, alpha: float = 1.5, bias: Tensor | None = None) -> str:
        call = checked(q, q, q, graph, alpha, Layout(), None, bias, 0.0)
        return choose("auto", call).__name__.rpartition(".")[2]

    assert chosen() == "adasplash"
    assert chosen(alpha=3.0) == "triton"
    assert chosen(Window(3)(q, q)) == "triton"
    assert chosen(bias=torch.zeros(32, 32)) == chosen(alpha=1.0) == "portable"


def tiles_of(lists: Lists, grid: Grid, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Whether the tile of a pair is listed, and whether its bit is set: for every pair, from the lists alone."""
    shape = (lists.batch, lists.heads, lists.query_tiles, lists.key_tiles)
    entry = torch.full((max(1, int(torch.tensor(shape).prod())),), -1)
    entry[lists.numbers] = torch.arange(lists.entries)
    entry = entry.view(shape).expand(grid.batch, grid.heads, -1, -1)
    i, j = (
        torch.arange(size).expand(grid.batch, grid.heads, -1) if order is None else order.argsort(-1)
        for size, order in ((grid.n, lists.query_order), (grid.m, lists.key_order))
    )
    b, h = torch.arange(grid.batch)[:, None, None, None], torch.arange(grid.heads)[:, None, None]
    number = entry[b, h, (i // rows)[..., None], (j // columns)[..., None, :]]
    if lists.words is None:
        return number >= 0, torch.zeros_like(number, dtype=torch.bool)
    row, column = (i % rows // lists.cell[0])[..., None], (j % columns // lists.cell[1])[..., None, :]
    bits = lists.words[number.clamp(min=0), row, column // 32] >> (column % 32) & 1
    return number >= 0, (number >= 0) & (bits != 0)


@given(recipes(), grids(40))
def test_every_pair_lies_in_a_listed_tile(recipe: Recipe, grid: Grid) -> None:
    """And what is listed in blocks or pairs is said exactly; by key tiles the list is the same."""
    graph = build(recipe, grid)
    pieces = known(graph)
    lists = listed(grid, pieces, 8, 16)
    inside, bits = tiles_of(lists, grid, 8, 16)
    dense = graph.dense()
    assert not (dense & ~inside).any()
    said = Graph(grid, tuple(one for one in pieces if type(one).__name__ in ("Blocks", "Pairs"))).dense()
    seen = Graph.full(grid).dense()
    assert torch.equal(bits & seen, said & seen)
    offsets, tiles, entries = lists.back
    assert torch.equal(entries.sort().values, torch.arange(lists.entries).int())
    head = lists.numbers // (lists.query_tiles * lists.key_tiles)
    columns = head * lists.key_tiles + lists.numbers % lists.key_tiles
    assert torch.equal(offsets.diff().long(), torch.bincount(columns, minlength=len(offsets) - 1))
    assert torch.equal(tiles.long(), (lists.numbers // lists.key_tiles % lists.query_tiles)[entries.long()])


def test_tokens_in_the_order_of_their_buckets_fill_few_tiles() -> None:
    grid = Grid(1, 1, 256, 256, Layout(), torch.device("cpu"))
    buckets = torch.arange(256).remainder(16).view(1, 1, 256, 1)
    graph = Graph.buckets(buckets, buckets, grid)
    assert listed(grid, known(graph), 16, 16).entries == 16
    first = torch.arange(256).view(1, 1, 256) == 0
    assert listed(grid, known(graph | Graph.columns(first, grid)), 16, 16).entries == 31
