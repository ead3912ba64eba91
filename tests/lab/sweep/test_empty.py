"""Where there is nothing to divide by, all that measure say the same: graphs, metrics, sweeps, and watched models."""

import math

import pytest
import torch

from sparsefinder import Graph, GraphMetrics, Layout, TraceWriter, Window
from sparsefinder.core.layout import Grid
from sparsefinder.core.ratios import mean
from sparsefinder.finders import Place
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.sweep.points import averaged, read_points
from sparsefinder.lab.sweep.recall import sweep_recall
from sparsefinder.lab.sweep.watching import OWN, Watched, mean_ratios
from sparsefinder.traces.store import Traces

from .runs import recipe

# How many keys each of two sequences has: all of them, none in one, none at all.
LENGTHS = {0: [9, 5], 1: [9, 0], 2: [0, 0]}
HEADS = 2
WINDOWS = [0, 3]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A layer for each case, swept with no window, which predicts nothing, and with a small one."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("run")
    with TraceWriter(path / "traces/valid", dtype="float32") as valid, TraceWriter(path / "traces/train") as train:
        for layer, lengths in LENGTHS.items():
            q, k = torch.randn(2, HEADS, 7, 4), torch.randn(2, HEADS, 9, 4)
            for writer in (valid, train):
                writer.add("cross", layer, q, k, Layout(key_lengths=torch.tensor(lengths)))
    folder = RunFolder(path)
    sweep_recall(folder, recipe([{"method": "window"}], sweep={
        "methods": [{"method": "window"}], "windows": WINDOWS, "globals": [0], "processes": 1,
    }))  # fmt: skip
    return folder


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("layer", LENGTHS)
def test_four_ways_to_the_same_ratios(run: RunFolder, layer: int, window: int) -> None:
    (sample,) = Traces.open(run / "traces/valid").samples("cross", layer)
    finder, metrics = Window(window), GraphMetrics()
    graph = finder(sample.q, sample.k, sample.layout)
    metrics.update(graph, sample.gold)
    swept = [row for row in read_points(run, "recall").to_pylist() if (row["layer"], row["window"]) == (layer, window)]
    assert len(swept) == HEADS
    # Ratios of each sequence, averaged over sequences.
    for ratio, alone in (("recall", graph.recall(sample.gold)), ("sparsity", graph.sparsity())):
        wanted = metrics.by_head(ratio)[0].tolist()
        assert mean(alone, 0).tolist() == pytest.approx(wanted, nan_ok=True)
        assert [row[ratio] for row in swept] == pytest.approx(wanted, nan_ok=True)
        nothing = [length == 0 for length in LENGTHS[layer]]
        assert alone.isnan().all(1).tolist() == nothing
        assert [math.isnan(each) for each in wanted] == [all(nothing)] * HEADS
    wanted = metrics.by_head("precision")[0].tolist()
    assert [row["precision"] for row in swept] == pytest.approx(wanted, nan_ok=True)
    assert [math.isnan(each) for each in wanted] == [window == 0 or layer == 2] * HEADS
    watched = Watched(finder, Place("encoder", 0, sample.score_scale))
    watched(sample.q, sample.k, sample.layout)
    found = mean_ratios([watched])
    for name, own in OWN.items():
        for prefix, average in (("", "macro"), ("pooled_", "micro")):
            wanted = getattr(metrics.compute(average), name)
            assert found[prefix + own] == pytest.approx(wanted, nan_ok=True), (name, average)
    assert math.isnan(found["own_recall"]) == (layer == 2)


def test_heads_without_a_ratio_are_left_out_of_the_mean_over_heads(run: RunFolder) -> None:
    points = read_points(run, "recall")
    for row in averaged(points).to_pylist():
        some = [each for each in points.to_pylist() if each["window"] == row["window"] and each["layer"] < 2]
        assert row["recall"] == pytest.approx(sum(each["recall"] for each in some) / len(some))


def test_nothing_gold_among_what_is_visible() -> None:
    """No entmax does that, but a gold graph may come from elsewhere."""
    grid = Grid(1, 1, 3, 3, Layout(), torch.device("cpu"))
    everything, nothing = Graph.full(grid), Graph(grid)
    metrics = GraphMetrics()
    counts = metrics.update(everything, nothing)
    assert math.isnan(everything.recall(nothing).item())
    assert math.isnan(counts.ratios()["recall"].item())
    assert math.isnan(metrics.compute().recall)
    assert nothing.sparsity().item() == metrics.compute().gold_sparsity == 1
