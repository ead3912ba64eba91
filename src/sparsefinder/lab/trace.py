"""The trace stage: a teacher's queries and keys on sequences of its training data, in parts, so that it can go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence

import torch

from ..files import write_text
from ..hf.recording import record_traces, teacher_hash
from ..traces import join
from ..traces.store import INDEX
from .folder import RunFolder
from .progress import steps
from .recipe import Recipe
from .tasks.base import Inputs, Task

__all__ = ["kinds_of", "trace"]

# Sequences per part: what a kill loses at most.
PART = 64


def kinds_of(recipe: Recipe, task: Task) -> tuple[str, ...]:
    """The kinds of attention that a run is about."""
    return recipe.trace.kinds or task.kinds


def trace(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    """Write traces/train, traces/valid and traces/examples.jsonl, going on from what is there."""
    wanted, teacher = recipe.trace, folder / "teacher"
    sequences = task.sequences(teacher, wanted.train + wanted.valid, wanted.longer_than)
    parts = {"train": sequences[: wanted.train], "valid": sequences[wanted.train :]}
    model = task.load(teacher).eval()
    known = teacher_hash(model)
    every = {name: [f"part-{start:06}" for start in range(0, len(some), PART)] for name, some in parts.items()}
    recorded = {
        (name, place): (folder / f"traces/{name}/{part}" / INDEX).is_file()
        for name, names in every.items()
        for place, part in enumerate(names)
    }
    done = sum(len(parts[name][place * PART :][:PART]) for (name, place), there in recorded.items() if there)
    with steps("tracing", len(sequences), "sequence", done) as bar:
        for name, chosen in parts.items():
            for place, part in enumerate(every[name]):
                some = chosen[place * PART :][:PART]
                target = folder / f"traces/{name}/{part}"
                if not recorded[name, place]:
                    shutil.rmtree(target, ignore_errors=True)
                    with torch.inference_mode():
                        record_traces(
                            model,
                            (
                                {name: tensor.to(model.device) for name, tensor in inputs.items()}
                                for inputs in task.batches(teacher, some, wanted.batch)
                            ),
                            target,
                            kinds=kinds_of(recipe, task),
                            layers=wanted.layers,
                            dtype=wanted.precision,
                            teacher=known,
                        )
                    bar.update(len(some))
            join(folder / f"traces/{name}", every[name])
    _write_examples(folder, recipe, task, parts["valid"])


def _write_examples(folder: RunFolder, recipe: Recipe, task: Task, sequences: Sequence[Inputs]) -> None:
    """What the validation sequences say, token by token."""
    lines = []
    for number, sequence in enumerate(sequences):
        for kind in kinds_of(recipe, task):
            tokens = task.tokens(folder / "teacher", sequence, kind)
            about = {"sequence": number, "kind": kind, "text": tokens.text}
            lines.append(json.dumps({**about, "queries": list(tokens.queries), "keys": list(tokens.keys)}))
    write_text(folder / "traces/examples.jsonl", "".join(f"{line}\n" for line in lines))
