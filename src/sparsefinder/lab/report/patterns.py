"""What a head attends to: near tokens, far ones, the same word, delimiters; and which heads show each of them most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from torch import Tensor

__all__ = ["PATTERNS", "pattern_shares", "telling_heads"]

PATTERNS = ("near", "far", "same word", "delimiter")
# Tokens at most so far away are near; far ones are further away than this share of the sentence.
NEAR, FAR = 2, 0.25


def pattern_shares(
    weights: Float[Tensor, "heads n m"], queries: Sequence[str], keys: Sequence[str]
) -> dict[str, Float[Tensor, " heads"]]:
    """The share of each head's weight that lies on pairs of each kind."""
    n, m = weights.shape[1:]
    apart = (torch.arange(n)[:, None] - torch.arange(m)).abs()
    words = [_word(one) for one in queries], [_word(one) for one in keys]
    same = torch.tensor([bool(one) and one == other for one in words[0] for other in words[1]], dtype=torch.bool)
    delimiter = torch.tensor([word == "" for word in words[1]], dtype=torch.bool).expand(n, m)
    pairs = {
        "near": apart <= NEAR,
        # What looks at the first token from everywhere does not look far for a word.
        "far": (apart > FAR * max(n, m)) & ~delimiter,
        "same word": same.view(n, m) & (apart > 0),
        "delimiter": delimiter,
    }
    whole = weights.sum((-1, -2)).clamp(min=1e-12)
    return {name: (weights * mask).sum((-1, -2)) / whole for name, mask in pairs.items()}


def telling_heads(shares: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """A head for each pattern, another for each, that together show most of them; none for what no head left shows."""
    names, table = list(shares), np.array(list(shares.values()))
    rows, places = linear_sum_assignment(table, maximize=True)
    return {names[row]: int(place) for row, place in zip(rows, places, strict=True) if table[row, place] > 0}


def _word(token: str) -> str | None:
    """The letters and digits of a token; nothing for delimiters and special tokens; None for one that hides a word."""
    special = token[:1] + token[-1:] in ("[]", "<>")
    if special and "mask" in token.lower():
        return None
    return "" if special else "".join(one for one in token.removeprefix("##").lstrip("Ġ▁") if one.isalnum()).lower()
