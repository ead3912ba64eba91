"""Projections: what learning brings, what it draws, and that nothing depends on padding or on chance."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from sparsefinder import Graph, InputError, Layout
from sparsefinder.learning.learn import learn
from sparsefinder.learning.moments import low_rank, principal
from sparsefinder.learning.projection import Projection
from sparsefinder.learning.rows import refine
from sparsefinder.learning.sample import Pooling, Sample, block_vectors, pooled
from sparsefinder.learning.triples import Triples

from ..synthetic import HEADS, D, batches, grouped

POOLINGS: tuple[Pooling, ...] = ("mean", "concat")


def _recall(projection: Projection, sample: Sample, share: float = 0.2) -> float:
    """Of the gold pairs, how many are among the nearest share of all pairs of their head."""
    apart = torch.cdist(projection.of_queries(sample.q), projection.of_keys(sample.k)).flatten(2)
    near = apart <= apart.quantile(share, -1, keepdim=True)
    gold = sample.gold.dense().flatten(2)
    return ((near & gold).sum(-1) / gold.sum(-1)).mean().item()


@pytest.mark.parametrize("shared", [True, False])
def test_learning_beats_where_it_started(shared: bool) -> None:
    held = grouped(4, seed=99)
    losses: list[float] = []
    first = learn(batches(1), 4, shared=shared, rate=0.0)
    later = learn(batches(40), 4, shared=shared, rate=0.05, progress=lambda step, loss: losses.append(loss))
    assert len(losses) == 40
    assert sum(losses[-5:]) < sum(losses[:5])
    assert _recall(later, held) > _recall(first, held) + 0.05
    assert later.shared == shared


def test_learning_is_repeatable_and_does_not_touch_the_global_generator() -> None:
    torch.manual_seed(3)
    one = learn(batches(3), seed=5)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1), drawn)
    assert torch.equal(learn(batches(3), seed=5).queries, one.queries)
    assert not torch.equal(learn(batches(3), seed=6).queries, one.queries)


def test_padding_teaches_nothing() -> None:
    lengths = torch.tensor([40, 17])
    layout = Layout(key_lengths=lengths, query_lengths=lengths)
    sample = grouped(2, layout=layout)
    other = Sample(sample.q.clone(), sample.k.clone(), layout, sample.scale)
    other.q[1, :, 17:], other.k[1, :, 17:] = 30.0, -30.0
    for make in (learn, principal, low_rank):
        assert torch.equal(make([sample], 3).keys, make([other], 3).keys)
    for pooling in POOLINGS:
        one, two = (learn([each], 3, block=4, pooling=pooling) for each in (sample, other))
        assert torch.equal(one.keys, two.keys)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("block", "pooling"), [(1, "mean"), (2, "mean"), (2, "concat")])
def test_negatives_are_uniform_over_what_is_seen_and_not_gold(causal: bool, block: int, pooling: Pooling) -> None:
    sample = grouped(1, n=14, layout=Layout(causal, key_lengths=torch.tensor([13])), strength=3.0)
    gold, seen = sample.gold.dense(), Graph.full(sample.layout.of(sample.q, sample.k)).dense()
    if block > 1:
        gold, seen = (_any_in_blocks(pairs, block) for pairs in (gold, seen))
    n = gold.shape[2]
    generator = torch.Generator().manual_seed(0)
    counts = torch.zeros(gold.shape, dtype=torch.long)
    positives = torch.zeros_like(counts)
    draws = 1500
    for _ in range(draws):
        found = Triples.of(sample, block, generator, pooling)
        assert found is not None
        head, i = found.rows // n, found.rows % n
        positives.index_put_((head * 0, head, i, found.positive % n), torch.ones_like(i), accumulate=True)
        counts.index_put_((head * 0, head, i, found.negative % n), torch.ones_like(i), accumulate=True)
    possible = seen & ~gold
    degree, others = gold.sum(-1, keepdim=True), possible.sum(-1, keepdim=True)
    assert torch.equal(positives, gold * (others > 0) * draws)
    expected = torch.where(possible, draws * degree / others.clamp(min=1), 0.0)
    assert (counts[~possible] == 0).all()
    assert ((counts - expected).abs() <= 5 * expected.sqrt() + 1).all()


def _any_in_blocks(pairs: Tensor, block: int) -> Tensor:
    padded = torch.nn.functional.pad(pairs, (0, -pairs.shape[-1] % block, 0, -pairs.shape[-2] % block))
    return padded.unflatten(3, (-1, block)).unflatten(2, (-1, block)).any(5).any(3)


@pytest.mark.parametrize("summed", [False, True])
def test_the_loss_is_the_papers(summed: bool) -> None:
    sample = grouped(2, n=9)
    found = Triples.of(sample, 1, torch.Generator().manual_seed(0))
    assert found is not None
    maps = torch.randn(HEADS, D, 3)
    gaps: dict[int, list[float]] = {}
    q, k = ((tokens @ maps).flatten(0, 2) for tokens in (sample.q, sample.k))
    for row, near, far in zip(*(each.tolist() for each in (found.rows, found.positive, found.negative)), strict=True):
        gap = (q[row] - k[near]).square().sum() - (q[row] - k[far]).square().sum()
        gaps.setdefault(row, []).append(gap.item())
    terms = [sum(each) for each in gaps.values()] if summed else [gap for each in gaps.values() for gap in each]
    expected = sum(max(0.0, 1 + term) for term in terms) / len(terms)
    assert found.loss(maps, maps, 1.0, summed).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_loss_of_blocks_is_that_of_their_vectors(pooling: Pooling) -> None:
    lengths = torch.tensor([23, 14])
    sample = grouped(2, n=23, layout=Layout(key_lengths=lengths, query_lengths=lengths))
    found = Triples.of(sample, 2, torch.Generator().manual_seed(0), pooling)
    assert found is not None
    maps = torch.randn(HEADS, D, 3)
    q, k = (block_vectors(tokens @ maps, lengths, 2, pooling).flatten(0, 2) for tokens in (sample.q, sample.k))
    gaps = (q[found.rows] - k[found.positive]).square().sum(-1) - (q[found.rows] - k[found.negative]).square().sum(-1)
    expected = (1 + gaps).clamp(min=0).mean().item()
    assert found.loss(maps, maps, 1.0, False).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_learning_blocks_begins_some_margins_apart(pooling: Pooling) -> None:
    sample = grouped(8, n=40)
    maps = learn([sample], 4, block=4, pooling=pooling, rate=0.0).queries
    q, k = (block_vectors(tokens @ maps, None, 4, pooling) for tokens in (sample.q, sample.k))
    assert torch.cdist(q, k).square().mean((0, 2, 3)).tolist() == pytest.approx([4.0] * HEADS, rel=0.3)


def test_all_ranks_give_the_scores_themselves_up_to_a_constant_a_row() -> None:
    sample = grouped(3)
    scores = low_rank([sample], D)
    exact = sample.score_scale * sample.q @ sample.k.mT
    sketch = scores.of_queries(sample.q) @ scores.of_keys(sample.k).mT
    assert torch.allclose(exact, sketch, atol=1e-3)


def test_low_rank_is_the_best_of_its_rank() -> None:
    sample = grouped(4)
    scores = low_rank([sample], 2)
    k = sample.k - sample.k.mean((0, 2), keepdim=True)
    q, k = (tokens.transpose(0, 1).flatten(1, 2).double() for tokens in (sample.q, k))
    exact = sample.score_scale * q @ k.mT
    ours = (q @ scores.queries.double()) @ (k @ scores.keys.double()).mT
    left = torch.linalg.svdvals(exact)[:, 2:].square().sum(-1)
    assert torch.allclose((exact - ours).square().sum((-1, -2)), left, rtol=1e-3)


def surprise(maps: Projection, sample: Sample) -> float:
    """How unlikely gold keys are, each of a row drawn alike, if keys are drawn by the softmax of the maps' products."""
    shares = (maps.of_queries(sample.q) @ maps.of_keys(sample.k).mT).softmax(-1)
    rows = zip(shares.flatten(0, 2), sample.gold.dense().flatten(0, 2), strict=True)
    means = [-(row[gold].log().mean()) for row, gold in rows]
    return float(torch.stack(means).mean())


