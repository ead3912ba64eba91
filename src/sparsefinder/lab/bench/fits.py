"""Finders of one length: fitted to its traces for the wanted recall, once, and kept beside the run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ...files import whole_file
from ...finders import Finder, Fitting, finder_class
from ...finders.base import roles
from ...fitted import CONFIG, Sparsefinder
from ...fitting import enough_steps, learn_maps, map_settings
from ...learning.projection import Projection
from ...traces.store import Site, Traces
from ..folder import key_of
from ..sweep.run_finders import site_name
from ..sweep.settings import Setting
from .entries import Entry

__all__ = ["Fits"]

# Changes when what is fitted changes for reasons that no option shows.
VERSION = 4
# The share of sequences that settings are chosen on, as in `Sparsefinder.fit`, and how many tokens that is at the most:
# looking at every setting of a grid takes long. Maps are not learned from these.
HELD_OUT, MOST_HELD = 0.2, 4096
# Sequences to a step of learning a map.
BATCH = 16


class Fits:
    """The finders that are timed at one length.

    folder: where they are kept, within that of the run. made_of: a hash of what the traces are of.
    mapped: the traces that maps are learned from, the same for all lengths.
    """

    def __init__(self, folder: Path, made_of: str, traces: Traces, mapped: Traces, recall: float, how: Fitting) -> None:
        self.folder, self.traces, self.mapped, self.recall, self.how = folder, traces, mapped, recall, how
        self._made_of = [VERSION, made_of, asdict(how)]

    def of(self, entry: Entry) -> Mapping[Site, Finder]:
        """The finder of every layer, with its settings."""
        found = self._fitted(entry)
        if entry.wanted(self.recall) is not None:
            return found
        turn = [value for name, value in entry.parameters if name in _dials(entry)]
        return {site: one.turned(turn[0]) for site, one in found.items()} if turn else found

    def has(self, entry: Entry) -> bool:
        """Whether it was fitted before."""
        return (self._path(entry) / CONFIG).is_file()

    def _path(self, entry: Entry) -> Path:
        """Where its finders are kept. What differs in the dial alone is fitted once."""
        shared = entry
        if entry.wanted(self.recall) is None:
            own = tuple(each for each in entry.parameters if each[0] not in _dials(entry))
            shared = Entry(entry.method, own)
        key = key_of(self._made_of, shared.method, shared.as_json, self._chosen(entry))
        return self.folder / "finders" / f"{shared.name}-{key}"

    def _chosen(self, entry: Entry) -> dict[str, float]:
        """What its settings are chosen for, and on how much; nothing where it says all of them."""
        wanted = entry.wanted(self.recall)
        return {} if wanted is None else {"held_out": self._held_out, **wanted.as_settings}

    @property
    def _held_out(self) -> float:
        first = next(iter(self.traces.samples(*self.traces.sites[0], batch=1)))
        most = max(1, MOST_HELD // first.q.shape[2])
        return min(HELD_OUT, most / len(self.traces.samples(*self.traces.sites[0], batch=1)))

    def _fitted(self, entry: Entry) -> Sparsefinder:
        path = self._path(entry)
        if self.has(entry):
            return Sparsefinder.from_pretrained(path)
        with warnings.catch_warnings():
            # That a recall is not reached is seen in what is measured.
            warnings.filterwarnings("ignore", message=".*no setting has a recall of")
            maps = self._maps(entry) if entry.inputs == "projected" else None
            found = Sparsefinder.fit(
                self.traces, entry.method, how=self.how, inputs=entry.inputs, projections=maps, progress=False,
                **self._chosen(entry), **entry.settings,  # type: ignore[arg-type]
            )  # fmt: skip
        found.save_pretrained(path)
        return found

    def _maps(self, entry: Entry) -> dict[Site, Projection] | None:
        """The maps that a method compares in, which other methods and lengths share; None where it wants several."""
        options = entry.options(self.recall)
        one, learned_for = options[0], map_settings(options[0])
        if any(map_settings(other) != learned_for for other in options):
            return None
        key = key_of(VERSION, self.mapped.hash, asdict(self.how), learned_for)
        found = {}
        for site in self.mapped.sites:
            # Those of the run's fit stage, if it had to learn them.
            file = self.folder.parent / "finders" / _maps_name(one) / f"{site_name(site)}.safetensors"
            if not file.is_file():
                file = self.folder / "maps" / f"{site_name(site)}-{key}.safetensors"
            if not file.is_file():
                with whole_file(file) as path:
                    self._learned(one, site).save(path)
            found[site] = Projection.load(file)
        return found

    def _learned(self, one: Finder, site: Site) -> Projection:
        every = len(self.mapped.samples(*site, batch=1))
        stop = max(1, min(every - 1, round(every * (1 - HELD_OUT))))
        batch, enough = enough_steps(stop, BATCH, self.how)
        samples = self.mapped.samples(*site, batch=batch, stop=stop, seed=self.how.seed)
        learned = learn_maps("projected", one, samples, enough)
        assert learned is not None
        return learned


def _dials(entry: Entry) -> set[str]:
    return {dial.field for dial in finder_class(entry.method).about.dials}


def _maps_name(one: Finder) -> str:
    """What the fit stage of a run calls the maps that a finder compares in."""
    said = {name: getattr(one, name) for name, role in roles(type(one)) if role in ("use", "fit", "maps")}
    given = tuple((name, value) for name, value in sorted(said.items()) if value is not None)
    return str(Setting(one.about.name, "projected", given).maps)
