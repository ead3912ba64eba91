"""What a GPU would do, on a device that only says it is one. A program: the device stays with the process.

python -m tests.on_another_device finders         every finder, in every scene
python -m tests.on_another_device waits           how often finders and lists of tiles wait for the device
python -m tests.on_another_device caches          caches that wait on the CPU for their turn
python -m tests.on_another_device run RECIPE RUNS  the stages of a run after its training
"""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import torch
from transformers.cache_utils import CacheLayerMixin

from sparsefinder import Full, attention, predicting, use_entmax
from sparsefinder.attending.triton.tiles import known, listed
from sparsefinder.core.moving import moved
from sparsefinder.core.pieces import Blocks, Buckets, Near
from sparsefinder.finders import (
    BentSketch,
    BlockCentroids,
    BlockTopK,
    Distance,
    GlobalTokens,
    KMeans,
    Probe,
    Quest,
    RandomBlocks,
    SeerAttention,
    Sketch,
    Window,
)
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run
from sparsefinder.testing import scenes

from .elsewhere import NAME, WAITS, Elsewhere, elsewhere
from .finders.cases import CASES, HEADS, D
from .tiny_models import make, words


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


GPU_FINDERS = (
    Window, GlobalTokens, RandomBlocks, BlockTopK, BlockCentroids, Sketch, BentSketch, Distance, KMeans, Probe,
    Quest, SeerAttention,
)  # fmt: skip
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
            blocks = isinstance(case.finder, RandomBlocks | BlockTopK | BlockCentroids | Quest | SeerAttention)
            per_head = any(
                isinstance(getattr(case.finder, name, None), torch.Tensor) for name in ("k", "top_k", "probes")
            ) or (isinstance(case.finder, Probe) and case.finder.slack is not None)
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


class Stream:
    """Work beside other work, all of it done at once."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def wait_stream(self, other: Stream) -> None: ...


def caches() -> None:
    """Offloaded caches give the words that are generated on the CPU, and really are there between their turns."""
    left: set[str] = set()
    offload = CacheLayerMixin.offload

    def watched(layer: CacheLayerMixin) -> None:
        offload(layer)
        assert layer.keys is not None
        left.add(f"{type(layer).__name__} on {layer.keys.device}")

    options: dict[str, Any] = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    with (
        elsewhere() as device, patch.object(torch, "Stream", Stream),
        patch.object(torch.cuda, "default_stream", lambda device: Stream()),
        patch.object(torch.accelerator, "is_available", lambda: True),
        patch.object(CacheLayerMixin, "offload", watched),
    ):  # fmt: skip
        for family in ("gpt2", "llama"):
            ids = words(2, 8)
            for finder in (Full(), Window(3) | GlobalTokens(1)):
                model = use_entmax(make(family).float())
                with predicting(model, finder):
                    wanted = model.generate(ids, **options)
                with predicting(model.to(device), finder):
                    for name in ("offloaded", "offloaded_static"):
                        found = model.generate(ids.to(device), **options, cache_implementation=name)
                        assert torch.equal(found.cpu(), wanted), (family, name)
    assert left == {"DynamicLayer on cpu", "StaticLayer on cpu"}


def rest_of_run(recipe: str, runs: str) -> None:
    """All stages after training, with models and finders there."""
    loaded, seen = load_recipe(recipe), set()

    def watched(q: torch.Tensor, *rest: Any, **more: Any) -> Any:
        seen.add(q.device.type)
        return attention(q, *rest, **more)

    with elsewhere() as device:
        where = ("sparsefinder.lab.run.device_of", "sparsefinder.lab.device.device_of")
        used = patch("sparsefinder.hf.interface.attention", watched)
        with patch(where[0], lambda asked: device), patch(where[1], lambda asked: device), used:
            run(loaded, runs, "sweep", say=print)
    assert seen == {NAME}, "models attend there and nowhere else"


if __name__ == "__main__":
    if sys.argv[1] == "finders":
        finders()
    elif sys.argv[1] == "waits":
        waits()
    elif sys.argv[1] == "caches":
        caches()
    else:
        rest_of_run(*sys.argv[2:])
    print(f"done on {NAME}")
