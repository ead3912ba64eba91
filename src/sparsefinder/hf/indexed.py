"""Decoding steps that ask the index kept beside a cache, instead of looking at all its keys."""

from __future__ import annotations

from torch import Tensor

from ..attending.indexed import asked, asks_natively
from ..errors import InputError
from .attend import Attend, Use
from .caches import kept_with
from .masking import Mask

__all__ = ["from_index"]

# As many new tokens at most are decoded: more of them share what is packed of the keys.
MOST_QUERIES = 16


def from_index(
    attend: Attend, use: Use, mask: Mask, query: Tensor, key: Tensor, value: Tensor, alpha: float | Tensor, scale: float
) -> Tensor | None:
    """Attention over what the finder's index says; None where there is none to ask."""
    kept = kept_with(key)
    if kept is None or use.finder is None or query.shape[2] > MOST_QUERIES:
        return None
    if use.backend not in ("auto", "native"):
        return None
    layer, first = kept
    seen = mask.stretches(len(query), query.shape[2], key.shape[2], attend.kind != "cross", first)
    if seen is None:
        return None
    try:
        index = layer.indexed(use.finder, use.exact)
        if index is None or not asks_natively(index, query, key, value, alpha, scale):
            return None
    except InputError as error:
        raise error.of(attend.name) from None
    return asked(index, query, *layer.stored, *seen, alpha, scale)
