"""The sweep of sparsity and recall: every setting with every window, on every layer and head, against the gold graphs.

A unit of work is a setting (or all thresholds of one) on a layer, and ends as a file of points. A job is a number of
units of one layer: it reads its queries and keys once, and computes their gold graphs once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ...core.ratios import every_ratio, mean
from ...errors import SparsefinderError
from ...finders import Finder
from ...finders.fixed import united
from ...learning.sample import Sample
from ...traces.store import Site, Traces
from ..folder import RunFolder, key_of
from ..recipe import Recipe
from .grids import SweepGrid, grid_of
from .jobs import Job, run_jobs, shares
from .masks import GraphMasks, Masks, masks_of
from .points import RECALL, set_aside, write_points
from .run_finders import RunFinders, site_name
from .settings import Setting
from .tally import GoldPairs, Tally, tally

__all__ = ["Unit", "measure", "recall_units", "sweep_recall"]

# Changes when points change for reasons that no recipe shows.
VERSION = 3


@dataclass(frozen=True)
class Unit:
    """Settings that are measured in one pass, on one layer, and the file that their points go to."""

    settings: tuple[Setting, ...]
    site: Site
    file: Path

    @property
    def name(self) -> str:
        return f"{self.settings[0].family.name}, {self.site[0]} layer {self.site[1]}"


def sweep_recall(folder: RunFolder, recipe: Recipe) -> None:
    """Measure sparsity and recall of the whole grid; units that are finished already are left alone."""
    units = recall_units(folder, recipe)
    set_aside(folder, "recall", [unit.file for unit in units])
    todo: dict[Site, list[Unit]] = defaultdict(list)
    for unit in units:
        if not unit.file.exists():
            todo[unit.site].append(unit)
    jobs = []
    for some in todo.values():
        pieces = shares(len(some), len(todo), recipe.sweep.processes)
        for first in range(pieces):
            part = some[first::pieces]
            about = f"{len(part)} settings on {part[0].site[0]} layer {part[0].site[1]}"
            jobs.append(Job(about, len(part), (folder.path, recipe, part)))
    run_jobs(measure, jobs, recipe.sweep.processes, "sparsity and recall")


def recall_units(folder: RunFolder, recipe: Recipe) -> list[Unit]:
    """All there is to be measured, finished or not. The name of a unit's file has a hash of what it depends on."""
    grid, traces, finders = grid_of(recipe.sweep), Traces.open(folder / "traces/valid"), RunFinders(folder, recipe.seed)
    families: dict[str, list[Setting]] = defaultdict(list)
    for setting in grid.settings:
        families[setting.family.name].append(setting)
    made_of = {name: [finders.key(setting) for setting in settings] for name, settings in families.items()}
    common = [VERSION, traces.hash, grid.windows, grid.globals, recipe.sweep.sequences, recipe.sweep.batch]
    return [
        Unit(
            tuple(settings),
            site,
            folder / "points/recall" / f"{name}-{site_name(site)}-{key_of(common, made_of[name], site)}.parquet",
        )
        for site in traces.sites
        for name, settings in families.items()
    ]


def measure(path: Path, recipe: Recipe, units: Sequence[Unit]) -> None:
    """The job: some units of one layer, batch by batch, and their points written."""
    folder, grid = RunFolder(path), grid_of(recipe.sweep)
    site = units[0].site
    traces, finders = Traces.open(folder / "traces/valid"), RunFinders(folder, recipe.seed)
    failed: dict[str, Exception] = {}
    passes: list[_Pass] = []
    for unit in units:
        try:
            passes.append(_Pass(unit, [finders.at(setting, site) for setting in unit.settings], grid))
        except Exception as error:
            failed[unit.name] = error
    for sample in traces.samples(*site, recipe.sweep.batch, stop=recipe.sweep.sequences):
        gold = GoldPairs(sample, grid.windows, grid.globals)
        for each in [each for each in passes if each.unit.name not in failed]:
            try:
                each.add(sample, gold)
            except Exception as error:
                # The others go on: what one setting cannot do says nothing about them.
                failed[each.unit.name] = error
    for each in passes:
        if each.unit.name not in failed:
            write_points(each.unit.file, _columns(each, grid, recipe.seed), RECALL)
    if failed:
        raise SparsefinderError("; ".join(f"{name}: {error}" for name, error in failed.items()))


