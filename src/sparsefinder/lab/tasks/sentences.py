"""Sentence pairs as token numbers, batches of them, and tokens dropped from their sources in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
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

    In examples marked as noisy, tokens of the source become the unknown one with probability `word_dropout`, each by
    itself; the target stays as it is.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, start: int, word_dropout: float, seed: int) -> None:
        self.padding, self.start, self.word_dropout, self.seed = int(tokenizer.pad_token_id), start, word_dropout, seed
        self.unknown = tokenizer.unk_token_id

    def __call__(self, examples: Sequence[Example]) -> dict[str, Tensor]:
        ids, real = padded([one["input_ids"] for one in examples], self.padding)
        inputs, decoded = padded([[self.start, *one["labels"][:-1]] for one in examples], self.padding)
        labels, _ = padded([one["labels"] for one in examples], IGNORED)
        if self.word_dropout > 0 and NOISY in examples[0]:
            drawn = torch.rand(ids.shape, generator=generator_for(self.seed, ids, labels))
            ids = ids.masked_fill((drawn < self.word_dropout) & (real == 1), self.unknown)
        return {
            "input_ids": ids, "attention_mask": real, "decoder_input_ids": inputs, "decoder_attention_mask": decoded,
            "labels": labels,
        }  # fmt: skip
