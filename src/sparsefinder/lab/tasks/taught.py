"""What both tasks do alike: find a tokenizer, start from a model, train it, score and write the teacher."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...hf.checkpoints import load_model
from ..recipe import MaskedLM, Translation
from .base import Task
from .teacher import write_teacher
from .tokenizer import find_tokenizer, load_tokenizer

__all__ = ["TaughtTask"]

AnyRecipe = TypeVar("AnyRecipe", MaskedLM, Translation)


class TaughtTask(Task, ABC, Generic[AnyRecipe]):
    """A task as a recipe describes it."""

    def __init__(self, recipe: AnyRecipe, seed: int, device: torch.device) -> None:
        self.recipe: AnyRecipe = recipe
        self.seed, self.device = seed, device
        # Read once, however often a sweep evaluates.
        self._tokenizer_of = lru_cache(maxsize=2)(load_tokenizer)

    def train(self, training: Path, teacher: Path) -> None:
        recipe = self.recipe
        given = recipe.tokenizer or recipe.checkpoint
        folder = find_tokenizer(given, training / "tokenizer", self._new_tokenizer)
        tokenizer = self._tokenizer_of(folder)
        model = self._fit(self._start(tokenizer), tokenizer, folder, training).eval().to(self.device)
        write_teacher(teacher, model, tokenizer, lambda: self.evaluate(model, folder))

    def load(self, teacher: Path) -> PreTrainedModel:
        return load_model(teacher, finders=False).eval().to(self.device)

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
