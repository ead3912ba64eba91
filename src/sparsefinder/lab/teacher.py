"""The teacher of a run with its task: loaded when it is first used, in whichever process that is, and kept there."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from .device import device_of
from .folder import RunFolder
from .recipe import Recipe
from .tasks import Task
from .tasks import task as task_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Teacher"]


class Teacher:
    """A trained model, and what it was trained for."""

    def __init__(self, folder: RunFolder, recipe: Recipe, task: Task | None = None) -> None:
        self.folder, self.recipe, self._task = folder, recipe, task

    def __reduce__(self) -> tuple[Any, ...]:
        return _kept, (self.folder.__reduce__()[1][0], self.recipe.model_dump_json())

    @cached_property
    def task(self) -> Task:
        return self._task or task_of(self.recipe.task, self.recipe.seed, device_of(self.recipe.device))

    @cached_property
    def model(self) -> PreTrainedModel:
        return self.task.load(self.folder / "teacher").eval()

    @cached_property
    def hash(self) -> str:
        from ..hf.recording import teacher_hash

        return teacher_hash(self.model)


@lru_cache(maxsize=1)
def _kept(where: Any, recipe: str) -> Teacher:
    """Of a process that does one unit after the other: models take longer to load than units take."""
    return Teacher(RunFolder.at(where), Recipe.model_validate_json(recipe))
