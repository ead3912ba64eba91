"""An index of keys: appended to, it is what it would be if it were made whole; asked, it says what its finder would.

Everything runs twice: with vector instructions, and with the plain twin of the kernels.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparsefinder import InputError, Layout, Sample, attention, entmax
from sparsefinder.attending import native
from sparsefinder.attending.indexed import asked, indexed_attention
from sparsefinder.core.index import KeyIndex
from sparsefinder.finders import Window
from sparsefinder.finders.sketch import Sketch

HEADS, D = 4, 16


@pytest.fixture(params=("best", "plain"), autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEFINDER_KERNEL", request.param)


def _tokens(batch: int, heads: int, length: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(batch, heads, length, D, generator=generator)


def _sketch(share: bool, setting: float = 0.3, ranks: bool = True) -> Sketch:
    sample = Sample(_tokens(2, HEADS, 60, 1), _tokens(2, HEADS, 60, 2))
    one = Sketch(share=setting) if share else Sketch(slack=4 * setting)
    fitted = one.fit([sample])
    return replace(fitted, ranks=torch.tensor([8, 5, 0, D])) if ranks else fitted


def _index(finder: Sketch, k: Tensor, exact: bool = False) -> KeyIndex:
    index = finder.index(k, exact)
    assert index is not None
    return index


@pytest.mark.parametrize("kv_heads", [1, 2, HEADS])
@pytest.mark.parametrize("share", [False, True])
@settings(max_examples=20)
@given(parts=st.lists(st.integers(0, 70), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_appended_is_built_whole_bit_for_bit(share: bool, kv_heads: int, parts: list[int], seed: int) -> None:
    finder, k = _sketch(share), _tokens(2, kv_heads, sum(parts), seed)
    whole, grown = _index(finder, k), _index(finder, k[:, :, :0])
    for part in k.split(parts, 2):
        grown.append(part)
    assert grown.length == whole.length == sum(parts)
    assert torch.equal(grown.codes, whole.codes)
    # To the last bit of every panel, also where the room differs.
    for h in range(HEADS):
        filled = -(-whole.length // 32) * whole._bytes[h]
        assert torch.equal(grown._of_head(h)[:, :filled], whole._of_head(h)[:, :filled])


def test_codes_are_those_of_the_mapped_keys() -> None:
    finder, k = _sketch(share=False), _tokens(2, 2, 75, 3)
    assert finder.projection is not None
    points = finder.projection.of_keys(k.repeat_interleave(2, 1)).round()
    index = _index(finder, k)
    for h, rank in enumerate([8, 5, 0, D]):
        assert torch.equal(index.codes[:, h, :, :rank].float(), points[:, h, :, :rank])
        assert not index.codes[:, h, :, rank:].any()
    assert index.bytes_per_key == (10 + 8 + 0 + 18) / 4
    assert index.nbytes == 2 * 96 * 36


def test_other_types_pack_as_the_kernels_do() -> None:
    k = _tokens(2, 2, 75, 3)
    finder = _sketch(share=False)
    assert finder.projection is not None
    maps = finder.projection
    wide = replace(finder, projection=type(maps)(maps.queries.double(), maps.keys.double()))
    ours, theirs = _index(wide, k.double()), _index(finder, k)
    # Rounded from other sums, a number in thousands may fall to the other side.
    assert (ours.codes != theirs.codes).float().mean() < 1e-3
    ours.crop(0)
    ours._make_room(2, 75, k.device)
    ours._write(theirs.codes)
    assert all(torch.equal(ours._of_head(h), theirs._of_head(h)) for h in range(HEADS))


def _pairs(index: KeyIndex, finder: Sketch, q: Tensor, lows: Tensor, highs: Tensor) -> Tensor:
    """Which keys each query should look at, product by product."""
    assert finder.projection is not None
    chosen = torch.zeros(*q.shape[:3], index.length, dtype=torch.bool)
    points = finder.projection.of_queries(q)
    for b, h, i in torch.cartesian_prod(*(torch.arange(size) for size in q.shape[:3])).tolist():
        low, high, rank = int(lows[b, i]), int(highs[b, i]), [8, 5, 0, D][h]
        if high <= low:
            continue
        if rank == 0:
            chosen[b, h, i, low:high] = True
            continue
        point = points[b, h, i, :rank]
        unit = torch.minimum(63 / point.abs().max(), 175 / (point.square().sum() + 1e-30).sqrt())
        products = index.codes[b, h, low:high, :rank].long() @ (point * unit).round().long()
        if finder.slack is not None:
            lacks = (products - products[:, None]).clamp(min=0).square().sum(-1)
            chosen[b, h, i, low:high] = lacks <= int(float(unit) * float(finder.slack)) ** 2
            continue
        assert finder.share is not None
        wanted = -int(-((high - low) * float(finder.share) - 1e-6) // 1)
        least = int(products.sort(descending=True).values[wanted - 1]) if wanted else 1 << 20
        chosen[b, h, i, low:high] = products >= least
    return chosen


@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.3, 1.0])
@pytest.mark.parametrize("share", [False, True])
@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000), n=st.integers(1, 4), m=st.sampled_from([1, 5, 31, 32, 33, 64, 150]),
    kv_heads=st.sampled_from([1, 2, HEADS]), setting=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
)  # fmt: skip
def test_an_index_is_asked_key_by_key(
    share: bool, alpha: float, seed: int, n: int, m: int, kv_heads: int, setting: float
) -> None:
    """Over what its products say, and nothing else is read: other keys and values may hold anything."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = _tokens(2, HEADS, n, seed), _tokens(2, kv_heads, m, seed + 1), _tokens(2, kv_heads, m, seed + 2)
    lows = torch.randint(0, m + 1, (2, n), generator=generator)
    highs = torch.randint(0, m + 1, (2, n), generator=generator)
    finder = _sketch(share, setting)
    index = _index(finder, k)
    chosen = _pairs(index, finder, q, lows, highs)
    groups = HEADS // kv_heads
    unread = ~chosen.any(2).view(2, kv_heads, groups, m).any(2)
    with native.counting() as counted:
        hidden = [x.masked_fill(unread[..., None], torch.nan) for x in (k, v)]
        out = asked(index, q, hidden[0], hidden[1], lows, highs, alpha, D**-0.5)
    assert torch.equal(counted.pairs, chosen.sum((2, 3)))
    scores = (q.double() @ k.repeat_interleave(groups, 1).double().mT * D**-0.5).masked_fill(~chosen, -torch.inf)
    weights = torch.where(chosen.any(-1, keepdim=True), entmax(scores, alpha), 0.0).nan_to_num(0.0)
    expected = weights @ v.repeat_interleave(groups, 1).double()
    torch.testing.assert_close(out.double(), expected, atol=2e-4, rtol=0)


