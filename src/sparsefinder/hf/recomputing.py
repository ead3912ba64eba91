"""Gradient checkpointing of Hugging Face models: layers are computed again with what they were computed with."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from .attend import Attend, Within, opened

__all__ = ["carry_uses"]


def carry_uses(model: PreTrainedModel) -> None:
    """Have checkpointed layers remember what they used, whether checkpointing is on or will be switched on."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            enable = partial(_enable, module)
            # Others look there for the arguments that a version of transformers takes.
            enable.__signature__ = inspect.signature(module.gradient_checkpointing_enable)  # type: ignore[attr-defined]
            module.gradient_checkpointing_enable = enable  # type: ignore[method-assign]
    _carry(model)


def _enable(model: PreTrainedModel, *arguments: Any, **more: Any) -> None:
    type(model).gradient_checkpointing_enable(model, *arguments, **more)
    _carry(model)


def _carry(model: PreTrainedModel) -> None:
    for module in model.modules():
        checkpoint = getattr(module, "_gradient_checkpointing_func", None)
        if checkpoint is not None and getattr(checkpoint, "func", None) is not _carried:
            module._gradient_checkpointing_func = partial(_carried, module, checkpoint)  # type: ignore[assignment]


def _carried(module: nn.Module, checkpoint: Callable[..., Any], layer: Callable[..., Any], *arguments: Any) -> Any:
    """A layer, checkpointed: now and whenever it is computed again it uses what it would use now."""
    found = (getattr(each, "sparsefinder", None) for each in module.modules())
    within = Within({attend: attend.use for attend in found if isinstance(attend, Attend)}, recomputed=True)

    def computed(*given: Any) -> Any:
        with opened(within):
            return layer(*given)

    return checkpoint(computed, *arguments)
