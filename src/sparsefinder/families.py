"""Whose methods are, in words, and what each says of itself: also for a list that is made without importing torch."""

from __future__ import annotations

from typing import Literal

__all__ = ["FAMILIES", "Family", "first_line"]

Family = Literal["paper", "ours", "rival", "reference"]
# In the order in which they are listed: as a heading, and of one method.
FAMILIES: dict[Family, tuple[str, str]] = {
    "paper": ("The paper's", "of the paper"),
    "ours": ("Ours", "ours"),
    "rival": ("Of others", "of others"),
    "reference": ("To compare with", "to compare with"),
}


def first_line(documentation: str | None) -> str:
    """What a method does: the first line of its class's documentation."""
    return (documentation or "").partition("\n")[0]
