"""A sketch of maps that bend finds what no straight one of its size can, and without bends it is a sketch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import pad

from sparsefinder import InputError, Sample
from sparsefinder.finders import BentSketch, Fitting, GlobalTokens, Heads, KMeans, Sketch
from sparsefinder.finders.dials import Needs
from sparsefinder.learning.projection import Projection
from sparsefinder.testing import scenes

from .cases import BENT, CODED, HEADS, LAYERS, D, R

STEPS, SPARSITY, SIGNS = 200, 0.9, 4
UNITS = LAYERS[0].shape[-1]


def corners(count: int, seed: int) -> Sample:
    """Tokens at the corners of a cube of four dimensions, each of which attends to its own.

    In two straight dimensions the shadow of such a cube has eight corners at the most, so that half of the sixteen lie
    between others, and no query has them first. In two bent ones, all sixteen may lie on a circle.
    """
    generator = torch.Generator().manual_seed(seed)
    signs = 2.0 * torch.randint(2, (count, 64, SIGNS), generator=generator) - 1
    q, k = 0.1 * torch.randn(2, count, 2, 64, 8, generator=generator)
    for tokens in (q, k):
        for head in range(2):
            tokens[:, head, :, head : head + SIGNS] += 2 * signs
    return Sample(q, k, scale=1.0)


def _recall(one: Sketch | BentSketch) -> float:
    needs = Needs(one, [corners(4, seed=100)])
    return float(needs.recall(needs.settings(sparsity=SPARSITY)).mean())


def test_bent_maps_find_what_no_straight_ones_do() -> None:
    samples = [corners(4, seed) for seed in range(4)]
    straight = _recall(Sketch(2, slack=1.0, steps=STEPS).fit(samples))
    bent = _recall(BentSketch(2, slack=1.0, steps=STEPS).fit(samples))
    assert straight < 0.55
    assert bent > straight + 0.2


@pytest.mark.parametrize("dial", [{"slack": 1.5}, {"share": 0.3}, {"slack": torch.tensor([0.5, 1.5, 3.0])}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_with_units_that_say_nothing_it_is_the_plain_sketch(dial: dict[str, Any], dtype: torch.dtype) -> None:
    maps, *layers = (each.to(dtype) for each in (torch.stack([CODED.queries, CODED.keys]), *LAYERS))
    plain = Sketch(R, **dial, projection=Projection(*maps))
    bent = BentSketch(R, **dial, units=UNITS, projection=Projection(*pad(maps, (0, 0, 0, UNITS))))
    bent = replace(bent, query_layer=layers[0], key_layer=layers[1])
    for scene in scenes(HEADS, D, dtype=dtype):
        assert torch.equal(scene.found(bent), scene.found(plain)), scene.name


def test_what_is_learned_follows_from_the_seed() -> None:
    samples, held = [corners(2, 0)], corners(1, 100)
    one = BentSketch(2, slack=1.0, steps=3, units=4)
    found = [one.fit(samples, Fitting(seed=seed))(held.q, held.k).dense() for seed in (0, 0, 1)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_no_index_is_kept_while_decoding_and_none_is_claimed() -> None:
    one = BentSketch(R, slack=1.5, units=UNITS, projection=BENT, query_layer=LAYERS[0], key_layer=LAYERS[1])
    for finder in (one, one | GlobalTokens(1), Heads((one, KMeans(2)), (0, 1, 0))):
        assert finder.index(torch.zeros(1, HEADS, 0, D)) is None


def test_a_higher_rank_and_wider_maps_cost_more() -> None:
    density = torch.tensor([0.1, 0.1])
    prices = [BentSketch(r, 1.0, units=units).price(density, 4096, 64) for r, units in ((4, 8), (4, 64), (8, 64))]
    assert bool((prices[0] < prices[1]).all())
    assert bool((prices[1] < prices[2]).all())
    assert bool((Sketch(4, 1.0).price(density, 4096, 64) < prices[0]).all())


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({"r": 0}, "r: got 0"),
        ({"steps": 0}, "steps: got 0, want a whole number from 1 upwards"),
        ({"units": 0}, "units: got 0"),
        ({"share": 0.1}, "parameters of bent-sketch: got share 0.1, slack 1.0, want share or slack among them"),
    ],
)
def test_what_cannot_be_is_said(settings: dict[str, Any], want: str) -> None:
    with pytest.raises(InputError, match=want):
        BentSketch(**{"slack": 1.0, **settings})


def test_queries_of_other_dimensions_are_refused() -> None:
    one = BentSketch(R, slack=1.5, units=UNITS, projection=BENT, query_layer=LAYERS[0], key_layer=LAYERS[1])
    with pytest.raises(InputError, match=f"want {HEADS} heads of {D} dimensions"):
        one(torch.zeros(1, HEADS, 4, D + 1), torch.zeros(1, HEADS, 4, D + 1))
    with pytest.raises(InputError, match="bent-sketch, which was not fitted"):
        replace(one, query_layer=None)(torch.zeros(1, HEADS, 4, D), torch.zeros(1, HEADS, 4, D))
