"""The finders of a run: for a setting and a layer, made of what the fit stage left in its folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

from ...errors import InputError
from ...finders import Finder
from ...fitted import Sparsefinder
from ...fitting import seeded
from ...learning.projection import Projection
from ...traces.store import Site, Traces
from ..folder import RunFolder, key_of
from .settings import WANTED, Setting

__all__ = ["KEY", "RunFinders", "fetch_keys", "finders_of", "key_in", "made_of", "shards_of", "site_name"]

# The file that says what a folder was made from.
KEY = "key"


class RunFinders:
    """The finders of a run: for a setting and a layer, made of what was fitted."""

    def __init__(self, folder: RunFolder, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self._projections: dict[tuple[str, Site], Projection] = {}

    def of(self, setting: Setting) -> dict[Site, Finder]:
        """The finder of every layer."""
        return {site: self.at(setting, site) for site in self.traces.sites}

    def at(self, setting: Setting, site: Site) -> Finder:
        """The finder of one layer."""
        if setting.wanted is not None:
            return self._saved(setting.name, setting, site)
        return self.before_turning(setting, site)

    def before_turning(self, setting: Setting, site: Site) -> Finder:
        """The same with its dial as the setting has it, also where it should be set for a recall."""
        one = setting.finder if setting.fitted is None else self._saved(setting.fitted.name, setting, site)
        names = {each.name for each in fields(one)}
        changed: dict[str, Any] = {name: value for name, value in setting.parameters if name in names - set(WANTED)}
        dials = [dial.field for dial in one.about.dials]
        if any(name in changed for name in dials):
            # Of several dials one is set: not the one that it was fitted with, if it is another.
            changed = {**dict.fromkeys(name for name in dials if name not in changed), **changed}
        # The same maps for all settings of a layer: what they give can then be shared.
        projection = self.projection(setting, site)
        if projection is not None:
            changed["projection"] = projection
        return seeded(replace(one, **changed), self.seed).at(self.traces.place(*site))

    def projection(self, setting: Setting, site: Site) -> Projection | None:
        """The maps of a layer that a setting compares in; None if it has none or makes its own."""
        name = setting.maps
        if name is None:
            return None
        if (name, site) not in self._projections:
            file = self.folder / "finders" / name / f"{site_name(site)}.safetensors"
            if not file.is_file():
                raise InputError("setting", f"{setting.name}, whose maps are missing", "`sparsefinder fit` before it")
            self._projections[name, site] = Projection.load(file)
        return self._projections[name, site]

    def key(self, setting: Setting) -> str:
        """A hash of all that its finders are made of."""
        keys = [key_in(self.folder, name) for name in made_of(setting)]
        return key_of(setting.name, setting.as_json, self.seed, keys)

    @cached_property
    def traces(self) -> Traces:
        return Traces.open(self.folder / "traces/train")

    def _saved(self, name: str, setting: Setting, site: Site) -> Finder:
        path = self.folder / "finders" / name
        if not path.is_dir():
            raise InputError("setting", f"{name}, which was not fitted", "`sparsefinder fit` before it is used")
        found = Sparsefinder.from_pretrained(path)[site]
        projection = self.projection(setting, site)
        return found if projection is None else replace(found, projection=projection)  # type: ignore[call-arg]


def made_of(setting: Setting) -> list[str]:
    """The folders of the fit stage that a setting's finders are made of."""
    names = [setting.name] if setting.wanted is not None else []
    names += [setting.fitted.name] if setting.fitted is not None else []
    return names + ([setting.maps] if setting.maps is not None else [])


def fetch_keys(folder: RunFolder, settings: Iterable[Setting]) -> None:
    """Have here what keys are made of: those of the finders and of the traces."""
    names = {f"finders/{name}" for setting in settings for name in made_of(setting)}
    folder.fetch(*(f"{name}/{KEY}" for name in sorted(folder.present(names))))
    folder.fetch(*(f"traces/{part}/index.json" for part in ("train", "valid")))


def finders_of(setting: Setting, folder: RunFolder, seed: int = 0) -> dict[Site, Finder]:
    """The finder of every layer for a setting, as `predicting` takes them."""
    return RunFinders(folder, seed).of(setting)


def key_in(folder: RunFolder, name: str) -> str | None:
    """What a folder of finders or maps was made from; None if it is not there."""
    file = folder / "finders" / name / KEY
    return file.read_text(encoding="utf-8") if file.is_file() else None


def site_name(site: Site) -> str:
    return f"{site[0]}-{site[1]}"


def shards_of(traces: Traces, site: Site, part: str) -> tuple[str, ...]:
    """The files that hold a layer's queries and keys, as jobs read them."""
    return tuple(f"traces/{part}/{name}" for name in ("index.json", *traces.files(*site)))
