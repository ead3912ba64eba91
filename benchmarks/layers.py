"""Which layers break first: a method in one layer at a time, and in all of them, on the teacher of a run.

    python benchmarks/layers.py runs/mlm-minilm-wikitext2 block-topk:block=16:k=2,bigbird:random_blocks=22:block=16
    python benchmarks/layers.py runs/mt-multi30k-ende sketch:recall=0.95 --window 0 --globals 0

Methods are said as `sparsefinder bench` takes them, fitted to the run's training traces and united with a window and
global tokens. Sparsity, recall and the weight that is kept (the share of the teacher's attention that falls on
predicted pairs: what a missed pair costs is what it weighs) are of the validation traces, as the mean over heads and
that of the head that keeps least. The score is the model's with that layer predicted and all others whole.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

sys.path[0] = str(Path(__file__).resolve().parents[1])

from sparsefinder import Finder, Fitting, Full, Sparsefinder, predicting
from sparsefinder.attending.gold import mass_missed
from sparsefinder.finders.fixed import united
from sparsefinder.lab.bench.entries import Entry, entries_of
from sparsefinder.lab.bench.subject import of_run
from sparsefinder.lab.folder import check_folder
from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.sweep.settings import WANTED
from sparsefinder.lab.teacher import Teacher
from sparsefinder.traces.store import Site, Traces


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the folder of a run that has been traced")
    parser.add_argument("methods", help="with their settings: sketch:recall=0.95,kmeans:clusters=16:top_k=1")
    parser.add_argument("--window", type=int, default=3, help="united with every method (3)")
    parser.add_argument("--globals", type=int, default=1, help="tokens that see and are seen by all (1)")
    parser.add_argument("--sequences", type=int, default=8, help="that the model is scored on (8)")
    parser.add_argument("--together", action="store_true", help="only all layers at once, not each by itself")
    parser.add_argument(
        "--heads", action="store_true", help="the weight that each head keeps, and of how many pairs, too"
    )
    arguments = parser.parse_args()
    subject = of_run(arguments.run)
    assert subject.own is not None
    _, train, valid = subject.own
    folder = check_folder(arguments.run)
    recipe = load_recipe(folder / "recipe.yaml")
    teacher = Teacher(folder, recipe)

    def score(used: Mapping[Site, Finder]) -> float:
        # What looks ahead can only be scored from whole prefixes.
        whole = any(site[0] != "encoder" and not one.causal_safe for site, one in used.items())
        with torch.no_grad(), predicting(teacher.model, used, kinds=sorted({kind for kind, _ in train.sites})):
            found = teacher.task.evaluate(teacher.model, folder / "teacher", arguments.sequences, whole_prefix=whole)
        return found.value

    full = score({site: Full() for site in train.sites})
    print(f"{teacher.task.metric} of the full model {full:.2f}, {arguments.sequences} sequences\n")
    print(f"| method | layer | sparsity | recall | weight kept | least of a head | {teacher.task.metric} | change |")
    print("|---" * 8 + "|")
    for entry in entries_of(arguments.methods):
        fitted = _fitted(entry, train, subject.how)
        finders = {site: united(each, arguments.window, arguments.globals) for site, each in fitted.items()}
        kept = {site: _kept(valid, site, finder) for site, finder in finders.items()}
        for site, found in () if arguments.together else kept.items():
            # All other layers whole: what is predicted elsewhere would be lost twice.
            alone = score({other: finders[site] if other == site else Full() for other in finders})
            _print(entry, f"{site[0]} {site[1]}", found, alone, full)
            if arguments.heads:
                said = (f"{weight:.3f} of {1 - sparse:.2%}" for sparse, _, weight in found.tolist())
                print("heads:", ", ".join(said))
        _print(entry, "all", torch.cat(list(kept.values())), score(finders), full)


def _fitted(entry: Entry, train: Traces, how: Fitting) -> Sparsefinder:
    wanted = dict(entry.parameters)
    asked = {name: wanted[name] for name in WANTED if name in wanted}
    with warnings.catch_warnings():
        # That a recall is not reached is seen in what is measured.
        warnings.filterwarnings("ignore", message=".*no setting has a recall of")
        return Sparsefinder.fit(
            train, entry.method, inputs=entry.inputs, how=how, progress=False, **asked, **entry.settings
        )


def _kept(valid: Traces, site: Site, finder: Finder) -> Tensor:
    """Of every head: sparsity, recall and weight kept, means over sequences."""
    found = []
    for sample in valid.samples(*site, batch=1):
        graph = finder.at(valid.place(*site))(sample.q, sample.k, sample.layout)
        gold = sample.gold.dense()
        recall = (graph.dense() & gold).sum((-1, -2)) / gold.sum((-1, -2))
        missed = mass_missed(graph, sample.q, sample.k, sample.alpha, sample.scale)
        found.append(torch.stack([graph.sparsity(), recall, (1 - missed).float()], -1))
    return torch.cat(found).nanmean(0)


def _print(entry: Entry, layer: str, found: Tensor, value: float, full: float) -> None:
    sparsity, recall, weight = found.nanmean(0).tolist()
    print(
        f"| {entry.label} | {layer} | {sparsity:.3f} | {recall:.3f} | {weight:.3f} | {found[:, 2].min():.3f} |"
        f" {value:.2f} | {value / full - 1:+.1%} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
