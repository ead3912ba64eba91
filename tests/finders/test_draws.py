"""Random choices: uniform, and bound to seed and place."""

import pytest
import torch

from sparsefinder import Layout, Window
from sparsefinder.finders import BigBird, Finder, Longformer, Place, RandomBlocks
from sparsefinder.finders.draws import choose, noise


def test_every_set_is_drawn_equally_often() -> None:
    places = torch.arange(20_000)
    chosen = choose(2, torch.full_like(places, 5), 3, places).sort(-1).values
    sets, counts = torch.unique(chosen, dim=0, return_counts=True)
    assert len(sets) == 10
    # Three standard deviations of a binomial of 20,000 draws with a chance of 1 in 10 are 127.
    assert ((counts - 2000).abs() < 160).all()


def test_where_there_is_too_little_to_choose_from_all_is_chosen() -> None:
    chosen = choose(3, torch.tensor([0, 2, 3, -4]), 0, torch.arange(4))
    assert chosen.tolist() == [[-1, -1, -1], [0, 1, -1], [0, 1, 2], [-1, -1, -1]]


def test_neighbouring_places_and_seeds_have_nothing_in_common() -> None:
    bits = torch.stack([noise(seed, torch.arange(2000)) >> 20 & 1 for seed in range(6)]).double()
    assert (bits.mean(1) - 0.5).abs().max() < 0.05
    assert (torch.corrcoef(bits) - torch.eye(6)).abs().max() < 0.08
    assert torch.corrcoef(torch.stack([bits[0, :-1], bits[0, 1:]]))[0, 1].abs() < 0.08


def test_random_blocks_reach_the_whole_sequence_and_never_what_is_covered() -> None:
    q = torch.zeros(1, 1000, 64, 1)
    reached = RandomBlocks(2)(q, q).dense().float().mean((0, 1))
    assert reached.min() > 0
    assert abs(float(reached.mean()) - 2 / 64) < 1e-6
    # The random pairs come on top of window and global tokens: as many in every row but the global one, which is full.
    degrees = BigBird(3, window=5, globals=1)(q, q).degrees()
    fixed = BigBird(0, window=5, globals=1)(q, q).degrees()
    assert (degrees - fixed)[..., 1:].eq(3).all()
    causal = RandomBlocks(2)(q, q, Layout(causal=True)).degrees()
    assert causal[0, 0].tolist() == [1] + [2] * 63


PLACES = [Place(kind, layer) for kind in ("encoder", "decoder", "cross") for layer in range(3)]


@pytest.mark.parametrize("united", [False, True], ids=["alone", "in a union"])
@pytest.mark.parametrize("finder", [BigBird(2, 2), Longformer(0, 4), RandomBlocks(2, 2)], ids=repr)
def test_every_layer_and_kind_has_draws_of_its_own_and_the_same_again(finder: Finder, united: bool) -> None:
    """A stack of layers would see the same blocks again and again otherwise."""
    q = torch.zeros(1, 2, 48, 1)
    finder = Window(3) | finder if united else finder
    drawn = [finder.at(place)(q, q).dense() for place in PLACES]
    for place, one in zip(PLACES, drawn, strict=True):
        assert torch.equal(finder.at(place)(q, q).dense(), one)
        assert torch.equal(finder.apart(place)(q, q).dense(), one)
        assert sum(torch.equal(one, other) for other in drawn) == 1
