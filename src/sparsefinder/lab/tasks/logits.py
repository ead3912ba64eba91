"""Logits of a few tokens only: of a vocabulary's, most of what a small encoder computes is never looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxtyping import Bool
from torch import Tensor, nn

__all__ = ["logits_of"]


@contextmanager
def logits_of(model: nn.Module, asked: Bool[Tensor, "batch length"]) -> Iterator[bool]:
    """Within this block the model has logits of these tokens alone, one row after the other, if it lets us choose.

    Says whether it does: there are models whose logits have no layer of their own.
    """
    plain: Any = model
    head = plain.get_output_embeddings()
    if head is None:
        yield False
        return
    hook = head.register_forward_pre_hook(lambda _, given: (given[0][asked], *given[1:]))
    try:
        yield True
    finally:
        hook.remove()
