"""Masked language modelling: blocks of text, an encoder with entmax attention, and its perplexity.

Perplexity is over the hidden tokens of the `valid` text. "Far" are those that the model sees a mask for and
whose answer can be read elsewhere in the block, but only more than `far` tokens away: only far attention can fetch it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from ...errors import InputError
from ..recipe import MaskedLM
from .base import Inputs, Score, Tokens, draw, ordered_batches, padded
from .blocks import IGNORED, TextBlocks, cut, hide, nearest
from .data import read_texts
from .logits import logits_of
from .taught import TaughtTask
from .teacher import from_checkpoint, from_config
from .tokenizer import byte_level, check_vocabulary, text_of
from .training import fit, generator_for

__all__ = ["MaskedLMTask"]

# Which tokens are hidden in an evaluation is part of what is measured: it does not change with the seed of a run.
EVALUATION_SEED = 20_220_522
# What configs of encoders call it.
DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout", "embedding_dropout",
    "mlp_dropout",
)  # fmt: skip


class MaskedLMTask(TaughtTask[MaskedLM]):
    """Masked language modelling as a recipe describes it."""

    metric = "perplexity"
    better = "lower"
    kinds = ("encoder",)

    def __init__(self, recipe: MaskedLM, seed: int, device: torch.device) -> None:
        super().__init__(recipe, seed, device)
        self._train_blocks = lru_cache(maxsize=1)(self._cut_train)
        self._hidden_blocks = lru_cache(maxsize=1)(self._hide_valid)

    def sequences(self, teacher: Path, count: int, longer_than: int = 0) -> list[Inputs]:
        blocks = self._train_blocks(teacher)
        chosen = draw([place for place in range(len(blocks)) if blocks.rows.shape[1] > longer_than], count, self.seed)
        found: list[Inputs] = []
        for place in chosen:
            # With tokens hidden, as the teacher saw them in training and sees them when it is scored.
            row = blocks[place]["input_ids"][None]
            seen, answers = hide(row, self._tokenizer_of(teacher), self.recipe.masked, generator_for(self.seed, row))
            found.append({"input_ids": seen[0].tolist(), "labels": answers[0].tolist()})
        return found

    def validation(self, teacher: Path) -> list[Inputs]:
        return [{"input_ids": one["input_ids"].tolist()} for one in self._cut_valid(teacher)]

    def batches(self, teacher: Path, sequences: Sequence[Inputs], batch: int) -> Iterator[dict[str, Tensor]]:
        pad = self._tokenizer_of(teacher).pad_token_id or 0
        for some in ordered_batches(sequences, batch):
            ids, real = padded([one["input_ids"] for one in some], pad)
            yield {"input_ids": ids, "attention_mask": real}

    def tokens(self, teacher: Path, sequence: Inputs, kind: str) -> Tokens:
        if kind != "encoder":
            raise InputError("kind", repr(kind), "'encoder': masked language modelling has no decoder")
        tokenizer, seen = self._tokenizer_of(teacher), list(sequence["input_ids"])
        words = tokenizer.convert_ids_to_tokens(seen)
        # The tokens are what the model saw, the text is what was written.
        answers = sequence.get("labels", [IGNORED] * len(seen))
        written = [one if answer == IGNORED else answer for one, answer in zip(seen, answers, strict=True)]
        return Tokens(words, words, text_of(tokenizer, written))

    @torch.no_grad()
    def evaluate(
        self,
        model: PreTrainedModel,
        teacher: Path,
        count: int | None = None,
        batch: int | None = None,
        whole_prefix: bool = False,
    ) -> Score:
        """Perplexity. Whole sequences are seen at once, so that `whole_prefix` changes nothing."""
        model.eval()
        blocks = self._hidden_blocks(teacher)[: count or self.recipe.evaluate]
        losses, right, apart = [], [], []
        parts: list[tuple[float, ...]] = []
        for some in ordered_batches(blocks, batch or self.recipe.training.batch):
            seen, answers = (torch.stack([one[name] for one in some]) for name in ("input_ids", "labels"))
            asked = answers != IGNORED
            chosen = asked.to(model.device)
            with logits_of(model, chosen) as alone:
                logits = model(input_ids=seen.to(model.device)).logits
            logits = (logits if alone else logits[chosen]).float().cpu()
            losses.append(cross_entropy(logits, answers[asked], reduction="none").double())
            parts += [(float(one.sum()), len(one)) for one in losses[-1].split(asked.sum(-1).tolist())]
            right.append(logits.argmax(-1) == answers[asked])
            # Where the model sees something else than a mask, nothing has to be fetched.
            fetched = seen[asked] == self._tokenizer_of(teacher).mask_token_id
            apart.append(nearest(seen, answers).where(fetched, -1))
        loss, far = torch.cat(losses), torch.cat(apart) > self.recipe.far
        details = {"far tokens": float(far.sum()), "accuracy": float(torch.cat(right).double().mean())}
        if far.any():
            details["far perplexity"] = math.exp(float(loss[far].mean()))
        value = math.exp(float(loss.mean()))
        return Score(self.metric, value, self.better, len(blocks), None, details, tuple(parts))

    def forced(self, teacher: Path, count: int | None = None, whole_prefix: bool = False) -> None:
        return None

    def _new_tokenizer(self) -> PreTrainedTokenizerBase:
        return byte_level(read_texts(self.recipe.data.train), self.recipe.vocabulary)

    def _fit(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, training: Path
    ) -> PreTrainedModel:
        check_vocabulary(tokenizer, model)
        return fit(
            model, training, self.recipe.training, self.seed, self.device,
            train=self._train_blocks(folder), valid=self._hidden_blocks(folder)[: self.recipe.evaluate],
            collate=self._collate(tokenizer), few_labels=True,
        )  # fmt: skip

    def _start(self, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
        recipe = self.recipe
        if tokenizer.mask_token_id is None:
            got = f"{tokenizer.name_or_path} without a mask token"
            raise InputError("tokenizer", got, "one for masked language modelling")
        dropout = {} if recipe.dropout is None else dict.fromkeys(DROPOUTS, recipe.dropout)
        if recipe.checkpoint is not None:
            trains = recipe.training.changes_the_model
            return from_checkpoint(recipe.checkpoint, recipe.alpha, AutoModelForMaskedLM, trains, **dropout)
        given = {"architecture": recipe.architecture, **(recipe.model or {})}
        return from_config(given, recipe.alpha, tokenizer, recipe.length, self.seed, **dropout)

    def _cut_train(self, tokenizer: Path) -> TextBlocks:
        return cut(read_texts(self.recipe.data.train), self._tokenizer_of(tokenizer), self.recipe.length)

    def _cut_valid(self, tokenizer: Path) -> TextBlocks:
        return cut(read_texts(self.recipe.data.valid), self._tokenizer_of(tokenizer), self.recipe.length)

    def _hide_valid(self, tokenizer: Path) -> list[dict[str, Tensor]]:
        loaded = self._tokenizer_of(tokenizer)
        found = []
        for place, block in enumerate(self._cut_valid(tokenizer)):
            # Each block by a generator of its own: the same whatever the batches are, and however many blocks.
            generator = torch.Generator().manual_seed(EVALUATION_SEED + place)
            seen, answers = hide(block["input_ids"][None], loaded, self.recipe.masked, generator)
            found.append({"input_ids": seen[0], "labels": answers[0]})
        return found

    def _collate(self, tokenizer: PreTrainedTokenizerBase) -> Any:
        def collate(examples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
            rows = torch.stack([example["input_ids"] for example in examples])
            if "labels" in examples[0]:
                return {"input_ids": rows, "labels": torch.stack([example["labels"] for example in examples])}
            generator = generator_for(self.seed, rows)
            seen, answers = hide(rows, tokenizer, self.recipe.masked, generator)
            return {"input_ids": seen, "labels": answers}

        return collate