def test_learning_scores_further_tells_gold_keys_of_new_rows() -> None:
    samples, losses = batches(6), []
    first = low_rank(samples, 1)
    later = refine(first, samples, 40, progress=lambda step, loss: losses.append((step, loss)))
    assert [step for step, _ in losses] == list(range(1, 41))
    held = grouped(6, seed=99)
    # Keys are rounded later: what they are multiplied by is given back by queries.
    assert surprise(later, held) < surprise(first, held) - 0.05
    assert torch.equal(later.queries, refine(first, samples, 40).queries)
    with pytest.raises(InputError, match="steps: got 0"):
        refine(first, samples, 0)


def test_scores_that_were_learned_use_the_room_of_codes() -> None:
    samples = batches(6)
    later = refine(low_rank(samples, 2), samples, 5)
    squares = torch.cat([later.of_keys(sample.k).square().sum(-1).transpose(0, 1).flatten(1) for sample in samples], -1)
    assert torch.allclose(squares.mean(-1).sqrt(), torch.tensor(64.0), rtol=1e-3)


def test_principal_directions_are_those_of_the_highest_variance() -> None:
    samples = batches(2)
    found = principal(samples, 3)
    for head in range(HEADS):
        tokens = torch.cat([side[:, head].flatten(0, 1) for sample in samples for side in (sample.q, sample.k)])
        kept = (tokens - tokens.mean(0)) @ found.queries[head]
        best = torch.linalg.svdvals(tokens - tokens.mean(0))[:3]
        assert torch.allclose(kept.norm(dim=0), best, rtol=1e-3)


