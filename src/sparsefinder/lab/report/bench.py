"""The benchmark of a run as a report shows it: time by length for each method, and a table of all that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..bench.crossover import by_blocks, by_length, ordered, pays_from
from ..bench.entries import Entry
from ..bench.points import SPREADS

__all__ = ["BenchLine", "BenchResults", "bench_results"]

SHOWN = ("length", "batch", "turns", "recall", "sparsity", *SPREADS)
BLOCKS = ("label", "blocks", "length", "recall", "sparsity", *SPREADS)


@dataclass(frozen=True)
class BenchLine:
    """A method by length. rank: its place among those that differ from it in settings alone."""

    entry: Entry
    rank: int
    rows: Sequence[Mapping[str, Any]]

    def to_page(self) -> dict[str, Any]:
        return {
            "label": self.entry.label, "method": self.entry.method, "rank": self.rank,
            "pays": pays_from(self.rows, "to_full"),
            "spots": [{name: row[name] for name in SHOWN} for row in self.rows],
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class BenchResults:
    """The points of a benchmark."""

    rows: Sequence[Mapping[str, Any]]

    @cached_property
    def lines(self) -> list[BenchLine]:
        """What everything is set against first, then the fastest at the longest length first."""
        found = by_length(self.rows)
        ranks: dict[str, int] = {}
        lines = []
        for entry in ordered(found):
            rank = ranks[entry.method] = ranks.get(entry.method, -1) + 1
            lines.append(BenchLine(entry, rank, found[entry]))
        return lines

    @property
    def lengths(self) -> list[int]:
        return sorted({row["length"] for row in self.rows if not row["block"]})

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The block variants by number of attended blocks."""
        return [{name: row[name] for name in BLOCKS} for row in by_blocks(self.rows)]

    def to_page(self) -> dict[str, Any]:
        first = self.rows[0]
        return {
            "lengths": self.lengths, "lines": [line.to_page() for line in self.lines], "blocks": self.blocks,
            "threads": first["threads"], "layers": first["layers"], "heads": first["heads"],
            "backend": first["backend"],
        }  # fmt: skip


def bench_results(rows: Sequence[Mapping[str, Any]]) -> BenchResults | None:
    """The benchmark of a run; None if it has none."""
    return BenchResults(rows) if any(not row["block"] for row in rows) else None
