"""Decoding by cached length: tokens per second of every way, and where the time goes.

>>> decode(of_run("runs/causal-lm"), Asked(lengths=(1024, 4096), recall=0.98))

As in `bench`, the ways of a length take turns, and each length is measured once and kept. What is cached is of text
that nothing was fitted to; finders are fitted to other text of the same length.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from tqdm.auto import tqdm
from transformers import DynamicCache

from ...errors import InputError
from ...finders import Finder, Fitting
from ...finders.sketch import Sketch
from ...fitted import CONFIG, Sparsefinder
from ...fitting import Wanted, choose
from ...hf.caches import with_room
from ...hf.models import record
from ...traces.record import Record
from ...traces.store import Site, Traces
from ..folder import RunFolder, key_of
from ..sweep.points import set_aside, write_points
from .asked import Asked
from .bench import Say, kernel_hash
from .clock import Spread, in_turns, ratio
from .fits import HELD_OUT
from .points import Row
from .subject import Subject
from .texts import digest
from .ways import WAYS, Filled, Kept, Way

__all__ = ["DECODE", "decode", "read_decode"]

# Changes when points change for reasons that no option shows.
VERSION = 3
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
# The last queries before a length, of which recall is measured, and tokens that perplexity is.
QUERIES, TOKENS = 32, 128

PARTS = ("step", "cache", "find", "attend")
RATIOS = ("to_dynamic", "to_static", "attend_to_softmax")
DECODE = pa.schema([
    ("way", pa.string()), *((name, pa.int32()) for name in ("length", "layers", "heads", "turns", "threads")),
    ("wanted", pa.float64()), *((name, pa.float64()) for name in ("recall", "looked_at", "perplexity")),
    *((name, pa.int64()) for name in ("cache_bytes", "index_bytes")), ("bytes_per_key", pa.float64()),
    *((f"{name}{end}", pa.float64()) for name in (*PARTS, *RATIOS) for end in ("", "_low", "_high")),
])  # fmt: skip


def decode(subject: Subject, asked: Asked, say: Say = print) -> list[Row]:
    """Measure what is asked for and was not measured yet; the rows of all that was asked for and is there now."""
    if subject.model.config.is_encoder_decoder or {kind for kind, _ in subject.sites} != {"decoder"}:
        want = "a causal model, such as GPT-2 or Llama"
        raise InputError("RUN", f"{subject.name}, which does not decode by itself", want)
    lengths = _lengths(subject, asked, say)
    folder, source = subject.folder, subject.rows("valid", lengths[-1])
    keys = [subject.teacher, digest(source), asked.recall, asked.repeats, torch.get_num_threads(), kernel_hash()]
    end = f"{key_of(VERSION, *keys)}.parquet"
    files = {length: folder / "points/decode" / f"length={length}-{end}" for length in lengths}
    there = [file for file in (folder / "points/decode").glob("*.parquet") if _length(file) not in files]
    set_aside(folder, "decode", [*files.values(), *there])
    todo = [length for length in lengths if asked.again or not files[length].is_file()]
    if len(todo) < len(lengths):
        say(f"{len(lengths) - len(todo)} of {len(lengths)} lengths were measured before; --again measures them anew")
    if todo:
        kept = _prefilled(subject, source["input_ids"][:1], todo)
        started = time.monotonic()
        for length in tqdm(todo, desc="decoding", unit="length", disable=None):
            if asked.budget is not None and length != todo[0] and time.monotonic() - started >= asked.budget:
                say(f"The budget is used up: lengths from {length:,} on are left for the same command to go on with")
                break
            finders = _fitted(subject, asked, length)
            write_points(files[length], _columns(_measured(subject, asked, kept, length, finders)), DECODE)
    return [row for file in files.values() if file.is_file() for row in _rows(file)]


def read_decode(folder: RunFolder) -> list[Row]:
    """All rows that a run has, the shortest length first; none if its decoding was not measured."""
    return [row for file in sorted((folder / "points/decode").glob("*.parquet"), key=_length) for row in _rows(file)]


def _lengths(subject: Subject, asked: Asked, say: Say) -> list[int]:
    reach = subject.reach
    wanted = [length for length in asked.lengths or LENGTHS if length > QUERIES]
    found = [length for length in wanted if (reach is None or length <= reach) and subject.has(length)]
    if asked.lengths is not None and len(found) < len(asked.lengths):
        short = next(length for length in asked.lengths if length not in found)
        want = f"lengths above {QUERIES} that model and text reach: at most {reach} positions"
        raise InputError("lengths", short, want)
    if len(found) < len(wanted):
        left = ", ".join(f"{length:,}" for length in wanted if length not in found)
        say(f"Lengths {left} are left out: {subject.name} has no more positions, or the text no more tokens.")
    if not found:
        raise InputError("lengths", "none that model and text reach", "shorter ones, such as --lengths 128")
    return found


def _fitted(subject: Subject, asked: Asked, length: int) -> dict[str | None, Mapping[Site, Finder]]:
    """The sketches of every setting, for the wanted recall. Certified, only the order of work is theirs."""
    train, _ = subject.traces(length)
    found: dict[str | None, Mapping[Site, Finder]] = {}
    for setting in ("slack", "share"):
        path = subject.folder / "bench/decoding" / f"{setting}-{key_of(VERSION, subject.key(length), asked.recall)}"
        if not (path / CONFIG).is_file():
            one = Sketch(**{setting: 1.0}, bounded=setting == "slack")  # type: ignore[arg-type]
            chosen = {site: _chosen(one, train, site, asked.recall, subject.how) for site in train.sites}
            Sparsefinder(chosen).save_pretrained(path)
        found[setting] = Sparsefinder.from_pretrained(path)
    return {**found, "exact": found["slack"], None: {}}


def _chosen(one: Sketch, traces: Traces, site: Site, recall: float, how: Fitting) -> Finder:
    """A sketch of a layer, with the rank and the setting of each head that reach a recall in the least time."""
    every = len(traces.samples(*site, batch=1))
    stop = max(1, min(every - 1, round(every * (1 - HELD_OUT))))
    fitted = one.fit(traces.samples(*site, batch=4, stop=stop, seed=how.seed), how)
    return choose([fitted], traces.samples(*site, batch=1, start=stop), Wanted(recall)).finder


@torch.no_grad()
def _prefilled(subject: Subject, ids: torch.Tensor, lengths: list[int]) -> Kept:
    """The cache and the queries of one pass over the text: a causal model has those of every length at once."""
    queries: dict[int, list[torch.Tensor]] = {length: [] for length in lengths}
    alphas: list[float | torch.Tensor] = []
    scales: list[float] = []

    def take(one: Record) -> None:
        for length, kept in queries.items():
            kept.append(one.q[:, :, length - QUERIES : length].clone())
        alphas.append(one.alpha)
        scales.append(one.q.shape[-1] ** -0.5 if one.scale is None else one.scale)

    cache = with_room(DynamicCache(config=subject.model.config))
    with record(subject.model, take):
        # What words come next does not matter here.
        subject.model.base_model(ids[:, : max(lengths)], past_key_values=cache, use_cache=True)
    layers = cache.layers
    return Kept([one.keys for one in layers], [one.values for one in layers], queries, ids, scales[0], alphas)  # type: ignore[misc, union-attr]


@torch.no_grad()
def _measured(
    subject: Subject, asked: Asked, kept: Kept, length: int, finders: Mapping[str | None, Mapping[Site, Finder]]
) -> list[Row]:
    filled = {way: Filled(way, subject.model, kept, length, finders[way.setting] or None) for way in WAYS}
    work: list[Callable[[], Any]] = [each for one in filled.values() for each in (one.step, one.parts)]
    for once in work:
        once()
    times = in_turns(*work, repeats=asked.repeats)
    steps = dict(zip(WAYS, times[::2], strict=True))
    parts = dict(zip(WAYS, times[1::2], strict=True))
    return [_row(way, filled[way], steps, parts, asked) for way in WAYS]


def _row(
    way: Way, filled: Filled, steps: Mapping[Way, list[float]], parts: Mapping[Way, list[Any]], asked: Asked
) -> Row:
    spreads = {"step": Spread.of(steps[way])}
    spreads |= {name: Spread.of([turn[place] for turn in parts[way]]) for place, name in enumerate(PARTS[1:])}
    spreads |= {name: ratio(steps[other], steps[way]) for name, other in zip(RATIOS, WAYS, strict=False)}
    # Against torch's own attention over the same keys, where they lie one after the other.
    alone = {one: [find + attend for _, find, attend in parts[one]] for one in (way, WAYS[1])}
    spreads["attend_to_softmax"] = ratio(alone[WAYS[1]], alone[way])
    found, per_key = filled.recall(), filled.length * sum(each.shape[1] for each in filled.kept.queries[filled.length])
    row: Row = {
        "way": way.name, "length": filled.length, "layers": len(filled.kept.keys),
        "heads": filled.kept.queries[filled.length][0].shape[1], "turns": len(steps[way]),
        "threads": torch.get_num_threads(), "wanted": asked.recall if way.setting in ("slack", "share") else None,
        "recall": None if found is None else 1.0 if way.setting == "exact" else found[0],
        "looked_at": None if found is None or way.setting == "exact" else found[1],
        "perplexity": None if way.softmax or filled.length < 2 * TOKENS else filled.perplexity(TOKENS),
        "cache_bytes": filled.cache_bytes, "index_bytes": filled.index_bytes,
        "bytes_per_key": filled.index_bytes / per_key,
    }  # fmt: skip
    for name, each in spreads.items():
        row |= {name: each.middle, f"{name}_low": each.low, f"{name}_high": each.high}
    return row


def _columns(rows: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in DECODE.names}


def _rows(file: Path) -> list[Row]:
    rows: list[Row] = parquet.read_table(file, schema=DECODE, partitioning=None).to_pylist()
    return rows


def _length(file: Path) -> int:
    return int(file.name.removeprefix("length=").partition("-")[0])
