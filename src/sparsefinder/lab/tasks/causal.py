"""Causal language modelling: blocks of text, a decoder with entmax attention, its perplexity, and how fast it decodes.

Perplexity is over all tokens of the blocks of the `valid` text but the first of each. "Far" are those that stood before
in the block, but not in the last `far` places: only far attention can fetch them. "Late" are those in the second half
of a block, which have at least that much before them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation.streamers import BaseStreamer

from ...errors import InputError
from ..recipe import CausalLM
from .base import Inputs, Score, Tokens, draw, ordered_batches, padded
from .blocks import TextBlocks, cut, last_seen
from .data import read_texts
from .order import Curriculum, Stretch, steps_of_shares
from .taught import TaughtTask
from .teacher import from_checkpoint, from_config
from .tokenizer import byte_level, check_vocabulary, text_of
from .training import Example, fit

__all__ = ["CausalLMTask"]


class CausalLMTask(TaughtTask[CausalLM]):
    """Causal language modelling as a recipe describes it."""

    metric = "perplexity"
    better = "lower"
    kinds = ("decoder",)

    def __init__(self, recipe: CausalLM, seed: int, device: torch.device) -> None:
        super().__init__(recipe, seed, device)
        self._train_blocks = lru_cache(maxsize=1)(self._cut_train)
        self._valid_blocks = lru_cache(maxsize=1)(self._cut_valid)

    def sequences(self, teacher: Path, count: int, longer_than: int = 0) -> list[Inputs]:
        blocks = self._train_blocks(teacher)
        chosen = draw([place for place in range(len(blocks)) if blocks.rows.shape[1] > longer_than], count, self.seed)
        return [{"input_ids": blocks[place]["input_ids"].tolist()} for place in chosen]

    def validation(self, teacher: Path) -> list[Inputs]:
        return [{"input_ids": one["input_ids"].tolist()} for one in self._valid_blocks(teacher)]

    def batches(self, teacher: Path, sequences: Sequence[Inputs], batch: int) -> Iterator[dict[str, Tensor]]:
        pad = self._tokenizer_of(teacher).pad_token_id or 0
        for some in ordered_batches(sequences, batch):
            ids, real = padded([one["input_ids"] for one in some], pad)
            yield {"input_ids": ids, "attention_mask": real}

    def tokens(self, teacher: Path, sequence: Inputs, kind: str) -> Tokens:
        if kind != "decoder":
            raise InputError("kind", repr(kind), "'decoder': a causal language model has nothing else")
        tokenizer, ids = self._tokenizer_of(teacher), list(sequence["input_ids"])
        words = tokenizer.convert_ids_to_tokens(ids)
        return Tokens(words, words, text_of(tokenizer, ids))

    @torch.no_grad()
    def evaluate(
        self,
        model: PreTrainedModel,
        teacher: Path,
        count: int | None = None,
        batch: int | None = None,
        whole_prefix: bool = False,
    ) -> Score:
        """Perplexity, of one pass over each block; or, with `whole_prefix`, of one for every token of it."""
        model.eval()
        rows = self._valid_blocks(teacher).rows.long()[: count or self.recipe.evaluate]
        every, right = [], []
        for some in rows.split(batch or self.recipe.training.batch):
            logits = _from_prefixes(model, some) if whole_prefix else _at_once(model, some)
            every.append(cross_entropy(logits.mT, some[:, 1:], reduction="none").double())
            right.append(logits.argmax(-1) == some[:, 1:])
        losses, apart = torch.cat(every), last_seen(rows)[:, 1:]
        late = torch.arange(1, rows.shape[1]) >= rows.shape[1] / 2
        far = apart > self.recipe.far
        details = {"accuracy": float(torch.cat(right).double().mean()), "far tokens": float(far.sum())}
        if far.any():
            details["far perplexity"] = math.exp(float(losses[far].mean()))
        details["late perplexity"] = math.exp(float(losses[:, late].mean()))
        parts = tuple((float(one.sum()), float(len(one))) for one in losses)
        return Score(self.metric, math.exp(float(losses.mean())), self.better, len(rows), None, details, parts)

    def forced(
        self, teacher: Path, count: int | None = None, whole_prefix: bool = False
    ) -> Iterator[dict[str, Tensor]] | None:
        if not whole_prefix:
            return None
        return self.batches(
            teacher, self.validation(teacher)[: count or self.recipe.evaluate], self.recipe.training.batch
        )

    @torch.no_grad()
    def decoding_rate(self, model: PreTrainedModel, teacher: Path) -> float | None:
        """Tokens per second of greedy decoding at the end of a block, once what comes before has been read."""
        if self.recipe.decode == 0:
            return None
        rows, clock = self._valid_blocks(teacher).rows.long().to(model.device), _Clock()
        # One more: the first comes of reading.
        more = min(self.recipe.decode + 1, rows.shape[1] - 1)
        generate: Any = model.eval().generate
        prompt = rows[:1, : rows.shape[1] - more]
        generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=more,
            min_new_tokens=more, streamer=clock, pad_token_id=0,
        )  # fmt: skip
        return (len(clock.times) - 2) / (clock.times[-1] - clock.times[1])

    def _new_tokenizer(self) -> PreTrainedTokenizerBase:
        return byte_level(read_texts(self.recipe.data.train), self.recipe.vocabulary, causal=True)

    def _start(self, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
        recipe = self.recipe
        if recipe.checkpoint is not None:
            changes = recipe.training.changes_the_model
            return from_checkpoint(recipe.checkpoint, recipe.alpha, AutoModelForCausalLM, changes)
        given = {"architecture": recipe.architecture, **(recipe.model or {})}
        return from_config(given, recipe.alpha, tokenizer, recipe.length, self.seed)

    def _fit(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, training: Path
    ) -> PreTrainedModel:
        check_vocabulary(tokenizer, model)
        recipe, blocks, stretches = self.recipe, list[Example](), list[Stretch]()
        lengths = recipe.lengths or (recipe.length,)
        steps = steps_of_shares(recipe.training.steps, recipe.shares or [1.0] * len(lengths))
        for length, some in zip(lengths, steps, strict=True):
            own = self._cut(recipe.data.train, folder, length)
            together = recipe.training.batch if recipe.training.tokens is None else recipe.training.tokens // length
            stretches.append(Stretch(len(blocks), len(own), together, some))
            blocks += own
        return fit(
            model, training, recipe.training, self.seed, self.device, train=blocks,
            valid=self._valid_blocks(folder)[: recipe.evaluate], collate=_collate,
            curriculum=(lambda share: Curriculum(stretches, self.seed, recipe.training.accumulate, share))
            if recipe.lengths else None,
        )  # fmt: skip

    def _cut(self, source: Any, tokenizer: Path, length: int) -> TextBlocks:
        return cut(read_texts(source), self._tokenizer_of(tokenizer), length, closed=False)

    def _cut_train(self, tokenizer: Path) -> TextBlocks:
        return self._cut(self.recipe.data.train, tokenizer, self.recipe.length)

    def _cut_valid(self, tokenizer: Path) -> TextBlocks:
        return self._cut(self.recipe.data.valid, tokenizer, self.recipe.length)


class _Clock(BaseStreamer):
    """When each token was there: first the prompt, then one by one."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: Tensor) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass


def _collate(examples: list[Example]) -> dict[str, Tensor]:
    rows = torch.stack([example["input_ids"] for example in examples])
    # The model itself compares each place with the token after it.
    return {"input_ids": rows, "labels": rows}


def _at_once(model: PreTrainedModel, rows: Tensor) -> Float[Tensor, "batch asked words"]:
    return model(input_ids=rows.to(model.device), use_cache=False).logits[:, :-1].float().cpu()


def _from_prefixes(model: PreTrainedModel, rows: Tensor) -> Float[Tensor, "batch asked words"]:
    given = rows.to(model.device)
    # Copied: a view of the last would keep the logits of the whole prefix.
    steps = (
        model(input_ids=given[:, :end], use_cache=False).logits[:, -1].to("cpu", torch.float32, copy=True)
        for end in range(1, rows.shape[1])
    )
    return torch.stack(list(steps), 1)
