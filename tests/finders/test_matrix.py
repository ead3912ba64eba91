"""Every finder in every scene: what a loop over pairs predicts, and the laws of `sparsefinder.testing`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from sparsefinder import Graph, InputError, Layout
from sparsefinder.core.layout import Grid
from sparsefinder.finders import About, Dial, Finder, methods
from sparsefinder.testing import LAWS, SCENES, Law, check_finder, scenes

from .cases import CASES, HEADS, Case, D, tokens
from .oracles import Head

ALL = {scene.name: scene for scene in scenes(HEADS, D)}
FITTING = [
    pytest.param(case, name, id=f"{name}-{case.name}")
    for name, scene in ALL.items()
    for case in CASES
    if not case.self_attention_only or scene.q.shape[2] == scene.k.shape[2]
]
every_case = pytest.mark.parametrize(("case", "scene"), FITTING)


def _offset(layout: Layout, b: int) -> int:
    offset = layout.query_offset
    return int(offset[b]) if isinstance(offset, Tensor) else offset


@every_case
def test_predicts_what_a_loop_over_pairs_does(case: Case, scene: str) -> None:
    here = ALL[scene]
    if here.decodes and not case.finder.causal_safe:
        with pytest.raises(InputError, match="causal_safe"):
            here.found(case.finder)
        return
    graph = here.found(case.finder)
    expected = torch.zeros_like(graph)
    for b in range(len(here.q)):
        queries, keys = here.lengths(b)
        for h in range(HEADS):
            sides = here.q[b, h, :queries].tolist(), here.k[b, h, :keys].tolist()
            head = Head(*sides, here.layout.causal, _offset(here.layout, b), h)
            has = case.oracle(head)
            for i in range(queries):
                for j in range(keys):
                    expected[b, h, i, j] = head.sees(i, j) and has(i, j)
    assert torch.equal(graph, expected)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_laws_hold(case: Case, law: Law) -> None:
    for scene in ALL.values():
        if not case.self_attention_only or scene.q.shape[2] == scene.k.shape[2]:
            law(case.finder, scene)


def test_a_ragged_batch_can_be_decoded() -> None:
    q, k = tokens(2, 12, 12)
    layout = Layout(True, lengths := torch.tensor([12, 8]), query_lengths=lengths)
    for case in CASES:
        if case.finder.causal_safe:
            whole = case.finder(q, k, layout).dense()
            for step in range(12):
                at = torch.minimum(torch.tensor([step, step]), lengths - 1)
                query = q.take_along_dim(at[:, None, None, None].expand(-1, HEADS, 1, q.shape[-1]), 2)
                here = case.finder(query, k[:, :, : step + 1], Layout(True, at + 1, at)).dense()
                for b in range(2):
                    assert torch.equal(here[b, :, 0], whole[b, :, int(at[b]), : step + 1]), case.name


DRAWING = [case for case in CASES if hasattr(case.finder, "seed") and getattr(case.finder, "globals", 1) > 0]


@pytest.mark.parametrize("case", DRAWING, ids=lambda case: case.name)
def test_other_seeds_give_other_graphs(case: Case) -> None:
    q, k = tokens(1, 300, 300)
    changes: list[dict[str, Any]] = [{"seed": seed} for seed in range(4)]
    graphs = [replace(case.finder, **change)(q, k).dense() for change in changes]
    assert any(not torch.equal(graphs[0], other) for other in graphs[1:])


def test_the_matrix_has_every_method_and_every_scene() -> None:
    def kinds(one: Finder) -> set[type[Finder]]:
        return {type(one)}.union(*(kinds(part) for part in getattr(one, "finders", ())))

    tested = set().union(*(kinds(case.finder) for case in CASES))
    assert {kind for kind in methods().values() if kind.__module__.startswith("sparsefinder.")} <= tested
    assert set(ALL) == set(SCENES)


@dataclass(frozen=True)
class Fickle(Finder):
    """Breaks every law it can: looks at other sequences, at the future, at the generator, and has a dial that lies."""

    size: int = 1

    about = About("fickle", "fickle", "rival", dials=(Dial("size", whole=True),))

    def find(self, q: Tensor, k: Tensor, grid: Grid) -> Graph:
        last = int(k.abs().sum() * 100 + torch.rand(()) * 100) % max(grid.m, 1)
        return Graph.band(-last - self.size, last, grid)

    def needed(self, q: Tensor, k: Tensor, grid: Grid, queries: slice) -> Tensor:
        return torch.full((grid.batch, grid.heads, queries.stop - queries.start, grid.m), 3.0)


@pytest.mark.parametrize("law", [law for law in LAWS if "says" not in law.__name__ and "may_be" not in law.__name__])
def test_laws_can_fail(law: Law) -> None:
    failed = 0
    for scene in ALL.values():
        try:
            law(Fickle(), scene)
        except (AssertionError, InputError, RuntimeError, TypeError):
            failed += 1
    assert failed


def test_all_laws_in_one_call() -> None:
    check_finder(CASES[1].finder, HEADS, D)
    with pytest.raises(AssertionError):
        check_finder(Fickle(), HEADS, D)
