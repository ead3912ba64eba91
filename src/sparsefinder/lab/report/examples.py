"""The sentences of a run whose tokens are known: `traces/examples.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ...learning.sample import Sample
from ...traces.store import Site, Traces
from ..folder import RunFolder

__all__ = ["SentenceTokens", "read_examples", "sample_of"]


@dataclass(frozen=True)
class SentenceTokens:
    """A sequence of the traces, for one kind of attention: what its queries and keys stand for, and the text."""

    sequence: int
    kind: str
    queries: Sequence[str]
    keys: Sequence[str]
    text: str


def read_examples(folder: RunFolder) -> list[SentenceTokens]:
    """All examples, in their order; none if there is no such file."""
    file = folder / "traces/examples.jsonl"
    if not file.is_file():
        return []
    kinds = {kind for kind, _ in Traces.open(folder / "traces/valid").sites}
    found = []
    # Only a line feed ends a line of JSON: a text may hold characters that splitlines() takes for an end as well.
    for line in file.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            row = json.loads(line)
            kind = row.get("kind") or next(iter(kinds))
            if kind in kinds:
                found.append(SentenceTokens(row["sequence"], kind, row["queries"], row["keys"], row["text"]))
    return found


def sample_of(traces: Traces, site: Site, sequence: int) -> Sample:
    """The queries and keys of one sequence in one layer."""
    return next(iter(traces.samples(*site, batch=1, start=sequence, stop=sequence + 1)))
