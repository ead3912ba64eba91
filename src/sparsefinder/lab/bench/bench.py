"""A benchmark of a teacher: units of a length, or of a size and number of blocks, each measured once and kept.

>>> bench(of_run("runs/demo-mlm"), Asked(entries_of("sketch, kmeans"), lengths=(128,)))
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ... import compiled
from ...errors import InputError
from ...finders import Finder
from ...finders.fixed import united
from ...traces.store import Site
from ..folder import key_of
from ..progress import Steps, steps
from .asked import LENGTHS, Asked
from .entries import REFERENCES, Entry, block_entries
from .fits import Fits
from .measure import backend_of, quality, time_unit
from .points import BENCH, Row, keep_others, unit_rows, write_unit
from .subject import Subject

__all__ = ["Say", "Unit", "bench", "kernel_hash", "lengths_of", "units_of"]

# Changes when points change for reasons that no option shows.
VERSION = 2

Say = Callable[[str], None]


@dataclass(frozen=True)
class Unit:
    """What is timed together: a length, and for the block variants a size and a number of blocks; 0 otherwise."""

    length: int
    entries: tuple[Entry, ...]
    block: int = 0
    blocks: int = 0

    @property
    def name(self) -> str:
        return f"length={self.length}" + (f"-block={self.block}-blocks={self.blocks}" if self.block else "")


def bench(subject: Subject, asked: Asked, say: Say = print) -> list[Row]:
    """Measure what is asked for and was not measured yet; the rows of all that was asked for and is there now."""
    units = units_of(asked, lengths_of(subject, asked, say))
    files = {unit: _file(subject, asked, unit) for unit in units}
    keep_others(subject.folder, {unit.name: file for unit, file in files.items()})
    todo = [unit for unit in units if asked.again or not files[unit].is_file()]
    if len(todo) < len(units):
        say(f"{len(units) - len(todo)} of {len(units)} units were measured before; --again measures them anew")
    started, left = time.monotonic(), len(todo)
    with steps("bench", len(todo), "unit") as bar:
        for unit in todo:
            spent = time.monotonic() - started
            if asked.budget is not None and left < len(todo) and spent >= asked.budget:
                say(f"The budget is used up: {left} of {len(units)} units are left for the same command to go on with")
                break
            share = None if asked.budget is None else (asked.budget - spent) / left
            fitted, fits = _fitted(subject, asked, unit, share, bar, say)
            if len(fitted.entries) < len(unit.entries):
                # Not the file of the whole unit, which the same command makes as soon as there is time.
                files[unit] = _file(subject, asked, fitted)
            seconds = None if share is None else share - (time.monotonic() - started - spent)
            write_unit(files[unit], _measured(subject, asked, unit, fits, seconds, bar))
            left -= 1
            bar.update()
    return [row for unit in units if files[unit].is_file() for row in unit_rows(files[unit])]


def lengths_of(subject: Subject, asked: Asked, say: Say) -> list[int]:
    """The lengths to measure: those asked for, or all that the model and its text reach. What is left out is said."""
    reach = subject.reach
    if asked.lengths is not None:
        for length in asked.lengths:
            if reach is not None and length > reach:
                raise InputError("lengths", length, f"at most {reach}: {subject.name} has no more positions")
            if not subject.has(length):
                raise InputError("lengths", length, "lengths that the text has sequences of: it is too short")
        return list(asked.lengths)
    own = [] if subject.own is None else [subject.own[0]]
    wanted = sorted({*own, *LENGTHS})
    within = [length for length in wanted if reach is None or length <= reach]
    found = [length for length in within if subject.has(length)]
    if len(within) < len(wanted):
        say(f"Lengths above {reach:,} are left out: {subject.name} has no more positions.")
    if len(found) < len(within):
        short = ", ".join(f"{length:,}" for length in within if length not in found)
        say(f"Lengths {short} are left out: the text is too short for sequences of them.")
    if not found:
        raise InputError("lengths", "none that model and text reach", "shorter ones, such as --lengths 128")
    return found


def units_of(asked: Asked, lengths: list[int]) -> list[Unit]:
    """All methods by length; then the block variants, at the shortest length."""
    units = [Unit(length, (*REFERENCES, *asked.entries)) for length in lengths]
    if asked.grid is not None:
        grid = block_entries(asked.grid, asked.entries)
        units += [Unit(lengths[0], (*REFERENCES, *some), size, blocks) for (size, blocks), some in grid.items()]
    return units


def _file(subject: Subject, asked: Asked, unit: Unit) -> Path:
    """The file of a unit, whose name has a hash of what its points depend on."""
    entries = [[entry.method, entry.as_json, entry.exact] for entry in unit.entries]
    key = key_of(
        VERSION, subject.key(unit.length), entries, asked.recall, asked.repeats, torch.get_num_threads(), kernel_hash()
    )
    return subject.folder / "points/bench" / f"{unit.name}-{key}.parquet"


def kernel_hash() -> str:
    """A hash of the compiled kernels: with others, times are measured anew."""
    path = None if compiled.module is None else compiled.module.__file__
    return f"{compiled.plain()}" if path is None else key_of(compiled.plain(), _content(path))


def _content(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fitted(
    subject: Subject, asked: Asked, unit: Unit, seconds: float | None, bar: Steps, say: Say
) -> tuple[Unit, dict[Entry, Mapping[Site, Finder]]]:
    """The finders of a unit, and the unit without what there was no time to begin fitting: one anew there always is."""
    started = time.monotonic()
    bar.note(f"{unit.name}: traces")
    train, _ = subject.traces(unit.length)
    mapped = subject.mapped(unit.length)
    fits = Fits(subject.folder / "bench", subject.key(unit.length), train, mapped, asked.recall, subject.how)
    finders: dict[Entry, Mapping[Site, Finder]] = {}
    late: list[Entry] = []
    anew = 0
    for entry in unit.entries:
        if entry.finds and not fits.has(entry):
            if anew and seconds is not None and time.monotonic() - started >= seconds:
                late.append(entry)
                continue
            anew += 1
        bar.note(f"{unit.name}: fitting {entry.label}")
        try:
            finders[entry] = _with_extra(fits.of(entry), asked, unit) if entry.finds else {}
        except InputError as error:
            # Blocks as long as the sequences have nothing to learn from, say: no reason not to measure the others.
            say(f"{entry.label} is left out of {unit.name}: {error}")
    if late:
        names = ", ".join(entry.label for entry in late)
        say(f"No time to fit for {unit.name}: {names}. The same command goes on with them.")
    return replace(unit, entries=tuple(entry for entry in unit.entries if entry not in late)), finders


def _measured(
    subject: Subject,
    asked: Asked,
    unit: Unit,
    finders: Mapping[Entry, Mapping[Site, Finder]],
    seconds: float | None,
    bar: Steps,
) -> list[Row]:
    """The rows of a unit, with as many turns as fit into the seconds."""
    started = time.monotonic()
    _, valid = subject.traces(unit.length)
    bar.note(f"{unit.name}: recall")
    found, gold, sequences = quality(finders, valid)
    bar.note(f"{unit.name}: times")

    def repeats(turn: float) -> int:
        if seconds is None:
            return asked.repeats
        return max(1, min(asked.repeats, int((seconds - (time.monotonic() - started)) / turn)))

    inputs = subject.timed(unit.length)
    times, layers = time_unit(subject.model, inputs, subject.sites, finders, repeats)
    softmax, full = (times[one] for one in REFERENCES)
    common: Row = {
        "length": unit.length, "batch": len(inputs["input_ids"]), "block": unit.block, "blocks": unit.blocks,
        "layers": len(layers), "heads": layers[0].q.shape[1], "turns": len(full.alone), "sequences": sequences,
        "threads": torch.get_num_threads(), "gold_sparsity": gold, "backend": backend_of(layers[0]),
    }  # fmt: skip
    rows = []
    for entry, each in times.items():
        recall, sparsity = found.get(entry, (None, None))
        own: Row = {
            "method": entry.method, "setting": entry.as_json, "exact": entry.exact, "recall": recall,
            "sparsity": sparsity, "clusters": dict(entry.parameters).get("clusters", 0) if unit.block else 0,
            "wanted": _wanted(entry, asked),
        }  # fmt: skip
        rows.append(dict.fromkeys(BENCH.names) | common | own | each.row(full, softmax, common["batch"]))
    return rows


def _with_extra(finders: Mapping[Site, Finder], asked: Asked, unit: Unit) -> Mapping[Site, Finder]:
    """The block variants have a small window and the first token, as in the paper."""
    if not unit.block or asked.grid is None:
        return finders
    return {site: united(one, asked.grid.window, 1) for site, one in finders.items()}


def _wanted(entry: Entry, asked: Asked) -> float | None:
    """The recall that it was set for, if it was."""
    wanted = entry.wanted(asked.recall) if entry.finds else None
    return None if wanted is None else wanted.recall
