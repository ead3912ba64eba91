"""What the rows of a benchmark say: each method by length, from which it pays, and the block variants by blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from .entries import Entry
from .points import SPREADS, Row

__all__ = ["by_blocks", "by_length", "ordered", "pays_from"]

Rows = Sequence[Mapping[str, Any]]


def by_length(rows: Iterable[Mapping[str, Any]]) -> dict[Entry, list[Mapping[str, Any]]]:
    """The rows of each entry, the shortest length first; without those of the block variants' own grid."""
    found: dict[Entry, list[Mapping[str, Any]]] = {}
    for row in sorted((row for row in rows if not row["block"]), key=lambda row: row["length"]):
        found.setdefault(Entry.of_row(row), []).append(row)
    return found


def pays_from(rows: Rows, against: str) -> int | None:
    """The least length from which a ratio (`to_full`, say) is above 1 up to the longest; None if it is not there.

    Above it in three quarters of the turns: what is as fast as full attention is not faster now and then.
    """
    found = None
    for row in sorted(rows, key=lambda row: -row["length"]):
        if row[f"{against}_low"] is None or row[f"{against}_low"] <= 1:
            break
        found = row["length"]
    return found


def ordered(entries: Mapping[Entry, Rows]) -> list[Entry]:
    """What finders are set against first, then the fastest at its longest length first."""
    return sorted(entries, key=lambda entry: (entry.finds, entries[entry][-1]["alone"] / entries[entry][-1]["length"]))


def by_blocks(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The block variants by number of attended blocks: means over their sizes and numbers of clusters."""
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["block"] and Entry.of_row(row).finds:
            groups.setdefault((row["method"], row["blocks"]), []).append(row)
    return [
        {**some[0], "settings": len(some), "label": Entry(method).label}
        | {name: fmean(row[name] for row in some) for name in ("recall", "sparsity", *SPREADS)}
        for (method, _), some in sorted(groups.items())
    ]
