"""What a benchmark is asked for, checked before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError
from ..recipe import Timing
from .entries import Entry, entries_of

__all__ = ["LENGTHS", "Asked", "numbers"]

# The lengths that are measured unless told, as far as a model and its text reach.
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Asked:
    """The methods, lengths and sizes of a benchmark, and how long it may take.

    lengths: None for the model's own and those of LENGTHS that it reaches.
    recall: on training data, what methods are set for.
    repeats: how often each is timed.
    budget: seconds, for all; repeats are cut to fit, and what has not begun by then is left for the next call.
    grid: the blocks of the paper's Sec. 7, their sizes and numbers of clusters; None to leave these out.
    again: measure also what was measured before.
    """

    entries: tuple[Entry, ...] = ()
    lengths: tuple[int, ...] | None = None
    recall: float = 0.95
    repeats: int = 7
    budget: float | None = None
    grid: Timing | None = None
    again: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.recall <= 1:
            raise InputError("recall", self.recall, "a share of the pairs, above 0 and up to 1")
        if self.repeats < 1:
            raise InputError("repeats", self.repeats, "a number from 1 upwards")
        if self.budget is not None and self.budget <= 0:
            raise InputError("budget", self.budget, "a number of seconds above 0")
        for length in self.lengths or ():
            if length < 2:
                raise InputError("lengths", length, "numbers of tokens from 2 upwards")

    @staticmethod
    def of_words(
        methods: str | None,
        lengths: str | None,
        blocks: str | None,
        sizes: str | None,
        clusters: str | None,
        **more: float | int | bool | None,
    ) -> Asked:
        """As the command line has it: lists are numbers with commas between."""
        given = {"blocks": numbers("blocks", blocks), "sizes": numbers("sizes", sizes)}
        given["clusters"] = numbers("clusters", clusters)
        grid = None if given["blocks"] == () else Timing(**{key: some for key, some in given.items() if some})
        return Asked(entries_of(methods), numbers("lengths", lengths) or None, grid=grid, **more)  # type: ignore[arg-type]


def numbers(argument: str, words: str | None) -> tuple[int, ...] | None:
    """Whole numbers with commas between; () for "none"."""
    if words is None:
        return None
    if words.strip() == "none":
        return ()
    try:
        found = tuple(int(word) for word in words.replace(" ", "").split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise InputError(argument, repr(words), "whole numbers from 1 upwards with commas between, such as 512,1024")
    return tuple(sorted(set(found)))
