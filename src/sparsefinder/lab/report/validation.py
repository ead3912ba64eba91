"""The task's validation text as the teacher sees it: its tokens, and their queries and keys in every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from ...errors import SparsefinderError
from ...traces.store import Site
from ..device import device_of
from ..folder import RunFolder
from ..progress import steps
from ..recipe import Recipe
from ..tasks import Inputs, Tokens
from ..tasks import task as task_of
from ..tasks.base import ordered_batches
from ..trace import kinds_of

__all__ = ["NoTeacherError", "ValidationText", "Vectors"]

# The queries and keys of one sequence.
Vectors = tuple[Float[Tensor, "1 heads n d"], Float[Tensor, "1 heads m d"]]


class NoTeacherError(SparsefinderError):
    """There is no model to run on the text."""


class ValidationText:
    """All sequences of the validation data, run through the teacher when its vectors are asked for."""

    def __init__(self, folder: RunFolder, recipe: Recipe) -> None:
        self.recipe, self.teacher = recipe, folder / "teacher"
        self.task = task_of(recipe.task, recipe.seed, device_of(recipe.device))
        self.kinds = kinds_of(recipe, self.task)
        if not (self.teacher / "config.json").is_file():
            raise NoTeacherError(
                f"{self.teacher} has no model, which the validation text would have to be run through."
            )

    @cached_property
    def sequences(self) -> list[Inputs]:
        return self.task.validation(self.teacher)

    def tokens(self) -> list[dict[str, Tokens]]:
        """What the queries and keys of each sequence stand for, by kind of attention."""
        return [
            {kind: self.task.tokens(self.teacher, sequence, kind) for kind in self.kinds} for sequence in self.sequences
        ]

    @torch.inference_mode()
    def vectors(self) -> Iterator[Mapping[Site, Vectors]]:
        """The queries and keys of each sequence, on the CPU."""
        from ...hf.models import record

        model = self.task.load(self.teacher)
        with steps("validation text", len(self.sequences), "sequence") as bar:
            for some in ordered_batches(self.sequences, self.recipe.trace.batch):
                (batch,) = self.task.batches(self.teacher, some, len(some))
                with record(model, kinds=self.kinds, layers=self.recipe.trace.layers) as records:
                    model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
                for place in range(len(some)):
                    yield {
                        (one.kind, one.layer): (
                            _cut(one.q, one.layout.query_lengths, place), _cut(one.k, one.layout.key_lengths, place),
                        )
                        for one in records
                    }  # fmt: skip
                bar.update(len(some))


def _cut(tokens: Tensor, lengths: Tensor | None, place: int) -> Tensor:
    """The vectors of one sequence, without its padding."""
    return tokens[place : place + 1, :, : None if lengths is None else int(lengths[place])].float().cpu()
