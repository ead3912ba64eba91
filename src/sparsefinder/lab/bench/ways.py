"""Ways to decode, each with a model and a cache of its own: one step of the model, and its parts apart."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import Cache, DynamicCache, PreTrainedModel, StaticCache

from ...attending import attention
from ...attending.indexed import asked
from ...core.index import KeyIndex
from ...core.layout import Layout
from ...finders import Finder
from ...hf.caches import GrowingLayer, with_room
from ...hf.models import predicting
from ...traces.store import Site
from .clock import seconds_of

__all__ = ["WAYS", "Filled", "Kept", "Way"]

# Tokens that there is room for after the cached ones.
ROOM = 512


@dataclass(frozen=True)
class Way:
    """How a token is decoded.

    cache: which one: "dynamic" (concatenates), "static" (of a fixed size), "growing" (ours).
    setting: of the sketch whose index is asked: "slack", "share", "exact"; None for all keys.
    """

    name: str
    label: str
    cache: str
    softmax: bool = False
    setting: str | None = None


WAYS = (
    Way("softmax-dynamic", "softmax, DynamicCache", "dynamic", softmax=True),
    Way("softmax-static", "softmax, static cache", "static", softmax=True),
    Way("full", "full entmax", "growing"),
    Way("share", "index, by share", "growing", setting="share"),
    Way("slack", "index, by slack", "growing", setting="slack"),
    Way("certified", "index, certified", "growing", setting="exact"),
)


@dataclass(frozen=True, eq=False)
class Kept:
    """What a causal model has cached of one text, and asked with: of each layer, up to the longest length.

    queries: of the last tokens before each length. ids: the text.
    """

    keys: Sequence[Float[Tensor, "1 kv_heads m d"]]
    values: Sequence[Float[Tensor, "1 kv_heads m d"]]
    queries: Mapping[int, Sequence[Float[Tensor, "1 heads some d"]]]
    ids: Tensor
    scale: float
    alphas: Sequence[float | Tensor]


class Filled:
    """A way to decode with so many tokens cached, ready to be timed."""

    def __init__(
        self, way: Way, model: PreTrainedModel, kept: Kept, length: int, finders: Mapping[Site, Finder] | None
    ) -> None:
        self.way, self.kept, self.length, self.finders = way, kept, length, finders
        self.model, self._scanners = model, dict[int, KeyIndex]()
        if way.softmax:
            # The same weights: for their time, as they were not trained for that.
            self.model = copy.deepcopy(model)
            self.model.set_attn_implementation("sdpa")
        self.fill(length)

    def fill(self, length: int) -> None:
        """Cache the first tokens of the text."""
        config = self.model.config
        if self.way.cache == "static":
            self.cache: Cache = StaticCache(config=config, max_cache_len=length + ROOM)
        else:
            self.cache = DynamicCache(config=config)
            self.cache = with_room(self.cache) if self.way.cache == "growing" else self.cache
        for layer, (keys, values) in enumerate(zip(self.kept.keys, self.kept.values, strict=True)):
            self.cache.update(keys[:, :, :length], values[:, :, :length], layer)

    def back(self) -> None:
        """Forget what was decoded."""
        if isinstance(self.cache, StaticCache):
            for layer in self.cache.layers:
                layer.cumulative_length.fill_(self.length)  # type: ignore[union-attr]
        else:
            self.cache.crop(self.length - self.cache.get_seq_length())

    def predicting(self) -> AbstractContextManager[object]:
        """A block in which the model decodes in this way: opened once for many tokens, so its time counts nowhere."""
        if self.finders is None:
            return nullcontext()
        return predicting(self.model, self.finders, exact=self.way.setting == "exact")

    def forward(self, ids: Tensor) -> Tensor:
        """The logits of the next tokens."""
        return self.model(ids, past_key_values=self.cache).logits

    def step(self) -> float:
        """Seconds of one token, in the whole model."""
        with self.predicting():
            took = seconds_of(partial(self.forward, self.kept.ids[:, self.length - 1 : self.length]))
        self.back()
        return took

    def parts(self) -> tuple[float, float, float]:
        """Seconds of the cache, of finding and of attending in one token, of all layers."""
        total = [0.0, 0.0, 0.0]
        for layer, (keys, values) in enumerate(zip(self.kept.keys, self.kept.values, strict=True)):
            query = self.kept.queries[self.length][layer][:, :, -1:]
            new = keys[:, :, self.length - 1 : self.length], values[:, :, self.length - 1 : self.length]
            found: list[tuple[Tensor, Tensor]] = []
            update = self.cache.layers[layer].update  # type: ignore[union-attr]
            total[0] += seconds_of(lambda: found.append(update(*new)))  # noqa: B023
            find, attend = self._alone(layer, query, *found[0])
            total[1] += find
            total[2] += attend
        self.back()
        return total[0], total[1], total[2]

    def index(self, layer: int) -> KeyIndex | None:
        """The index of a layer, up to date."""
        at, one = self.cache.layers[layer], None if self.finders is None else self.finders.get(("decoder", layer))
        if one is None or not isinstance(at, GrowingLayer):
            return None
        return at.indexed(one, self.way.setting == "exact")

    def _alone(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[float, float]:
        """Seconds of finding and of attending in a layer.

        To find is to take up the new key, and to scan the index. An index is scanned and attended over in one: how much
        of that is scanning is seen the second time, when scanning alone finds the same in the caches of the processor.
        """
        alpha, scale = self.kept.alphas[layer], self.kept.scale
        if self.way.softmax:
            k, v = k[:, :, : self.length + 1], v[:, :, : self.length + 1]
            grouped = q.shape[1] != k.shape[1]
            return 0.0, seconds_of(lambda: scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=grouped))
        if self.way.setting is None:
            return 0.0, seconds_of(lambda: attention(q, k, v, alpha=alpha, scale=scale))
        appending = seconds_of(partial(self.index, layer))
        index = self.index(layer)
        assert index is not None
        lows, highs = torch.zeros(1, 1, dtype=torch.long), torch.full((1, 1), self.length + 1)
        more = (q, k, v, lows, highs, alpha, scale)
        whole, again = (seconds_of(partial(asked, index, *more)) for _ in range(2))
        scanning = min(1.0, seconds_of(partial(asked, self._scanned(layer, index), *more)) / again)
        return appending + scanning * whole, (1 - scanning) * whole

    def _scanned(self, layer: int, index: KeyIndex) -> KeyIndex:
        """The same codes, of exact indexes too, asked in a way that nothing passes."""
        if layer not in self._scanners:
            heads, _, columns = index.query_maps.shape
            ranks = torch.tensor([min(codes, columns) for codes in index.codes_of_heads])
            nothing = torch.zeros(heads, dtype=torch.float64)
            self._scanners[layer] = KeyIndex(index.query_maps, index.key_maps, ranks, share=nothing)
        found = self._scanners[layer]
        found.panels, found.capacity, found.length = index.panels, index.capacity, index.length
        return found

    def recall(self) -> tuple[float, float] | None:
        """The share of pairs with weight that are looked at, and the share of pairs that are; of the last queries."""
        if self.way.setting is None:
            return None
        hits = gold_pairs = looked = pairs = 0.0
        for layer, q in enumerate(self.kept.queries[self.length]):
            k = self.kept.keys[layer][:, :, : self.length]
            layout = Layout(True, query_offset=self.length - q.shape[2])
            alpha, scale = self.kept.alphas[layer], self.kept.scale
            _, weights = attention(q, k, k, alpha=alpha, scale=scale, layout=layout, return_weights=True)
            gold = weights.to_dense() > 0
            index = self.index(layer)
            assert index is not None
            found = index.graph(q, layout)
            hits, gold_pairs = hits + float((gold & found.dense()).sum()), gold_pairs + float(gold.sum())
            looked += float(found.count().sum())
            pairs += q.shape[1] * float(found.grid.degrees().sum())
        return hits / gold_pairs, looked / pairs

    def perplexity(self, tokens: int) -> float:
        """Of the last tokens, each decoded by itself after those that the text has before it."""
        start = self.length - tokens
        self.fill(start)
        total = torch.zeros((), dtype=torch.float64)
        with self.predicting():
            for place in range(start, self.length - 1):
                logits = self.forward(self.kept.ids[:, place : place + 1])[0, -1].double()
                total -= logits.log_softmax(-1)[self.kept.ids[0, place + 1]]
        self.fill(self.length)
        return float((total / (tokens - 1)).exp())

    @property
    def cache_bytes(self) -> int:
        """Of the cached keys and values, without room."""
        pairs = zip(self.kept.keys, self.kept.values, strict=True)
        return sum(each[0, :, 0].numel() * each.element_size() for pair in pairs for each in pair) * self.length

    @property
    def index_bytes(self) -> int:
        """Of what is known of the keys, without room."""
        found = [self.index(layer) for layer in range(len(self.kept.keys))]
        return sum(round(one.bytes_per_key * one.ranks.shape[0] * self.length) for one in found if one is not None)