@pytest.mark.parametrize("shared", [True, False])
def test_saving_and_loading(tmp_path: Path, shared: bool) -> None:
    one = learn(batches(1), shared=shared)
    one.save(tmp_path / "projection.safetensors")
    again = Projection.load(tmp_path / "projection.safetensors")
    assert torch.equal(again.queries, one.queries)
    assert torch.equal(again.keys, one.keys)
    assert again.shared == shared


def test_pooling_keeps_a_uniform_sample_of_real_tokens() -> None:
    tokens = torch.arange(600.0).reshape(6, 1, 100, 1)
    real = torch.arange(100) < torch.tensor([100, 50, 0, 100, 100, 100])[:, None]
    parts = [(tokens[:3], real[:3]), (tokens[3:], real[3:])]
    assert torch.equal(pooled(parts, 1000, 0)[0, :, 0], tokens[:, 0, :, 0][real])
    counts = torch.zeros(600)
    for seed in range(400):
        kept = pooled(parts, 45, seed)[0, :, 0].long()
        assert len(kept) == 45
        counts[kept] += 1
    assert counts[150:300].sum() == 0
    # Each of 450 tokens is kept in one of ten draws; five standard deviations are 30.
    assert (counts[torch.cat([torch.arange(150), torch.arange(300, 600)])] - 40).abs().max() <= 30


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="samples: got no"):
        learn([])
    with pytest.raises(InputError, match="r: got 13"):
        principal(batches(1), 13)
    alone = Sample(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4))
    with pytest.raises(InputError, match="no query with both"):
        learn([alone])
    with pytest.raises(InputError, match="q: got shape"):
        principal(batches(1)).of_queries(torch.zeros(1, 2, 3, D))
