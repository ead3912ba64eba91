"""Running time and quality by the number of attended blocks: means over block sizes and clusters, or of one size.

Blocks of one token are no blocks: they are shown by themselves, and left out of means over sizes, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..sweep.settings import FULL, SOFTMAX
from .charts import FullScore
from .methods import style

__all__ = ["LINES", "RunningTimes", "Spot", "running_times"]

# Full attention is a line across the charts, dashed as matplotlib writes it.
LINES = {FULL.method: "--", SOFTMAX.method: ":"}


@dataclass(frozen=True)
class Spot:
    """One method with so many attended blocks; `rows` says how many settings the means are over."""

    blocks: int
    seconds: float
    low: float
    high: float
    attention_seconds: float
    score: float
    sparsity: float
    rows: int


@dataclass(frozen=True, eq=False)
class RunningTimes:
    """The timing points of a run."""

    rows: Sequence[Mapping[str, Any]]
    score: FullScore

    @property
    def sizes(self) -> list[int]:
        """The block sizes that were measured."""
        return sorted({row["block"] for row in self.rows if row["method"] not in LINES})

    @property
    def methods(self) -> list[str]:
        found = {row["method"] for row in self.rows if row["method"] not in LINES}
        return sorted(found, key=lambda name: style(name).label)

    def curve(self, method: str, size: int | None = None) -> list[Spot]:
        """A method by number of blocks; over all block sizes but 1 if none is given."""
        mine = [row for row in self._of(size) if row["method"] == method]
        return [_mean(blocks, [row for row in mine if row["blocks"] == blocks]) for blocks in _sorted_blocks(mine)]

    def line(self, method: str) -> Spot | None:
        """Full attention, which has no blocks."""
        mine = [row for row in self._of(None) if row["method"] == method]
        return _mean(0, mine) if mine else None

    def _of(self, size: int | None) -> list[Mapping[str, Any]]:
        """The rows of one block size, or of all but 1 if there are others."""
        if size is not None:
            return [row for row in self.rows if row["block"] == size]
        return [row for row in self.rows if row["block"] != 1 or self.sizes == [1]]

    def to_page(self) -> dict[str, Any]:
        def plain(spot: Spot | None) -> dict[str, Any] | None:
            if spot is None:
                return None
            return {name: None if value != value else value for name, value in vars(spot).items()}

        first = self.rows[0]
        return {
            "sizes": self.sizes,
            "methods": [
                {
                    "method": method, "label": style(method).label,
                    "curves": {str(size or "all"): [plain(spot) for spot in self.curve(method, size)]
                               for size in (None, *self.sizes)},
                }
                for method in self.methods
            ],
            "lines": [
                {"label": style(name).label, "dash": dashes, **(plain(spot) or {})}
                for name, dashes in LINES.items() if (spot := self.line(name)) is not None
            ],
            "sequences": first["sequences"], "batch": first["batch"], "threads": first["threads"],
        }  # fmt: skip


def running_times(rows: Sequence[Mapping[str, Any]], score: FullScore) -> RunningTimes | None:
    """The timings of a run; None if it has none."""
    return RunningTimes(rows, score) if any(row["method"] not in LINES for row in rows) else None


def _sorted_blocks(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    return sorted({row["blocks"] for row in rows})


def _mean(blocks: int, rows: Sequence[Mapping[str, Any]]) -> Spot:
    def mean(name: str) -> float:
        values = [row[name] for row in rows if row[name] is not None]
        return float(np.mean(values)) if values else float("nan")

    return Spot(
        blocks,
        seconds=mean("seconds"),
        low=mean("seconds_low"),
        high=mean("seconds_high"),
        attention_seconds=mean("attention_seconds"),
        score=mean("score"),
        sparsity=mean("sparsity"),
        rows=len(rows),
    )
