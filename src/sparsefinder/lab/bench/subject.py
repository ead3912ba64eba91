"""What a benchmark is of: a teacher, text it has not seen, and the traces that finders are fitted to and measured on.

>>> of_run("runs/demo-mlm")                     # the teacher of a run, on the run's own traces and data
>>> of_model("my-teacher", "text.txt", "runs")  # a saved model: fitted to half a text, measured on the other half
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import PreTrainedModel

from ...errors import InputError
from ...finders import Fitting
from ...hf.checkpoints import load_model
from ...hf.models import sites
from ...hf.recording import record_traces, teacher_hash
from ...traces.store import INDEX, Site, Traces
from ..folder import RunFolder, check_folder, key_of
from ..recipe import Fit, load_recipe
from ..tasks.tokenizer import load_tokenizer
from .texts import PlainText, RunText, Text, digest

__all__ = ["Subject", "of_model", "of_run"]

# So many tokens finders are fitted to, measured on, and timed on at once; a sequence at least of each, and two to fit.
FITTED, MEASURED, TIMED = 32_768, 8_192, 2_048
# Of so many tokens sequences are, at the most, that maps are learned from, where a text is cut for it.
MAPPED = 512


@dataclass(eq=False)
class Subject:
    """A teacher to be timed.

    folder: where results go.
    own: the traces of a run, to fit and to measure on, and how long their sequences are.
    """

    name: str
    folder: RunFolder
    model: PreTrainedModel
    text: Text
    how: Fitting = field(default_factory=Fitting)
    own: tuple[int, Traces, Traces] | None = None
    _rows: dict[tuple[str, int], dict[str, Tensor]] = field(default_factory=dict)

    @cached_property
    def reach(self) -> int | None:
        """How many positions the model has; None for any number."""
        most: int | None = getattr(self.model.config, "max_position_embeddings", None)
        # RoBERTa counts from after the number of its padding token.
        taken = [
            module.padding_idx + 1
            for name, module in self.model.named_modules()
            if isinstance(module, nn.Embedding) and name.endswith("position_embeddings") and module.padding_idx
        ]
        return None if most is None else most - max(taken, default=0)

    @cached_property
    def sites(self) -> list[Site]:
        """The attention layers that finders are for: those that were traced, or all."""
        if self.own is not None:
            return self.own[1].sites
        return [(attend.kind, attend.layer) for attend in sites(self.model).values()]

    @cached_property
    def teacher(self) -> str:
        """A hash of the weights."""
        return teacher_hash(self.model)

    def key(self, length: int) -> str:
        """A hash of all that is fitted to, measured and timed on at a length."""
        parts = [digest(self.rows("valid", length))]
        if self.own is not None and self.own[0] == length:
            return key_of(self.teacher, *parts, self.own[1].hash, self.own[2].hash, FITTED, MEASURED, TIMED)
        return key_of(self.teacher, digest(self.rows("train", length)), *parts, self.sites, FITTED, MEASURED, TIMED)

    def rows(self, part: str, length: int) -> dict[str, Tensor]:
        """Sequences of a length, as inputs of the model: of the text to fit to ("train"), or of the other ("valid")."""
        if (part, length) not in self._rows:
            most = {"train": max(2, FITTED // length), "valid": max(1, MEASURED // length)}[part]
            self._rows[part, length] = self.text.inputs(part, length, most)
        return self._rows[part, length]

    def has(self, length: int) -> bool:
        """Whether there is text enough for sequences of a length."""
        own = self.own is not None and self.own[0] == length
        return _count(self.rows("valid", length)) > 0 and (own or _count(self.rows("train", length)) > 1)

    def timed(self, length: int) -> dict[str, Tensor]:
        """The inputs that are timed: one batch of text that nothing was fitted to."""
        return {name: rows[: max(1, TIMED // length)] for name, rows in self.rows("valid", length).items()}

    def traces(self, length: int) -> tuple[Traces, Traces]:
        """Queries and keys to fit to and to measure on, recorded if they are not there."""
        if self.own is not None and self.own[0] == length:
            _, train, valid = self.own
            return first(train, max(2, FITTED // length)), first(valid, max(1, MEASURED // length))
        return self._recorded("train", length), self._recorded("valid", length)

    def mapped(self, length: int) -> Traces:
        """What maps are learned from, which do not depend on the length: all that a run has, or short sequences."""
        if self.own is not None:
            return self.own[1]
        short = MAPPED if self.reach is None else min(MAPPED, self.reach)
        return self._recorded("train", short if short < length and self.has(short) else length)

    def _recorded(self, part: str, length: int) -> Traces:
        rows = self.rows(part, length)
        path = self.folder / f"bench/traces/{length}-{part}-{key_of(self.teacher, digest(rows), self.sites)}"
        if not (path / INDEX).is_file():
            shutil.rmtree(path, ignore_errors=True)
            batches = [each.split(max(1, TIMED // length)) for each in rows.values()]
            inputs = (dict(zip(rows, parts, strict=True)) for parts in zip(*batches, strict=True))
            kinds, layers = (sorted({site[place] for site in self.sites}) for place in (0, 1))
            with torch.no_grad():
                record_traces(self.model, inputs, path, kinds=kinds, layers=layers, teacher=self.teacher)  # type: ignore[arg-type]
        return Traces.open(path)


def of_run(path: str | Path) -> Subject:
    """The teacher of a run."""
    folder = check_folder(path)
    recipe = load_recipe(folder / "recipe.yaml")
    parts = []
    for part in ("train", "valid"):
        if not (folder / f"traces/{part}" / INDEX).is_file():
            raise InputError("RUN", f"{path}, which has no traces yet", f"one with traces: `sparsefinder trace {path}`")
        parts.append(Traces.open(folder / f"traces/{part}"))
    teacher = folder / "teacher"
    model = _ready(load_model(teacher, finders=False))
    text = RunText(recipe.task, load_tokenizer(teacher), recipe.seed, model.config)
    return Subject(
        recipe.name, folder, model, text, _how(recipe.fit, recipe.seed), (_longest(parts[1]), parts[0], parts[1])
    )


def of_model(path: str | Path, text: str | Path, runs: str | Path, alpha: float | None = None) -> Subject:
    """A saved model, with results in `runs/bench-NAME`.

    alpha: for a checkpoint that does not say what it was trained with.
    """
    if not (Path(path) / "config.json").is_file():
        raise InputError("MODEL", path, "the folder of a run, or of a saved model, with its config.json")
    half = PlainText(str(text), load_tokenizer(path))
    model = _ready(load_model(path, alpha=alpha, finders=False, dtype=torch.float32))
    if model.config.is_encoder_decoder:
        want = "the folder of its run: a model that translates reads pairs of sentences"
        raise InputError("MODEL", f"{path}, which has an encoder and a decoder, with a text", want)
    name = Path(path).resolve().name
    return Subject(name, RunFolder(Path(runs) / f"bench-{name}"), model, half)


def first(traces: Traces, count: int) -> Traces:
    """The first sequences of traces."""

    def some(shards: Sequence[dict[str, object]]) -> list[dict[str, object]]:
        left, found = count, []
        for shard in shards:
            held = min(left, int(str(shard["sequences"])))
            found += [{**shard, "sequences": held}] if held else []
            left -= held
        return found

    sites = [{**site, "shards": some(site["shards"])} for site in traces.index["sites"]]
    return Traces(traces.path, {**traces.index, "sites": sites})


def _count(rows: dict[str, Tensor]) -> int:
    return len(next(iter(rows.values())))


def _ready(model: PreTrainedModel) -> PreTrainedModel:
    # Whole sequences are timed: what a cache of keys costs is no part of it.
    model.config.use_cache = False
    return model.eval()


def _how(fit: Fit, seed: int) -> Fitting:
    return Fitting(
        seed, fit.tokens, fit.restarts, fit.r, fit.margin, fit.learning_rate, fit.epochs, fit.shared, fit.summed
    )


def _longest(traces: Traces) -> int:
    """The length of the longest sequence."""
    lengths = []
    for shard in traces.index["sites"][0]["shards"]:
        with safe_open(traces.path / shard["file"], "pt") as file:
            lengths.append(int(file.get_tensor("query_lengths").max()))
    return max(lengths)
