"""Points on disk: small Parquet files, one for each finished piece of work; read back together, averaged over heads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...core.ratios import every_ratio, grouped_means, mean
from ...errors import InputError
from ...files import reading, whole_file
from ..folder import RunFolder
from .watching import OWN

__all__ = [
    "ACCURACY", "HEAD", "RECALL", "SEQUENCES", "TIMING", "VERSION", "averaged", "mean_gold", "numbered", "read_points",
    "set_aside", "write_points",
]  # fmt: skip

# Changes when points of recall or accuracy change for reasons that no recipe shows.
VERSION = 4

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WHICH = [("method", pa.string()), ("inputs", pa.string()), ("setting", pa.string()), ("window", pa.int32())]
WHICH += [("globals", pa.int32())]
HEAD = ("kind", "layer", "head")
# What finding costs is counted in multiplications and in bytes, as shares of what all scores take and read.
RATIOS = ("sparsity", "recall", "precision", "full_recall", "empty_rows", "gold_sparsity", "cost", "bytes")
# Columns that came without a change of the others: points from before are as good as ever, and null there.
LATER = ("bytes",)
COUNTS = ("visible", "predicted", "gold", "hits", "queries", "complete", "empty")

# The columns of points/recall, points/sequences, points/accuracy and points/timing: docs/runs.md says what they mean.
RECALL = pa.schema([
    *WHICH, ("kind", pa.string()), ("layer", pa.int32()), ("head", pa.int32()), ("sequences", pa.int32()),
    *((name, pa.float64()) for name in RATIOS), *((name, pa.int64()) for name in COUNTS), ("seed", pa.int32()),
])  # fmt: skip
SEQUENCES = pa.schema([
    *WHICH, ("kind", pa.string()), ("layer", pa.int32()), ("heads", pa.int32()),
    *((f"sequence_{name}", pa.list_(pa.float32())) for name in ("sparsity", "recall")),
])  # fmt: skip
ACCURACY = pa.schema([
    *WHICH, ("kinds", pa.string()), ("metric", pa.string()), ("score", pa.float64()), ("details", pa.string()),
    *((own, pa.float64()) for own in OWN.values()), *((f"pooled_{own}", pa.float64()) for own in OWN.values()),
    ("decoding_sparsity", pa.float64()),
    *((f"sequence_{name}", pa.list_(pa.float64())) for name in ("sparsity", "recall", "gold_sparsity")),
    ("sequence_parts", pa.list_(pa.list_(pa.float64()))),
    ("sequences", pa.int32()), ("seconds", pa.float64()), ("seed", pa.int32()),
])  # fmt: skip
TIMING = pa.schema([
    ("method", pa.string()), ("setting", pa.string()),
    *((name, pa.int32()) for name in ("block", "blocks", "clusters", "window")),
    *((name, pa.float64()) for name in ("seconds", "seconds_low", "seconds_high", "attention_seconds")),
    ("metric", pa.string()), ("score", pa.float64()), ("sparsity", pa.float64()),
    *((name, pa.int32()) for name in ("sequences", "batch", "threads")),
])  # fmt: skip
SCHEMAS = {"recall": RECALL, "sequences": SEQUENCES, "accuracy": ACCURACY, "timing": TIMING}


def write_points(path: Path, columns: Mapping[str, Any], schema: pa.Schema) -> None:
    """Write a file of points, whole or not at all."""
    with whole_file(path) as file:
        pq.write_table(pa.table(dict(columns), schema=schema), file)


def read_points(folder: RunFolder, which: str, columns: Sequence[str] | None = None) -> pa.Table:
    """All points of a kind, as the folders in `points/` are called: those of the last sweep, file by file.

    columns: only these, in this order.
    """
    schema = SCHEMAS[which] if columns is None else pa.schema([SCHEMAS[which].field(name) for name in columns])
    files = sorted((folder / "points" / which).glob("*.parquet"))
    for file in files:
        _check_columns(folder, which, file)
    tables = []
    for file in files:
        with reading(file):
            tables.append(pq.read_table(file, schema=schema, partitioning=None))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _check_columns(folder: RunFolder, which: str, file: Path) -> None:
    """Refuse what an earlier version wrote: under the same names its numbers may be others."""
    with reading(file):
        there = {*pq.read_schema(file).names, *LATER}
    missing = [name for name in SCHEMAS[which].names if name not in there]
    if missing:
        got = f"{file.name} of an earlier version, without {missing[0]}"
        raise InputError(f"points/{which}", got, f"`sparsefinder sweep {folder.path}` before, which measures it anew")


def set_aside(folder: RunFolder, which: str, wanted: Iterable[Path]) -> None:
    """Move files of other sweeps out of the way, and fetch back what an earlier change of the grid moved there."""
    here, aside = folder / "points" / which, folder / "points" / f"{which}-unused"
    names = {file.name for file in wanted}
    for file in here.glob("*.parquet"):
        if file.name not in names:
            folder.move(folder.name_of(file), folder.name_of(aside / file.name))
    for file in aside.glob("*.parquet"):
        if file.name in names and not (here / file.name).exists():
            folder.move(folder.name_of(file), folder.name_of(here / file.name))


def averaged(points: pa.Table) -> pa.Table:
    """The ratios of each setting, window and number of global tokens, in their order: the mean over layers and heads.

    What is undefined in a head is left out of the mean, and what is undefined in all of them is null. Those of all
    counts added up, over sequences, layers and heads, are beside it: `pooled_recall`, and so on.
    """
    names = [name for name, _ in WHICH]
    settings, which = numbered(points, names)
    ratios = {name: grouped_means(points[name].to_numpy(), which, len(settings)) for name in RATIOS}
    counts = {name: np.bincount(which, points[name].to_numpy(), len(settings)) for name in COUNTS}
    ratios |= {f"pooled_{name}": each for name, each in every_ratio(counts).items()}
    columns = {name: pa.array([one[place] for one in settings], kind) for place, (name, kind) in enumerate(WHICH)}
    return pa.table(columns | {name: pa.array(each, from_pandas=True) for name, each in ratios.items()})


def mean_gold(gold_sparsity: Floats, head: Ints) -> float:
    """How sparse the gold graphs are, as a mean over heads; NaN if there is no point."""
    return float(mean(grouped_means(gold_sparsity, head, int(head.max(initial=-1)) + 1)))


def numbered(table: pa.Table, columns: Sequence[str]) -> tuple[list[Any], Ints]:
    """The distinct combinations of some columns, sorted, and which one each row has."""
    code = np.zeros(table.num_rows, dtype=np.int64)
    names: list[list[Any]] = []
    for column in columns:
        encoded = table[column].combine_chunks().dictionary_encode()
        names.append(encoded.dictionary.to_pylist())
        code = code * max(1, len(names[-1])) + encoded.indices.to_numpy()
    found, which = np.unique(code, return_inverse=True)
    combinations = []
    for one in found.tolist():
        parts = []
        for values in reversed(names):
            one, place = divmod(one, max(1, len(values)))
            parts.append(values[place])
        combinations.append(tuple(reversed(parts)))
    order = sorted(range(len(combinations)), key=combinations.__getitem__)
    place_of = np.empty(len(order), dtype=np.int64)
    place_of[order] = np.arange(len(order))
    return [combinations[one] for one in order], place_of[which]
