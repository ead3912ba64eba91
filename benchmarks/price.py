"""What a sketch's graph costs each head, by rank and density, beside all pairs: by `Sketch.price`, and by the clock.

    python benchmarks/price.py runs/clm-wikitext2/teacher TEXT.txt --lengths 512,2048,8192

For each layer of a saved model and each rank, sketches are fitted to a recall on half of the text, then timed on the
other half in turns with all pairs, finding included. Prices choose between ranks and all pairs (`fitting.py`), so only
their ratios count: a price that is too low gives heads sketches that are slower than looking at everything. At the end
stand the constants of `finders/coded.py` that would fit these times best, by least squares without negative ones, and
one that is not there: `passed`, what every pair costs a row whose limit has to be told, in units of a dimension. It
takes a length that is not screened, whose pairs are the unit, and one that is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scipy.optimize import nnls

sys.path[0] = str(Path(__file__).resolve().parents[1])

from sparsefinder import Finder, Sparsefinder
from sparsefinder.finders import Sketch
from sparsefinder.finders.coded import LEAST_PROVEN
from sparsefinder.lab.bench.clock import interleaved
from sparsefinder.lab.bench.layers import Layer, layers_of
from sparsefinder.lab.bench.subject import Subject, of_model

Work = Callable[[], object]
# What of each part of a price a pair has, and the seconds that it took.
Row = tuple[list[float], float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of an entmax model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--lengths", default="512,2048")
    parser.add_argument("--ranks", default="8,16,32")
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    ranks, lengths = ([int(one) for one in given_list.split(",")] for given_list in (given.ranks, given.lengths))
    if not min(lengths) < LEAST_PROVEN <= max(lengths):
        parser.error(f"--lengths {given.lengths}: some below {LEAST_PROVEN} and some from there on, such as 512,2048")
    print("| tokens | layer | rank | density | price: sketch | all pairs | time: all pairs / sketch | by price |")
    print("|---|---|---|---|---|---|---|---|")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        subject = of_model(given.model, given.text, folder)
        for length in lengths:
            rows += _measured(subject, length, ranks, given.recall, given.repeats)
    features, seconds = (np.array(each) for each in zip(*rows, strict=True))
    # Long rows weigh no more than short ones: errors are relative.
    found, _ = nnls(features / seconds[:, None], np.ones(len(seconds)))
    unit = found[-1]
    names = ("compared", "passed", "looked at", "row", "proven")
    print("\n" + ", ".join(f"{name} {each / unit:.3g}" for name, each in zip(names, found[:-1], strict=True)))


def _measured(subject: Subject, length: int, ranks: Sequence[int], recall: float, repeats: int) -> list[Row]:
    """Of each layer: all pairs, and a sketch of each rank, as what they consist of and their seconds a pair."""
    traces = subject.traces(length)[0]
    fits = [Sparsefinder.fit(traces, "sketch", r=rank, recall=recall, progress=False) for rank in ranks]
    rows: list[Row] = []
    for layer in layers_of(subject.model, subject.timed(length), subject.sites):
        finders = [fitted[layer.site] for fitted in fits]
        work: list[Work] = [partial(layer.attend, None), *(partial(_found, layer, one) for one in finders)]
        every, *each = (median(times) for times in interleaved(*work, repeats=repeats))
        graphs = [layer.find(one) for one in finders]
        d, m = layer.q.shape[-1], layer.k.shape[-2]
        first = graphs[0]
        assert first is not None
        pairs = float(first.grid.degrees().sum()) * first.grid.heads
        proven = m >= LEAST_PROVEN
        rows.append(([0, 0, 0, 1 / m, 1, 0] if proven else [0, 0, 0, 0, 0, 1], every / pairs))
        for rank, finder, graph, seconds in zip(ranks, finders, graphs, each, strict=True):
            assert graph is not None
            assert isinstance(finder, Sketch)
            density = 1 - graph.sparsity().mean(0)
            price = finder.price(density, m, d).mean().item()
            whole = (
                replace(finder, ranks=torch.zeros(len(density), dtype=torch.long)).price(density, m, d).mean().item()
            )
            print(
                f"| {length} | {layer.site[1]} | {rank} | {density.mean():.3f} | {price:.3f} | {whole:.3f} |"
                f" {every / seconds:.2f} | {whole / price:.2f} |",
                flush=True,
            )
            rows.append(([rank / d, 1 / d, density.mean().item(), 1 / m, 0, 2 * rank / m], seconds / pairs))
    return rows


def _found(layer: Layer, finder: Finder) -> object:
    return layer.attend(layer.find(finder))


if __name__ == "__main__":
    main()
