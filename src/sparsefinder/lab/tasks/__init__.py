"""The two tasks of the paper, masked language modelling and translation, and causal language modelling."""

from __future__ import annotations

import torch

from ..recipe import CausalLM, MaskedLM, Translation
from .base import Inputs, Score, Task, Tokens

__all__ = ["Inputs", "Score", "Task", "Tokens", "task"]

CPU = torch.device("cpu")


def task(recipe: MaskedLM | CausalLM | Translation, seed: int = 0, device: torch.device = CPU) -> Task:
    """The task that a recipe describes, with models on a device.

    >>> teaching = task(load_recipe("recipes/demo-mlm.yaml").task)
    >>> teaching.train(Path("runs/demo/training"), Path("runs/demo/teacher"))
    """
    # Each brings the Trainer and its own libraries, which take seconds to import.
    if isinstance(recipe, MaskedLM):
        from .mlm import MaskedLMTask

        return MaskedLMTask(recipe, seed, device)
    if isinstance(recipe, CausalLM):
        from .causal import CausalLMTask

        return CausalLMTask(recipe, seed, device)
    from .translation import TranslationTask

    return TranslationTask(recipe, seed, device)
