"""Sequences of any length to fit to, and others to measure on: of the data of a run, or of one text cut in halves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ..recipe import CausalLM, MaskedLM, Translation
from ..tasks.blocks import cut, hide
from ..tasks.data import read_pairs, read_texts

__all__ = ["PlainText", "RunText", "Text", "digest"]

# Characters to a token, at the most: no more text than needed is made tokens of.
LONGEST = 8


class Text(Protocol):
    """Where sequences come from."""

    def inputs(self, part: str, length: int, count: int) -> dict[str, Tensor]:
        """So many sequences at the most, as inputs of the model, "train" or "valid"; none if the text is too short."""


class PlainText:
    """A text file: its first half to fit to, its second half to measure on."""

    def __init__(self, path: str, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        texts = read_texts(path)
        half = sum(map(len, texts)) // 2
        self.parts = {"train": list(_between(texts, 0, half)), "valid": list(_between(texts, half, 2 * half + 1))}

    def inputs(self, part: str, length: int, count: int) -> dict[str, Tensor]:
        return {"input_ids": _rows(self.parts[part], self.tokenizer, length, count)}


class RunText:
    """The data of a run: to train on, and to measure on."""

    def __init__(
        self,
        recipe: MaskedLM | CausalLM | Translation,
        tokenizer: PreTrainedTokenizerBase,
        seed: int,
        config: Any,
    ) -> None:
        self.recipe, self.tokenizer, self.seed, self.config = recipe, tokenizer, seed, config
        # Read once, however many lengths are cut from it.
        self._texts, self._pairs = cache(read_texts), cache(read_pairs)

    def inputs(self, part: str, length: int, count: int) -> dict[str, Tensor]:
        if isinstance(self.recipe, MaskedLM):
            texts = self._texts(getattr(self.recipe.data, part))
            rows = _rows(texts, self.tokenizer, length, count)
            # With tokens hidden, as the teacher saw them in training.
            generator = torch.Generator().manual_seed(self.seed)
            return {"input_ids": hide(rows, self.tokenizer, self.recipe.masked, generator)[0]}
        if isinstance(self.recipe, CausalLM):
            texts = self._texts(getattr(self.recipe.data, part))
            return {"input_ids": _rows(texts, self.tokenizer, length, count, closed=False)}
        pairs = self._pairs(self.recipe.data.train if part == "train" else self.recipe.data.test)
        source, target = (_rows(side, self.tokenizer, length, count) for side in zip(*pairs, strict=True))
        many = min(len(source), len(target))
        start = torch.full((many, 1), self.config.decoder_start_token_id)
        # The decoder sees the target one step late.
        return {"input_ids": source[:many], "decoder_input_ids": torch.cat([start, target[:many, :-1]], 1)}


def digest(rows: Mapping[str, Tensor]) -> str:
    """A hash of token numbers."""
    found = hashlib.sha256()
    for name, tensor in rows.items():
        found.update(f"{name} {tuple(tensor.shape)}".encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


def _rows(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, length: int, count: int, closed: bool = True
) -> Tensor:
    """At most so many sequences of a text, without one that is shorter."""
    rows = cut(list(_between(texts, 0, count * length * LONGEST)), tokenizer, length, closed).rows.long()
    return rows[:count] if rows.shape[1] == length else rows[:0]


def _between(texts: Iterable[str], start: int, stop: int) -> Iterable[str]:
    """The characters from one place to another, paragraph by paragraph."""
    for text in texts:
        if text[max(start, 0) : max(stop, 0)]:
            yield text[max(start, 0) : stop]
        start, stop = start - len(text), stop - len(text)
        if stop <= 0:
            return
