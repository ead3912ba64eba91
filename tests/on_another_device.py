"""What a GPU would do, on a device that only says it is one. A program: the device stays with the process.

python -m tests.on_another_device finders         every finder, in every scene
python -m tests.on_another_device waits           how often finders and lists of tiles wait for the device
python -m tests.on_another_device run RECIPE RUNS  the stages of a run after its training
"""

from __future__ import annotations

import sys
from unittest.mock import patch

import torch

from sparsefinder.attending.triton.tiles import known, listed
from sparsefinder.core.moving import moved
from sparsefinder.core.pieces import Blocks, Buckets, Near
from sparsefinder.finders import (
    BlockCentroids,
    BlockTopK,
    Distance,
    GlobalTokens,
    KMeans,
    Probe,
    RandomBlocks,
    Sketch,
    Window,
)
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run
from sparsefinder.testing import scenes

from .elsewhere import NAME, WAITS, Elsewhere, elsewhere
from .finders.cases import CASES, HEADS, D


def finders() -> None:
    """Every finder moves with its tensors, predicts there what it does here, and its graph comes back."""
    with elsewhere() as device:
        for case in CASES:
            there = case.finder.to(device)
            for scene in scenes(HEADS, D):
                fits = not case.self_attention_only or scene.q.shape[2] == scene.k.shape[2]
                if not fits or (scene.decodes and not case.finder.causal_safe):
                    continue
                graph = there(*moved((scene.q, scene.k), device), scene.layout)
                assert graph.grid.device == device
                dense = graph.dense()
                assert isinstance(dense, Elsewhere)
                wanted = case.finder(scene.q, scene.k, scene.layout).dense()
                assert torch.equal(dense.cpu(), wanted), (case.name, scene.name)
                here = graph.to("cpu")
                assert here.grid.device == torch.device("cpu")
                assert torch.equal(here.dense(), wanted), (case.name, scene.name)


GPU_FINDERS = (Window, GlobalTokens, RandomBlocks, BlockTopK, BlockCentroids, Sketch, Distance, KMeans, Probe)
# How often a list of tiles waits at the most, for what `listed` says; points in float64 are listed pair by pair.
LISTING = {Buckets: 3, Blocks: 3, Near: 3}


def waits() -> None:
    """Finders for GPUs wait for the device as often as their docstrings say, whatever the number of heads.

    So does the list of tiles that is made of their graphs.
    """
    with elsewhere() as device:
        for case in CASES:
            if not isinstance(case.finder, GPU_FINDERS):
                continue
            blocks = isinstance(case.finder, RandomBlocks | BlockTopK | BlockCentroids)
            per_head = any(
                isinstance(getattr(case.finder, name, None), torch.Tensor) for name in ("k", "top_k", "probes")
            )
            there = case.finder.to(device)
            assert isinstance(there, GPU_FINDERS)
            assert f"waits for the device{' once' * blocks}" in (type(there).__doc__ or ""), case.name
            for scene in scenes(HEADS, D, dtype=torch.float32):
                # Lengths of sequences are looked at when a grid is made: that waits too.
                if scene.layout.ragged or scene.decodes or scene.q.shape[2] != scene.k.shape[2]:
                    continue
                q, k = moved((scene.q, scene.k), device)
                WAITS.clear()
                graph = there(q, k, scene.layout)
                assert len(WAITS) == blocks + per_head, (case.name, scene.name, WAITS)
                WAITS.clear()
                listed(graph.grid, known(graph), 4, 4)
                most = max([LISTING.get(type(piece), 1) for piece in graph.pieces], default=1)
                assert len(WAITS) <= most, (case.name, scene.name, WAITS)


def rest_of_run(recipe: str, runs: str) -> None:
    """All stages after training, with models and finders there."""
    loaded = load_recipe(recipe)
    with elsewhere() as device:
        where = ("sparsefinder.lab.run.device_of", "sparsefinder.lab.device.device_of")
        with patch(where[0], lambda asked: device), patch(where[1], lambda asked: device):
            run(loaded, runs, "sweep", say=print)


if __name__ == "__main__":
    if sys.argv[1] == "finders":
        finders()
    elif sys.argv[1] == "waits":
        waits()
    else:
        rest_of_run(*sys.argv[2:])
    print(f"done on {NAME}")
