"""The points of a benchmark on disk: a Parquet file for each unit, within which times can be compared.

docs/runs.md says what the columns mean.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from ..folder import RunFolder
from ..sweep.points import set_aside, write_points

__all__ = ["BENCH", "SPREADS", "Row", "keep_others", "read_bench", "unit_rows", "write_unit"]

Row = dict[str, Any]

# Each a median, with the middle half between `_low` and `_high`: seconds for a sequence, and how many times as fast as
# another.
TIMES = ("find", "attend", "alone", "forward", "to_full", "to_softmax", "forward_to_full", "forward_to_softmax")
SPREADS = tuple(f"{name}{end}" for name in TIMES for end in ("", "_low", "_high"))
COUNTS = ("length", "batch", "block", "blocks", "clusters", "layers", "heads", "turns", "sequences", "threads")
BENCH = pa.schema([
    ("method", pa.string()), ("setting", pa.string()), ("exact", pa.bool_()), ("wanted", pa.float64()),
    *((name, pa.int32()) for name in COUNTS),
    *((name, pa.float64()) for name in ("recall", "sparsity", "gold_sparsity")),
    *((name, pa.float64()) for name in SPREADS),
    ("backend", pa.string()),
])  # fmt: skip


def write_unit(file: Path, rows: list[Row]) -> None:
    """Write the rows of a unit, whole or not at all."""
    write_points(file, {name: [row[name] for row in rows] for name in BENCH.names}, BENCH)


def unit_rows(file: Path) -> list[Row]:
    """The rows of one unit."""
    rows: list[Row] = parquet.read_table(file, schema=BENCH, partitioning=None).to_pylist()
    return rows


def read_bench(folder: RunFolder) -> list[Row]:
    """All rows that a run has, in the order of their files; none if it was not benchmarked."""
    return [row for file in sorted((folder / "points/bench").glob("*.parquet")) for row in unit_rows(file)]


def keep_others(folder: RunFolder, files: dict[str, Path]) -> None:
    """Move earlier results of these units aside, of other methods or weights, and leave those of other units alone."""
    there = (folder / "points/bench").glob("*.parquet")
    others: Collection[Path] = [file for file in there if file.name.rpartition("-")[0] not in files]
    set_aside(folder, "bench", [*files.values(), *others])
