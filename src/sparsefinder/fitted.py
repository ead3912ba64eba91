"""Sparsefinder: a fitted finder for every attention layer of a model, learned from traces, saved and loaded.

>>> fitted = Sparsefinder.fit(traces, "kmeans", clusters=16, extra=Window(11) | GlobalTokens(1))
>>> fitted = Sparsefinder.fit(traces, "sketch", recall=0.99)  # each head at the highest sparsity that reaches it
>>> fitted.save_pretrained("runs/demo/finders")
>>> with predicting(model, Sparsefinder.from_pretrained("runs/demo/finders")):
...     model(**inputs)
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from .describing import card, table
from .errors import InputError, check_type
from .extras import tqdm
from .files import folder_at, read_json, reading, whole_file, write_text
from .finders import Finder, Fitting, finder_class
from .finders.state import restored, state_of
from .fitting import (
    Choice,
    Wanted,
    Ways,
    candidates,
    check_budget,
    choose,
    enough_steps,
    fit_finder,
    learn_maps,
    map_settings,
    seeded,
    spent,
)
from .hub import folder_of, push
from .learning.projection import Projection
from .traces.store import Site, Traces

__all__ = ["Sparsefinder", "reached"]

FORMAT = 2
CONFIG, TENSORS = "finders.json", "finders.safetensors"
# A recall counts as missed if it is lower by more than this.
SHORT = 1e-6
# Where finders are in the folder of the model that they belong to.
FOLDER = "finders"
USE = """
from sparsefinder import Sparsefinder, load_model, use_finders
model = load_model("{teacher}")
use_finders(model, Sparsefinder.from_pretrained("{name}"))
model(**inputs)
"""


@dataclass(frozen=True, eq=False)
class Sparsefinder(Mapping[Site, Finder]):
    """A finder for each (kind, layer): a mapping, as `predicting` takes it.

    about: what it was fitted to, and under "sites" what every head reaches on the sequences it was chosen on.
    """

    finders: Mapping[Site, Finder]
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        want = "a mapping from (kind, layer) to a finder: {('encoder', 0): Window(51)}"
        check_type("finders", self.finders, Mapping, f"{want}; from_pretrained(path) reads what was saved")
        for site, finder in self.finders.items():
            if not (isinstance(site, tuple) and [type(each) for each in site] == [str, int]):
                raise InputError("finders", f"the key {site!r}", want)
            check_type(f"finders of {site}", finder, Finder, want)

    def __getitem__(self, site: Any) -> Finder:
        return self.finders[site]

    def __iter__(self) -> Iterator[Site]:
        return iter(self.finders)

    def __len__(self) -> int:
        return len(self.finders)

    def __repr__(self) -> str:
        method = self.about.get("method")
        head = f"Sparsefinder: {len(self)} layers" + (f" of {method}" if method else "")
        return "\n".join([head, *([table(self.finders, self.about)] if self.finders else [])])

    @classmethod
    def fit(
        cls,
        traces: Traces,
        method: str,
        *,
        recall: float | None = None,
        sparsity: float | None = None,
        budget: float | None = None,
        cost: float | None = None,
        held_out: float = 0.2,
        extra: Finder | None = None,
        inputs: str | None = None,
        projections: Mapping[Site, Projection] | None = None,
        how: Fitting = Fitting(),
        batch: int = 16,
        progress: bool = True,
        **settings: Any,
    ) -> Sparsefinder:
        """Fit a method to every layer of the traces.

        method, settings: its name (`sparsefinder methods` lists them) and its parameters, such as clusters=16.
        recall: for each head, the highest sparsity that reaches this recall on held-out sequences. A method with a dial
        (a distance, a number of probes) gets the setting that just reaches it, on 1,024 queries of each sequence if it
        has more (`finders/dials.py`); others are tried with all settings that are given as lists, or with a grid of
        their own. Where nothing reaches it, a warning says so, and what comes closest is taken.
        sparsity: likewise, for each head the highest recall at this sparsity.
        budget: or the share of all pairs that all heads together may look at: 0.02 skips 98 %. Each head of each layer
        gets as many as are worth it by the weight that they find, which costs a model least. The method has a dial.
        cost: beside a budget, with settings as lists (r=[4, 8, 16]): the share of the multiplications of all scores
        that finding may take, on the mean over heads. Each head gets the setting that is worth it.
        held_out: the share of sequences to choose on.
        extra: united with every layer's finder: Window(11) | GlobalTokens(1), say.
        inputs: "projected" by learned maps, "pca" or "raw"; what the method is made for if None.
        projections: learned maps, where they are there already.
        how: the seed, and how maps and centroids are learned.
        batch: sequences to a step of learning, at the most: fewer where steps would be too few (`enough_steps`).
        progress: a bar over the layers, and one over the steps of learning with the loss.
        """
        wanted = None if recall is None and sparsity is None and budget is None else Wanted(recall, sparsity, budget)
        check_type("traces", traces, Traces, "traces: Traces.open(path), or record_traces(model, inputs, path)")
        check_type("method", method, str, "the name of a method, with its settings beside it: 'kmeans', clusters=16")
        check_type("how", how, Fitting, "Fitting(seed=..., ...)")
        if extra is not None:
            check_type("extra", extra, Finder, "a finder, such as Window(11) | GlobalTokens(1)")
        if not (isinstance(held_out, float) and 0 < held_out < 1):
            raise InputError("held_out", repr(held_out), "a share of the sequences between 0 and 1")
        if projections is not None:
            check_type("projections", projections, Mapping, "a mapping from (kind, layer) to a Projection")
        for place in traces.sites:
            if projections is not None and place not in projections:
                raise InputError("projections", f"none for {place}", "one for every kind and layer of the traces")
        about = finder_class(method).about
        inputs = about.inputs[0] if inputs is None else inputs
        if inputs not in about.inputs:
            raise InputError("inputs", repr(inputs), f"what {method} takes: {', '.join(about.inputs)}")
        # Bad settings are said before anything is learned.
        options = list(candidates(method, settings, wanted))
        if wanted is None and len(options) > 1:
            raise InputError(f"settings of {method}", "lists", "single values, or a recall or sparsity to choose by")
        if budget is not None:
            check_budget(method, options, settings, cost)
        elif cost is not None:
            raise InputError("cost", cost, "a budget beside it")
        chosen: dict[Site, Choice] = {}
        most = math.inf if cost is None else cost
        ways: dict[Site, Ways] = {}
        site: Site
        for site in tqdm(traces.sites, desc=method, unit="layer", disable=not progress, leave=False):
            every = len(traces.samples(*site, batch=1))
            stop = every if wanted is None else max(1, min(every - 1, round(every * (1 - held_out))))
            samples = traces.samples(*site, batch, stop=stop, seed=how.seed)
            learned: dict[str, Projection | None] = {}
            fitted = []
            for one in options:
                key = repr(map_settings(one))
                if key not in learned:
                    given = projections[site] if projections is not None and inputs == "projected" else None
                    learned[key] = given or _learned(inputs, one, traces, site, stop, batch, how, progress)
                own = one if "seed" in settings else seeded(one, how.seed)
                fitted.append(fit_finder(own, samples, how, learned[key]).at(traces.place(*site)))
            found = Choice(fitted[0])
            held = traces.samples(*site, batch=4, start=stop)
            if budget is not None:
                ways[site] = Ways.of(fitted, held, extra, most)
            elif wanted is not None:
                turn = not any(dial.field in settings for dial in about.dials)
                found = choose(fitted, held, wanted, extra, turn=turn)
            chosen[site] = found
        if budget is not None:
            chosen = spent(ways, budget, most)
        finders = {site: each.finder if extra is None else each.finder | extra for site, each in chosen.items()}
        sites = [reached(site, each) for site, each in chosen.items()] if wanted is not None else []
        _say_missed(method, recall, sites)
        said = {"method": method, "inputs": inputs, "settings": settings, **(wanted.as_settings if wanted else {})}
        said |= {} if cost is None else {"cost": cost}
        return cls(finders, {**said, "teacher": traces.teacher, "traces": traces.hash, "sites": sites})

    def save_pretrained(self, path: str | Path) -> None:
        """Write the finders to a folder: their settings as JSON, their tensors as safetensors."""
        folder, tensors = folder_at(path), dict[str, Tensor]()
        sites = [
            {"kind": kind, "layer": layer, "finder": state_of(finder, f"{kind}.{layer}", tensors)}
            for (kind, layer), finder in self.items()
        ]
        # The settings last: a folder that has them has everything.
        with whole_file(folder / TENSORS) as file:
            save_file({name: each.detach().cpu().contiguous() for name, each in tensors.items()}, file)
        write_text(folder / CONFIG, json.dumps({"format": FORMAT, "about": self.about, "sites": sites}, indent=1))

    @classmethod
    def from_pretrained(cls, path: str | Path, **options: Any) -> Sparsefinder:
        """Read what `save_pretrained` wrote, or `push_to_hub`, or `save_model` beside a model.

        path: a folder, or the name of a repository on the hub.
        options: for the hub: `revision`, `token`, `cache_dir` and what else `snapshot_download` takes.
        """
        want = f"a folder that save_pretrained wrote, with its {CONFIG}, or the name of a repository on the hub"
        check_type("path", path, (str, Path), want)
        folder = folder_of(path, [CONFIG, TENSORS, f"{FOLDER}/*"], want, **options)
        if not (folder / CONFIG).is_file() and (folder / FOLDER / CONFIG).is_file():
            folder = folder / FOLDER
        if not (folder / CONFIG).is_file():
            raise InputError("path", path, want)
        config = read_json(folder / CONFIG)
        if config.get("format") != FORMAT:
            got = f"{path} of format {config.get('format')}"
            raise InputError("path", got, f"finders of format {FORMAT}: fit them again")
        if not (folder / TENSORS).is_file():
            raise InputError("path", f"{path} without {TENSORS}", want)
        with reading(folder / TENSORS):
            tensors = load_file(folder / TENSORS)
        with reading(folder / CONFIG):
            finders = {(site["kind"], site["layer"]): restored(site["finder"], tensors) for site in config["sites"]}
            return cls(finders, config.get("about", {}))

    def push_to_hub(self, name: str, *, teacher: str | None = None, text: str | None = None, **options: Any) -> str:
        """Push the finders to a repository on the hub, with a card; returns the address of the commit.

        >>> fitted.push_to_hub("me/bert-finders", teacher="me/bert-entmax", text="WikiText-103")

        teacher, text: the model and the text that they were fitted to, for the card: the name that others load it by.
        options: `private`, `token`, `branch`, `create_pr`, `commit_message` and what else the hub's own takes.
        """
        known = {"teacher": teacher, "text": text}
        about = {**self.about, **{key: value for key, value in known.items() if value is not None}}
        use = USE.format(teacher=teacher or "the teacher", name=name)
        return push(name, replace(self, about=about).save_pretrained, card(self, about, use), **options)


def reached(site: Site, found: Choice) -> dict[str, Any]:
    """What is said of a layer whose settings were chosen."""
    return {"kind": site[0], "layer": site[1], "recall": found.recall, "sparsity": found.sparsity}


def _learned(
    inputs: str, one: Finder, traces: Traces, site: Site, stop: int, batch: int, how: Fitting, progress: bool
) -> Projection | None:
    """The maps of a layer, with a bar over the steps of learning."""
    size, how = enough_steps(stop, batch, how)
    samples = traces.samples(*site, size, stop=stop, seed=how.seed)
    with ExitStack() as stack:
        if inputs != "projected":
            return learn_maps(inputs, one, samples, how)
        name = f"{site[0]} layer {site[1]}"
        bar = tqdm(total=len(samples) * how.epochs, desc=name, disable=not progress, leave=False)
        stack.enter_context(bar)

        def show(step: int, loss: float) -> None:
            bar.update()
            bar.set_postfix(loss=f"{loss:.3f}")

        return learn_maps(inputs, one, samples, how, show)


def _say_missed(method: str, recall: float | None, sites: list[dict[str, Any]]) -> None:
    """A warning that names the layers in which a head did not reach the wanted recall with any setting."""
    missed = {
        f"{site['kind']} layer {site['layer']}": min(each for each in site["recall"] if each < recall - SHORT)
        for site in sites
        if recall is not None and any(each < recall - SHORT for each in site["recall"])
    }
    if missed:
        where = ", ".join(f"{name} (down to {reached:.3f})" for name, reached in missed.items())
        warnings.warn(f"{method}: no setting has a recall of {recall} in every head of {where}", stacklevel=3)