class _Pass:
    """A unit under way: its finders and what was counted so far."""

    def __init__(self, unit: Unit, finders: list[Finder], grid: SweepGrid) -> None:
        self.unit, self._finders, self._grid = unit, finders, grid
        self.tallies: list[list[Tally]] = []
        self._blind = all(setting.inputs == "none" for setting in unit.settings)
        self._before: tuple[GoldPairs, list[Masks]] | None = None
        self._costs: list[list[float]] = []

    @property
    def costs(self) -> Float[np.ndarray, " settings"]:
        """What finding costs of all scores, on the average of batches."""
        return np.array(self._costs).mean(0)

    def add(self, sample: Sample, gold: GoldPairs) -> None:
        n, m, d = sample.q.shape[2], sample.k.shape[2], sample.q.shape[3]
        self._costs.append([one.cost(n, m, d) / max(1, n * m * d) for one in self._finders])
        if any(one.about.besides for one in self._finders):
            self.tallies.append([self._besides(one, sample, gold) for one in self._finders])
        else:
            self.tallies.append([tally(masks, gold) for masks in self._masks(sample, gold)])

    def _besides(self, one: Finder, sample: Sample, gold: GoldPairs) -> Tally:
        """Of a finder that chooses besides windows and global tokens: anew for each of them."""

        def counted(window: int, few: int) -> Tally:
            return tally(GraphMasks(united(one, window, few)(sample.q, sample.k, sample.layout)), gold)

        every = [[counted(window, few) for window in self._grid.windows] for few in self._grid.globals]
        picked = {
            name: np.stack([
                np.stack([getattr(each, name)[:, row, column] for column, each in enumerate(several)], 1)
                for row, several in enumerate(every)
            ], 1)
            for name in ("predicted", "hits", "complete", "empty")
        }  # fmt: skip
        return replace(every[0][0], **picked)

    def _masks(self, sample: Sample, gold: GoldPairs) -> list[Masks]:
        if not self._blind:
            return masks_of(self._finders, sample)
        # Whoever looks at no vectors predicts the same again for sequences that are as long.
        if self._before is None or not self._before[0].grid.same_as(gold.grid):
            self._before = gold, masks_of(self._finders, sample)
        return self._before[1]


def _columns(done: _Pass, grid: SweepGrid, seed: int) -> dict[str, Any]:
    """The points of a unit: a row for each setting, number of global tokens, window and head.

    A head that has no gold pair in any sequence has no recall: NaN.
    """
    # Sequences end to end; the settings of a pass one after the other.
    sums = {
        name: np.concatenate(
            [np.concatenate([getattr(part, name) for part in batch]) for batch in done.tallies], -2
        )
        for name in ("predicted", "hits", "complete", "empty")
    }  # fmt: skip
    fixed = {
        name: np.concatenate([getattr(batch[0], name) for batch in done.tallies])
        for name in ("visible", "gold", "queries")
    }
    means = {name: mean(each, -2) for name, each in every_ratio({**sums, **fixed}).items()}
    means["cost"] = done.costs[:, None, None, None]
    counts = {name: sums[name].sum(-2) for name in ("predicted", "hits")}
    counts |= {name: fixed[name].sum(-2) for name in ("visible", "gold")}
    shape = means["recall"].shape
    places = [each.ravel() for each in np.indices(shape, np.int32)]
    settings, sizes = done.unit.settings, np.array(grid.windows, np.int32)
    kind, layer = done.unit.site
    rows = len(places[0])
    return {
        "method": [settings[place].method for place in places[0]],
        "inputs": [settings[place].inputs for place in places[0]],
        "setting": [settings[place].as_json for place in places[0]],
        "window": sizes[places[2]],
        "globals": np.array(grid.globals, np.int32)[places[1]],
        "kind": [kind] * rows,
        "layer": np.full(rows, layer, np.int32),
        "head": places[3],
        "sequences": np.full(rows, len(fixed["gold"]), np.int32),
        **{name: np.broadcast_to(each, shape).ravel() for name, each in {**means, **counts}.items()},
        "seed": np.full(rows, seed, np.int32),
    }
