"""Gradient checkpointing of Hugging Face models: layers are computed again with what they were computed with.

What is put on modules here does not refer to them: a model that nobody needs any more goes at once, not when Python
looks for cycles.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

from transformers import PreTrainedModel

from .attend import Attend, Within, opened

__all__ = ["carry_uses"]


def carry_uses(model: PreTrainedModel) -> None:
    """Have checkpointed layers remember what they used, whether checkpointing is on or will be switched on."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            module.gradient_checkpointing_enable = _Enable(module)  # type: ignore[method-assign]
    _carry(model)


class _Enable:
    """The method of this name of a model, with what has to follow."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = ref(model)
        # Others look there for the arguments that a version of transformers takes.
        self.__signature__ = inspect.signature(partial(type(model).gradient_checkpointing_enable, model))

    def __call__(self, *arguments: Any, **more: Any) -> None:
        model = self.model()
        assert model is not None, "it is called by way of the model"
        type(model).gradient_checkpointing_enable(model, *arguments, **more)
        _carry(model)

    def __reduce__(self) -> tuple[type[_Enable], tuple[PreTrainedModel | None]]:
        # A copy of the model has that of the copy.
        return _Enable, (self.model(),)


def _carry(model: PreTrainedModel) -> None:
    for module in model.modules():
        checkpoint = getattr(module, "_gradient_checkpointing_func", None)
        if checkpoint is None:
            continue
        if isinstance(checkpoint, partial) and checkpoint.func is _carried:
            checkpoint = checkpoint.args[1]
        found = (getattr(each, "sparsefinder", None) for each in module.modules())
        attends = [attend for attend in found if isinstance(attend, Attend)]
        module._gradient_checkpointing_func = partial(_carried, attends, checkpoint)  # type: ignore[assignment]


def _carried(
    attends: Sequence[Attend], checkpoint: Callable[..., Any], layer: Callable[..., Any], *arguments: Any
) -> Any:
    """A layer, checkpointed: now and whenever it is computed again it uses what it would use now."""
    within = Within({attend: attend.use for attend in attends}, recomputed=True)

    def computed(*given: Any) -> Any:
        with opened(within):
            return layer(*given)

    return checkpoint(computed, *arguments)
