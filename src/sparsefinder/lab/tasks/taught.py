"""What all tasks do alike: find a tokenizer, start from a model, train it, score and write the teacher."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...hf.checkpoints import load_model
from ..recipe import CausalLM, MaskedLM, Translation
from .base import Task, with_rate
from .teacher import write_teacher
from .tokenizer import find_tokenizer, load_tokenizer

__all__ = ["TaughtTask"]

AnyRecipe = TypeVar("AnyRecipe", MaskedLM, CausalLM, Translation)


class TaughtTask(Task, ABC, Generic[AnyRecipe]):
    """A task as a recipe describes it."""

    decodes = False

    def __init__(self, recipe: AnyRecipe, seed: int, device: torch.device) -> None:
        self.recipe: AnyRecipe = recipe
        self.seed, self.device = seed, device
        # Read once, however often a sweep evaluates.
        self._tokenizer_of = lru_cache(maxsize=2)(load_tokenizer)
        # Made to be looked at before training, and then trained.
        self._prepared = lru_cache(maxsize=1)(self._prepare)

    def prepare(self, training: Path) -> tuple[Path, PreTrainedModel]:
        return self._prepared(training)

    def train(self, training: Path, teacher: Path) -> None:
        folder, start = self._prepared(training)
        self._prepared.cache_clear()
        tokenizer = self._tokenizer_of(folder)
        model = self._fit(start, tokenizer, folder, training).eval().to(self.device)
        write_teacher(teacher, model, tokenizer, lambda: with_rate(self.evaluate(model, folder), self, model, folder))

    def _prepare(self, training: Path) -> tuple[Path, PreTrainedModel]:
        given = self.recipe.tokenizer or self.recipe.checkpoint
        folder = find_tokenizer(given, training / "tokenizer", self._new_tokenizer)
        return folder, self._start(self._tokenizer_of(folder))

    def load(self, teacher: Path) -> PreTrainedModel:
        return load_model(teacher, finders=False).eval().to(self.device)

    def decoding_rate(self, model: PreTrainedModel, teacher: Path) -> float | None:
        return None

    @abstractmethod
    def _new_tokenizer(self) -> PreTrainedTokenizerBase:
        """A tokenizer trained on the data, for where none is given."""

    @abstractmethod
    def _start(self, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
        """The model before training."""

    @abstractmethod
    def _fit(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, training: Path
    ) -> PreTrainedModel:
        """The model after it; `folder` is where the tokenizer is."""
