"""Graphs against boolean matrices: whatever is asked of a union of pieces, the matrix gives the same answer."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from sparsefinder import Graph, InputError, Layout, attention, entmax, gold_graph
from sparsefinder.core.layout import Grid
from sparsefinder.core.pieces import Band, Blocks, Buckets, Columns, Diagonals, Pairs, Piece, Rows

from ..cases import GRAPHS, LAYOUTS, B, D, H, M, N, Recipe, build, counting_by, grids, inputs, recipes


def make_grid(layout: str = "plain") -> Grid:
    return Grid(B, H, N, M, LAYOUTS[layout], torch.device("cpu"))


def visible_by_hand(grid: Grid, b: int, i: int, j: int) -> bool:
    layout, offset = grid.layout, grid.layout.query_offset
    position = i + int(offset[b] if isinstance(offset, Tensor) else offset)
    keys = grid.m if layout.key_lengths is None else int(layout.key_lengths[b])
    queries = grid.n if layout.query_lengths is None else int(layout.query_lengths[b])
    return j < keys and i < queries and (not layout.causal or j <= position)


def has_by_hand(piece: Piece, grid: Grid, b: int, h: int, i: int, j: int) -> bool:
    """Whether a piece has a pair, from its definition."""
    if isinstance(piece, Band):
        offset = grid.layout.query_offset
        distance = j - i - int(offset[b] if isinstance(offset, Tensor) else offset)
        above = piece.lower is None or distance >= piece.lower
        return above and (piece.upper is None or distance <= piece.upper)
    if isinstance(piece, Columns):
        return bool(piece.keys.expand(grid.batch, grid.heads, grid.m)[b, h, j])
    if isinstance(piece, Diagonals):
        offset = grid.layout.query_offset
        place = i + int(offset[b] if isinstance(offset, Tensor) else offset) - j + grid.m - 1
        return place in piece.chosen.expand(grid.batch, grid.heads, -1)[b, h].nonzero().flatten().tolist()
    if isinstance(piece, Rows):
        return bool(piece.queries.expand(grid.batch, grid.heads, grid.n)[b, h, i])
    if isinstance(piece, Buckets):
        mine = set(piece.queries.expand(grid.batch, grid.heads, -1, -1)[b, h, i].tolist()) - {-1}
        return bool(mine & set(piece.keys.expand(grid.batch, grid.heads, -1, -1)[b, h, j].tolist()))
    if isinstance(piece, Pairs):
        row = ((b if piece.batch > 1 else 0) * piece.heads + (h if piece.heads > 1 else 0)) * grid.n + i
        return j in piece.keys[piece.offsets[row] : piece.offsets[row + 1]].tolist()
    if isinstance(piece, Blocks):
        head = (b if piece.batch > 1 else 0) * piece.heads + (h if piece.heads > 1 else 0)
        row = head * -(-grid.n // piece.query_size) + i // piece.query_size
        listed = piece.blocks[piece.offsets[row] : piece.offsets[row + 1]]
        return j // piece.key_size in listed.tolist()
    return has_by_hand(piece.piece, grid, b, h, i, j) and matrix_by_hand(piece.graph)[b, h, i, j].item() is True  # type: ignore[attr-defined]


def matrix_by_hand(graph: Graph) -> Tensor:
    grid = graph.grid
    matrix = torch.zeros(grid.shape, dtype=torch.bool)
    for b, h, i, j in itertools.product(*map(range, grid.shape)):
        matrix[b, h, i, j] = visible_by_hand(grid, b, i, j) and any(
            has_by_hand(piece, grid, b, h, i, j) for piece in graph.pieces
        )
    return matrix


@pytest.mark.parametrize("layout", LAYOUTS)
def test_visible_pairs(layout: str) -> None:
    grid = make_grid(layout)
    wanted = torch.tensor([[[visible_by_hand(grid, b, i, j) for j in range(M)] for i in range(N)] for b in range(B)])
    assert torch.equal(grid.degrees(), wanted.sum(-1))
    assert torch.equal(Graph.full(grid).dense()[:, 0], wanted)


@given(recipes(depth=1), grids(largest=7))
def test_dense_is_the_definition(recipe: Recipe, grid: Grid) -> None:
    graph = build(recipe, grid)
    assert torch.equal(graph.dense(), matrix_by_hand(graph))


@given(recipes(), recipes(), grids())
def test_everything_agrees_with_the_matrix(first: Recipe, second: Recipe, grid: Grid) -> None:
    one, two = build(first, grid), build(second, grid)
    matrix, other = one.dense(), two.dense()
    assert torch.equal((one | two).dense(), matrix | other)
    assert torch.equal((one & two).dense(), matrix & other)
    for graph, wanted in ((one, matrix), (one | two, matrix | other), (one & two, matrix & other)):
        assert torch.equal(graph.count(), wanted.sum((-1, -2)))
        for listed in (0, 1 << 40):
            with counting_by(listed):
                assert torch.equal(Graph(grid, graph.pieces).degrees(), wanted.sum(-1))
                assert torch.equal(Graph(grid, (Graph(grid, graph.pieces).pairs(),)).dense(), wanted)
        everywhere = torch.meshgrid(*(torch.arange(size) for size in grid.shape), indexing="ij")
        assert torch.equal(graph.contains(*everywhere), wanted)
        rows = slice(grid.n // 3, grid.n)
        assert torch.equal(graph.mask(rows), wanted[:, :, rows])
    hits = (matrix & other).sum((-1, -2))
    torch.testing.assert_close(two.recall(one), hits / matrix.sum((-1, -2)), equal_nan=True)
    assert ((one & two).count() <= one.count()).all()


@given(recipes(), grids(), st.integers(1, 5))
def test_coarsening_and_lists_of_groups(recipe: Recipe, grid: Grid, block: int) -> None:
    graph = build(recipe, grid)
    matrix = graph.dense()
    padded = torch.nn.functional.pad(matrix, (0, -grid.m % block, 0, -grid.n % block))
    blocks = padded.unflatten(3, (-1, block)).unflatten(2, (-1, block)).any(-1).any(3)
    wide = blocks.repeat_interleave(block, 2).repeat_interleave(block, 3)[:, :, : grid.n, : grid.m]
    assert torch.equal(graph.coarsen(block).dense(), wide & Graph.full(grid).dense())
    # A part of the group, where there are fewer queries than that.
    group = next(size for size in range(min(graph.group, grid.n), 0, -1) if graph.group % size == 0)
    for firsts, keys in graph.lists(group):
        head, i = firsts // grid.n, (firsts % grid.n)[:, None] + torch.arange(group)
        b, h = head // grid.heads, head % grid.heads
        inside = i < grid.n
        listed = graph.among(b, h, i.clamp(max=grid.n - 1), keys).expand(-1, group, -1)
        found = torch.zeros(len(firsts), group, grid.m + 1, dtype=torch.bool)
        found.scatter_(2, torch.where(listed, keys[:, None], grid.m), True)
        wanted = matrix[b[:, None], h[:, None], i.clamp(max=grid.n - 1)]
        assert torch.equal(found[..., : grid.m][inside], wanted[inside])


def test_overlapping_pieces_count_each_pair_once() -> None:
    grid = make_grid()
    band = Graph.band(-1, 1, grid)
    assert torch.equal((band | band | Graph.band(0, 0, grid)).count(), band.count())
    assert band.count()[0, 0] == 3 * N - 1


def test_sparsity_has_the_causal_denominator() -> None:
    n = 10
    grid = Grid(1, 1, n, n, Layout(causal=True), torch.device("cpu"))
    diagonal = Graph.band(0, 0, grid)
    assert diagonal.sparsity().item() == pytest.approx(1 - n / (n * (n + 1) / 2))
    assert Graph.full(grid).sparsity().item() == 0
    assert Graph(grid).sparsity().item() == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_gold_is_what_gets_weight(layout: str, alpha: float, dtype: torch.dtype) -> None:
    q, k, _ = (x.to(dtype) for x in inputs(kv_heads=2))
    gold = gold_graph(q, k, alpha, LAYOUTS[layout])
    scores = q.double() @ k.double().repeat_interleave(2, 1).transpose(-1, -2) / D**0.5
    weights = entmax(scores.masked_fill(~Graph.full(gold.grid).dense(), -torch.inf), alpha)
    # Whether a weight that rounds to nothing is one, float32 cannot tell.
    doubtful = weights[gold.dense() != (weights > 0)]
    assert (doubtful < (0 if dtype == torch.float64 else 1e-9)).all()
    some = gold.count() > 0
    assert torch.equal(gold.recall(gold)[some], torch.ones(int(some.sum())))
    assert gold.recall(gold)[~some].isnan().all()


def test_explicit_pairs_in_any_order_and_repeated() -> None:
    grid = make_grid()
    b, h, i, j = (torch.tensor(index) for index in ([1, 0, 1], [2, 0, 2], [5, 3, 5], [18, 2, 18]))
    graph = Graph.of_pairs(b, h, i, j, grid)
    assert graph.count().sum() == 2
    assert graph.dense()[b, h, i, j].all()


@given(recipes(), grids())
def test_pairs_are_listed_in_order_each_once(recipe: Recipe, grid: Grid) -> None:
    graph = build(recipe, grid)
    with counting_by(0):
        pairs = graph.pairs()
    with counting_by(1 << 40):
        again = Graph(grid, graph.pieces).pairs()
    assert torch.equal(again.offsets, pairs.offsets)
    assert torch.equal(again.keys, pairs.keys)
    assert (pairs.batch, pairs.heads, pairs.n) == grid.shape[:3]
    b, h, i = grid.unravel(pairs.rows)
    assert torch.equal(torch.stack([b, h, i, pairs.keys], -1), graph.dense().nonzero())
    # A list of what may be seen is what it is: nothing is listed again.
    assert Graph(grid, (pairs,)).pairs() is pairs


def test_pairs_that_may_not_be_seen_or_stand_for_several_heads_are_listed_anew() -> None:
    """The piece itself would say more than the graph has, or less."""
    ones = torch.ones(1, 1, N, M, dtype=torch.bool)
    for name, chosen in (("plain", ones), ("causal", ones.expand(B, H, N, M))):
        graph = Graph.of_dense(chosen, make_grid(name))
        assert graph.pairs() is not graph.pieces[0]
        assert torch.equal(Graph(graph.grid, (graph.pairs(),)).dense(), Graph.full(graph.grid).dense())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_gold_graph_is_its_pairs(layout: str) -> None:
    for dtype in (torch.float32, torch.float64):
        q, k, _ = (x.to(dtype) for x in inputs())
        gold = gold_graph(q, k, layout=LAYOUTS[layout])
        (piece,) = gold.pieces
        assert isinstance(piece, Pairs)
        assert gold.pairs() is piece


@pytest.fixture
def _uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run FlexAttention as plain torch: compiling takes a compiler and a minute, and cannot trace shape checks."""
    monkeypatch.setattr(torch.nn.attention.flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


@pytest.mark.usefixtures("_uncompiled")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", GRAPHS)
def test_flex_attention_sees_the_same_pairs(kind: str, layout: str) -> None:
    """Softmax over the graph by torch's own FlexAttention, given our block mask."""
    grid = make_grid(layout)
    graph = GRAPHS[kind](grid)
    q, k, v = (x.float() for x in inputs(kv_heads=H, e=D))
    mask = graph.to_block_mask(8)
    assert mask.shape == grid.shape
    wanted = attention(q, k, v, graph, alpha=1.0, backend="reference")
    torch.testing.assert_close(flex_attention(q, k, v, block_mask=mask), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chunk", [None, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", GRAPHS)
def test_tiles_are_listed_that_have_a_pair_and_full_ones_apart(
    kind: str, layout: str, chunk: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is visited on a GPU, by the definition; also where queries are written out a few at a time."""
    if chunk is not None:
        monkeypatch.setattr(Graph, "chunks", lambda graph: iter([slice(0, chunk)]))
    graph = GRAPHS[kind](make_grid(layout))
    mask = graph.to_block_mask(8)
    dense = graph.dense()
    rows, columns = -(-dense.shape[2] // 8), -(-dense.shape[3] // 8)
    whole = torch.nn.functional.pad(dense, (0, columns * 8 - dense.shape[3], 0, rows * 8 - dense.shape[2]))
    tiles = whole.view(*dense.shape[:2], rows, 8, columns, 8)
    for (numbers, places), wanted in (
        ((mask.full_kv_num_blocks, mask.full_kv_indices), tiles.all(5).all(3)),
        ((mask.kv_num_blocks, mask.kv_indices), tiles.any(5).any(3) & ~tiles.all(5).all(3)),
    ):
        listed = torch.zeros_like(wanted)
        for b, h, r in torch.cartesian_prod(*(torch.arange(size) for size in wanted.shape[:3])).tolist():
            listed[b, h, r, places[b, h, r, : numbers[b, h, r]].long()] = True
        assert torch.equal(listed, wanted)


def test_within_a_stricter_layout() -> None:
    graph = Graph.band(-3, 3, make_grid())
    causal = graph.within(LAYOUTS["causal"])
    assert torch.equal(causal.dense(), graph.dense() & Graph.full(make_grid("causal")).dense())


def test_a_graph_says_what_it_is_in_a_line() -> None:
    ragged = Layout(True, torch.tensor([M, 3]), query_offset=2)
    grid = Grid(B, H, N, M, ragged, torch.device("cpu"))
    first = torch.zeros(1, 1, M, dtype=torch.bool)
    first[..., 0] = True
    some = torch.zeros(1, H, N, dtype=torch.bool)
    some[0, 0, :3] = True
    blocks = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    slots = torch.zeros(1, 1, N, 1, dtype=torch.long), torch.full((1, 1, M, 1), 15)
    graph = Graph.band(-5, 0, grid) | Graph.columns(first, grid) | Graph.rows(some, grid)
    graph = graph | Graph.blocks(blocks, 8, grid) | Graph.buckets(*slots, grid)
    wanted = "band −5…0 | 1 column | up to 3 rows | 9 blocks of 8 × 8 | 16 buckets"
    assert repr(graph) == f"Graph(2 × 4 heads, 17 × 19, causal, ragged, queries from 2: {wanted})"
    plain = make_grid()
    assert repr(Graph.full(plain)) == "Graph(2 × 4 heads, 17 × 19: everything)"
    assert repr(Graph(plain)) == "Graph(2 × 4 heads, 17 × 19: nothing)"
    dense = torch.ones(B, H, N, M, dtype=torch.bool)
    assert repr(Graph.of_dense(dense, plain)) == "Graph(2 × 4 heads, 17 × 19: 2,584 pairs)"
    both = Graph.band(None, -1, plain) & (Graph.band(3, None, plain) | Graph.full(plain))
    assert repr(both) == "Graph(2 × 4 heads, 17 × 19: band …−1 & (band 3… | everything))"


def test_layouts_and_grids_say_what_they_are_in_a_few_words() -> None:
    assert repr(Layout()) == "Layout()"
    assert repr(LAYOUTS["causal padded"]) == "Layout(causal, ragged, queries from 2)"
    assert repr(LAYOUTS["decoding"]) == "Layout(causal, queries from −3…2)"
    assert repr(make_grid("padded")) == "Grid(2 × 4 heads, 17 × 19, ragged)"


@given(recipes(), grids())
def test_no_tensor_is_printed(recipe: Recipe, grid: Grid) -> None:
    for shown in (repr(build(recipe, grid)), repr(grid), repr(grid.layout)):
        assert "tensor" not in shown
        assert "\n" not in shown


class _Elsewhere(Pairs):
    """A piece that has no words for itself."""

    __str__ = object.__str__


def test_a_piece_without_words_goes_by_its_class() -> None:
    grid = make_grid()
    piece = _Elsewhere(torch.zeros(2, dtype=torch.long), torch.zeros(0, dtype=torch.long), 1, 1, M)
    assert repr(Graph(grid, (piece, Band(0, 1)))).endswith(": _Elsewhere | band 0…1)")


def test_errors() -> None:
    grid = make_grid()
    with pytest.raises(InputError, match="graphs of |"):
        Graph.full(grid) | Graph.full(make_grid("causal"))
    with pytest.raises(InputError, match="graphs of &"):
        Graph.full(grid) & Graph.full(Grid(B, H, N, M + 1, Layout(), grid.device))
    with pytest.raises(InputError, match="keys: got a tensor of shape"):
        Graph.columns(torch.ones(1, 1, M + 1, dtype=torch.bool), grid)
    with pytest.raises(InputError, match="block: got 0"):
        Graph.full(grid).coarsen(0)
    with pytest.raises(InputError, match=r"layout.key_lengths: got lengths \[3, 99\]"):
        Grid(B, H, N, M, Layout(key_lengths=torch.tensor([3, 99])), grid.device)
    with pytest.raises(InputError, match=r"layout.query_lengths: got shape \(3,\)"):
        Grid(B, H, N, M, Layout(query_lengths=torch.tensor([3, 1, 1])), grid.device)
    with pytest.raises(InputError, match="layout.query_offset"):
        Grid(B, H, N, M, Layout(query_offset=torch.tensor([3])), grid.device)
