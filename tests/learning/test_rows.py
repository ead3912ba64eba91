"""Rows that rankings are learned from: queries that have a choice, with the weights that the whole sequence gives."""

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
