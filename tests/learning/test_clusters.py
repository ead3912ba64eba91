"""Clusters that are learned for finding: gold keys are found in fewer pairs than with those of k-means."""

import torch

from sparsefinder import Layout, Sample
from sparsefinder.finders import Probe
from sparsefinder.finders.base import Fitting
from sparsefinder.finders.centroids import nearest
from sparsefinder.learning.clusters import learn_clusters

HEADS, N, D = 3, 96, 8
HOW = Fitting(seed=0)


def tokens(seed: int) -> Sample:
    """Queries look along two dimensions, in which few keys are long: most keys are nobody's."""
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(2, HEADS, N, D, generator=generator) for _ in range(2))
    q[..., 2:] *= 0.3
    k[..., :2] *= torch.where(torch.rand(2, HEADS, N, 1, generator=generator) < 0.2, 2.0, 0.2)
    return Sample(4 * q, k, Layout(), 0.5)


TRAIN, UNSEEN = [tokens(seed) for seed in range(6)], tokens(9)


def looked_at(probe: Probe, sample: Sample, recall: float) -> float:
    """The share of all pairs that are looked at where each head finds so many of the gold ones."""
    q, k = probe.compared(sample.q, sample.k)
    grid = sample.layout.of(sample.q, sample.k)
    needed = probe.needed(q, k, grid, slice(None))
    shares = []
    for head in range(grid.heads):
        gold = needed[:, head][sample.gold.dense()[:, head]].sort().values
        shares.append((needed[:, head] <= gold[int(recall * (len(gold) - 1))]).double().mean())
    return float(torch.stack(shares).mean())


def test_learned_clusters_find_as_much_in_fewer_pairs_of_a_sequence_not_learned_from() -> None:
    plain = Probe(16, slack=1.0).fit(TRAIN, HOW)
    learned = Probe(16, slack=1.0, steps=200).fit(TRAIN, HOW)
    for recall in (0.8, 0.9, 0.95):
        assert looked_at(learned, UNSEEN, recall) < 0.85 * looked_at(plain, UNSEEN, recall)


def test_the_loss_goes_down_and_only_what_nobody_looks_for_is_heaped_up() -> None:
    plain = Probe(16, slack=1.0).fit(TRAIN, HOW)
    assert plain.projection is not None
    assert plain.centroids is not None
    losses: list[float] = []
    found = learn_clusters(
        plain.projection, plain.centroids, TRAIN, 120, progress=lambda step, loss: losses.append(loss)
    )
    assert len(losses) == 120
    assert sum(losses[-20:]) < 0.95 * sum(losses[:20])
    keys = torch.cat([sample.k @ plain.projection.keys.to(sample.k) for sample in TRAIN])
    members = nearest(keys, found.centroids, 1)
    for head in range(keys.shape[1]):
        shares = members[:, head].flatten().bincount(minlength=16) / members[:, head].numel()
        assert shares.max() < 0.8
        assert shares.sort().values[-2] < 0.2


def test_the_same_seed_makes_the_same_clusters() -> None:
    one, other = (Probe(16, slack=1.0, steps=5).fit(TRAIN, HOW) for _ in range(2))
    assert one.asks is not None
    assert other.asks is not None
    assert torch.equal(one.asks, other.asks)
    assert one.offsets is not None
    assert not torch.equal(one.offsets, torch.zeros_like(one.offsets))