@pytest.mark.parametrize("m", [1, 40, 3000])
@pytest.mark.parametrize("share", [False, True])
def test_an_index_says_what_its_finder_would(share: bool, m: int) -> None:
    q, k, v = _tokens(2, HEADS, 2, 5), _tokens(2, 2, m, 6), _tokens(2, 2, m, 7)
    finder, layout = _sketch(share, 0.1), Layout(True, torch.tensor([m, max(m - 3, 1)]), m - 1)
    index = _index(finder, k)
    graph = finder(q, k.repeat_interleave(2, 1), layout)
    assert torch.equal(index.graph(q, layout).dense(), graph.dense())
    out = indexed_attention(index, q, k, v, layout=layout)
    torch.testing.assert_close(out, attention(q, k, v, graph, layout=layout), atol=1e-5, rtol=1e-4)
    double = [x.double() for x in (q, k, v)]
    portable = indexed_attention(index, double[0], double[1], double[2], layout=layout)
    torch.testing.assert_close(portable.float(), out, atol=1e-4, rtol=1e-4)


def test_cropped_selected_and_repeated_as_the_keys_are() -> None:
    finder, k = _sketch(share=False), _tokens(3, 2, 90, 8)
    index = _index(finder, k)
    index.crop(50)
    index.append(k[:, :, 60:75])
    kept = torch.cat([k[:, :, :50], k[:, :, 60:75]], 2)
    assert torch.equal(index.codes, _index(finder, kept).codes)
    order = torch.tensor([2, 0, 0])
    index.select(order)
    index.append(k[order, :, 75:])
    assert torch.equal(index.codes, _index(finder, torch.cat([kept[order], k[order, :, 75:]], 2)).codes)
    index.select(torch.tensor([1]))
    index.repeat(2)
    twice = torch.cat([kept[[0, 0]], k[[0, 0], :, 75:]], 2)
    assert torch.equal(index.codes, _index(finder, twice).codes)
    index.crop(0)
    # Empty, it may be of another batch.
    assert torch.equal(index.append(k).codes, _index(finder, k).codes)


def test_what_does_not_fit_is_refused() -> None:
    finder, k = _sketch(share=False), _tokens(2, 2, 9, 8)
    index = _index(finder, k)
    for wrong in (k[:1], k[..., :8], k[:, :0], k[:, [0, 1, 1]]):
        with pytest.raises(InputError, match="k: got"):
            index.append(wrong)
    assert index.length == 9
    with pytest.raises(InputError, match="finite"):
        index.append(k * torch.inf)
    q = _tokens(2, HEADS, 1, 8)
    with pytest.raises(InputError, match="index: got one of 9 keys"):
        indexed_attention(index, q, k[:, :, 1:], k[:, :, 1:])
    with pytest.raises(InputError, match="finite"):
        indexed_attention(index, q * torch.nan, k, k)
    with pytest.raises(InputError, match="not fitted"):
        Sketch(slack=1.0).index(k)
    assert Window(3).index(k) is None
    assert (Window(3) | finder).index(k) is None


