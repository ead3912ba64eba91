"""What is of the wrong kind, at every entry of the library, and the sentence that says so.

A program, so that nothing but the library checks: in tests, annotations are checked before it gets to see anything.
It prints what every call of the table ended in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sparsefinder import (
    Fitting,
    GlobalTokens,
    Graph,
    GraphMetrics,
    Layout,
    Projection,
    Sample,
    Sparsefinder,
    Traces,
    Window,
    attention,
    entmax,
    finder,
    gold_graph,
)
from sparsefinder.core.entmax import entmax_threshold
from sparsefinder.finders import BentSketch, KMeans, Probe, Quantization, Routing, Sketch
from sparsefinder.finders.block_centroids import BlockCentroids
from sparsefinder.fitting import Wanted
from sparsefinder.learning.learn import learn
from sparsefinder.learning.moments import low_rank, principal
from sparsefinder.learning.rows import refine

__all__ = ["CASES"]

# Anything at all: these calls are wrong on purpose.
W: Any = Window(3)
Q = torch.linspace(-1, 1, 2 * 3 * 5 * 4).reshape(2, 3, 5, 4)
LIST: Any = Q.tolist()
ARRAY: Any = Q.numpy()
GRID = Layout().of(Q, Q)
GRAPH: Any = W(Q, Q)
DENSE: Any = GRAPH.dense()
MAPS = Projection(torch.ones(3, 4, 2), torch.ones(3, 4, 2))
SAMPLE: Any = Sample(Q, Q)
TRACES: Any = Traces("somewhere", {"sites": [], "hash": "", "teacher": ""})  # type: ignore[arg-type]

FOUR = "want a tensor of four dimensions: (batch, heads, length, size)"
NUMBER = "want a number above 0, such as 1.5, or a tensor of such; 1 is softmax"
SCALE = "want a finite number, or None for 1 / √d"
SHARE = "want a share from 0 up to, but not including, 1"
ADDED = "want a tensor of floating-point numbers to add to the scores; a mask of booleans is attn_mask=..."
MASK = "want a tensor of booleans, true where a pair may be seen, or of floating-point numbers to add to the scores"
LAYOUT = "want a Layout, such as Layout(causal=True)"
LENGTHS = "want a tensor of whole numbers, one per sequence, or None where all are real"
OFFSET = "want a whole number, or a tensor of whole numbers, one per sequence"
A_GRAPH = "want a Graph, as finders and gold_graph return it; a matrix is Graph.of_dense(...)"
COMPARED = "want a Graph, as finders and gold_graph return it"
FOUND = "want a Graph, as finders return it: Window(11)(q, k); a mask is attn_mask=..."
A_GRID = "want the Grid that the graph is for: Layout(...).of(q, k)"
BATCHES = "want batches of one layer: [Sample(q, k)], or traces.samples(kind, layer)"
UNITED = "want a finder on either side: Window(11) | GlobalTokens(1)"
BLOCK = "want a number of positions from 1 upwards"


def _fits(one: Any) -> dict[Callable[[], object], str]:
    """What a method that learns may be given in place of batches."""
    return {
        lambda: one.fit(SAMPLE): f"samples: got a Sample, {BATCHES}",
        lambda: one.fit(TRACES): f"samples: got a Traces, {BATCHES}",
        lambda: one.fit("traces/train"): f"samples: got a str, {BATCHES}",
        lambda: one.fit([Q]): f"samples: got a Tensor, {BATCHES}",
        lambda: one.fit(Q): f"samples: got a Tensor, {BATCHES}",
        lambda: one.fit([(Q, Q)]): f"samples: got a tuple, {BATCHES}",
        lambda: one.fit(None): f"samples: got None, {BATCHES}",
    }


CASES: dict[Callable[[], object], str] = {
    # attention
    lambda: attention(LIST, Q, Q): f"q: got a list, {FOUR}",
    lambda: attention(Q, ARRAY, Q): f"k: got a ndarray, {FOUR}",
    lambda: attention(Q, Q, "v"): f"v: got a str, {FOUR}",  # type: ignore[arg-type]
    lambda: attention(Q[0], Q, Q): f"q: got a tensor of shape (3, 5, 4), {FOUR}",
    lambda: attention(Q, Q, Q.long()): "v: got a tensor of torch.int64, want floating-point numbers",
    lambda: attention(Q, Q, Q, W): f"graph: got a Window, {FOUND}",
    lambda: attention(Q, Q, Q, Window): f"graph: got the class Window, {FOUND}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, DENSE): f"graph: got a Tensor, {FOUND}",
    lambda: attention(Q, Q, Q, DENSE, exact=True): f"graph: got a Tensor, {FOUND}",
    lambda: attention(Q, Q, Q, alpha="1.5"): f"alpha: got '1.5', {NUMBER}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, alpha=True): f"alpha: got True, {NUMBER}",
    lambda: attention(Q, Q, Q, alpha=None): f"alpha: got None, {NUMBER}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, alpha=[1.5, 1.2, 2.0]): f"alpha: got [1.5, 1.2, 2.0], {NUMBER}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, alpha=torch.tensor([1, 2, 1])): (
        "alpha: got a tensor of torch.int64, want floating-point numbers"
    ),
    lambda: attention(Q, Q, Q, scale="0.5"): f"scale: got '0.5', {SCALE}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, scale=torch.tensor(0.5)): f"scale: got tensor(0.5000), {SCALE}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, scale=True): f"scale: got True, {SCALE}",
    lambda: attention(Q, Q, Q, dropout="0.1"): f"dropout: got '0.1', {SHARE}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, dropout=None): f"dropout: got None, {SHARE}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, dropout=[0.1]): f"dropout: got [0.1], {SHARE}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, bias=ARRAY): f"bias: got a ndarray, {ADDED}",
    lambda: attention(Q, Q, Q, bias=0.5): f"bias: got a float, {ADDED}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, bias=DENSE): f"bias: got a tensor of torch.bool, {ADDED}",
    lambda: attention(Q, Q, Q, attn_mask=DENSE.tolist()): f"attn_mask: got a list, {MASK}",
    lambda: attention(Q, Q, Q, attn_mask=DENSE.numpy()): f"attn_mask: got a ndarray, {MASK}",
    lambda: attention(Q, Q, Q, attn_mask=GRAPH): f"attn_mask: got a Graph, {MASK}",
    lambda: attention(Q, Q, Q, attn_mask=DENSE.long()): f"attn_mask: got a tensor of torch.int64, {MASK}",
    lambda: attention(Q, Q, Q, layout="causal"): f"layout: got a str, {LAYOUT}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, layout=None, is_causal=True): f"layout: got None, {LAYOUT}",  # type: ignore[call-overload]
    lambda: attention(Q, Q, Q, layout=Layout): f"layout: got the class Layout, {LAYOUT}",  # type: ignore[arg-type]
    lambda: attention(Q, Q, Q, is_causal="no"): "is_causal: got a str, want True or False",  # type: ignore[call-overload]
    lambda: attention(Q, Q, Q, exact="no"): "exact: got a str, want True or False",  # type: ignore[call-overload]
    lambda: attention(Q, Q, Q, return_weights=1): "return_weights: got an int, want True or False",  # type: ignore[call-overload]
    lambda: attention(Q, Q, Q, backend=["native"]): (  # type: ignore[call-overload]
        "backend: got ['native'], want one of 'auto', 'reference', 'portable', 'native', 'adasplash', 'triton', 'flex'"
    ),
    # entmax
    lambda: entmax([2.0, 1.0]): "scores: got a list, want a tensor of floating-point numbers",  # type: ignore[arg-type]
    lambda: entmax(ARRAY): "scores: got a ndarray, want a tensor of floating-point numbers",
    lambda: entmax("scores"): "scores: got a str, want a tensor of floating-point numbers",  # type: ignore[arg-type]
    lambda: entmax_threshold(LIST): "scores: got a list, want a tensor of floating-point numbers",
    lambda: entmax(Q, "1.5"): f"alpha: got '1.5', {NUMBER}",  # type: ignore[arg-type]
    lambda: entmax(Q, [1.5]): f"alpha: got [1.5], {NUMBER}",  # type: ignore[arg-type]
    lambda: entmax(Q, dim="last"): "dim: got 'last', want a dimension of the scores, whose shape is (2, 3, 5, 4)",  # type: ignore[arg-type]
    lambda: entmax(Q, dim=1.0): "dim: got 1.0, want a dimension of the scores, whose shape is (2, 3, 5, 4)",  # type: ignore[arg-type]
    # gold_graph
    lambda: gold_graph(LIST, Q): f"q: got a list, {FOUR}",
    lambda: gold_graph(Q, LIST): f"k: got a list, {FOUR}",
    lambda: gold_graph(Q, ARRAY): f"k: got a ndarray, {FOUR}",
    lambda: gold_graph(Q, Q, "1.5"): f"alpha: got '1.5', {NUMBER}",  # type: ignore[arg-type]
    lambda: gold_graph(Q, Q, layout=True): f"layout: got a bool, {LAYOUT}",  # type: ignore[arg-type]
    lambda: gold_graph(Q, Q, scale="1"): f"scale: got '1', {SCALE}",  # type: ignore[arg-type]
    lambda: gold_graph(Q, Q, bias=LIST): f"bias: got a list, {ADDED}",
    # Layout
    lambda: Layout("causal"): "causal: got a str, want True or False",  # type: ignore[arg-type]
    lambda: Layout(causal=None): "causal: got None, want True or False",  # type: ignore[arg-type]
    lambda: Layout(key_lengths=[3, 4]): f"key_lengths: got a list, {LENGTHS}",  # type: ignore[arg-type]
    lambda: Layout(key_lengths=np.array([3, 4])): f"key_lengths: got a ndarray, {LENGTHS}",  # type: ignore[arg-type]
    lambda: Layout(key_lengths=5): f"key_lengths: got an int, {LENGTHS}",  # type: ignore[arg-type]
    lambda: Layout(key_lengths=torch.tensor([3.5, 4.0])): f"key_lengths: got a tensor of torch.float32, {LENGTHS}",
    lambda: Layout(key_lengths=torch.tensor([True, False])): f"key_lengths: got a tensor of torch.bool, {LENGTHS}",
    lambda: Layout(query_lengths="3"): f"query_lengths: got a str, {LENGTHS}",  # type: ignore[arg-type]
    lambda: Layout(query_offset="2"): f"query_offset: got '2', {OFFSET}",  # type: ignore[arg-type]
    lambda: Layout(query_offset=1.5): f"query_offset: got 1.5, {OFFSET}",  # type: ignore[arg-type]
    lambda: Layout(query_offset=True): f"query_offset: got True, {OFFSET}",
    lambda: Layout(query_offset=[1, 2]): f"query_offset: got [1, 2], {OFFSET}",  # type: ignore[arg-type]
    lambda: Layout(query_offset=torch.ones(2)): f"query_offset: got a tensor of torch.float32, {OFFSET}",
    lambda: Layout().of(LIST, Q): f"q: got a list, {FOUR}",
    # Graph
    lambda: GRAPH | DENSE: f"graphs of |: got a Tensor, {A_GRAPH}",
    lambda: GRAPH & W: f"graphs of &: got a Window, {A_GRAPH}",
    lambda: GRAPH.recall(DENSE): f"gold: got a Tensor, {A_GRAPH}",
    lambda: GRAPH.recall("gold"): f"gold: got a str, {A_GRAPH}",
    lambda: GRAPH.within("causal"): f"layout: got a str, {LAYOUT}",
    lambda: GRAPH.coarsen("16"): f"block: got '16', {BLOCK}",
    lambda: GRAPH.coarsen(1.5): f"block: got 1.5, {BLOCK}",
    lambda: Graph(Layout()): f"grid: got a Layout, {A_GRID}",  # type: ignore[arg-type]
    lambda: Graph.full(Layout()): f"grid: got a Layout, {A_GRID}",  # type: ignore[arg-type]
    lambda: Graph.band(-1, 1, "grid"): f"grid: got a str, {A_GRID}",  # type: ignore[arg-type]
    lambda: Graph.columns(DENSE[:, :, 0], Layout()): f"grid: got a Layout, {A_GRID}",  # type: ignore[arg-type]
    lambda: Graph.columns(DENSE[:, :, 0].tolist(), GRID): "keys: got a list, want a tensor of booleans",
    lambda: Graph.columns(DENSE[:, :, 0].long(), GRID): "keys: got a tensor of torch.int64, want one of booleans",
    lambda: Graph.rows(DENSE[:, :, 0].numpy(), GRID): "queries: got a ndarray, want a tensor of booleans",
    lambda: Graph.of_dense(DENSE.tolist(), GRID): "chosen: got a list, want a tensor of booleans",
    lambda: Graph.of_dense(DENSE.float(), GRID): "chosen: got a tensor of torch.float32, want one of booleans",
    lambda: Graph.blocks(DENSE, "2", GRID): f"size: got '2', {BLOCK}",  # type: ignore[arg-type]
    lambda: Graph.buckets([[1]], [[1]], GRID): "queries: got a list, want a tensor of whole numbers",  # type: ignore[arg-type]
    lambda: Graph.buckets(Q, Q, GRID): "queries: got a tensor of torch.float32, want one of whole numbers",
    lambda: Graph.of_pairs([0], [0], [1], [1], GRID): (  # type: ignore[arg-type]
        "batch: got a list, want a tensor of whole numbers, one for each pair"
    ),
    # GraphMetrics
    lambda: GraphMetrics(1): "empty: got 1, want \"skip\", \"one\" or \"zero\"",  # type: ignore[arg-type]
    lambda: GraphMetrics().update(DENSE, GRAPH): f"predicted: got a Tensor, {COMPARED}",
    lambda: GraphMetrics().update(GRAPH, DENSE): f"gold: got a Tensor, {COMPARED}",
    lambda: GraphMetrics().update(W, GRAPH): f"predicted: got a Window, {COMPARED}",
    # Finders
    lambda: W | "x": f"finders of |: got a str, {UNITED}",
    lambda: W | GlobalTokens: f"finders of |: got the class GlobalTokens, {UNITED}",
    lambda: W | GRAPH: f"finders of |: got a Graph, {UNITED}",
    lambda: W & 3: f"finders of &: got an int, {UNITED.replace('|', '&')}",
    lambda: W(Q[0], Q[0]): f"q: got a tensor of shape (3, 5, 4), {FOUR}",
    lambda: W(ARRAY, ARRAY): f"q: got a ndarray, {FOUR}",
    lambda: W(Q, LIST): f"k: got a list, {FOUR}",
    lambda: W(Q, Q, "causal"): f"layout: got a str, {LAYOUT}",
    lambda: W(Q, Q, GRID): f"layout: got a Grid, {LAYOUT}",
    lambda: Window("3"): "size: got '3', want a whole number from 0 upwards",  # type: ignore[arg-type]
    lambda: Window(3.5): "size: got 3.5, want a whole number from 0 upwards",  # type: ignore[arg-type]
    lambda: finder(Window): (  # type: ignore[arg-type]
        "finder: got the class Window, want the name of a method: finder('window', size=11), for Window(11)"
    ),
    lambda: finder(W): "finder: got a Window, want the name of a method: finder('window', size=11), for Window(11)",
    lambda: finder(None): "finder: got None, want the name of a method: finder('window', size=11), for Window(11)",  # type: ignore[arg-type]
    # Fitting
    lambda: Fitting(seed="x"): "seed: got 'x', want a whole number from 0 upwards",  # type: ignore[arg-type]
    lambda: Fitting(tokens=1.5): "tokens: got 1.5, want a whole number from 1 upwards",  # type: ignore[arg-type]
    lambda: Fitting(restarts="3"): "restarts: got '3', want a whole number from 1 upwards",  # type: ignore[arg-type]
    lambda: Fitting(rate="fast"): "rate: got 'fast', want a number",  # type: ignore[arg-type]
    lambda: Fitting(shared="no"): "shared: got a str, want True or False",  # type: ignore[arg-type]
    **_fits(KMeans(2)), **_fits(Quantization(2, "quantiles")), **_fits(Routing(2)), **_fits(Sketch(2, share=0.1)),
    **_fits(Sketch(share=0.1)), **_fits(BentSketch(2, share=0.1)), **_fits(Probe(2, 1)),
    **_fits(BlockCentroids(block=2, k=1, clusters=2)),
    lambda: learn(SAMPLE): f"samples: got a Sample, {BATCHES}",
    lambda: learn("traces/train"): f"samples: got a str, {BATCHES}",  # type: ignore[arg-type]
    lambda: refine(MAPS, SAMPLE, 1): f"samples: got a Sample, {BATCHES}",
    lambda: principal(TRACES): f"samples: got a Traces, {BATCHES}",
    lambda: low_rank([Q]): f"samples: got a Tensor, {BATCHES}",  # type: ignore[list-item]
    lambda: Sample(LIST, Q): f"q: got a list, {FOUR}",
    lambda: Sample(Q, ARRAY): f"k: got a ndarray, {FOUR}",
    lambda: Sample(Q[0], Q[0]): f"q: got a tensor of shape (3, 5, 4), {FOUR}",
    lambda: Sample(Q, Q, "causal"): f"layout: got a str, {LAYOUT}",  # type: ignore[arg-type]
    lambda: Projection(LIST, LIST): (
        "queries: got a list, want a tensor (heads, d, r): a map from d to r dimensions for each head"
    ),
    lambda: Projection(Q[0], ARRAY): (
        "keys: got a ndarray, want a tensor (heads, d, r): a map from d to r dimensions for each head"
    ),
    lambda: Projection(Q, Q): "queries: got a tensor of shape (2, 3, 5, 4), want three dimensions: (heads, d, r)",
    lambda: MAPS.of_queries(LIST): f"q: got a list, {FOUR}",
    lambda: MAPS.of_keys(ARRAY): f"k: got a ndarray, {FOUR}",
    lambda: Wanted(recall=True): "recall: got True, want a share of the pairs, from 0 to 1",
    lambda: Wanted(sparsity="0.9"): "sparsity: got '0.9', want a share of the pairs, from 0 to 1",  # type: ignore[arg-type]
    lambda: Sparsefinder.fit(TRACES, "window", recall=True): "recall: got True, want a share of the pairs, from 0 to 1",
    lambda: Sparsefinder.fit(TRACES, "window", sparsity=True): (
        "sparsity: got True, want a share of the pairs, from 0 to 1"
    ),
    lambda: Sparsefinder.fit("traces", "window"): (  # type: ignore[arg-type]
        "traces: got a str, want traces: Traces.open(path), or record_traces(model, inputs, path)"
    ),
    lambda: Sparsefinder.fit(SAMPLE, "window"): (
        "traces: got a Sample, want traces: Traces.open(path), or record_traces(model, inputs, path)"
    ),
    lambda: Sparsefinder.fit(TRACES, Window): (  # type: ignore[arg-type]
        "method: got the class Window, want the name of a method, with its settings beside it: 'kmeans', clusters=16"
    ),
    lambda: Sparsefinder.fit(TRACES, "window", projections=[MAPS]): (  # type: ignore[arg-type]
        "projections: got a list, want a mapping from (kind, layer) to a Projection"
    ),
    lambda: Sparsefinder.fit(TRACES, "window", how=0): "how: got an int, want Fitting(seed=..., ...)",  # type: ignore[arg-type]
}  # fmt: skip


def ended(call: Callable[[], object]) -> str:
    """What a call ended in."""
    try:
        return f"no error, but {call()!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    print(json.dumps([ended(call) for call in CASES]))
