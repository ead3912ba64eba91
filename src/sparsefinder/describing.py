"""Finders in words: what a method does and whose it is, a line for each finder, a small table of those of a model, and
the card that goes to the hub with them.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from torch import Tensor

from .families import FAMILIES, first_line
from .finders import Finder, Heads, Union, methods
from .learning.projection import Projection
from .traces.store import Site

__all__ = ["card", "described", "does", "setting_words", "table", "whose"]

# What a setting is chosen for, in place of a value of its dial.
WANTED = {
    "recall": "set for {%} recall",
    "sparsity": "set for {%} sparsity",
    "budget": "{%} of all pairs, where they weigh most",
}
# So many layers, and settings of a layer's heads, are listed at the most.
MOST_LAYERS, MOST_SETTINGS = 12, 2
# What is said of a fit besides its teacher and text, where it is known.
FACTS = {
    "method": "method",
    "settings": "settings",
    "recall": "wanted recall",
    "sparsity": "wanted sparsity",
    "budget": "pairs that all heads together may look at, as a share",
    "traces": "hash of the traces",
}
CARD = """# Sparse attention: {title}

For a transformer with α-entmax attention: finders predict which query–key pairs of a layer will get weight, so that
only those are computed. Made with Sparsefinder.

```python
{use}
```

| | |
|---|---|
{facts}

{layers}
"""
LAYERS = """| layer | finder | recall | sparsity |
|---|---|---|---|
{rows}

