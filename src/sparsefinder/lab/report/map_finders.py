"""Which finders attention maps are shown for: of the leading methods the setting that the first screen speaks of, and a
window that needs no fitting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ...errors import InputError
from ...finders import Finder, GlobalTokens, Window, finder_class, methods
from ...finders.fixed import united
from ...finders.registry import parameters_of
from ...traces.store import Site, Traces
from ..folder import RunFolder
from ..recipe import Recipe
from ..sweep.fit_stage import settings_of
from ..sweep.measured_setting import MeasuredSetting
from ..sweep.run_finders import RunFinders
from ..sweep.settings import Setting
from ..sweep.summary import COSTED
from .charts import Cloud
from .rankings import ranking, reaching

__all__ = ["FIXED_LABEL", "leading_settings", "map_finders"]

# More methods than this would make the page large, and a list that nobody reads.
MOST = 4
# What needs no finding: the paper's local and global patterns.
FIXED = Window(11) | GlobalTokens(1)
FIXED_LABEL = "window 11, 1 global token"
# The fixed patterns that a finder is united with where no sweep says it.
EXTRA = (11, 1)


def map_finders(
    folder: RunFolder, recipe: Recipe, leading: Iterable[Sequence[MeasuredSetting]], most: int = MOST
) -> dict[str, Mapping[Site, Finder]]:
    """Finders by the name that readers see, the leading method first.

    leading: of each method its settings, what is wanted most first; the first that can be made is taken.
    """
    made = RunFinders(folder, recipe.seed)
    chosen: dict[str, Mapping[Site, Finder]] = {}
    for settings in leading:
        if len(chosen) < most:
            for label, found in _possible(made, settings):
                chosen[label] = found
                break
    everywhere = Traces.open(folder / "traces/valid").sites
    return chosen | {FIXED_LABEL: dict.fromkeys(everywhere, FIXED)}


def leading_settings(recall: Cloud | None, recipe: Recipe) -> list[list[MeasuredSetting]]:
    """The settings of each method that competes, the leading method and its sparsest setting of a high recall first.

    Before a sweep, those of the recipe, methods with clusters to look at first.
    """
    if recall is None:
        by_method: dict[str, list[MeasuredSetting]] = {}
        for one in settings_of(recipe):
            if finder_class(one.method).about.family != "reference" and one.inputs != "none":
                by_method.setdefault(one.method, []).append(
                    MeasuredSetting(one.method, one.inputs, one.as_json, *EXTRA)
                )
        return [some[len(some) // 2 :] + some[: len(some) // 2] for some in by_method.values()]
    first = [one.series for one in reaching(recall, COSTED, COSTED)]
    order = dict.fromkeys([*first, *(one.series for one in ranking(recall))])
    found = []
    for series in order:
        kind = methods().get(series.method)
        # A window is there anyway, and blocks are there for their time.
        if kind is None or series.inputs == "none" or "block" in parameters_of(kind):
            continue
        mine, _ = recall.of(recall.series.index(series))
        enough = recall.y[mine] >= COSTED
        places = mine[np.lexsort((-np.where(enough, recall.x[mine], recall.y[mine]), ~enough))]
        found.append([recall.settings[place] for place in places])
    return found


def _possible(made: RunFinders, settings: Sequence[MeasuredSetting]) -> Iterator[tuple[str, dict[Site, Finder]]]:
    """The finders of those settings whose fits are there."""
    for one in settings:
        try:
            values = json.loads(one.own)
            finders = made.of(Setting(one.method, one.inputs, tuple(sorted(values.items()))))
        except InputError:
            continue
        label = f"{finder_class(one.method).about.label}: {one.words()}"
        yield label, {site: united(each, one.window, one.globals) for site, each in finders.items()}
