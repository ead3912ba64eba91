"""A finder of its own for each head: it predicts what each predicts of its own heads, in pieces that kernels know."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sparsefinder import Layout, attention
from sparsefinder.attending import native
from sparsefinder.finders import (
    BentSketch,
    BigBird,
    BlockTopK,
    Finder,
    Full,
    GlobalTokens,
    Heads,
    KMeans,
    Longformer,
    RandomBlocks,
    Sketch,
    Window,
)
from sparsefinder.learning.projection import Projection

WHICH = (1, 0, 2, 1, 0)
N, D = 19, 8

CENTROIDS = torch.linspace(-1, 1, len(WHICH) * 4 * D).view(len(WHICH), 4, D)
# Three settings of each method; what a method draws differs from head to head, so of those only what heads have in
# common is the same in a part of them.
SETTINGS: dict[str, tuple[Finder, Finder, Finder]] = {
    "windows": (Window(3), Window(0), Window(9)),
    "windows per head": (Window(torch.tensor([1, 3, 5, 7, 9])), Window(2), Window(torch.tensor([9, 7, 5, 0, 1]))),
    "global tokens": (GlobalTokens(1), GlobalTokens(3, last=True), GlobalTokens(0)),
    "everything": (Full(), Window(3), Full()),
    "blocks": (BlockTopK(4, 1, window=3), BlockTopK(4, 2, globals=1), BlockTopK(2, 2)),
    "clusters": (KMeans(4, 1, centroids=CENTROIDS), Window(3), KMeans(4, 2, centroids=CENTROIDS)),
}
LAYOUTS = {
    "plain": Layout(),
    "causal": Layout(causal=True),
    "ragged": Layout(key_lengths=torch.tensor([N, 7]), query_lengths=torch.tensor([N, 7])),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("finders", SETTINGS.values(), ids=SETTINGS)
def test_each_head_has_the_pairs_of_its_finder(finders: tuple[Finder, Finder, Finder], layout: Layout) -> None:
    q, k = torch.randn(2, 2, len(WHICH), N, D, generator=torch.Generator().manual_seed(0))
    found = Heads(finders, WHICH)(q, k, layout)
    assert all(native._knows(piece, found) for piece in found.pieces), found
    whole = [each(q, k, layout).dense() for each in finders]
    for head, one in enumerate(WHICH):
        assert torch.equal(found.dense()[:, head], whole[one][:, head])


def scored(r: int, ranks: bool = False, **dial: float) -> Sketch:
    maps = 20 * torch.randn(2, len(WHICH), D, r, generator=torch.Generator().manual_seed(r))
    looks_at = torch.tensor([r, 0, r - 1, 1, r]) if ranks else None
    return Sketch(r, projection=Projection(*maps), ranks=looks_at, **dial)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(
    "finders",
    [
        (scored(2, slack=300.0), scored(4, slack=500.0), scored(3, slack=0.0)),
        (scored(4, share=0.2), scored(2, share=0.5), scored(3, share=0.0)),
        (scored(4, True, slack=300.0), scored(2, slack=500.0), scored(6, True, slack=900.0)),
    ],
    ids=["slack", "share", "ranks"],
)
def test_sketches_of_several_ranks_are_one(finders: tuple[Sketch, Sketch, Sketch], layout: Layout) -> None:
    q, k = torch.randn(2, 2, len(WHICH), N, D, generator=torch.Generator().manual_seed(0))
    one = Sketch.joined(finders, WHICH)
    assert one is not None
    found, whole = one(q, k, layout).dense(), [each(q, k, layout).dense() for each in finders]
    for head, which in enumerate(WHICH):
        assert torch.equal(found[:, head], whole[which][:, head])
    assert 0 < found.float().mean() < 1
    # What is compared differently, or not fitted, is not the same.
    assert Sketch.joined((finders[0], Sketch(2, slack=1.0)), (0, 1, 0, 1, 0)) is None
    assert Sketch.joined((scored(2, slack=1.0), scored(2, share=0.5)), (0, 1, 0, 1, 0)) is None


def bent(r: int, units: int, ranks: bool = False, **dial: float) -> BentSketch:
    generator = torch.Generator().manual_seed(r)
    layers = torch.randn(2, len(WHICH), D + 1, units, generator=generator)
    maps = 20 * torch.randn(2, len(WHICH), D + units, r, generator=generator)
    looks_at = torch.tensor([r, 0, r - 1, 1, r]) if ranks else None
    return BentSketch(
        r, units=units, projection=Projection(*maps), ranks=looks_at, query_layer=layers[0], key_layer=layers[1], **dial
    )


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(
    "finders",
    [
        (bent(2, 3, slack=300.0), bent(4, 3, slack=900.0), bent(3, 3, slack=0.0)),
        (bent(4, 2, share=0.2), bent(2, 5, share=0.5), bent(3, 3, share=0.0)),
        (bent(4, 2, True, slack=300.0), bent(2, 5, slack=900.0), bent(6, 3, True, slack=900.0)),
    ],
    ids=["slack", "share and units", "ranks"],
)
def test_bent_sketches_of_several_ranks_are_one(
    finders: tuple[BentSketch, BentSketch, BentSketch], layout: Layout
) -> None:
    q, k = torch.randn(2, 2, len(WHICH), N, D, generator=torch.Generator().manual_seed(0))
    one = BentSketch.joined(finders, WHICH)
    assert one is not None
    assert one.units == max(each.units for each in finders)
    found, whole = one(q, k, layout).dense(), [each(q, k, layout).dense() for each in finders]
    for head, which in enumerate(WHICH):
        assert torch.equal(found[:, head], whole[which][:, head])
    assert 0 < found.float().mean() < 1
    # Straight ones and those that were not fitted are not the same.
    dial = {finders[0].dial.field: 0.5}
    for other in (scored(2, **dial), BentSketch(2, **dial), replace(finders[0], key_layer=None)):
        assert BentSketch.joined((finders[0], other), (0, 1, 0, 1, 0)) is None


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(
    "finders",
    [
        (BigBird(1, 4, 3), BigBird(2, 4, 5), BigBird(2, 2, 3)),
        (Longformer(3, 1), Longformer(5, 2), Longformer(0, 3)),
        (RandomBlocks(1), RandomBlocks(2), RandomBlocks(3, 2)),
    ],
    ids=["BigBird", "Longformer", "random"],
)
def test_random_pieces_of_heads_are_joined_and_attended_over(
    finders: tuple[Finder, Finder, Finder], layout: Layout
) -> None:
    q, k, v = torch.randn(3, 2, len(WHICH), N, D, generator=torch.Generator().manual_seed(0))
    found = Heads(finders, WHICH)(q, k, layout)
    assert all(native._knows(piece, found) for piece in found.pieces), found
    # One for each kind, and for each size of blocks: bands, rows, columns, two of blocks.
    assert len(found.pieces) <= 5, found
    for number, one in enumerate(finders):
        heads = [head for head, place in enumerate(WHICH) if place == number]
        assert torch.equal(found.dense()[:, heads], one(q[:, heads], k[:, heads], layout).dense())
    out = attention(q, k, v, found, layout=layout, backend="native")
    torch.testing.assert_close(out, attention(q, k, v, found, layout=layout, backend="reference"), atol=2e-5, rtol=1e-4)
