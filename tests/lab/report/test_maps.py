"""Attention maps on the page are the traces' own, read back by code that shares nothing with what wrote them."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path

import pytest
import torch

from sparsefinder import GlobalTokens, Graph, InputError, Layout, Traces, TraceWriter, Window
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.report.examples import SentenceTokens, read_examples, sample_of
from sparsefinder.lab.report.map_finders import map_finders
from sparsefinder.lab.report.maps import attention_maps

from .made_up import Sizes, make_run

SIZES = Sizes(layers=1, heads=3, examples=2, tokens=17, finders=False)


def unpacked(encoded: str, heads: int, n: int) -> tuple[list[tuple[int, int, int, int]], bytes]:
    """Head, query, key and weight in 255ths of every pair in a list, and what comes after it."""
    content = zlib.decompress(base64.b64decode(encoded))
    counts = struct.unpack_from(f"<{heads * n}H", content)
    total, start = sum(counts), 2 * heads * n
    steps = struct.unpack_from(f"<{total}H", content, start)
    weights = content[start + 2 * total : start + 3 * total]
    pairs, place = [], 0
    for row, count in enumerate(counts):
        key = 0
        for _ in range(count):
            key += steps[place]
            pairs.append((row // n, row % n, key, weights[place]))
            place += 1
    return pairs, content[start + 3 * total :]


def test_maps_hold_gold_weights_predictions_and_their_recall(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", SIZES)
    traces, examples = Traces.open(folder / "traces/valid"), read_examples(folder)
    finder = Window(5) | GlobalTokens(1)
    maps = attention_maps(traces, examples, {"window": {("encoder", 0): finder}}, 2, 1_000_000)
    assert maps["leftOut"] == []
    for number, sentence in enumerate(maps["sentences"]):
        sample = sample_of(traces, ("encoder", 0), number)
        n, graph = sample.q.shape[2], finder(sample.q, sample.k)
        gold, rest = unpacked(sentence["gold"]["0"], SIZES.heads, n)
        assert rest == b""
        assert {one[:3] for one in gold} == {tuple(one) for one in sample.gold.dense()[0].nonzero().tolist()}
        # The weights of a query add up to one; each is off by a step at the most.
        for head in range(SIZES.heads):
            for query in range(n):
                mine = [one[3] for one in gold if one[:2] == (head, query)]
                assert abs(sum(mine) - 255) <= len(mine)
        found = sentence["found"]["0"]["0"]
        pairs, bits = unpacked(found["data"], SIZES.heads, n)
        cells = [bits[cell // 8] >> (cell % 8) & 1 for cell in range(SIZES.heads * n * n)]
        predicted = torch.tensor(cells, dtype=torch.bool).view(SIZES.heads, n, n)
        assert torch.equal(predicted, graph.dense()[0])
        assert all(predicted[one[:3]] for one in pairs)
        assert torch.allclose(torch.tensor(found["recall"]), graph.recall(sample.gold)[0], atol=1e-4)
        assert torch.allclose(torch.tensor(found["sparsity"]), graph.sparsity()[0], atol=1e-4)


def test_what_does_not_fit_is_left_out_and_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", SIZES)
    traces, examples = Traces.open(folder / "traces/valid"), read_examples(folder)
    sites = dict.fromkeys(traces.sites, Window(5))
    whole = attention_maps(traces, examples, {"one": sites, "two": sites}, 2, 1_000_000)
    first = len(whole["sentences"][0]["gold"]["0"]) + len(whole["sentences"][0]["found"]["0"]["0"]["data"])
    maps = attention_maps(traces, examples, {"one": sites, "two": sites}, 2, first)
    assert list(maps["sentences"][0]["found"]) == ["0"]
    assert maps["leftOut"] == ["two in sentence 1", "sentence 2"]


def test_finders_of_a_run_come_with_a_window_that_needs_none(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", Sizes(layers=1, heads=2, examples=1))
    finders = map_finders(folder, load_recipe(folder / "recipe.yaml"))
    assert list(finders) == [
        "k-means, 6 clusters, top k 1 + window 11 + first token",
        "sketch, r 4, share 0.2 + window 11 + first token",
        "window 11 + first token",
    ]
    sample = sample_of(Traces.open(folder / "traces/valid"), ("encoder", 0), 0)
    fixed = finders["window 11 + first token"]["encoder", 0](sample.q, sample.k)
    for label in finders:
        graph: Graph = finders[label]["encoder", 0](sample.q, sample.k)
        assert bool((graph.dense() >= fixed.dense()).all())


def test_tokens_that_do_not_fit_the_traces_are_refused(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", SIZES)
    file = folder / "traces/examples.jsonl"
    row = json.loads(file.read_text().split("\n")[0])
    file.write_text(json.dumps({**row, "queries": row["queries"][:-1]}))
    with pytest.raises(InputError, match="16 and 17 tokens"):
        attention_maps(Traces.open(folder / "traces/valid"), read_examples(folder), {}, 1, 1_000_000)


def test_what_has_no_gold_pair_has_no_recall(tmp_path: Path) -> None:
    """A head that may see nothing finds neither all of it nor none."""
    q = torch.randn(1, 2, 3, 4)
    with TraceWriter(tmp_path / "valid") as writer:
        writer.add("cross", 0, q, torch.randn(1, 2, 5, 4), Layout(key_lengths=torch.tensor([0])))
    traces = Traces.open(tmp_path / "valid")
    keys = sample_of(traces, ("cross", 0), 0).k.shape[2]
    example = SentenceTokens(0, "cross", ["a"] * 3, ["b"] * keys, "")
    maps = attention_maps(traces, [example], {"window": {("cross", 0): Window(3)}}, 1, 1_000_000)
    found = maps["sentences"][0]["found"]["0"]["0"]
    assert found["recall"] == found["sparsity"] == [None, None]
