"""The sweep of sparsity and recall: every setting with every window, on every layer and head, against the gold graphs.

A unit of work is a setting (or all thresholds of one) on a layer, and ends as a file of points. A job is a number of
units of one layer: it reads its queries and keys once, and computes their gold graphs once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from ...core.ratios import every_ratio, mean
from ...errors import SparsefinderError
from ...finders import Finder
from ...finders.fixed import united
from ...finders.reading import of_keys
from ...learning.sample import Sample
from ...traces.store import Site, Traces
from ..engines import Job, run_jobs, shares
from ..folder import RunFolder, key_of
from ..recipe import Recipe
from .grids import grid_of, united_with
from .masks import GraphMasks, Masks, masks_of
from .points import RECALL, SEQUENCES, VERSION, set_aside, write_points
from .run_finders import RunFinders, fetch_keys, made_of, shards_of, site_name
from .settings import Setting
from .tally import GoldPairs, Tally, tally

__all__ = ["Unit", "measure", "recall_units", "sweep_recall"]


@dataclass(frozen=True)
class Unit:
    """Settings that are measured in one pass, on one layer, and the file that their points go to.

    windows, globals: what each of them is united with.
    """

    settings: tuple[Setting, ...]
    site: Site
    windows: tuple[int, ...]
    globals: tuple[int, ...]
    # In the folder of the run, and where the same is sequence by sequence, of all heads together: it is written first.
    file: str
    sequences: str

    @property
    def name(self) -> str:
        return f"{self.settings[0].family.name}, {self.site[0]} layer {self.site[1]}"


def sweep_recall(folder: RunFolder, recipe: Recipe) -> None:
    """Measure sparsity and recall of the whole grid; units that are finished already are left alone."""
    units, traces = recall_units(folder, recipe), Traces.open(folder / "traces/valid")
    set_aside(folder, "recall", [folder / unit.file for unit in units])
    set_aside(folder, "sequences", [folder / unit.sequences for unit in units])
    there = folder.present(name for unit in units for name in (unit.file, unit.sequences))
    todo: dict[Site, list[Unit]] = defaultdict(list)
    for unit in units:
        if not {unit.file, unit.sequences} <= there:
            todo[unit.site].append(unit)
    every = {f"finders/{name}" for unit in units for one in unit.settings for name in made_of(one)}
    jobs, fitted = [], folder.present(every)
    for some in todo.values():
        pieces = shares(len(some), len(todo), recipe)
        for first in range(pieces):
            part = some[first::pieces]
            about = f"{len(part)} settings on {part[0].site[0]} layer {part[0].site[1]}"
            names = {f"finders/{name}" for unit in part for one in unit.settings for name in made_of(one)}
            # What was not fitted is said of the setting that needs it.
            reads = *shards_of(traces, part[0].site, "valid"), "traces/train/index.json", *sorted(fitted & names)
            writes = tuple(name for unit in part for name in (unit.sequences, unit.file))
            jobs.append(Job(about, len(part), (recipe, part), reads, writes))
    finished = len(units) - sum(map(len, todo.values()))
    run_jobs(measure, folder, jobs, recipe, "sweep", "sparsity and recall", "setting", finished)


def recall_units(folder: RunFolder, recipe: Recipe) -> list[Unit]:
    """All there is to be measured, finished or not. The name of a unit's file has a hash of what it depends on."""
    grid = grid_of(recipe.sweep)
    fetch_keys(folder, grid.settings)
    traces, finders = Traces.open(folder / "traces/valid"), RunFinders(folder, recipe.seed)
    families: dict[str, list[Setting]] = defaultdict(list)
    for setting in grid.settings:
        families[setting.family.name].append(setting)
    keys = {name: [finders.key(setting) for setting in settings] for name, settings in families.items()}
    common = [VERSION, traces.hash, recipe.sweep.sequences, recipe.sweep.batch]
    units = []
    for site in traces.sites:
        for name, settings in families.items():
            extra = united_with(settings[0], grid.windows, grid.globals)
            key = key_of(common, extra, keys[name], site)
            file = f"{name}-{site_name(site)}-{key}.parquet"
            units.append(Unit(tuple(settings), site, *extra, f"points/recall/{file}", f"points/sequences/{file}"))
    return units


