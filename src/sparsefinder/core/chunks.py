"""Work on n × m pairs in parts, so that never all of them are in memory."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["CHUNK", "chunks"]

# How many key indices are listed, or scores computed, at a time.
CHUNK = 1 << 22


def chunks(rows: int, width: int) -> Iterator[slice]:
    """The rows of a matrix in slices of about CHUNK numbers, where a row has `width` of them."""
    step = max(1, CHUNK // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
