"""Translation: sentence pairs, an encoder and a decoder with entmax attention, and BLEU by beam search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedModel, PreTrainedTokenizerBase

from ...errors import InputError
from ..recipe import Translation
from .base import Inputs, Score, Tokens, draw, ordered_batches, padded
from .data import Pair, read_pairs
from .scores import bleu_parts
from .sentences import NOISY, Collator, encode
from .taught import TaughtTask
from .teacher import from_checkpoint, from_config
from .tokenizer import joint, text_of
from .training import Example, fit

__all__ = ["TranslationTask"]


class TranslationTask(TaughtTask[Translation]):
    """Translation as a recipe describes it."""

    metric = "BLEU"
    better = "higher"
    kinds = ("decoder",)
    decodes = True

    def __init__(self, recipe: Translation, seed: int, device: torch.device) -> None:
        super().__init__(recipe, seed, device)
        self._start_of = lru_cache(maxsize=2)(_decoder_start)
        self._train_examples = lru_cache(maxsize=1)(self._encode_train)
        self._test_examples = lru_cache(maxsize=1)(self._encode_test)

    def sequences(self, teacher: Path, count: int, longer_than: int = 0) -> list[Inputs]:
        examples = self._train_examples(teacher)
        long = [place for place, one in enumerate(examples) if len(one["labels"]) > longer_than]
        return [examples[place] for place in draw(long, count, self.seed)]

    def validation(self, teacher: Path) -> list[Inputs]:
        return list(encode(read_pairs(self.recipe.data.valid), self._tokenizer_of(teacher), self.recipe.length))

    def batches(self, teacher: Path, sequences: Sequence[Inputs], batch: int) -> Iterator[dict[str, Tensor]]:
        collate = Collator(self._tokenizer_of(teacher), self._start_of(teacher), 0.0, self.seed)
        for some in ordered_batches(sequences, batch):
            yield {name: tensor for name, tensor in collate(some).items() if name != "labels"}

    def tokens(self, teacher: Path, sequence: Inputs, kind: str) -> Tokens:
        tokenizer = self._tokenizer_of(teacher)
        source, target = list(sequence["input_ids"]), list(sequence["labels"])
        sides = {
            "source": (tokenizer.convert_ids_to_tokens(source), text_of(tokenizer, source)),
            # The decoder sees the target one step late.
            "target": (
                tokenizer.convert_ids_to_tokens([self._start_of(teacher), *target[:-1]]), text_of(tokenizer, target),
            ),
        }  # fmt: skip
        if kind == "cross":
            return Tokens(sides["target"][0], sides["source"][0], f"{sides['source'][1]} → {sides['target'][1]}")
        if kind not in ("encoder", "decoder"):
            raise InputError("kind", repr(kind), "'encoder', 'decoder' or 'cross'")
        tokens, text = sides["source" if kind == "encoder" else "target"]
        return Tokens(tokens, tokens, text)

    def evaluate(
        self,
        model: PreTrainedModel,
        teacher: Path,
        count: int | None = None,
        batch: int | None = None,
        whole_prefix: bool = False,
    ) -> Score:
        """BLEU of beam search on the `test` data.

        whole_prefix: compute all that was decoded so far anew at every step. Slower, but each step is then a whole
        sequence, which finders that look at all of one can be run on; within that prefix they may look ahead.
        """
        tokenizer, count = self._tokenizer_of(teacher), count or self.recipe.evaluate
        pairs, examples = self._test_examples(teacher)
        said = self._translate(model, tokenizer, examples[:count], batch or self.recipe.training.batch, whole_prefix)
        wanted = [target for _, target in pairs[:count]]
        bleu = BLEU()
        result = bleu.corpus_score(said, [wanted])
        right = sum(one == other for one, other in zip(said, wanted, strict=True))
        details = {"exact sentences": right / len(said), "length ratio": result.sys_len / result.ref_len}
        signature, parts = str(bleu.get_signature()), bleu_parts(said, wanted)
        return Score(self.metric, result.score, self.better, len(said), signature, details, parts)

    def forced(
        self, teacher: Path, count: int | None = None, whole_prefix: bool = False
    ) -> Iterator[dict[str, Tensor]]:
        _, examples = self._test_examples(teacher)
        return self.batches(teacher, examples[: count or self.recipe.evaluate], self.recipe.training.batch)

    @torch.no_grad()
    def _translate(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        examples: Sequence[Example],
        batch: int,
        whole_prefix: bool,
    ) -> list[str]:
        model.eval()
        room = getattr(model.config, "max_position_embeddings", self.recipe.length + 1) - 1
        said = [""] * len(examples)
        generate: Any = model.generate
        # Sentences that are about as long go together, so that little is computed for padding.
        order = sorted(range(len(examples)), key=lambda place: len(examples[place]["input_ids"]))
        for places in ordered_batches(order, batch):
            ids, real = padded([examples[place]["input_ids"] for place in places], int(tokenizer.pad_token_id))
            out = generate(
                input_ids=ids.to(model.device), attention_mask=real.to(model.device), num_beams=self.recipe.beam,
                do_sample=False, max_new_tokens=min(self.recipe.length, room), use_cache=not whole_prefix,
            )  # fmt: skip
            for place, row in zip(places, out, strict=True):
                said[place] = text_of(tokenizer, row.tolist())
        return said

    def _new_tokenizer(self) -> PreTrainedTokenizerBase:
        texts = (text for pair in read_pairs(self.recipe.data.train) for text in pair)
        return joint(texts, self.recipe.vocabulary)

    def _fit(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, training: Path
    ) -> PreTrainedModel:
        recipe, start = self.recipe, model.config.decoder_start_token_id
        # What is wrong with the test data is said now, and not after hours of training.
        self._test_examples(folder)
        noisy: list[Example] = [{**one, NOISY: True} for one in self._train_examples(folder)]
        return fit(
            model, training, recipe.training, self.seed, self.device,
            train=noisy, valid=encode(read_pairs(recipe.data.valid), tokenizer, recipe.length),
            collate=Collator(tokenizer, start, recipe.word_dropout, self.seed), label_smoothing=recipe.label_smoothing,
        )  # fmt: skip

    def _start(self, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
        recipe = self.recipe
        if recipe.checkpoint is not None:
            return from_checkpoint(
                recipe.checkpoint, recipe.alpha, AutoModelForSeq2SeqLM, recipe.training.changes_the_model,
                dropout=recipe.dropout,
            )  # fmt: skip
        given = {"architecture": recipe.architecture, **(recipe.model or {})}
        return from_config(
            given, recipe.alpha, tokenizer, recipe.length, self.seed, dropout=recipe.dropout, scale_embedding=True,
            decoder_vocab_size=len(tokenizer), decoder_start_token_id=tokenizer.bos_token_id,
            forced_eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip

    def _encode_train(self, tokenizer: Path) -> list[Example]:
        found = encode(read_pairs(self.recipe.data.train), self._tokenizer_of(tokenizer), None)
        short = [one for one in found if max(len(one["input_ids"]), len(one["labels"])) <= self.recipe.length]
        if not short:
            got = f"{self.recipe.length}, and not one of {len(found)} training pairs is that short"
            raise InputError("length", got, "the length of sentences, in tokens")
        return short

    def _encode_test(self, tokenizer: Path) -> tuple[list[Pair], list[Example]]:
        pairs = read_pairs(self.recipe.data.test)
        return pairs, encode(pairs, self._tokenizer_of(tokenizer), self.recipe.length)


def _decoder_start(teacher: Path) -> int:
    return AutoConfig.from_pretrained(teacher).decoder_start_token_id
