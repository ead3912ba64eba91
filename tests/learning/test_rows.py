"""Rows that rankings are learned from: queries that have a choice, with the weights that the whole sequence gives."""

from dataclasses import replace

import entmax as package
import torch

from sparsefinder import Layout
from sparsefinder.learning import rows
from sparsefinder.learning.rows import GoldRows

from ..synthetic import grouped

LENGTHS = torch.tensor([40, 9])


def test_rows_are_those_of_the_gold_graph() -> None:
    for layout in (Layout(), Layout(True), Layout(True, LENGTHS, query_lengths=LENGTHS), Layout(False, LENGTHS)):
        sample = grouped(2, layout=layout)
        gold, degrees = sample.gold.dense(), sample.gold.grid.degrees()
        for b in range(2):
            found = GoldRows.of(sample, b, torch.Generator())
            assert found is not None
            for place, query in enumerate(found.q[0]):
                ((i,),) = (sample.q[b, 0] == query).all(-1).nonzero().tolist()
                width = found.k.shape[1]
                assert int(found.seen[place].sum()) == int(degrees[b, i]) > 1
                assert torch.equal(found.weights[:, place] > 0, gold[b, :, i, :width])
                assert torch.equal(found.k, sample.k[b, :, :width])


def test_rows_of_softmax_are_gold_by_mass() -> None:
    for alpha, mass in ((1.0, None), (1.0, 0.6), (1.5, 0.8)):
        sample = replace(grouped(1, layout=Layout(True)), alpha=alpha, mass=mass)
        found, gold = GoldRows.of(sample, 0, torch.Generator()), sample.gold.dense()
        assert found is not None
        for place, query in enumerate(found.q[0]):
            ((i,),) = (sample.q[0, 0] == query).all(-1).nonzero().tolist()
            assert torch.equal(found.weights[:, place] > 0, gold[0, :, i, : found.k.shape[1]])


def test_no_more_rows_than_a_step_takes_and_none_without_a_choice() -> None:
    sample = grouped(1, n=rows.QUERIES + 9)
    found = GoldRows.of(sample, 0, torch.Generator())
    assert found is not None
    assert found.q.shape[1] == rows.QUERIES
    assert GoldRows.of(grouped(1, n=1), 0, torch.Generator()) is None


def test_cross_entropy_is_least_for_the_distribution_itself() -> None:
    sample = grouped(1, layout=Layout(True))
    found = GoldRows.of(sample, 0, torch.Generator())
    assert found is not None
    wanted = found.seen / found.seen.sum(-1, keepdim=True)
    same = found.cross_entropy(torch.zeros_like(found.weights), wanted.expand_as(found.weights))
    for seed in range(3):
        other = torch.randn(found.weights.shape, generator=torch.Generator().manual_seed(seed))
        assert found.cross_entropy(other, wanted.expand_as(other)) > same


def test_fenchel_young_is_nothing_for_the_distribution_itself_and_its_gradient_is_the_difference() -> None:
    """Against the loss of the entmax package, which is of each row."""
    found = GoldRows.of(grouped(1, layout=Layout(True)), 0, torch.Generator())
    assert found is not None
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(found.weights.shape, generator=generator)
    hidden = scores.masked_fill(~found.seen, -1e9)
    same = package.entmax15(hidden, dim=-1)
    assert abs(float(found.fenchel_young(scores, same))) < 1e-4
    scores.requires_grad_()
    loss = found.fenchel_young(scores, found.weights)
    loss.backward()
    count = scores.shape[1]
    torch.testing.assert_close(scores.grad, (same - found.weights) / count, atol=1e-5, rtol=1e-4)
    # Of one key of each row, as the package has it.
    target = found.weights.argmax(-1)
    one = torch.nn.functional.one_hot(target, scores.shape[-1]).float()
    theirs = package.entmax15_loss(hidden.flatten(0, 1), target.flatten()).sum() / count
    torch.testing.assert_close(found.fenchel_young(scores, one).detach(), theirs, atol=1e-3, rtol=1e-4)