Recall is the share of pairs with weight that are predicted, sparsity the share of pairs that are not computed: the
means over heads, on held-out sequences; empty where they were not measured."""
NO_LAYERS = "No finders are saved here: attention is over all pairs."


def does(method: str) -> str:
    """What a method does, in a line; nothing if it is not installed any more.

    >>> does("window")
    'Connect each query to the keys at most `size // 2` positions away, itself included; a size of 0 is no window.'
    """
    kind = methods().get(method)
    return "" if kind is None else first_line(inspect.getdoc(kind))


def whose(method: str) -> str:
    """Whose a method is: of the paper, of others, or ours.

    >>> whose("window")
    'of others (Beltagy et al., 2020, arXiv:2004.05150)'
    """
    kind = methods().get(method)
    if kind is None:
        return ""
    about = kind.about
    if about.family == "ours" and about.paper:
        return f"ours, after {about.paper}"
    return FAMILIES[about.family][1] + (f" ({about.paper})" if about.paper else "")


def setting_words(method: str, values: Mapping[str, Any]) -> str:
    """The settings of a method as it says them itself; what is switched off (0, None) is not said.

    >>> setting_words("sketch", {"r": 4, "share": 0.05})
    '4 dimensions, keeps the best 5 % of keys'
    """
    kind = methods().get(method)
    known = {} if kind is None else kind.about.words
    said = []
    for name, value in values.items():
        off = value is None or (isinstance(value, int) and not value)
        if not off:
            said.append(_said(WANTED.get(name) or known.get(name) or f"{name.replace('_', ' ')} {{}}", value))
    return ", ".join(said)


def _said(words: str, value: Any) -> str:
    if isinstance(value, Tensor):
        return _said(words, float(value.double().mean())) + " (the mean of the heads)"
    if isinstance(value, int | float):
        # As few digits as it takes: a per-head setting has many.
        words = words.replace("{%}", f"{100 * value:.3g} %").replace("(s)", "" if value == 1 else "s")
        return words.replace("{}", f"{value:.3g}" if isinstance(value, float) else str(value))
    return words.replace("{}", str(value))


def described(finder: Finder) -> str:
    """A finder in a line: its parameters, without what it has learned.

    >>> described(KMeans(centroids, top_k=2) | Window(11))
    'KMeans(centroids: 12×16×4, top_k=2) | Window(size=11)'
    """
    if isinstance(finder, Union):
        return " | ".join(described(each) for each in finder.finders)
    if isinstance(finder, Heads):
        return _per_head(finder)
    said = []
    for each in fields(finder):
        value = getattr(finder, each.name)
        if isinstance(value, Tensor):
            said.append(_tensor(each.name, value))
        elif isinstance(value, Projection):
            said.append(f"to {value.queries.shape[-1]} dimensions")
        elif each.default is MISSING or value != each.default:
            said.append(f"{each.name}={value:.3g}" if isinstance(value, float) else f"{each.name}={value}")
    return f"{type(finder).__name__}({', '.join(said)})"


def _per_head(finder: Heads) -> str:
    settings, heads = Counter(described(finder.finders[one]) for one in finder.which), len(finder.which)
    if len(settings) == 1:
        return next(iter(settings))
    if len(settings) <= MOST_SETTINGS:
        return "(" + ", ".join(f"{count} of {heads} heads: {words}" for words, count in settings.items()) + ")"
    kinds = sorted({words.partition("(")[0] for words in settings})
    return f"{' and '.join(kinds)} in {len(settings)} settings for {heads} heads"


def _tensor(name: str, value: Tensor) -> str:
    if value.ndim == 1 and value.numel():
        low, high = float(value.min()), float(value.max())
        return f"{name}={low:.3g}" if low == high else f"{name}={low:.3g} to {high:.3g}"
    return f"{name}: {'×'.join(map(str, value.shape))}"


def table(finders: Mapping[Site, Finder], about: Mapping[str, Any]) -> str:
    """A line for each layer: its finder, and what that reaches where it is known."""
    scores = _scores(about)
    shown = list(finders.items())[:MOST_LAYERS]
    names = [f"{kind} {layer}" for (kind, layer), _ in shown]
    words = [described(finder) for _, finder in shown]
    wide, wider = (max(map(len, column), default=0) for column in (names, words))
    lines = []
    for (site, _), name, finder in zip(shown, names, words, strict=True):
        reached = "recall {}, sparsity {}".format(*scores[site]) if site in scores else ""
        lines.append(f"  {name:{wide}}  {finder:{wider}}  {reached}".rstrip())
    more = len(finders) - len(shown)
    return "\n".join([*lines, *([f"  and {more} more"] if more else [])])


def card(finders: Mapping[Site, Finder], about: Mapping[str, Any], use: str) -> str:
    """What the page of a repository says: where the finders come from, what they reach, and how to use them.

    use: a few lines of Python.
    """
    facts = {"teacher": about.get("teacher") or "not known", "text": about.get("text") or "not known"} | {
        words: _fact(about[key]) for key, words in FACTS.items() if about.get(key)
    }
    scores = _scores(about)
    rows = []
    for (kind, layer), finder in finders.items():
        recall, sparsity = scores.get((kind, layer), ("", ""))
        # A bar would end the cell, also within a code span.
        words = described(finder).replace("|", r"\|")
        rows.append(f"| {kind} {layer} | `{words}` | {recall} | {sparsity} |")
    return CARD.format(
        title=about.get("method", "entmax"),
        use=use.strip(),
        facts="\n".join(f"| {name} | {value} |" for name, value in facts.items()),
        layers=LAYERS.format(rows="\n".join(rows)) if rows else NO_LAYERS,
    )


def _scores(about: Mapping[str, Any]) -> dict[Site, tuple[str, str]]:
    """Recall and sparsity of each layer, as far as they are known; where there is one per head, of all heads."""
    return {
        (site["kind"], site["layer"]): (_mean(site["recall"]), _mean(site["sparsity"]))
        for site in about.get("sites", ())
        if "recall" in site and "sparsity" in site
    }


def _mean(value: float | Sequence[float]) -> str:
    values = list(value) if isinstance(value, Sequence) else [value]
    return f"{sum(values) / max(1, len(values)):.3f}"


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {each}" for name, each in value.items())
    return str(value)
