"""What a recipe may say of its task: the data, the teacher and how it is trained, and what it is scored on."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, model_validator

from .sources import PairSource, Part, TextSource

__all__ = ["CausalLM", "MaskedLM", "PairData", "TextData", "Training", "Translation"]


class TextData(Part):
    """Texts to train on and to measure on."""

    train: TextSource
    valid: TextSource


class PairData(Part):
    """Sentence pairs to train on, to stop by and to measure on."""

    train: PairSource
    valid: PairSource
    test: PairSource


class Training(Part):
    """How the teacher is trained: what Hugging Face's Trainer takes, under the names of the paper's tables."""

    # 0 leaves the model as it is: to take a checkpoint that was trained elsewhere.
    steps: int = Field(1000, ge=0)
    # Passes over the data, instead of steps.
    epochs: float | None = Field(None, gt=0)
    batch: int = Field(8, ge=1)
    # Batches of at most so many tokens, with their padding, of the longer side: to train on, instead of `batch` each.
    tokens: int | None = Field(None, ge=1)
    # Batches whose gradients are added up before a step.
    accumulate: int = Field(1, ge=1)
    learning_rate: float = Field(5e-4, gt=0)
    schedule: Literal["linear", "cosine", "constant", "inverse_sqrt"] = "linear"
    warmup_steps: int = Field(0, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    # How long Adam remembers gradients and their squares. Short trainings gain from 0.98 (Vaswani et al., 2017).
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    # What Adam adds to the root of the squares.
    epsilon: float = Field(1e-8, gt=0)
    # Gradients longer than this are cut to it; 0 leaves them as they are.
    clip: float = Field(1.0, ge=0)
    # Steps between evaluations and checkpoints; a killed training goes on from the last one.
    every: int = Field(500, ge=1)
    # Stop when so many evaluations in a row brought nothing; never if not given.
    patience: int | None = Field(None, ge=1)
    precision: Literal["float32", "bfloat16"] = "float32"
    # So many steps are trained with softmax, then entmax follows: the first, when weights are fresh and nothing is
    # sparse yet.
    softmax_steps: int = Field(0, ge=0)
    # TensorBoard, Weights & Biases, …: names as the Trainer knows them.
    log_to: tuple[str, ...] = ()

    @property
    def changes_the_model(self) -> bool:
        """Whether there is anything to train."""
        return self.steps > 0 or self.epochs is not None


class MaskedLM(Part):
    """Masked language modelling with any encoder of Hugging Face."""

    # From scratch, unless `model` says which.
    architecture: ClassVar[str] = "BertForMaskedLM"

    kind: Literal["masked-lm"]
    data: TextData
    # A checkpoint by path or hub name, to start from. With another α than its own, if it is trained on …
    checkpoint: str | None = None
    # … or an architecture and its config, to start from scratch: {architecture: BertForMaskedLM, hidden_size: 128, …}
    model: dict[str, Any] | None = None
    # A tokenizer by path or hub name; the checkpoint's own if not given, one trained on the data if there is none.
    tokenizer: str | None = None
    vocabulary: int = Field(8000, ge=64)
    # Tokens in a block of text.
    length: int = Field(512, ge=8)
    masked: float = Field(0.15, gt=0, lt=1)
    # Of the model, wherever its config has one; as it says if not given. On a CPU 0 trains twice as fast and more: the
    # compiled kernel takes no dropout, and drawing it takes as long as the products.
    dropout: float | None = Field(None, ge=0, lt=1)
    alpha: float = Field(1.5, ge=1)
    # Blocks that perplexity is measured on; all if not given.
    evaluate: int | None = Field(None, ge=1)
    # A word counts as one that only far attention can fetch if the next place where it occurs is farther than this.
    far: int = Field(64, ge=1)
    training: Training = Training()

    @model_validator(mode="after")
    def _one_start(self) -> MaskedLM:
        return _one_start(self)


class CausalLM(Part):
    """Language modelling, each token from those before it, with any decoder of Hugging Face."""

    # From scratch, unless `model` says which.
    architecture: ClassVar[str] = "LlamaForCausalLM"

    kind: Literal["causal-lm"]
    data: TextData
    checkpoint: str | None = None
    # The config of a LlamaForCausalLM from scratch, or of another `architecture`: {hidden_size: 256, …}
    model: dict[str, Any] | None = None
    tokenizer: str | None = None
    vocabulary: int = Field(8000, ge=64)
    # Tokens in a block of text.
    length: int = Field(2048, ge=8)
    # Blocks to train on, shorter ones first: their lengths, of which the last is `length`; only that if not given …
    lengths: tuple[Annotated[int, Field(ge=8)], ...] = ()
    # … and the shares of `training.steps` that each of them gets; alike if not given.
    shares: tuple[Annotated[float, Field(gt=0)], ...] = ()
    alpha: float = Field(1.5, ge=1)
    # Blocks that perplexity is measured on; all if not given.
    evaluate: int | None = Field(None, ge=1)
    # A token counts as one that only far attention can fetch if it stood before, but not in the last so many places.
    far: int = Field(64, ge=1)
    # Tokens that are decoded, one by one at the end of a block, to say how many there are per second; none if 0.
    decode: int = Field(0, ge=0)
    training: Training = Training()

    @model_validator(mode="after")
    def _one_start(self) -> CausalLM:
        return _one_start(self)

    @model_validator(mode="after")
    def _lengths_grow(self) -> CausalLM:
        if self.lengths and (list(self.lengths) != sorted(set(self.lengths)) or self.lengths[-1] != self.length):
            raise ValueError(f"lengths are {list(self.lengths)}: they grow, and the last is `length`, {self.length}")
        if self.shares and len(self.shares) != len(self.lengths):
            raise ValueError(f"{len(self.shares)} shares of {len(self.lengths)} lengths: one for each")
        if self.lengths and self.training.epochs is not None:
            raise ValueError("lengths have shares of training.steps, not of epochs")
        if self.training.tokens is not None and self.training.tokens < self.length:
            raise ValueError(f"training.tokens is {self.training.tokens}, and a block has {self.length}")
        if self.decode >= self.length:
            raise ValueError(f"decode is {self.decode}, and a block has {self.length} tokens")
        return self


class Translation(Part):
    """Translation with an encoder and a decoder of the Marian architecture."""

    # From scratch, unless `model` says which.
    architecture: ClassVar[str] = "MarianMTModel"

    kind: Literal["translation"]
    data: PairData
    checkpoint: str | None = None
    # The config of a MarianMTModel from scratch: {"d_model": 128, "encoder_layers": 3, …}
    model: dict[str, Any] | None = None
    tokenizer: str | None = None
    # Merges of the joint byte pair encoding, where a tokenizer is trained.
    vocabulary: int = Field(32_000, ge=64)
    # Longer sentences are left out of the training data and cut elsewhere.
    length: int = Field(128, ge=8)
    dropout: float = Field(0.3, ge=0, lt=1)
    # The share of the source's tokens that become the unknown one in training (CoWord dropout, Fernandes et al., 2021).
    word_dropout: float = Field(0.1, ge=0, lt=1)
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    beam: int = Field(5, ge=1)
    alpha: float = Field(1.5, ge=1)
    # Sentences that BLEU is measured on; all of the test data if not given.
    evaluate: int | None = Field(None, ge=1)
    training: Training = Training()

    @model_validator(mode="after")
    def _one_start(self) -> Translation:
        return _one_start(self)

    @model_validator(mode="after")
    def _longest_fits(self) -> Translation:
        if self.training.tokens is not None and self.training.tokens < self.length:
            raise ValueError(f"training.tokens is {self.training.tokens}, and a sentence may have {self.length}")
        return self


AnyTask = TypeVar("AnyTask", MaskedLM, CausalLM, Translation)


def _one_start(task: AnyTask) -> AnyTask:
    if (task.checkpoint is None) == (task.model is None):
        given = "none is there" if task.model is None else "both are there: task.model=null leaves one out"
        wanted = "either `checkpoint` (to start from) or `model` (a config, to start from scratch) is needed"
        raise ValueError(f"{wanted}, and {given}")
    return task
