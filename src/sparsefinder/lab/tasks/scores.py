"""Scores from what each sequence adds to them, so that there is a score of any sequences, also of some drawn twice.

Perplexity is made of losses and the number of tokens they are of. BLEU is made of the lengths of what was said and of
what was wanted, and of n-grams found and said, as sacreBLEU counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError

__all__ = ["bleu_parts", "scores_of"]

ORDERS = 4
# The largest loss whose exponential is a number.
MOST = 700.0


def bleu_parts(said: Sequence[str], wanted: Sequence[str]) -> tuple[tuple[float, ...], ...]:
    """For each sentence: its length and that of the reference, and for n from 1 to 4, n-grams found and said."""
    from sacrebleu.metrics.bleu import BLEU

    # The order is that of single sentences, which asks for it; the counts are the same in any case.
    bleu = BLEU(effective_order=True)
    found = [bleu.sentence_score(one, [other]) for one, other in zip(said, wanted, strict=True)]
    return tuple((one.sys_len, one.ref_len, *one.counts, *one.totals) for one in found)


def scores_of(metric: str, sums: NDArray[Any]) -> NDArray[Any]:
    """The score of each sum of parts, which are along the last axis."""
    if metric == "perplexity":
        return np.exp(np.minimum(sums[..., 0] / sums[..., 1], MOST))
    if metric != "BLEU":
        raise InputError("metric", repr(metric), "'perplexity' or 'BLEU'")
    from sacrebleu.metrics.bleu import BLEU

    scores = [
        BLEU.compute_bleu(one[2 : 2 + ORDERS], one[2 + ORDERS :], one[0], one[1], smooth_method="exp").score
        for one in sums.reshape(-1, sums.shape[-1]).astype(np.int64).tolist()
    ]
    return np.array(scores).reshape(sums.shape[:-1])
