"""Running time and quality of the block variants by number of attended blocks: Sec. 6.1 of the paper.

For each size of a block and number of attended blocks, every method passes over the same evaluation data in turn, time
and again, with the full model and with softmax attention among them: only times of one such unit can be compared. A
method's own time to find its blocks is part of it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...finders import Finder
from ...finders.fixed import united
from ...traces.store import Site, Traces
from ..device import timed_on
from ..folder import RunFolder, key_of
from ..progress import steps
from ..recipe import Recipe, Timing
from ..tasks.base import Score, Task
from ..trace import kinds_of
from .grids import timed_settings
from .points import TIMING, set_aside, write_points
from .run_finders import RunFinders, fetch_keys, made_of
from .settings import FULL, SOFTMAX, Setting
from .watching import Watched, mean_ratios

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["sweep_timing"]

# Changes when points change for reasons that no recipe shows.
VERSION = 2


@dataclass
class Clock:
    """How long each pass took, in all and in attention, and what it scored."""

    seconds: list[float] = field(default_factory=list)
    attention: list[float] = field(default_factory=list)
    score: Score | None = None
    sequences: int = 0
    sparsity: float = 0.0


def sweep_timing(folder: RunFolder, recipe: Recipe, task: Task) -> None:
    """Write points/timing: a file for each size of a block and number of attended blocks, kept when it is there."""
    asked = recipe.timing
    assert asked is not None
    units, teacher = timed_settings(asked), folder / "teacher"
    fetch_keys(folder, [one for some in units.values() for one in some])
    finders, traces = RunFinders(folder, recipe.seed), Traces.open(folder / "traces/train")
    files = {}
    for (size, blocks), settings in units.items():
        parts = [VERSION, traces.hash, asked.model_dump(mode="json"), [finders.key(one) for one in settings]]
        key = key_of(*parts, *timed_on(recipe.device))
        files[size, blocks] = folder / "points/timing" / f"block={size}-blocks={blocks}-{key}.parquet"
    set_aside(folder, "timing", files.values())
    there = folder.present(map(folder.name_of, files.values()))
    todo = [unit for unit in units if folder.name_of(files[unit]) not in there]
    if not todo:
        return
    every = folder.present(f"finders/{name}" for some in units.values() for one in some for name in made_of(one))
    folder.fetch("teacher", *sorted(every))
    model = task.load(teacher).eval()
    # The same weights under softmax: for its time, as it was not trained for that.
    softmax = copy.deepcopy(model)
    softmax.set_attn_implementation("sdpa")
    with steps("timing", len(units), "size", len(units) - len(todo)) as bar:
        for unit in todo:
            bar.note("{1} blocks of {0}".format(*unit))
            rows = _unit(model, softmax, recipe, task, finders, units[unit], *unit)
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            write_points(files[unit], columns, TIMING)
            folder.put(folder.name_of(files[unit]))
            bar.update()


def _unit(
    model: PreTrainedModel,
    softmax: PreTrainedModel,
    recipe: Recipe,
    task: Task,
    finders: RunFinders,
    settings: list[Setting],
    size: int,
    blocks: int,
) -> list[dict[str, Any]]:
    asked = recipe.timing
    assert asked is not None
    kinds = kinds_of(recipe, task)
    chosen: dict[Setting, Mapping[Site, Finder]] = {
        SOFTMAX: {},
        FULL: {},
        **{
            one: {site: united(each, asked.window, 1).to(model.device) for site, each in finders.of(one).items()}
            for one in settings
        },
    }
    clocks = {setting: Clock() for setting in chosen}
    # Once before it counts: memory is fetched and caches fill. Graphs are looked at only then, as that takes time.
    for turn in range(asked.repeats + 1):
        for setting, used in chosen.items():
            watched = {site: Watched(each, finders.traces.place(*site)) for site, each in used.items()}
            own = softmax if setting == SOFTMAX else model
            seconds, spent, score = _timed(own, used if turn else watched, asked, task, finders.folder, kinds)
            clock = clocks[setting]
            clock.score, clock.sequences = None if setting == SOFTMAX else score, score.sequences
            if turn:
                clock.seconds.append(seconds)
                clock.attention.append(spent)
            elif watched:
                clock.sparsity = mean_ratios(watched.values())["sparsity"]
    return [_row(setting, clock, recipe, task, size, blocks) for setting, clock in clocks.items()]


def _timed(
    model: PreTrainedModel,
    used: Mapping[Site, Finder],
    asked: Timing,
    task: Task,
    folder: RunFolder,
    kinds: tuple[str, ...],
) -> tuple[float, float, Score]:
    """One pass over the evaluation data: its time, that of attention alone, and the score."""
    from ...hf.models import predicting

    name = str(model.config._attn_implementation)
    with predicting(model, used, kinds=kinds) if used else nullcontext(), _attention_timed(name) as spent:
        started = _now()
        # Finders of blocks look ahead, so that decoding has to see whole prefixes.
        whole = task.decodes and "decoder" in kinds
        score = task.evaluate(model, folder / "teacher", asked.sequences, asked.batch, whole_prefix=whole)
        return _now() - started, spent[0], score


def _row(setting: Setting, clock: Clock, recipe: Recipe, task: Task, size: int, blocks: int) -> dict[str, Any]:
    asked = recipe.timing
    assert asked is not None
    low, middle, high = np.percentile(clock.seconds, [25, 50, 75])
    return {
        "method": setting.method,
        "setting": setting.as_json,
        "block": size,
        "blocks": blocks,
        "clusters": setting.values.get("clusters", 0),
        "window": 0 if setting in (FULL, SOFTMAX) else asked.window,
        "seconds": middle,
        "seconds_low": low,
        "seconds_high": high,
        "attention_seconds": float(np.median(clock.attention)),
        "metric": task.metric,
        "score": None if clock.score is None else clock.score.value,
        "sparsity": clock.sparsity,
        "sequences": clock.sequences,
        "batch": asked.batch,
        "threads": torch.get_num_threads(),
    }


def _now() -> float:
    """The time, in seconds, once a GPU has done what it was told."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


@contextmanager
def _attention_timed(name: str) -> Iterator[list[float]]:
    """Within this block, how long the attention functions of Hugging Face models took is added up."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    original: Callable[..., Any] = ALL_ATTENTION_FUNCTIONS[name]
    spent = [0.0]

    def timed(*arguments: Any, **more: Any) -> Any:
        started = _now()
        try:
            return original(*arguments, **more)
        finally:
            spent[0] += _now() - started

    ALL_ATTENTION_FUNCTIONS.register(name, timed)
    try:
        yield spent
    finally:
        ALL_ATTENTION_FUNCTIONS.register(name, original)
