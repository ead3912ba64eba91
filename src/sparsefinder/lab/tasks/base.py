"""What a task is: data, a teacher trained on it, inputs to record, and a score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ...errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Inputs", "Score", "Task", "Tokens"]


@dataclass(frozen=True)
class Score:
    """How good a model is at its task."""

    metric: str
    value: float
    better: str
    sequences: int
    signature: str | None = None
    details: Mapping[str, float] = field(default_factory=dict)
    # What each sequence adds to it, in their order, as `scores_of` takes it.
    parts: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Tokens:
    """The tokens that the queries and keys of one kind of attention stand for, and the text they are of."""

    queries: Sequence[str]
    keys: Sequence[str]
    text: str


# One sequence of token numbers for each input of the model, without padding: {"input_ids": [...], "labels": [...]}.
Inputs = Mapping[str, Sequence[int]]


class Task(Protocol):
    """Everything that differs between language modelling, masked or causal, and translation."""

    @property
    def metric(self) -> str:
        """What is measured: perplexity or BLEU."""

    @property
    def better(self) -> str:
        """Whether lower or higher is better."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of attention that are recorded and replaced unless a recipe says which: the paper's."""

    @property
    def decodes(self) -> bool:
        """Whether `evaluate` lets the model say one token after the other, and scores what it says."""

    def prepare(self, training: Path) -> tuple[Path, PreTrainedModel]:
        """What `train` starts from: where the tokenizer is (in `training`, where it is made), and the model."""

    def train(self, training: Path, teacher: Path) -> None:
        """Train a teacher with checkpoints in `training`, go on from the last one if there is one, and write `teacher`.

        `teacher` appears whole: model, tokenizer and score.json (see docs/runs.md).
        """

    def load(self, teacher: Path) -> PreTrainedModel:
        """The trained teacher, ready to be run, on the device that the task was made for."""

    def sequences(self, teacher: Path, count: int, longer_than: int = 0) -> list[Inputs]:
        """Inputs drawn from the training data without replacement: the same for the same seed."""

    def validation(self, teacher: Path) -> list[Inputs]:
        """All of the validation data as inputs, in its order, with nothing hidden or dropped."""

    def batches(self, teacher: Path, sequences: Sequence[Inputs], batch: int) -> Iterator[dict[str, Tensor]]:
        """The sequences as padded inputs of the model, in their order, on the CPU."""

    def tokens(self, teacher: Path, sequence: Inputs, kind: str) -> Tokens:
        """What the queries and keys of a kind of attention stand for."""

    def evaluate(
        self,
        model: PreTrainedModel,
        teacher: Path,
        count: int | None = None,
        batch: int | None = None,
        whole_prefix: bool = False,
    ) -> Score:
        """Score a model (perhaps on predicted graphs) on the evaluation data; the tokenizer is the teacher's.

        whole_prefix: compute every prefix anew and by itself, so that finders that look ahead within it can be measured
        too: they see nothing of what is asked for.
        """

    def decoding_rate(self, model: PreTrainedModel, teacher: Path) -> float | None:
        """How many tokens per second the model says, one by one; None where the task or its recipe does not ask."""

    def forced(
        self, teacher: Path, count: int | None = None, whole_prefix: bool = False
    ) -> Iterator[dict[str, Tensor]] | None:
        """Inputs for one pass over the evaluation data in which the model is told what it should have said.

        The same sequences, in the order of a score's parts, whatever a model says by itself. None where `evaluate` is
        such a pass already (with `whole_prefix` it may be many).
        """


def with_rate(score: Score, task: Task, model: PreTrainedModel, teacher: Path) -> Score:
    """The score, with how fast the model decodes among its details, where that is asked for."""
    rate = task.decoding_rate(model, teacher)
    return score if rate is None else replace(score, details={**score.details, "decoded tokens per second": rate})


def described(score: Score, alpha: Any) -> dict[str, Any]:
    """A score as teacher/score.json has it."""
    return {
        "metric": score.metric, "value": score.value, "better": score.better, "alpha": alpha,
        "sequences": score.sequences, "signature": score.signature, "details": dict(score.details),
    }  # fmt: skip


def ordered_batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of at most `size` items, in their order."""
    waiting: list[Any] = []
    for item in items:
        waiting.append(item)
        if len(waiting) == size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def draw(places: Sequence[int], count: int, seed: int) -> list[int]:
    """So many of the places, at random, none twice."""
    if count > len(places):
        raise InputError("count", f"{count} sequences", f"at most {len(places)}: the training data has no more")
    generator = torch.Generator().manual_seed(seed)
    return [places[place] for place in torch.randperm(len(places), generator=generator)[:count].tolist()]


def padded(rows: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Rows of token numbers in one tensor, and another with 1 where they are and 0 where there is padding."""
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), padding)
    real = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.as_tensor(row)
        real[place, : len(row)] = 1
    return ids, real
