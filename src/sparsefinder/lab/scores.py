"""What predicting attention costs the model: every setting that was run inside it, in every fit to the same teacher.

Runs whose full model has the same score on the same number of sequences are fits to one teacher, with other seeds say,
and share a table: means of what was skipped and found, and how the score changed in each of them.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from rich.console import Console

from ..core.pareto import frontier
from ..errors import InputError
from ..finders import methods
from .folder import RunFolder
from .sweep.bootstrap import Interval, interval
from .sweep.measured import Key, Measured, measured_scores
from .sweep.measured_setting import MeasuredSetting, method_label
from .sweep.settings import FULL
from .sweep.summary import point_row
from .tables import fitting, for_terminal

__all__ = ["Cost", "Teacher", "as_csv", "as_markdown", "print_scores", "teachers"]

FAR, FAR_OF_FULL, MISSED = "far_perplexity", "far perplexity", "mass_missed"
LEGEND = (
    "skips: pairs not computed; finds, misses: gold pairs that are predicted, and weight that is not; "
    "in [ ]: where the change lies in 95 of 100 draws of the sequences",
    "*: no other setting of any method skips more and costs less",
)
SEVERAL = "a change for each fit, [ ] of the one that did worst; all else are means over them"


@dataclass(frozen=True)
class Cost:
    """A setting inside the model: means over the fits, and how the score changed in each of them.

    changes: perplexity as a share of the full model's, BLEU in points. within: of the fit that did worst; None where
    nothing can be drawn. far: changes of perplexity over far words, where that was measured.
    best: whether no other setting of a method that competes skips more and costs less, by the mean change.
    """

    setting: MeasuredSetting
    skipped: float
    found: float
    missed: float
    changes: tuple[float, ...]
    within: Interval | None
    far: tuple[float, ...]
    best: bool = False

    @property
    def key(self) -> Key:
        return self.setting.method, self.setting.inputs

    @property
    def label(self) -> str:
        return method_label(self.setting.method, self.setting.inputs)


@dataclass(frozen=True)
class Teacher:
    """The fits to a teacher by name, what was measured in each, and what its settings cost.

    globals: how many tokens are seen always, where that is the same in all settings; 0 where it is not.
    """

    fits: dict[str, Measured]
    costs: tuple[Cost, ...]
    globals: int

    @property
    def name(self) -> str:
        return next(iter(self.fits))

    @property
    def full(self) -> Measured:
        """Where its own score and sparsity are, which are those of every fit."""
        return self.fits[self.name]

    @property
    def relative(self) -> bool:
        return self.full.relative


def teachers(folders: Sequence[RunFolder], only: Collection[str] = ()) -> list[Teacher]:
    """The teachers of some runs in the order of these, with all settings that every fit has, or those of `only`."""
    found: dict[tuple[str, str, int], dict[str, Measured]] = {}
    for folder in folders:
        measured = measured_scores(folder)
        if measured is None or len(measured.settings) < 2:
            want = "a run that scored the model with predicted attention: its recipe has `accuracy`"
            raise InputError("RUN", folder.path, want)
        fits = found.setdefault((measured.measure, f"{measured.full:.6g}", measured.sequences), {})
        name = folder.path.resolve().name
        if name in fits:
            raise InputError("RUN", f"{name} twice", "runs of different names")
        fits[name] = measured
    known = {one.method for fits in found.values() for each in fits.values() for one in each.settings}
    for name in only:
        if name not in known - {FULL.method}:
            raise InputError("--only", name, f"some of {', '.join(sorted(known - {FULL.method}))}, with commas between")
    return [_teacher(fits, only) for fits in found.values()]


def _teacher(fits: dict[str, Measured], only: Collection[str]) -> Teacher:
    costs = _costs(fits, only)
    tokens = {one.setting.globals for one in costs}
    return Teacher(fits, tuple(costs), tokens.pop() if len(tokens) == 1 else 0)


def _costs(fits: dict[str, Measured], only: Collection[str]) -> list[Cost]:
    """What every setting costs that all fits have: the best methods first, each from the densest to the sparsest."""
    first, *others = fits.values()
    shared = set(first.settings).intersection(*(one.settings for one in others))
    costs = [
        _cost(setting, list(fits.values()))
        for setting in first.settings
        if setting in shared and setting.method != FULL.method and (not only or setting.method in only)
    ]
    competing = [place for place, one in enumerate(costs) if _competes(one.setting.method)]
    points = [
        (costs[place].skipped, float(first.upwards(np.array(fmean(costs[place].changes))))) for place in competing
    ]
    best = {competing[place] for place in frontier(np.array(points).reshape(-1, 2)).tolist()}
    marked = [replace(one, best=place in best) for place, one in enumerate(costs)]
    volumes = {key: first.volume(key) for key in first.methods}
    return sorted(marked, key=lambda one: (-volumes[one.key], one.key, one.skipped))


def _cost(setting: MeasuredSetting, fits: Sequence[Measured]) -> Cost:
    places = [list(one.settings).index(setting) for one in fits]
    each = list(zip(fits, places, strict=True))

    def mean(name: str) -> float:
        return float(np.mean([one.columns[name][place] if name in one.columns else math.nan for one, place in each]))

    changes = tuple(float(one.change(one.value[place], one.full)) for one, place in each)
    harm = [-one.upwards(np.array(change)) for one, change in zip(fits, changes, strict=True)]
    worst, there = each[int(np.argmax(harm))]
    draws = worst.draws
    within = None if draws is None else interval(worst.change(draws.value[:, there], draws.full))
    far = tuple(
        float(one.columns[FAR][place] / one.details[FAR_OF_FULL] - 1)
        for one, place in each
        if FAR in one.columns and FAR_OF_FULL in one.details
    )
    return Cost(setting, mean("sparsity"), mean("recall"), mean(MISSED), changes, within, far)


def _competes(method: str) -> bool:
    kind = methods().get(method)
    return kind is None or kind.about.family != "reference"


def as_csv(found: Sequence[Teacher]) -> str:
    """Every setting in every run, full attention among them: the columns of points.csv after the name of the run."""
    rows = [
        {"run": name, **point_row(measured, place)}
        for teacher in found
        for name, measured in teacher.fits.items()
        for place, setting in enumerate(measured.settings)
        if setting.method == FULL.method or setting in {one.setting for one in teacher.costs}
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_markdown(found: Sequence[Teacher]) -> str:
    """A table for each teacher, for a page of Markdown; the best settings in bold."""
    return "\n".join(_markdown(teacher) for teacher in found)


def _markdown(teacher: Teacher) -> str:
    columns = _columns(teacher)
    lines = [[_own(teacher), *(name.replace("\n", " ") for name, _ in columns)], ["---"] * (len(columns) + 1)]
    for place, one in enumerate(teacher.costs):
        words = [one.label, one.setting.own_words(), *one.setting.extra_words(without=teacher.globals)]
        cells = [", ".join(filter(None, words)), *(cells[place] for _, cells in columns)]
        lines.append([f"**{cell}**" if one.best and number < 2 else cell for number, cell in enumerate(cells)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def print_scores(found: Sequence[Teacher]) -> None:
    """The settings of each teacher as a table that fits the terminal."""
    console = for_terminal()
    for teacher in found:
        console.print(_own(teacher), style="bold")
        if len(teacher.fits) > 1:
            console.print(f"fits: {', '.join(teacher.fits)}")
        labels, columns = _grouped(teacher, _columns(teacher))
        for table in fitting("setting", labels, columns, console):
            console.print(table)
    _print_legend(console, several=any(len(teacher.fits) > 1 for teacher in found))


def _print_legend(console: Console, several: bool) -> None:
    for line in (*LEGEND, *([SEVERAL] if several else [])):
        console.print(line, style="dim")


def _grouped(teacher: Teacher, columns: Sequence[tuple[str, Sequence[str]]]) -> tuple[list[str], list[list[str]]]:
    """Labels and columns with a line before each method that says its name."""
    labels: list[str] = []
    grouped: list[list[str]] = [[name] for name, _ in columns]
    before = None
    for place, one in enumerate(teacher.costs):
        if one.label != before:
            labels.append(one.label)
            for cells in grouped:
                cells.append("")
        labels.append(f"{'*' if one.best else ' '} {_short(one.setting, teacher.globals)}")
        for cells, (_, every) in zip(grouped, columns, strict=True):
            cells.append(every[place])
        before = one.label
    return labels, grouped


def _short(setting: MeasuredSetting, without: int) -> str:
    """A setting as recipes and command lines have it, and the patterns that it is united with."""
    own = {name: value for name, value in json.loads(setting.own or "{}").items() if value}
    said = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in own.items()]
    return " + ".join(filter(None, (" ".join(said), *setting.extra_words(without)))) or "as it is"


def _own(teacher: Teacher) -> str:
    full = teacher.full
    digits = max(0, 3 - max(0, math.floor(math.log10(full.full)))) if full.full > 0 else 2
    far = full.details.get(FAR_OF_FULL)
    said = f"{teacher.name}: {full.measure} {full.full:.{digits}f}"
    said += "" if far is None else f", of far words {far:.{digits}f}"
    said += f", {_share(full.gold)} of its own pairs without weight, {full.sequences:,} sequences"
    tokens = teacher.globals
    return said + (f"; {tokens} global token{'' if tokens == 1 else 's'} always" if tokens else "")


def _columns(teacher: Teacher) -> list[tuple[str, list[str]]]:
    """What is said of each setting: headings, and a cell for each."""
    costs, relative = teacher.costs, teacher.relative
    found = [
        ("skips", [_share(one.skipped) for one in costs]),
        (teacher.full.measure, [_changes(one.changes, relative) for one in costs]),
        ("", [_brackets(one.within, relative) for one in costs]),
        ("far words", [_changes(one.far, True) for one in costs]),
        ("finds", [_share(one.found) for one in costs]),
        ("misses", [_share(one.missed) for one in costs]),
    ]
    # Far words and weight are known of some tasks and runs alone.
    return [(name, cells) for name, cells in found if any(cell != "–" for cell in cells)]


def _share(value: float) -> str:
    return f"{100 * value:.1f} %" if math.isfinite(value) else "–"


def _changes(values: Sequence[float], relative: bool) -> str:
    said = ", ".join(_signed(value, relative) for value in values)
    return f"{said} %" if relative and said else said or "–"


def _brackets(within: Interval | None, relative: bool) -> str:
    return "–" if within is None else f"[{', '.join(_signed(value, relative) for value in within)}]"


def _signed(value: float, relative: bool) -> str:
    """Shares in percent, with as many digits as say something; points of BLEU with two."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    shown = 100 * value if relative else value
    digits = (1 if abs(shown) < 20 else 0) if relative else 2
    return f"{shown:+.{digits}f}".replace("-", "−")
