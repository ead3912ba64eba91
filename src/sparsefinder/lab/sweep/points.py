"""Points on disk: small Parquet files, one for each finished piece of work, and how they are read back together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...files import whole_file
from ..folder import RunFolder

__all__ = ["ACCURACY", "RECALL", "TIMING", "averaged", "read_points", "set_aside", "write_points"]

WHICH = [("method", pa.string()), ("inputs", pa.string()), ("setting", pa.string()), ("window", pa.int32())]
WHICH += [("globals", pa.int32())]
RATIOS = ("sparsity", "recall", "precision", "full_recall", "empty_rows", "gold_sparsity")
COUNTS = ("visible", "predicted", "gold", "hits")

# The columns of points/recall, points/accuracy and points/timing: docs/runs.md says what they mean.
RECALL = pa.schema([
    *WHICH, ("kind", pa.string()), ("layer", pa.int32()), ("head", pa.int32()), ("sequences", pa.int32()),
    *((name, pa.float64()) for name in RATIOS), *((name, pa.int64()) for name in COUNTS), ("seed", pa.int32()),
])  # fmt: skip
ACCURACY = pa.schema([
    *WHICH, ("kinds", pa.string()), ("metric", pa.string()), ("score", pa.float64()),
    ("details", pa.string()), ("sparsity", pa.float64()), ("own_recall", pa.float64()),
    ("own_gold_sparsity", pa.float64()), ("sequences", pa.int32()), ("seconds", pa.float64()), ("seed", pa.int32()),
])  # fmt: skip
TIMING = pa.schema([
    ("method", pa.string()), ("setting", pa.string()),
    *((name, pa.int32()) for name in ("block", "blocks", "clusters", "window")),
    *((name, pa.float64()) for name in ("seconds", "seconds_low", "seconds_high", "attention_seconds")),
    ("metric", pa.string()), ("score", pa.float64()), ("sparsity", pa.float64()),
    *((name, pa.int32()) for name in ("sequences", "batch", "threads")),
])  # fmt: skip
SCHEMAS = {"recall": RECALL, "accuracy": ACCURACY, "timing": TIMING}


def write_points(path: Path, columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> None:
    """Write a file of points, whole or not at all."""
    with whole_file(path) as file:
        pq.write_table(pa.table(dict(columns), schema=schema), file)


def read_points(folder: RunFolder, which: str) -> pa.Table:
    """All points of a kind, `recall`, `accuracy` or `timing`: those of the last sweep, in the order of their files."""
    files = sorted((folder / "points" / which).glob("*.parquet"))
    tables = [pq.read_table(file, schema=SCHEMAS[which], partitioning=None) for file in files]
    return pa.concat_tables(tables) if tables else SCHEMAS[which].empty_table()


def set_aside(folder: RunFolder, which: str, wanted: Iterable[Path]) -> None:
    """Move files of other sweeps out of the way, and fetch back what an earlier change of the grid moved there."""
    here, aside = folder / "points" / which, folder / "points" / f"{which}-unused"
    names = {file.name for file in wanted}
    for file in here.glob("*.parquet"):
        if file.name not in names:
            aside.mkdir(exist_ok=True)
            file.replace(aside / file.name)
    for file in aside.glob("*.parquet"):
        if file.name in names and not (here / file.name).exists():
            here.mkdir(exist_ok=True)
            file.replace(here / file.name)


def averaged(points: pa.Table) -> pa.Table:
    """Sparsity and recall of each setting, window and number of global tokens: the mean over layers and heads."""
    for name in RATIOS:
        # What is undefined for a head is left out of the mean.
        column = points[name].combine_chunks()
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
        points = points.set_column(points.schema.get_field_index(name), name, column)
    names = [name for name, _ in WHICH]
    means = points.group_by(names, use_threads=False).aggregate([(name, "mean") for name in RATIOS])
    return means.rename_columns([name.removesuffix("_mean") for name in means.column_names])
