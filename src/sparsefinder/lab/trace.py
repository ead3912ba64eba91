"""The trace stage: a teacher's queries and keys on sequences of its training data, in parts, so that it can go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError, SparsefinderError
from ..files import write_text
from ..hf.recording import record_traces
from ..traces import join
from ..traces.store import INDEX
from ..traces.writer import stretch
from .engines import Job, run_jobs
from .folder import RunFolder
from .recipe import Recipe
from .tasks.base import Inputs, Task
from .teacher import Teacher

__all__ = ["kinds_of", "trace"]


def kinds_of(recipe: Recipe, task: Task) -> tuple[str, ...]:
    """The kinds of attention that a run is about."""
    return recipe.trace.kinds or task.kinds


def trace(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    """Write traces/train, traces/valid and traces/examples.jsonl, going on from what is there."""
    wanted = recipe.trace
    folder.fetch("teacher")
    sequences = task.sequences(folder / "teacher", wanted.train + wanted.valid, wanted.longer_than)
    split = {"train": sequences[: wanted.train], "valid": sequences[wanted.train :]}
    every = [
        _Part(name, start, some[start : start + wanted.sequences_per_part])
        for name, some in split.items()
        for start in range(0, len(some), wanted.sequences_per_part)
    ]
    # A part appears whole, its index with it.
    there, teacher = folder.present(part.folder for part in every), Teacher(folder, recipe, task)
    todo = [part for part in every if part.folder not in there]
    jobs = [Job(part.about, len(part.sequences), (teacher, part), ("teacher",), (part.folder,)) for part in todo]
    done = len(sequences) - sum(job.size for job in jobs)
    run_jobs(_record, folder, jobs, recipe, "trace", "tracing", "sequence", done)
    for name in split:
        parts = [part.folder for part in every if part.of == name]
        folder.fetch(*(f"{part}/{INDEX}" for part in parts))
        join(folder / f"traces/{name}", [part.rpartition("/")[2] for part in parts])
        folder.put(f"traces/{name}/{INDEX}")
    _write_examples(folder, recipe, task, split["valid"])
    folder.put("traces/examples.jsonl")


@dataclass(frozen=True)
class _Part:
    """Some sequences to record, and which they are."""

    of: str
    start: int
    sequences: Sequence[Inputs]

    @property
    def folder(self) -> str:
        return f"traces/{self.of}/part-{self.start:06}"

    @property
    def about(self) -> str:
        return f"sequences {self.start} to {self.start + len(self.sequences) - 1} of {self.of}"


def _record(folder: RunFolder, teacher: Teacher, part: _Part) -> None:
    """The job: the queries and keys of some sequences."""
    recipe, task, model = teacher.recipe, teacher.task, teacher.model
    wanted, target = recipe.trace, folder / part.folder
    at = 0

    def batches() -> Iterator[dict[str, Tensor]]:
        nonlocal at
        for inputs in task.batches(folder / "teacher", part.sequences, wanted.batch):
            yield {name: tensor.to(model.device) for name, tensor in inputs.items()}
            at += 1

    shutil.rmtree(target, ignore_errors=True)
    try:
        with torch.inference_mode():
            record_traces(
                model,
                batches(),
                target,
                kinds=kinds_of(recipe, task),
                layers=wanted.layers,
                dtype=wanted.precision,
                teacher=teacher.hash,
                tokens=wanted.tokens_per_sequence,
                first=part.start,
                mass=wanted.mass,
            )
    except (InputError, RuntimeError, ValueError, IndexError) as error:
        first = part.start + at * wanted.batch
        last = min(first + wanted.batch, part.start + len(part.sequences)) - 1
        raise SparsefinderError(f"sequences {first} to {last} of {part.of}: {error}") from error


def _write_examples(folder: RunFolder, recipe: Recipe, task: Task, sequences: Sequence[Inputs]) -> None:
    """What the validation sequences say, token by token."""
    lines = []
    for number, sequence in enumerate(sequences):
        for kind in kinds_of(recipe, task):
            tokens = task.tokens(folder / "teacher", sequence, kind)
            about = {"sequence": number, "kind": kind, "text": tokens.text}
            most = recipe.trace.tokens_per_sequence
            queries, keys = (side[stretch(number, len(side), most)] for side in (tokens.queries, tokens.keys))
            lines.append(json.dumps({**about, "queries": list(queries), "keys": list(keys)}))
    write_text(folder / "traces/examples.jsonl", "".join(f"{line}\n" for line in lines))
