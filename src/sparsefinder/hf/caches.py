"""Cache layers with room to grow, and beside the keys the index of the finder that asks for them.

Transformers' own `DynamicCache` concatenates all keys and values at every token, which takes longer than attention. The
layers here write new ones where there is room already, and keep what a finder knows of the keys. `generate` has them by
itself in models of `use_entmax`; any other cache works too, but there a finder looks at all keys anew.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, EncoderDecoderCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from ..core.index import KeyIndex
from ..finders import Finder

__all__ = ["GrowingLayer", "GrowingWindowLayer", "kept_with", "with_room"]

# Where a tensor of keys says which layer it is of, and from which of the stored keys on.
KEPT = "sparsefinder_kept"
# Room that there is from the beginning, besides a share of what came first.
LEAST_ROOM, SHARE_OF_ROOM = 64, 8


class GrowingLayer(DynamicLayer):
    """Keys and values of one layer, in tensors that have room for more.

    `keys` and `values` are what is filled of them, and say where they are kept.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._stored: tuple[Tensor, Tensor] | None = None
        # How many of the stored keys are there.
        self._filled = 0
        self._finder: tuple[Finder, bool] | None = None
        self._index: KeyIndex | None = None
        super().__init__(**kwargs)

    @property
    def keys(self) -> Tensor | None:
        return self._shown(0, 0)

    @keys.setter
    def keys(self, given: Tensor | None) -> None:
        self._put(0, given)

    @property
    def values(self) -> Tensor | None:
        return self._shown(1, 0)

    @values.setter
    def values(self, given: Tensor | None) -> None:
        self._put(1, given)

    def _shown(self, which: int, first: int) -> Tensor | None:
        if self._stored is None:
            return None
        shown = self._stored[which][:, :, first : self._filled]
        if which == 0:
            setattr(shown, KEPT, (self, first))
        return shown

    def _put(self, which: int, given: Tensor | None) -> None:
        """Take over other keys or values, as whoever moves a layer to another device does."""
        if given is None:
            self._stored, self._filled, self._index, self._finder = None, 0, None, None
        elif self._stored is not None:
            pair = [self._stored[0][:, :, : self._filled], self._stored[1][:, :, : self._filled]]
            pair[which] = given
            self._stored, self._filled = (pair[0], pair[1]), given.shape[2]
            self._index = self._finder = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self._stored, self._filled = (key_states[:, :, :0], value_states[:, :, :0]), 0
        self.is_initialized = True

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Take up new keys and values; all that there are."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self._append(key_states, value_states)
        return self._both(0)

    def _both(self, first: int) -> tuple[Tensor, Tensor]:
        keys, values = self._shown(0, first), self._shown(1, first)
        assert keys is not None
        assert values is not None
        return keys, values

    def _append(self, *states: Tensor) -> None:
        assert self._stored is not None
        filled, needed = self._filled, self._filled + states[0].shape[2]
        if torch.is_grad_enabled() and any(each.requires_grad for each in (*states, *self._stored)):
            # What a gradient goes through must not be written over.
            joined = [torch.cat([old[:, :, :filled], new], 2) for old, new in zip(self._stored, states, strict=True)]
            self._stored = joined[0], joined[1]
        else:
            if needed > self._stored[0].shape[2] or self._sealed():
                self._move(0, needed)
            for place, new in zip(self._stored, states, strict=True):
                place[:, :, filled:needed] = new
        self._filled = needed

    def _sealed(self) -> bool:
        assert self._stored is not None
        return self._stored[0].is_inference() and not torch.is_inference_mode_enabled()

    def _move(self, first: int, needed: int) -> None:
        """Move what is there from the key `first` on to where there is room for so many and more."""
        assert self._stored is not None
        # Twice as much each time, so that a key is moved no more than about once, however long a sequence grows.
        room = max(needed, 2 * (self._filled - first)) + max(
            LEAST_ROOM, needed // SHARE_OF_ROOM if not self._filled else 0
        )
        moved = []
        for old in self._stored:
            new = old.new_empty((*old.shape[:2], room, old.shape[3]))
            new[:, :, : self._filled - first] = old[:, :, first : self._filled]
            moved.append(new)
        self._stored, self._filled = (moved[0], moved[1]), self._filled - first
        if first:
            self._index = self._finder = None

    def indexed(self, finder: Finder, exact: bool) -> KeyIndex | None:
        """What the finder knows of the stored keys, up to date; None if it has no index."""
        assert self._stored is not None
        keys = self._stored[0]
        if self._finder is None or self._finder[0] is not finder or self._finder[1] != exact:
            self._finder = finder, exact
            self._index = finder.index(keys[:, :, :0], exact)
        if self._index is not None and self._index.length < self._filled:
            self._index.append(keys[:, :, self._index.length : self._filled])
        return self._index

    @property
    def stored(self) -> tuple[Tensor, Tensor]:
        """All keys and values that there are, as the index counts them."""
        assert self._stored is not None
        keys, values = self._stored
        return keys[:, :, : self._filled], values[:, :, : self._filled]

    def get_seq_length(self) -> int:
        return self._filled

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove > 0:
            super().crop(tokens_to_remove)
        self._cut(-tokens_to_remove)

    def _cut(self, count: int) -> None:
        self._filled = max(0, self._filled - count)
        if self._index is not None:
            self._index.crop(self._filled)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self._stored is None or not self._filled:
            return
        order = beam_idx.to(self.device)
        if len(order) != len(self._stored[0]) or self._sealed():
            self.batch_select_indices(order)
            return
        # Beams that stay where they are are not moved.
        changed = (order != torch.arange(len(order), device=self.device)).nonzero().flatten()
        if len(changed) == 0:
            return
        for each in self._stored:
            each[changed, :, : self._filled] = each[order[changed], :, : self._filled]
        if self._index is not None:
            self._index.select(order)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self._stored is not None and self._filled:
            keys, values = (each.repeat_interleave(repeats, 0) for each in self._stored)
            self._stored = keys, values
            if self._index is not None:
                self._index.repeat(repeats)

    def batch_select_indices(self, indices: Tensor) -> None:
        if self._stored is not None and self._filled:
            keys, values = (each[indices, ...] for each in self._stored)
            self._stored = keys, values
            if self._index is not None:
                chosen = indices.nonzero().flatten() if indices.dtype == torch.bool else indices
                self._index.select(chosen)


