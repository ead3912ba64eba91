"""The finders of a run: for a setting and a layer, made of what the fit stage left in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from inspect import signature
from typing import Any

from ...errors import InputError
from ...finders import Finder, Heads, Window
from ...finders.base import finder, finder_class
from ...fitted import Sparsefinder, split_settings
from ...learning.projection import Projection
from ...traces.store import Site, Traces
from ..folder import RunFolder, key_of
from .settings import Setting

__all__ = ["KEY", "Finders", "finders_of", "key_in", "map_name", "site_name"]

# The file that says what a folder was made from.
KEY = "key"


class Finders:
    """The finders of a run: for a setting and a layer, made of what was fitted."""

    def __init__(self, folder: RunFolder, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self._projections: dict[tuple[str, Site], Projection] = {}

    def of(self, setting: Setting) -> dict[Site, Finder]:
        """The finder of every layer."""
        return {site: self.at(setting, site) for site in self.sites}

    def at(self, setting: Setting, site: Site) -> Finder:
        """The finder of one layer."""
        if setting.method == "window":
            # Windows of all sizes are what a sweep adds to every setting.
            return Window(0)
        if setting.fitted is None:
            return self._made(setting, site)
        path = self.folder / "finders" / setting.fitted.name
        if not path.is_dir():
            raise InputError("setting", f"{setting.name}, which was not fitted", "`sparsefinder fit` before it is used")
        fitted = Sparsefinder.from_pretrained(path)[site]
        projection = self.projection(setting, site)
        # The same maps for all settings of a layer: what they give can then be shared.
        own: dict[str, Any] = {} if projection is None else {"projection": projection}
        return replace(fitted, **own, **split_settings(setting.method, setting.values)[1])

    def projection(self, setting: Setting, site: Site) -> Projection | None:
        """The maps of a layer that a setting compares in; None if it has none or makes its own."""
        name = map_name(setting)
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
        learned = setting.fitted.name if setting.fitted is not None else map_name(setting)
        return key_of(setting.name, setting.as_json, self.seed, learned and key_in(self.folder, learned))

    @cached_property
    def traces(self) -> Traces:
        return Traces.open(self.folder / "traces/train")

    @cached_property
    def sites(self) -> dict[Site, Mapping[str, Any]]:
        """The layers, and what their traces say of each: its heads, scale and α."""
        return {(each["kind"], each["layer"]): each for each in self.traces.index["sites"]}

    def _made(self, setting: Setting, site: Site) -> Finder:
        values, kind = setting.values, signature(finder_class(setting.method)).parameters
        if "seed" in kind:
            values["seed"] = self.seed
        if setting.method == "reformer" and site[0] == "cross":
            # Queries and keys of different tokens cannot be hashed together.
            values.setdefault("shared", False)
        if setting.inputs in ("projected", "pca"):
            values["projection"] = self.projection(setting, site)
        if "alpha" not in kind:
            return finder(setting.method, **values)
        about = self.sites[site]
        values["scale"] = about["scale"]
        if not isinstance(about["alpha"], list):
            return finder(setting.method, alpha=about["alpha"], **values)
        by_head = tuple(finder(setting.method, alpha=alpha, **values) for alpha in about["alpha"])
        return Heads(by_head, tuple(range(len(by_head))))


def finders_of(setting: Setting, folder: RunFolder, seed: int = 0) -> dict[Site, Finder]:
    """The finder of every layer for a setting, as `predicting` takes them."""
    return Finders(folder, seed).of(setting)


def map_name(setting: Setting) -> str | None:
    """The folder of the maps that a setting compares in. Blocks are compared by maps that were learned for them."""
    if setting.inputs == "pca":
        return "pca"
    if setting.inputs != "projected":
        return None
    block = setting.values.get("block", 1)
    return "projection" if block == 1 else f"projection-block={block}"


def key_in(folder: RunFolder, name: str) -> str | None:
    file = folder / "finders" / name / KEY
    return file.read_text(encoding="utf-8") if file.is_file() else None


def site_name(site: Site) -> str:
    return f"{site[0]}-{site[1]}"
