"""Laws that hold for every finder, over every layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from sparsefinder import InputError, Layout
from sparsefinder.finders import FINDERS, Finder

from .cases import CASES, HEADS, SCENES, Case, tokens
from .oracles import Head

WHOLE = [name for name in SCENES if not name.startswith(("decoding", "one query"))]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def every_case_in(scenes: Iterable[str]) -> pytest.MarkDecorator:
    """Every case in every scene, but for cases that need a query and a key of each token where those differ."""
    fitting = [
        pytest.param(case, scene, id=f"{scene}-{case.name}")
        for scene in scenes
        for case in CASES
        if not case.self_attention_only or SCENES[scene][0][1] == SCENES[scene][0][2]
    ]
    return pytest.mark.parametrize(("case", "scene"), fitting)


def _lengths(layout: Layout, b: int, n: int, m: int) -> tuple[int, int, int]:
    """Real queries, real keys and offset of a sequence."""
    offset = layout.query_offset
    return (
        n if layout.query_lengths is None else int(layout.query_lengths[b]),
        m if layout.key_lengths is None else int(layout.key_lengths[b]),
        int(offset[b]) if isinstance(offset, Tensor) else offset,
    )


@every_case_in(SCENES)
def test_predicts_what_a_loop_over_pairs_does(case: Case, scene: str) -> None:
    (batch, n, m), layout = SCENES[scene]
    q, k = tokens(batch, n, m)
    if scene.startswith("decoding") and not case.finder.causal_safe:
        with pytest.raises(InputError, match="causal_safe"):
            case.finder(q, k, layout)
        return
    found = case.finder(q, k, layout)
    graph = found.dense()
    assert graph.shape == (batch, HEADS, n, m)
    assert torch.equal(found.degrees(), graph.sum(-1))
    expected = torch.zeros_like(graph)
    for b in range(batch):
        queries, keys, offset = _lengths(layout, b, n, m)
        for h in range(HEADS):
            head = Head(q[b, h, :queries].tolist(), k[b, h, :keys].tolist(), layout.causal, offset, h)
            has = case.oracle(head)
            for i in range(queries):
                for j in range(keys):
                    expected[b, h, i, j] = head.sees(i, j) and has(i, j)
    assert torch.equal(graph, expected)


@every_case
def test_decoding_step_by_step_gives_the_rows_of_the_whole(case: Case) -> None:
    q, k = tokens(2, 12, 12)
    layout = Layout(True, lengths := torch.tensor([12, 8]), query_lengths=lengths)
    if not case.finder.causal_safe:
        with pytest.raises(InputError, match="causal_safe"):
            case.finder(q[:, :, 5:6], k[:, :, :6], Layout(causal=True, query_offset=5))
        return
    whole = case.finder(q, k, layout).dense()
    for step in range(12):
        at = torch.minimum(torch.tensor([step, step]), lengths - 1)
        query = q.take_along_dim(at[:, None, None, None].expand(-1, HEADS, 1, q.shape[-1]), 2)
        here = case.finder(query, k[:, :, : step + 1], Layout(True, at + 1, at)).dense()
        for b in range(2):
            assert torch.equal(here[b, :, 0], whole[b, :, int(at[b]), : step + 1])


@every_case_in(WHOLE)
def test_a_sequence_is_the_same_in_any_batch_and_padding(case: Case, scene: str) -> None:
    (batch, n, m), layout = SCENES[scene]
    q, k = tokens(batch, n, m)
    together = case.finder(q, k, layout).dense()
    for b in range(batch):
        queries, keys, _ = _lengths(layout, b, n, m)
        if case.self_attention_only:
            queries = keys = max(queries, keys)
        alone = case.finder(q[b : b + 1, :, :queries], k[b : b + 1, :, :keys], Layout(causal=layout.causal)).dense()
        assert torch.equal(alone[0], together[b, :, :queries, :keys])
        assert not together[b, :, queries:].any()
        assert not together[b, :, :, keys:].any()


@every_case_in(["ragged", "causal ragged", "cross ragged"])
def test_what_stands_in_the_padding_does_not_matter(case: Case, scene: str) -> None:
    (batch, n, m), layout = SCENES[scene]
    q, k = tokens(batch, n, m)
    before = case.finder(q, k, layout).dense()
    for b in range(batch):
        queries, keys, _ = _lengths(layout, b, n, m)
        q[b, :, queries:], k[b, :, keys:] = 50, -50
    assert torch.equal(case.finder(q, k, layout).dense(), before)


@pytest.mark.parametrize("case", [case for case in CASES if case.finder.causal_safe], ids=lambda case: case.name)
def test_tokens_to_come_change_nothing_where_it_says_so(case: Case) -> None:
    q, k = tokens(1, 12, 12)
    other_q, other_k = tokens(1, 12, 12, seed=20)
    for now in range(1, 12):
        changed_q, changed_k = (
            torch.cat([one[:, :, :now], two[:, :, now:]], 2) for one, two in ((q, other_q), (k, other_k))
        )
        one, two = (case.finder(*pair, Layout(causal=True)).dense() for pair in ((q, k), (changed_q, changed_k)))
        assert torch.equal(one[:, :, :now], two[:, :, :now])


@every_case
def test_the_same_input_gives_the_same_graph(case: Case) -> None:
    q, k = tokens(2, 13, 13)
    torch.manual_seed(1)
    one = case.finder(q, k).dense()
    torch.manual_seed(2)
    assert torch.equal(case.finder(q, k).dense(), one)


DRAWING = [case for case in CASES if hasattr(case.finder, "seed") and getattr(case.finder, "globals", 1) > 0]


@pytest.mark.parametrize("case", DRAWING, ids=lambda case: case.name)
def test_other_seeds_give_other_graphs(case: Case) -> None:
    q, k = tokens(1, 300, 300)
    changes: list[dict[str, Any]] = [{"seed": seed} for seed in range(4)]
    graphs = [replace(case.finder, **change)(q, k).dense() for change in changes]
    assert any(not torch.equal(graphs[0], other) for other in graphs[1:])


@every_case
def test_costs_no_more_than_a_few_times_the_scores(case: Case) -> None:
    assert 0 <= case.finder.cost(1000, 1000, 64) <= 1000 * 1000 * 64


def test_the_matrix_has_every_finder() -> None:
    def kinds(one: Finder) -> set[type[Finder]]:
        return {type(one)}.union(*(kinds(part) for part in getattr(one, "finders", ())))

    tested = set().union(*(kinds(case.finder) for case in CASES))
    for path in FINDERS.values():
        assert path.rpartition(".")[2] in {kind.__name__ for kind in tested}
