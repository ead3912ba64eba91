"""A small run folder with traces, and recipes for it."""

from pathlib import Path
from typing import Any

import torch

from sparsefinder.core.layout import Layout
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Recipe
from sparsefinder.traces.writer import TraceWriter

from ...synthetic import grouped

METHODS: list[dict[str, Any]] = [
    {"method": "distance", "t": [0.5, 1.0, 2.0]},
    {"method": "distance", "sparsity": [0.5, 0.9], "inputs": "pca"},
    {"method": "distance", "recall": 0.9},
    {"method": "quantization", "beta": 4},
    {"method": "kmeans", "clusters": [3, 6], "top_k": [1, 2]},
    {"method": "reformer", "buckets": 4, "inputs": ["raw", "projected"]},
    {"method": "routing", "clusters": 4, "inputs": ["raw", "projected"]},
    {"method": "bigbird", "random_blocks": 2, "window": 0, "globals": 0},
    {"method": "longformer", "globals": 2, "window": 0},
    {"method": "block-topk", "block": 4, "k": 2},
    {"method": "window"},
    {"method": "sketch", "r": 4, "share": [0.1, 0.2]},
    {"method": "probe", "clusters": 6, "probes": [1, 2]},
    {"method": "topk", "share": 0.1},
    {"method": "topk", "recall": 0.8},
    {"method": "kmeans", "clusters": 6, "recall": [0.5, 0.95]},
    {"method": "sketch", "r": 4, "recall": 0.8},
    {"method": "window", "recall": 0.6},
    {"method": "block-centroids", "block": 4, "clusters": 3, "recall": 0.9},
    {"method": "strided"},
    {"method": "oracle"},
]


def recipe(methods: list[Any] = METHODS, processes: int = 1, **changed: Any) -> Recipe:
    """What does not matter to sweeps is left as short as can be."""
    sweep = {"methods": methods, "windows": [0, 3, 9], "globals": [0, 1], "batch": 2, "processes": processes}
    return Recipe.model_validate({
        "name": "small",
        "task": {"kind": "masked-lm", "data": {"train": "a", "valid": "b"}, "model": {"architecture": "Bert"}},
        "fit": {"batch": 4, "restarts": 2},
        "sweep": sweep,
        **changed,
    })  # fmt: skip


def folder(path: Path) -> RunFolder:
    """Traces of two layers: sequences of several lengths in one, all of one length in the other."""
    for name, seeds in (("train", range(4)), ("valid", range(100, 103))):
        with TraceWriter(path / "traces" / name, dtype="float32", teacher="none") as writer:
            for seed in seeds:
                for layer, kind in enumerate(("encoder", "decoder")):
                    lengths = torch.tensor([30, 17]) if layer else None
                    layout = Layout(bool(layer), lengths, query_lengths=lengths)
                    sample = grouped(2, 30, seed=seed + 50 * layer, noise=0.5, layout=layout)
                    writer.add(kind, layer, sample.q, sample.k, layout, sample.scale)
    return RunFolder(path)
