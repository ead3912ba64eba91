"""What methods that choose tokens learn is better than where they begin; and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from sparsefinder import InputError, Sample, attention
from sparsefinder.finders import (
    ClusterFormer,
    Finder,
    Fitting,
    HashAttention,
    Learned,
    LightningIndexer,
    Loki,
    MagicPig,
    Smyrf,
    SparQ,
)
from sparsefinder.finders.dials import Needs
from sparsefinder.learning.projection import Projection

from ..synthetic import HEADS as MADE_UP_HEADS
from ..synthetic import D, batches, grouped
from .cases import CASES, HEADS, Case, tokens

STEPS, SPARSITY = 40, 0.7


def _recall(one: Finder) -> float:
    """The recall of the graphs of one sparsity, on sequences that nothing was learned from."""
    needs = Needs(one, [grouped(4, seed=200)])
    return float(needs.recall(needs.settings(sparsity=SPARSITY)).mean())


def _first_dimensions(loki: Loki) -> Loki:
    maps = torch.eye(D)[:, : loki.r].expand(MADE_UP_HEADS, -1, -1).contiguous()
    return replace(loki, projection=Projection(maps, maps))


def _random_heads(one: LightningIndexer) -> LightningIndexer:
    shapes = {"query_maps": (D, one.indexers * one.r), "key_maps": (D, one.r), "gates": (D + 1, one.indexers)}
    generator = torch.Generator().manual_seed(1)
    maps: dict[str, Any] = {
        name: torch.randn(MADE_UP_HEADS, *shape, generator=generator) for name, shape in shapes.items()
    }
    return replace(one, **maps)


LEARNED: dict[str, tuple[Learned, Callable[[Any], Finder]]] = {
    "loki": (Loki(2, 0.2), _first_dimensions),
    "hash-attention": (HashAttention(16, 0.2, steps=STEPS), lambda one: replace(one, steps=0).fit(batches(2))),
    "dsa": (LightningIndexer(2, 0.2, 2, STEPS), _random_heads),
}


@pytest.mark.parametrize("name", LEARNED)
def test_what_is_learned_beats_where_it_begins(name: str) -> None:
    one, start = LEARNED[name]
    learned, before = _recall(one.fit(batches(6))), _recall(start(one))
    assert learned > 0.9
    assert learned > before + 0.15


@pytest.mark.parametrize("name", LEARNED)
def test_what_is_learned_follows_from_the_seed(name: str) -> None:
    one, _ = LEARNED[name]
    held = grouped(1, seed=200)
    few = one if name == "loki" else replace(one, steps=3)  # type: ignore[call-arg]
    found = [few.fit(batches(2), Fitting(seed=seed))(held.q, held.k).dense() for seed in (0, 0, 1)]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2]) is (name == "loki")


def test_magic_pig_takes_the_mean_off_keys() -> None:
    """With it, what all keys have in common changes no graph."""
    sample = grouped(2)
    far = Sample(sample.q, sample.k + 50, sample.layout, sample.scale)
    one, two = (MagicPig(4, 16).fit([each])(each.q, each.k).dense() for each in (sample, far))
    # But for keys that lie on a hyperplane, up to the rounding of a sum.
    assert float((one != two).double().mean()) < 1e-3


@pytest.mark.parametrize("case", [case for case in CASES if case.finder.grouped], ids=lambda case: case.name)
def test_heads_may_share_their_keys(case: Case) -> None:
    """What says that it is grouped finds the same where keys come once for the heads that share them."""
    q, k = tokens(2, 11, 11)
    shared = k[:, :1]
    assert torch.equal(case.finder(q, shared).dense(), case.finder(q, shared.expand(-1, HEADS, -1, -1)).dense())


@pytest.mark.parametrize("case", [case for case in CASES if case.name in LEARNED], ids=lambda case: case.name)
def test_every_kernel_computes_what_is_chosen(case: Case) -> None:
    q, k = (each.float() for each in tokens(2, 11, 11))
    graph = case.finder(q.double(), k.double())
    wanted, *others = (attention(q, k, k, graph, backend=name) for name in ("reference", "portable", "native"))
    for other in others:
        torch.testing.assert_close(other, wanted)


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (lambda: SparQ(0, 0.1), "r: got 0"),
        (lambda: SparQ(4, 1.5), "a number from 0 to 1"),
        (lambda: MagicPig(16, 4), "bits: got 16, want a number from 1 to 15"),
        (lambda: MagicPig(8, 129), "tables: got 129, want a number from 1 to 128"),
        (lambda: Smyrf(8, 65), "rounds: got 65, want a number from 1 to 64"),
        (lambda: ClusterFormer(8, 0), "size: got 0"),
        (lambda: HashAttention(8, 0.1, hidden=1), "hidden: got 1"),
        (lambda: LightningIndexer(8, 0.1, indexers=0), "indexers: got 0"),
    ],
)
def test_what_cannot_be_is_said(made: Callable[[], Finder], want: str) -> None:
    with pytest.raises(InputError, match=want):
        made()


def test_cluster_former_says_when_tokens_differ() -> None:
    sample = grouped(1)
    with pytest.raises(InputError, match="shared: got True with 7 queries and 40 keys, want False unless"):
        ClusterFormer(2, 4).fit([Sample(sample.q[:, :, :7], sample.k)])


@pytest.mark.parametrize(
    "one", [HashAttention(4, 0.1, steps=1), LightningIndexer(4, 0.1, steps=1)], ids=lambda one: one.about.name
)
def test_there_has_to_be_something_to_learn_from(one: Learned) -> None:
    sample = grouped(1)
    with pytest.raises(InputError, match="no query with a choice of keys"):
        one.fit([Sample(sample.q, sample.k[:, :, :1])])