def measure(folder: RunFolder, recipe: Recipe, units: Sequence[Unit]) -> None:
    """The job: some units of one layer, batch by batch, and their points written."""
    site = units[0].site
    traces, finders = Traces.open(folder / "traces/valid"), RunFinders(folder, recipe.seed)
    failed: dict[str, Exception] = {}
    passes: list[_Pass] = []
    for unit in units:
        try:
            passes.append(_Pass(unit, [finders.at(setting, site) for setting in unit.settings]))
        except Exception as error:
            failed[unit.name] = error
    for sample in traces.samples(*site, recipe.sweep.batch, stop=recipe.sweep.sequences):
        gold = {extra: GoldPairs(sample, *extra) for extra in {(unit.windows, unit.globals) for unit in units}}
        for each in [each for each in passes if each.unit.name not in failed]:
            try:
                each.add(sample, gold[each.unit.windows, each.unit.globals])
            except Exception as error:
                # The others go on: what one setting cannot do says nothing about them.
                failed[each.unit.name] = error
    for each in passes:
        if each.unit.name not in failed:
            _write(folder, each, recipe.seed)
    if failed:
        raise SparsefinderError("; ".join(f"{name}: {error}" for name, error in failed.items()))


class _Pass:
    """A unit under way: its finders and what was counted so far."""

    def __init__(self, unit: Unit, finders: list[Finder]) -> None:
        self.unit, self._finders = unit, finders
        self.tallies: list[list[Tally]] = []
        self._blind = all(setting.inputs == "none" for setting in unit.settings)
        self._before: tuple[GoldPairs, list[Masks]] | None = None
        self._costs: dict[str, list[list[float]]] = {"cost": [], "bytes": []}

    @property
    def costs(self) -> dict[str, Float[np.ndarray, " settings"]]:
        """What finding multiplies and reads, as shares of what all scores do, on the average of batches."""
        return {name: np.array(each).mean(0) for name, each in self._costs.items()}

    def add(self, sample: Sample, gold: GoldPairs) -> None:
        n, m, d = sample.q.shape[2], sample.k.shape[2], sample.q.shape[3]
        self._costs["cost"].append([one.cost(n, m, d) / max(1, n * m * d) for one in self._finders])
        self._costs["bytes"].append([one.reads(n, m, d) / max(1.0, of_keys(m, d)) for one in self._finders])
        if any(one.about.besides for one in self._finders):
            self.tallies.append([self._besides(one, sample, gold) for one in self._finders])
        else:
            self.tallies.append([tally(masks, gold) for masks in self._masks(sample, gold)])

    def _besides(self, one: Finder, sample: Sample, gold: GoldPairs) -> Tally:
        """Of a finder that chooses besides windows and global tokens: anew for each of them."""

        def counted(window: int, few: int) -> Tally:
            return tally(GraphMasks(united(one, window, few)(sample.q, sample.k, sample.layout)), gold)

        every = [[counted(window, few) for window in self.unit.windows] for few in self.unit.globals]
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


def _write(folder: RunFolder, done: _Pass, seed: int) -> None:
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
    ratios = every_ratio({**sums, **fixed})
    means = {name: mean(each, -2) for name, each in ratios.items()}
    means |= {name: each[:, None, None, None] for name, each in done.costs.items()}
    counts = {name: each.sum(-2) for name, each in {**sums, **fixed}.items()}
    shape = means["recall"].shape
    sequences, (kind, layer) = len(fixed["gold"]), done.unit.site
    by_sequence = {f"sequence_{name}": mean(ratios[name], -1).reshape(-1, sequences) for name in ("sparsity", "recall")}
    rows = shape[0] * shape[1] * shape[2]
    write_points(
        folder / done.unit.sequences,
        {
            **_which(done.unit, shape[:3]),
            "kind": [kind] * rows,
            "layer": [layer] * rows,
            "heads": [shape[3]] * rows,
            **{name: list(each.astype(np.float32)) for name, each in by_sequence.items()},
        },
        SEQUENCES,
    )
    rows *= shape[3]
    write_points(
        folder / done.unit.file,
        {
            **_which(done.unit, shape),
            "kind": [kind] * rows,
            "layer": np.full(rows, layer, np.int32),
            "head": np.tile(np.arange(shape[3], dtype=np.int32), rows // shape[3]),
            "sequences": np.full(rows, sequences, np.int32),
            **{name: np.broadcast_to(each, shape).ravel() for name, each in {**means, **counts}.items()},
            "seed": np.full(rows, seed, np.int32),
        },
        RECALL,
    )


def _which(unit: Unit, shape: tuple[int, ...]) -> dict[str, Any]:
    """The columns that say which setting a row is of: settings, global tokens and windows are the first axes."""
    setting, few, window, *_ = (each.ravel() for each in np.indices(shape, np.int32))
    return {
        "method": [unit.settings[place].method for place in setting],
        "inputs": [unit.settings[place].inputs for place in setting],
        "setting": [unit.settings[place].as_json for place in setting],
        "window": np.array(unit.windows, np.int32)[window],
        "globals": np.array(sorted(unit.globals), np.int32)[few],
    }
