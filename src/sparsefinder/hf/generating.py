"""The caches of `generate`: those with room to grow where it is not told which, and none that cannot be had here."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any
from weakref import ref

import torch
from transformers import Cache, PreTrainedModel

from ..errors import InputError
from .caches import with_room

__all__ = ["prepare_own_caches"]


def prepare_own_caches(model: PreTrainedModel) -> None:
    """Have `generate` use caches with room to grow, where it is not told what cache to use."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel) and hasattr(type(module), "_prepare_cache_for_generation"):
            module._prepare_cache_for_generation = _Prepare(module)  # type: ignore[assignment]


class _Prepare:
    """The method of this name of a model, with what has to follow. It does not keep the model alive."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = ref(model)

    def __call__(self, *arguments: Any, **more: Any) -> None:
        model = self.model()
        assert model is not None, "it is called by way of the model"
        method = partial(type(model)._prepare_cache_for_generation, model)  # type: ignore[attr-defined]
        asked = inspect.signature(method).bind(*arguments, **more).arguments
        _check_offloading(model, asked["generation_config"].cache_implementation)
        given = asked["model_kwargs"]
        told = given.get("past_key_values")
        method(*arguments, **more)
        made = given.get("past_key_values")
        if told is None and isinstance(made, Cache):
            recording = [getattr(layer, "record_past", False) for layer in getattr(made, "layers", [])]
            with_room(made)
            if any(recording):
                made.activate_past_recording()

    def __reduce__(self) -> tuple[type[_Prepare], tuple[PreTrainedModel | None]]:
        # A copy of the model has that of the copy.
        return _Prepare, (self.model(),)


def _check_offloading(model: PreTrainedModel, name: str | None) -> None:
    """Refuse caches that wait in the memory of the CPU for their turn where they cannot: on a CPU there is no other
    memory, and what cross-attention looks at is not fetched back by transformers.
    """
    if "offloaded" not in (name or ""):
        return
    if not torch.accelerator.is_available():
        want = "'static', 'quantized', or none: caches are on the CPU already"
        raise InputError("cache_implementation", f"{name!r}, and torch finds no GPU here", want)
    if model.config.is_encoder_decoder:
        raise InputError("cache_implementation", f"{name!r} for a model with cross-attention", "'static', or none")
