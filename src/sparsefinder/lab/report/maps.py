"""Attention maps: for a few sentences, what every head attends to, what finders predict and what weights come of it.

Weights are lists of keys and predicted graphs bitmaps, deflated layer by layer, so that a browser opens only what is
looked at. A query all of whose gold pairs are predicted has the weights of full attention: only those of the others are
kept. Bitmaps go key by key: which queries find a key differs less from one to the next than which keys a query finds,
and deflates to as little as a quarter. What does not fit into the page is left out, whole finders of whole sentences,
the last first, and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...attending import attention
from ...core.graph import Graph
from ...core.ratios import recall, sparsity
from ...errors import InputError
from ...finders import Finder
from ...learning.sample import Sample
from ...traces.store import Site, Traces
from .encoding import deflated
from .examples import SentenceTokens, sample_of
from .patterns import PATTERNS, pattern_shares, telling_heads

__all__ = ["attention_maps", "weights_of"]

# Weights go to the page as bytes: in so many steps.
WEIGHT_STEPS = 255
# In place of a number of keys: the same as in full attention.
SAME = 65535


def attention_maps(
    traces: Traces,
    examples: Sequence[SentenceTokens],
    finders: Mapping[str, Mapping[Site, Finder]],
    sentences: int,
    budget: int,
) -> dict[str, Any]:
    """The maps of the first sentences, as the page takes them, in at most `budget` characters of base64."""
    sequences = list(dict.fromkeys(example.sequence for example in examples))[:sentences]
    shown: list[dict[str, Any]] = []
    left_out: list[str] = []
    left = budget
    for sequence in sequences:
        mine = {example.kind: example for example in examples if example.sequence == sequence}
        sentence = _Sentence(traces, mine)
        found: dict[str, Any] = {}
        missing, room = [], left - sentence.size
        for number, (label, by_site) in enumerate(finders.items()):
            maps, size = sentence.maps(by_site)
            if size <= room:
                found[str(number)] = maps
                room -= size
            else:
                missing.append(f"{label} in sentence {sequence + 1}")
        if not found:
            # Gold alone has nothing to be compared with.
            left_out.append(f"sentence {sequence + 1}")
            continue
        left, left_out = room, left_out + missing
        shown.append({**sentence.to_page(), "found": found})
    sites = [{"kind": kind, "layer": layer} for kind, layer in traces.sites]
    return {
        "finders": list(finders), "sites": sites, "sentences": shown, "leftOut": left_out, "weightSteps": WEIGHT_STEPS,
        "same": SAME,
        "start": _start(shown[0]["found"]) if shown else None,
    }  # fmt: skip


def _start(found: Mapping[str, Any]) -> dict[str, int]:
    """The head worth seeing first: where the leading finder finds most of what the last, a window, misses."""
    leading, window = (list(found.values())[place] for place in (0, -1))
    gains = {
        (int(site), head): (share or 0) - (window[site]["recall"][head] or 0 if site in window else 0)
        for site, maps in leading.items()
        for head, share in enumerate(maps["recall"])
    }
    site, head = max(gains, key=lambda one: gains[one], default=(0, 0))
    return {"site": site, "head": head}


class _Sentence:
    """One sentence in all layers: its tokens and what the teacher attends to."""

    def __init__(self, traces: Traces, examples: Mapping[str, SentenceTokens]) -> None:
        self.examples = examples
        self.samples: dict[int, tuple[Site, Sample, Tensor]] = {}
        self.gold: dict[str, str] = {}
        for place, site in enumerate(traces.sites):
            if site[0] in examples:
                example = examples[site[0]]
                sample = sample_of(traces, site, example.sequence)
                _check_tokens(example, sample)
                weights = weights_of(sample, None)
                self.samples[place] = site, sample, weights
                self.gold[str(place)] = deflated(_lists(weights))

    @property
    def size(self) -> int:
        return sum(map(len, self.gold.values()))

    def maps(self, finders: Mapping[Site, Finder]) -> tuple[dict[str, Any], int]:
        """What a finder predicts in each layer, and how many characters that takes."""
        maps = {str(place): each for place, each in self._maps(finders)}
        return maps, sum(len(each["data"]) for each in maps.values())

    def _maps(self, finders: Mapping[Site, Finder]) -> Iterator[tuple[int, dict[str, Any]]]:
        for place, (site, sample, gold) in self.samples.items():
            if site not in finders:
                continue
            graph = finders[site](sample.q, sample.k, sample.layout)
            predicted, wanted = graph.dense()[0], gold > 0
            # From the matrix, which is at hand: listing the pairs would take several times as long.
            found, hits, gold_pairs = (each.sum((-1, -2)) for each in (predicted, predicted & wanted, wanted))
            ratios = recall(hits, gold_pairs), sparsity(found, graph.grid.degrees().sum())
            bits = np.packbits(predicted.mT.numpy().reshape(-1), bitorder="little").tobytes()
            complete = ~(wanted & ~predicted).any(-1)
            yield (
                place,
                {
                    **{name: _rounded(each) for name, each in zip(("recall", "sparsity"), ratios, strict=True)},
                    "data": deflated(_lists(weights_of(sample, graph), complete) + bits),
                },
            )

    def telling(self) -> dict[str, dict[str, int]]:
        """The heads that show most of each pattern."""
        heads, shares = [], {name: list[float]() for name in PATTERNS}
        for place, (site, _, weights) in self.samples.items():
            example = self.examples[site[0]]
            heads += [{"site": place, "head": head} for head in range(len(weights))]
            for name, some in pattern_shares(weights, example.queries, example.keys).items():
                shares[name] += some.tolist()
        return {name: heads[one] for name, one in telling_heads(shares).items()}

    def to_page(self) -> dict[str, Any]:
        tokens = {kind: {"queries": list(one.queries), "keys": list(one.keys)} for kind, one in self.examples.items()}
        first = next(iter(self.examples.values()))
        heads = {str(place): int(sample.q.shape[1]) for place, (_, sample, _) in self.samples.items()}
        causal = {str(place): sample.layout.causal for place, (_, sample, _) in self.samples.items()}
        return {
            "sequence": first.sequence, "text": first.text, "tokens": tokens, "heads": heads, "causal": causal,
            "gold": self.gold, "telling": self.telling(),
        }  # fmt: skip


def weights_of(sample: Sample, graph: Graph | None) -> Tensor:
    """The weights of the heads of one sequence, over a graph or over all pairs: [heads, n, m]."""
    _, weights = attention(
        sample.q, sample.k, sample.k, graph, alpha=sample.alpha, layout=sample.layout, scale=sample.score_scale,
        return_weights=True,
    )  # fmt: skip
    return weights.to_dense()[0]


def _rounded(ratios: Tensor) -> list[float | None]:
    """Ratios as JSON has them; None where there is nothing to divide by."""
    return [None if one != one else round(one, 4) for one in ratios.tolist()]


def _lists(weights: Tensor, same: Tensor | None = None) -> bytes:
    """For every head and query: how many keys have weight; then the keys, each as its distance from the one before it
    in the row; then the weights in steps, at least one. 16, 16 and 8 bits.

    same: the rows that are those of full attention, and are not listed.
    """
    if same is not None:
        weights = weights.masked_fill(same[..., None], 0)
    array: NDArray[np.float32] = weights.float().numpy()
    counts = (array > 0).sum(-1).reshape(-1)
    keys = np.nonzero(array > 0)[2]
    steps = np.diff(keys, prepend=0)
    # The first key of a row counts from the row's beginning.
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])[counts > 0]
    steps[first] = keys[first]
    values = np.rint(array[array > 0] * WEIGHT_STEPS).clip(1, WEIGHT_STEPS)
    if same is not None:
        counts[same.numpy().reshape(-1)] = SAME
    return counts.astype("<u2").tobytes() + steps.astype("<u2").tobytes() + values.astype("u1").tobytes()


def _check_tokens(example: SentenceTokens, sample: Sample) -> None:
    got, want = (len(example.queries), len(example.keys)), (sample.q.shape[2], sample.k.shape[2])
    if got != want:
        name = f"traces/examples.jsonl, sequence {example.sequence} of {example.kind}"
        raise InputError(
            name, f"{got[0]} and {got[1]} tokens", f"{want[0]} queries and {want[1]} keys, as in the traces"
        )
