"""Which finders attention maps are shown for: one fitted setting of each method, and a window that needs no fitting."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ...finders import Finder, GlobalTokens, Heads, Union, Window, finder_class, methods
from ...finders.registry import parameters_of
from ...fitted import Sparsefinder
from ...traces.store import Site, Traces
from ..folder import RunFolder
from ..recipe import Recipe

__all__ = ["map_finders"]

# More methods than this would make the page large, and a list that nobody reads.
MOST = 4
# What every finder is united with: the paper's local and global patterns.
FIXED = Window(11) | GlobalTokens(1)
FIXED_LABEL = "window 11 + first token"


def map_finders(folder: RunFolder, recipe: Recipe) -> dict[str, Mapping[Site, Finder]]:
    """Finders by the name that readers see, the most telling first."""
    by_method: dict[str, list[tuple[str, Sparsefinder]]] = {}
    for path in sorted((folder / "finders").glob("*/finders.json")):
        fitted = Sparsefinder.from_pretrained(path.parent)
        if len(fitted):
            one = next(iter(fitted.values()))
            by_method.setdefault(_part(one).about.name, []).append((_described(one), fitted))
    chosen: dict[str, Mapping[Site, Finder]] = {}
    # In the order of methods, with clusters to look at first; variants of blocks are there for their time.
    order = list(methods())
    ranked = sorted(by_method, key=lambda name: ("block" in parameters_of(finder_class(name)), order.index(name)))
    for found in [by_method[method] for method in ranked[:MOST]]:
        label, fitted = sorted(found, key=lambda one: _natural(one[0]))[len(found) // 2]
        chosen[f"{label} + {FIXED_LABEL}"] = {site: one | FIXED for site, one in fitted.items()}
    everywhere = Traces.open(folder / "traces/valid").sites
    chosen[FIXED_LABEL] = dict.fromkeys(everywhere, FIXED)
    return chosen


def _part(finder: Finder) -> Finder:
    """The method of a finder that is united with others, or has several for its heads."""
    return _part(finder.finders[0]) if isinstance(finder, Union | Heads) else finder


def _described(finder: Finder) -> str:
    """A fitted finder in words: its method and settings."""
    one = _part(finder)
    words = [one.about.label]
    for name in parameters_of(type(one)):
        value = getattr(one, name)
        # Nothing, no steps, no window: what is switched off is not said.
        if isinstance(value, int | float) and not isinstance(value, bool) and value:
            words.append(f"{value} clusters" if name == "clusters" else f"{name.replace('_', ' ')} {value:g}")
        elif isinstance(value, Tensor):
            words.append(f"{name.replace('_', ' ')} per head, {float(value.double().mean()):.3g} on average")
    return ", ".join(words)


def _natural(label: str) -> list[tuple[int, str]]:
    """Numbers in the order of their size."""
    words = label.replace(",", " ").split()
    return [(int(word), "") if word.isdigit() else (0, word) for word in words]