class GrowingWindowLayer(GrowingLayer, DynamicSlidingWindowLayer):
    """The same for a layer with a sliding window: keys that fell out of it are dropped whenever room runs out."""

    is_sliding = True

    def __init__(self, sliding_window: int, **kwargs: Any) -> None:
        super().__init__(sliding_window=sliding_window, **kwargs)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        self._sliding_window_tensor = self._sliding_window_tensor.to(self.device)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Take up new keys and values; those that the new queries may see."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self._stored is not None
        new = key_states.shape[2]
        dropped = self._filled - self.sliding_window + 1
        if dropped > 0 and not self.record_past and self._filled + new > self._stored[0].shape[2]:
            self._move(dropped, self.sliding_window - 1 + new)
        self._append(key_states, value_states)
        self.cumulative_length += new
        return self._both(max(0, self._filled - (self.sliding_window - 1 + new)))

    def get_seq_length(self) -> int:
        return self.cumulative_length

    def crop(self, tokens_to_remove: int) -> None:
        count = abs(tokens_to_remove)
        if tokens_to_remove > 0:
            DynamicLayer.crop(self, tokens_to_remove)
        left = min(self.cumulative_length - count, self.sliding_window - 1)
        if self._filled - count < left:
            raise RuntimeError(
                f"`crop` of {count} tokens: keys that come into the window again were dropped. Call "
                "`activate_past_recording` before, to be able to go back."
            )
        self._cut(count)
        self.cumulative_length -= count
        if self.record_past and self._filled > 2 * self.sliding_window:
            self._move(self._filled - self.sliding_window + 1, self.sliding_window)


# What is put in the place of which layer.
OURS: dict[type, Any] = {
    DynamicLayer: lambda _: GrowingLayer(),
    DynamicSlidingWindowLayer: lambda old: GrowingWindowLayer(sliding_window=old.sliding_window),
}


def with_room(cache: Cache) -> Cache:
    """The same cache, with layers that have room to grow instead of those that concatenate. It has to be empty.

    >>> cache = with_room(DynamicCache(config=model.config))
    >>> model(ids, past_key_values=cache)
    """
    if isinstance(cache, EncoderDecoderCache):
        with_room(cache.self_attention_cache)
        with_room(cache.cross_attention_cache)
    elif type(cache) is DynamicCache and not cache.offloading and cache.get_seq_length() == 0:
        cache.layers = [OURS.get(type(layer), lambda same: same)(layer) for layer in cache.layers]
        if cache.layer_class_to_replicate is DynamicLayer:
            cache.layer_class_to_replicate = GrowingLayer
    return cache


def kept_with(key: Tensor) -> tuple[GrowingLayer, int] | None:
    """The layer that these keys are of, and from which of its stored keys on; None where the cache is not ours."""
    return getattr(key, KEPT, None)
