"""What a GPU would do, on a device that only says it is one. A program: the device stays with the process.

python -m tests.on_another_device finders         every finder, in every scene
python -m tests.on_another_device run RECIPE RUNS  the stages of a run after its training
"""

from __future__ import annotations

import sys
from unittest.mock import patch

import torch

from sparsefinder.core.moving import moved
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run
from sparsefinder.testing import scenes

from .elsewhere import NAME, Elsewhere, elsewhere
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
    else:
        rest_of_run(*sys.argv[2:])
    print(f"done on {NAME}")