def _bounded(seed: int = 1) -> Sketch:
    """Keys with a mean, and with directions of very different lengths."""
    sample = Sample(_tokens(2, HEADS, 80, seed) * SPREAD, _tokens(2, HEADS, 80, seed + 1) * SPREAD + 1.0)
    return Sketch(slack=1.0, bounded=True).fit([sample])


SPREAD = torch.linspace(1.5, 0.1, D)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.3, 2.5, 1.0])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000), n=st.integers(1, 3), m=st.sampled_from([1, 5, 32, 33, 150, 700]),
    kv_heads=st.sampled_from([1, 2, HEADS]), far=st.sampled_from([0.3, 1.0, 4.0, 60.0]),
)  # fmt: skip
def test_an_exact_index_is_full_attention(alpha: float, seed: int, n: int, m: int, kv_heads: int, far: float) -> None:
    """Whatever the keys are like, also those that no code is for."""
    generator = torch.Generator().manual_seed(seed)
    q, k = _tokens(2, HEADS, n, seed) * SPREAD, _tokens(2, kv_heads, m, seed + 1) * SPREAD + 1.0
    k[:, :, :: max(1, m // 4)] *= far
    v = _tokens(2, kv_heads, m, seed + 2)
    lows = torch.randint(0, m + 1, (2, n), generator=generator)
    highs = torch.randint(0, m + 1, (2, n), generator=generator)
    index = _index(_bounded(), k[:, :, : m // 2], exact=True).append(k[:, :, m // 2 :])
    scale = D**-0.5 * far
    out = asked(index, q, k, v, lows, highs, alpha, scale)
    keys = torch.arange(m)
    seen = ((keys >= lows[..., None]) & (keys < highs[..., None]))[:, None].expand(-1, HEADS, -1, -1)
    groups = HEADS // kv_heads
    scores = (q.double() @ k.repeat_interleave(groups, 1).double().mT * scale).masked_fill(~seen, -torch.inf)
    weights = torch.where(seen.any(-1, keepdim=True), entmax(scores, alpha), 0.0).nan_to_num(0.0)
    expected = weights @ v.repeat_interleave(groups, 1).double()
    most = float(scores.masked_fill(~seen, 0.0).abs().max())
    torch.testing.assert_close(out.double(), expected, atol=3e-5 * max(most, 10.0), rtol=0)


def test_an_exact_index_rules_keys_out() -> None:
    finder = _bounded()
    q, k = _tokens(1, HEADS, 1, 3) * SPREAD * 3, _tokens(1, HEADS, 4000, 4) * SPREAD + 1.0
    index = _index(finder, k, exact=True)
    with native.counting() as counted:
        out = indexed_attention(index, q, k, k)
    assert float(counted.pairs.sum()) < 0.2 * HEADS * 4000
    torch.testing.assert_close(out, attention(q, k, k), atol=1e-4, rtol=0)
    double = indexed_attention(index, q.double(), k.double(), k.double())
    torch.testing.assert_close(double.float(), out, atol=1e-4, rtol=0)
    assert index.bytes_per_key == 12 + 2 + 2


def test_exact_indexes_append_bit_for_bit_and_pack_as_the_kernels_do() -> None:
    finder, k = _bounded(), _tokens(2, 2, 90, 4) * SPREAD + 1.0
    k[0, 0, 17] *= 50
    whole, grown = _index(finder, k, exact=True), _index(finder, k[:, :, :0], exact=True)
    for part in k.split([1, 40, 49], 2):
        grown.append(part)
    portable = _index(finder, k[:, :, :0], exact=True)
    portable._make_room(2, 90, k.device)
    portable._take(k)
    portable.length = 90
    assert torch.equal(grown.codes, whole.codes)
    # Lengths are summed up in another order: rounded up, one in thousands is one more.
    assert (portable.codes - whole.codes).abs().max() <= 1
    assert (portable.codes != whole.codes).float().mean() < 2e-3
    assert not whole.codes[0, 0, 17].any()
    for h in range(HEADS):
        filled = -(-90 // 32) * whole._bytes[h]
        assert torch.equal(grown._of_head(h)[:, :filled], whole._of_head(h)[:, :filled])
    assert _sketch(share=False).index(k, exact=True) is None


def test_heads_of_which_nothing_is_known_look_at_all_keys() -> None:
    q, k = _tokens(1, HEADS, 1, 3), _tokens(1, 2, 50, 4)
    finder = replace(_sketch(share=False), ranks=torch.zeros(HEADS, dtype=torch.long))
    index = _index(finder, k)
    assert index.nbytes == 0
    assert bool(index.graph(q).dense().all())
    torch.testing.assert_close(indexed_attention(index, q, k, k), attention(q, k, k), atol=1e-5, rtol=1e-4)
