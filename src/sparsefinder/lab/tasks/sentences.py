"""Sentence pairs as token numbers, batches of them, and words dropped from them in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from .base import padded
from .blocks import IGNORED
from .data import Pair
from .training import Example, generator_for

__all__ = ["NOISY", "Collator", "encode"]

# The mark of an example that is trained on.
NOISY = "noisy"


def encode(pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, length: int | None) -> list[Example]:
    """Pairs as token numbers, cut after `length` of them.

    {"input_ids": source, "labels": target}, each with the end of the sentence.
    """
    settings: dict[str, Any] = {"truncation": length is not None, "max_length": length, "verbose": False}
    sources = tokenizer([source for source, _ in pairs], **settings)["input_ids"]
    # Some tokenizers treat the two languages differently.
    targets = tokenizer(text_target=[target for _, target in pairs], **settings)["input_ids"]
    return [{"input_ids": source, "labels": target} for source, target in zip(sources, targets, strict=True)]


class Collator:
    """Puts examples into a batch: padded, the decoder's inputs one step behind the labels.

    In examples marked as noisy, words become the unknown token with probability `word_dropout`, in what encoder and
    decoder see but not in what the decoder should say.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, start: int, word_dropout: float, seed: int) -> None:
        self.padding, self.start, self.word_dropout, self.seed = int(tokenizer.pad_token_id), start, word_dropout, seed
        self.unknown = tokenizer.unk_token_id
        self.special = torch.tensor([*tokenizer.all_special_ids, start])
        self.begins = _begins_a_word(tokenizer)

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        ids, real = padded([one["input_ids"] for one in examples], self.padding)
        inputs, decoded = padded([[self.start, *one["labels"][:-1]] for one in examples], self.padding)
        labels, _ = padded([one["labels"] for one in examples], IGNORED)
        if self.word_dropout > 0 and NOISY in examples[0]:
            generator = generator_for(self.seed, ids, labels)
            ids, inputs = (self._dropped(some, generator) for some in (ids, inputs))
        return {
            "input_ids": ids, "attention_mask": real, "decoder_input_ids": inputs, "decoder_attention_mask": decoded,
            "labels": labels,
        }  # fmt: skip

    def _dropped(self, ids: Int[Tensor, "batch n"], generator: torch.Generator) -> Int[Tensor, "batch n"]:
        """Whole words at a time: all tokens from one that begins a word to the next one that does."""
        words = self.begins[ids].cumsum(-1)
        dropped = torch.rand(len(ids), ids.shape[1] + 1, generator=generator) < self.word_dropout
        return ids.masked_fill(dropped.gather(1, words) & ~torch.isin(ids, self.special), self.unknown)


def _begins_a_word(tokenizer: PreTrainedTokenizerBase) -> Bool[Tensor, "vocabulary"]:
    """For every token, whether it begins a word: as SentencePiece and byte-level encodings mark it, or WordPiece."""
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    begins = torch.tensor([str(token).startswith(("▁", "Ġ")) for token in tokens])
    return begins if begins.any() else torch.tensor([not str(token).startswith("##") for token in tokens])
