"""Maps that bend: where learning them begins, what it draws, and that codes have their room."""

import pytest
import torch

from sparsefinder import InputError
from sparsefinder.core.mapping import widened
from sparsefinder.finders import BentSketch
from sparsefinder.learning.bends import bend
from sparsefinder.learning.moments import low_rank

from ..synthetic import HEADS, D, batches, grouped

UNITS = 5


def test_learning_begins_with_the_products_of_the_maps_that_are_given() -> None:
    samples, held = batches(2), grouped(2, seed=99)
    scores = low_rank(samples, 2)
    bent, query_layer, key_layer = bend(scores, samples, 1, UNITS, rate=0.0)
    wide = widened(held.q, query_layer), widened(held.k, key_layer)
    assert [each.shape[-1] for each in wide] == [D + UNITS, D + UNITS]
    found, given = (maps.of_queries(q) @ maps.of_keys(k).mT for maps, q, k in ((bent, *wide), (scores, held.q, held.k)))
    torch.testing.assert_close(found, given, atol=1e-3, rtol=1e-3)
    # What units say is there to learn from, and about as large as one.
    said = torch.cat([each[..., D:].flatten() for each in wide])
    assert 0.3 < float(said.square().mean().sqrt()) < 1.5


def test_learning_follows_from_the_seed_and_says_how_far_it_is() -> None:
    samples, losses = batches(3), []
    scores = low_rank(samples, 1)
    one = bend(scores, samples, 30, UNITS, progress=lambda step, loss: losses.append((step, loss)))
    assert [step for step, _ in losses] == list(range(1, 31))
    assert sum(loss for _, loss in losses[-5:]) < sum(loss for _, loss in losses[:5])
    for seed, same in ((0, True), (1, False)):
        other = bend(scores, samples, 30, UNITS, seed=seed)
        assert torch.equal(other[0].queries, one[0].queries) is same
        assert torch.equal(other[1], one[1]) is same
        assert torch.equal(other[2], one[2]) is same
    with pytest.raises(InputError, match="steps: got 0"):
        bend(scores, samples, 0, UNITS)


def test_maps_that_bend_use_the_room_of_codes() -> None:
    samples = batches(4)
    maps, _, layer = bend(low_rank(samples, 2), samples, 5, UNITS)
    keys = (maps.of_keys(widened(sample.k, layer)) for sample in samples)
    squares = torch.cat([each.square().sum(-1).transpose(0, 1).flatten(1) for each in keys], -1)
    assert torch.allclose(squares.mean(-1).sqrt(), torch.tensor(64.0), rtol=1e-3)


def test_tokens_of_other_heads_or_dimensions_are_refused() -> None:
    finder = BentSketch(2, slack=1.0, units=UNITS, steps=1).fit(batches(2))
    right, fewer, wider = (torch.zeros(1, heads, 4, d) for heads, d in ((HEADS, D), (HEADS - 1, D), (HEADS, D + 1)))
    for name, q, k in (("q", fewer, right), ("k", right, fewer), ("q", wider, wider)):
        with pytest.raises(InputError, match=f"{name}: got .*want {HEADS} heads of {D} dimensions"):
            finder.compared(q, k)
