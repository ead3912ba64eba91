"""Made-up rows of a benchmark: methods whose time grows with the length by a power, from one that pays early on."""

from pathlib import Path
from typing import Any

from sparsefinder.lab.bench.measure import Timed
from sparsefinder.lab.bench.points import BENCH, write_unit

LENGTHS = (512, 1024, 2048)
# Milliseconds of finding and attending at 512 tokens, and the powers of the length that they grow by.
METHODS: dict[str, tuple[float, float, float]] = {
    "softmax": (0.0, 10.0, 2.0),
    "full": (0.0, 5.0, 2.0),
    "sketch": (1.0, 1.0, 1.5),
    "distance": (5.0, 3.0, 1.2),
    "window": (1.0, 49.0, 2.0),
}
FIXED: dict[str, Any] = {
    "exact": False, "setting": "{}", "wanted": 0.95, "batch": 4, "block": 0, "blocks": 0, "clusters": 0, "layers": 2,
    "heads": 4, "turns": 3, "sequences": 8, "threads": 2, "gold_sparsity": 0.97, "backend": "native",
}  # fmt: skip


def rows(length: int, block: int = 0, blocks: int = 0) -> list[dict[str, Any]]:
    """The rows of one unit, with turns that are a little apart."""
    times = {}
    for method, (find, attend, power) in METHODS.items():
        grown = [(length / 512) ** power * slow / 1000 for slow in (0.99, 1.0, 1.02)]
        alone = [find * each for each in grown], [attend * each for each in grown]
        times[method] = Timed(*alone, [0.05 + (find + attend) * each for each in grown])
    found = []
    for method, each in times.items():
        recall = None if method == "softmax" else 0.96
        own = {"method": method, "length": length, "recall": recall, "sparsity": recall}
        own |= {"block": block, "blocks": blocks}
        found.append(dict.fromkeys(BENCH.names) | FIXED | own | each.row(times["full"], times["softmax"]))
    return found


def add_bench(folder: Path, lengths: tuple[int, ...] = LENGTHS) -> None:
    """Give a run a benchmark at some lengths, and of some blocks."""
    for length in lengths:
        write_unit(folder / f"points/bench/length={length}-0.parquet", rows(length))
    for blocks in (2, 3):
        for size in (4, 8):
            name = f"length=512-block={size}-blocks={blocks}-0.parquet"
            write_unit(folder / "points/bench" / name, rows(512, size, blocks))
