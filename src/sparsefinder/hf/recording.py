"""Recording a teacher: its queries and keys on many inputs, as traces on disk.

>>> traces = record_traces(model, batches, "runs/demo/traces", layers=[0, 3])
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..errors import InputError, check_type, wrong_type
from ..traces import Traces, TraceWriter
from .models import record
from .sites import sites

__all__ = ["record_traces", "teacher_hash"]


def record_traces(
    model: PreTrainedModel,
    inputs: Iterable[Mapping[str, Any]],
    path: str | Path,
    *,
    kinds: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    dtype: str = "float16",
    teacher: str | None = None,
    tokens: int | None = None,
    first: int = 0,
    mass: float | None = None,
) -> Traces:
    """Run an entmax model on batches of inputs, and write the queries and keys of the chosen layers.

    A layer that adds a bias to its scores (T5) or has a mask of its own (sliding windows) is refused: what it
    attends to does not follow from queries and keys, so finders that see nothing else could not learn it.

    inputs: batches as the model takes them: {"input_ids": ..., "attention_mask": ...}, of tensors.
    teacher: the hash of the model, where it is known already.
    tokens: of longer sequences, only a stretch of so many tokens is kept, so that files do not grow with their length.
        The model sees all of them; gold graphs are those within the stretch.
    first: the number of the first sequence, where others are recorded apart: it says where its stretch is.
    mass: of softmax models, the share of a row's weight that its gold keys have: 0.95 if None.
    """
    sites(model)
    if isinstance(inputs, Mapping | str | Tensor) or not isinstance(inputs, Iterable):
        raise wrong_type("inputs", inputs, "a list of batches, or an iterator: [tokenizer(texts, return_tensors='pt')]")
    with (
        TraceWriter(
            path, dtype=dtype, teacher=teacher or teacher_hash(model), tokens=tokens, first=first, mass=mass
        ) as writer,
        record(model, writer.take, kinds=kinds, layers=layers),
        torch.no_grad(),
    ):
        for count, batch in enumerate(inputs):
            _check_batch(f"batch {count} of inputs", batch)
            model(**batch)
        if not writer.sites:
            raise InputError("inputs", "no batch", "at least one")
    return Traces.open(path)


def _check_batch(argument: str, batch: Any) -> None:
    want = "what the model takes, by name, as tensors: tokenizer(texts, return_tensors='pt')"
    check_type(argument, batch, Mapping, want)
    for name, value in batch.items():
        if isinstance(value, list | np.ndarray):
            raise wrong_type(f"{name} of {argument}", value, want)


def teacher_hash(model: torch.nn.Module) -> str:
    """A hash of a model's weights, their names and types."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
