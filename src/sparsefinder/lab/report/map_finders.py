"""Which finders attention maps are shown for: one fitted setting of each method, and a window that needs no fitting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from torch import Tensor

from ...finders import Finder, GlobalTokens, Union, Window
from ...fitted import Sparsefinder
from ...traces.store import Site, Traces
from ..folder import RunFolder
from ..recipe import Recipe
from .methods import style

__all__ = ["map_finders"]

# More methods than this would make the page large, and a list that nobody reads.
MOST = 4
# What every finder is united with: the paper's local and global patterns.
FIXED = Window(11) | GlobalTokens(1)
FIXED_LABEL = "window 11 + first token"
BLOCKS = [style(method).label for method in ("block-topk", "block-centroids")]


def map_finders(folder: RunFolder, recipe: Recipe) -> dict[str, Mapping[Site, Finder]]:
    """Finders by the name that readers see, the most telling first."""
    by_method: dict[str, list[tuple[str, Sparsefinder]]] = {}
    for path in sorted((folder / "finders").glob("*/finders.json")):
        fitted = Sparsefinder.from_pretrained(path.parent)
        if len(fitted):
            method, label = _described(next(iter(fitted.values())))
            by_method.setdefault(method, []).append((label, fitted))
    chosen: dict[str, Mapping[Site, Finder]] = {}
    # The paper shows its k-means; variants of blocks are there for their time.
    ranked = sorted(by_method, key=lambda method: (method != style("kmeans").label, method in BLOCKS, method))
    for found in [by_method[method] for method in ranked[:MOST]]:
        label, fitted = sorted(found, key=lambda one: _natural(one[0]))[len(found) // 2]
        chosen[f"{label} + {FIXED_LABEL}"] = {site: one | FIXED for site, one in fitted.items()}
    everywhere = Traces.open(folder / "traces/valid").sites
    chosen[FIXED_LABEL] = dict.fromkeys(everywhere, FIXED)
    return chosen


def _described(finder: Finder) -> tuple[str, str]:
    """The method of a fitted finder, and its settings in words."""
    one = finder.finders[0] if isinstance(finder, Union) else finder
    words = [style(_name(one)).label]
    for field in fields(one):
        value = getattr(one, field.name)
        if field.name == "centroids" and isinstance(value, Tensor):
            words.append(f"{value.shape[1]} clusters")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            words.append(f"{field.name.replace('_', ' ')} {value:g}")
    return words[0], ", ".join(words)


def _name(finder: Finder) -> str:
    from ...finders.base import FINDERS, finder_class

    return next((name for name in FINDERS if finder_class(name) is type(finder)), type(finder).__name__)


def _natural(label: str) -> list[tuple[int, str]]:
    """Numbers in the order of their size."""
    words = label.replace(",", " ").split()
    return [(int(word), "") if word.isdigit() else (0, word) for word in words]
