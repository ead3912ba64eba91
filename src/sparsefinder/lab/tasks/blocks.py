"""Blocks of text for language modelling, what is hidden in them, and how far away the answer stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ...errors import InputError
from .base import ordered_batches

__all__ = ["IGNORED", "TextBlocks", "cut", "hide", "last_seen", "nearest"]

# What the loss of transformers' models leaves out.
IGNORED = -100
# Of the hidden tokens, the share that become the mask token and the share that become a random one (BERT's).
MASKED, RANDOM = 0.8, 0.1


class TextBlocks(Sequence[dict[str, Tensor]]):
    """Rows of token numbers as examples of a data set; numbers of 4 bytes, because there may be many."""

    def __init__(self, rows: Int[Tensor, "count length"]) -> None:
        self.rows = rows.to(torch.int32)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> dict[str, Tensor]: ...
    @overload
    def __getitem__(self, place: slice) -> TextBlocks: ...
    def __getitem__(self, place: int | slice) -> dict[str, Tensor] | TextBlocks:
        if isinstance(place, slice):
            return TextBlocks(self.rows[place])
        return {"input_ids": self.rows[place].long()}


def cut(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, length: int, closed: bool = True) -> TextBlocks:
    """The texts one after the other, cut into blocks of `length` tokens, each between the tokenizer's special tokens.

    closed: also with those at the end of a text; else a block ends where it is cut.
    A line feed ends each text, where the tokenizer knows it: paragraphs are not glued together.
    What is left at the end is dropped, unless it is all there is.
    """
    front, back = _around(tokenizer)
    back = back if closed else []
    room = length - len(front) - len(back)
    if room < 1:
        raise InputError("length", length, f"more than the {len(front) + len(back)} special tokens of the tokenizer")
    parts = []
    for some in ordered_batches(texts, 1000):
        ids = tokenizer([f"{text}\n" for text in some], add_special_tokens=False, verbose=False)["input_ids"]
        parts += [torch.tensor(one, dtype=torch.int32) for one in ids]
    stream = torch.cat(parts) if parts else torch.empty(0, dtype=torch.int32)
    if len(stream) == 0:
        raise InputError("data", f"{len(texts)} texts without a token", "text that the tokenizer makes tokens of")
    room = min(room, len(stream))
    rows = stream[: len(stream) // room * room].view(-1, room)
    sides = [torch.tensor(ids, dtype=torch.int32).expand(len(rows), -1) for ids in (front, back)]
    return TextBlocks(torch.cat([sides[0], rows, sides[1]], 1))


def _around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The special tokens that a tokenizer puts before and after a text."""
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    start = next(place for place in range(len(whole)) if whole[place : place + len(plain)] == plain)
    return whole[:start], whole[start + len(plain) :]


def hide(
    rows: Int[Tensor, "batch length"],
    tokenizer: PreTrainedTokenizerBase,
    share: float,
    generator: torch.Generator,
) -> tuple[Int[Tensor, "batch length"], Int[Tensor, "batch length"]]:
    """Hide a share of each row's tokens, at least one: what the model sees, and the answers where it is asked."""
    special = torch.isin(rows, torch.tensor(tokenizer.all_special_ids))
    # A random number for every place, and the smallest ones are hidden; special tokens never.
    drawn = torch.rand(rows.shape, generator=generator).masked_fill(special, torch.inf)
    wanted = ((~special).sum(-1) * share).round().clamp(min=1).long()
    hidden = (drawn.argsort(-1).argsort(-1) < wanted[:, None]) & ~special
    fate = torch.rand(rows.shape, generator=generator)
    others = torch.randint(len(tokenizer), rows.shape, generator=generator)
    seen = rows.masked_fill(hidden & (fate < MASKED), int(tokenizer.mask_token_id))
    seen = torch.where(hidden & (fate >= MASKED) & (fate < MASKED + RANDOM), others, seen)
    return seen, rows.masked_fill(~hidden, IGNORED)


def nearest(seen: Int[Tensor, "batch length"], answers: Int[Tensor, "batch length"]) -> Int[Tensor, "asked"]:
    """How far from each asked place its answer can be read, in the order of the places; -1 if nowhere."""
    row, place = (answers != IGNORED).nonzero(as_tuple=True)
    apart = (torch.arange(seen.shape[1], device=seen.device) - place[:, None]).abs()
    there: Bool[Tensor, "asked length"] = (seen[row] == answers[row, place][:, None]) & (apart > 0)
    closest = apart.masked_fill(~there, seen.shape[1]).amin(-1)
    return closest.masked_fill(~there.any(-1), -1)


def last_seen(rows: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
    """How many places before it each token stood last; -1 if it did not."""
    # Sorted by token and place, the one before is the last time, if it is the same token.
    order = rows.argsort(dim=-1, stable=True)
    sorted_rows = rows.gather(-1, order)
    same = torch.zeros_like(rows, dtype=torch.bool)
    same[:, 1:] = sorted_rows[:, 1:] == sorted_rows[:, :-1]
    apart = torch.zeros_like(rows)
    apart[:, 1:] = order[:, 1:] - order[:, :-1]
    return torch.empty_like(rows).scatter_(-1, order, apart.masked_fill(~same, -1))
