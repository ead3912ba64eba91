"""What each attention layer attends with: for good, or within a `with` block.

A block holds for the thread that opened it (the context of `contextvars`, to be exact) and for the layers it was opened
for: other threads and copies of the model do not notice. It is not written to the model.

Gradient checkpointing computes layers a second time: within `backward()`, which may come after the block or run in a
thread of autograd's own. They then have to use what they used the first time, and nobody records them again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..finders import Finder
from ..traces.record import Record

__all__ = ["KINDS", "Attend", "Decoding", "Sink", "Use", "Within", "opened", "recomputing"]

KINDS = ("encoder", "decoder", "cross")

Sink = Callable[[Record], object]


class Decoding(threading.local):
    """How far the decoder of a model is, and which of its queries are real: its self-attention knows, and its
    cross-attention is not told. Each thread decodes by itself.
    """

    offset: int | Tensor = 0
    query_lengths: Tensor | None = None

    def __reduce__(self) -> tuple[type[Decoding], tuple[()]]:
        # What belongs to a thread is not copied with a model.
        return Decoding, ()


@dataclass(frozen=True, eq=False)
class Use:
    """What a layer attends with.

    about: what is known of how the finder was fitted, to be saved with it.
    """

    finder: Finder | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = False
    backend: str = "auto"


@dataclass(eq=False)
class Attend:
    """How one attention module attends: put on the module as `module.sparsefinder`, read at every call."""

    kind: str
    layer: int
    heads: int
    alpha: float | None
    decoding: Decoding
    for_good: Use = field(default_factory=Use)

    @property
    def name(self) -> str:
        return f"{self.kind} layer {self.layer}"

    @property
    def use(self) -> Use:
        """What it attends with here and now."""
        again = recomputing()
        for within in reversed(_open.get()):
            if self in within.uses and (within.recomputed or not again):
                return within.uses[self]
        # Whoever else recomputes layers than Hugging Face's own checkpointing: as they were computed last.
        return _last.get(self, self.for_good) if again else self.for_good

    @property
    def sinks(self) -> list[Sink]:
        """Who takes its records here and now."""
        return [] if recomputing() else [within.sinks[self] for within in _open.get() if self in within.sinks]

    def used(self, use: Use) -> None:
        """Remember what was used, for a second time."""
        if not recomputing():
            _last[self] = use

    def alpha_of(self, module: nn.Module) -> float | Tensor:
        """One number for all heads, or one per head: fixed, or learned as 1 + σ(a) (Correia et al., 2019)."""
        if self.alpha is not None:
            return self.alpha
        learned = getattr(module, "entmax_logit", None)
        return module.get_buffer("entmax_alpha") if learned is None else 1 + torch.sigmoid(learned)


@dataclass(frozen=True, eq=False)
class Within:
    """A block: what layers attend with in it, and who takes their records.

    recomputed: whether it also holds where a layer is computed for the second time.
    """

    uses: Mapping[Attend, Use] = field(default_factory=dict)
    sinks: Mapping[Attend, Sink] = field(default_factory=dict)
    recomputed: bool = False


_open: ContextVar[tuple[Within, ...]] = ContextVar("sparsefinder_blocks", default=())
# Not on the layers, so that no copy of a model and no file has them.
_last: WeakKeyDictionary[Attend, Use] = WeakKeyDictionary()


@contextmanager
def opened(within: Within) -> Iterator[None]:
    """Open a block."""
    _open.set((*_open.get(), within))
    try:
        yield
    finally:
        # Blocks need not be left in the order they were opened in.
        _open.set(tuple(each for each in _open.get() if each is not within))


def recomputing() -> bool:
    """Whether this is within `backward()`: the only layers that are computed there are computed again."""
    return torch._C._current_graph_task_id() != -1
