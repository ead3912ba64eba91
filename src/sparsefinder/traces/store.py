"""Traces: the queries and keys of a teacher's attention layers on many inputs, in memory-mapped files.

>>> traces = Traces.open("runs/demo/traces")
>>> for sample in traces.samples("encoder", 3, batch=16):
...     sample.gold.sparsity()

A folder of safetensors shards, without padding, and an index.json with how to read them, a hash of their content and
one of the teacher; `writer.py` writes it. Gold graphs are not stored: they follow from queries and keys, in less
time than reading them would take.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor

from ..core.layout import Layout
from ..errors import InputError, check_type
from ..files import read_json
from ..finders.about import Place
from ..learning.sample import Sample

__all__ = ["Samples", "Site", "Traces"]

INDEX = "index.json"
FORMAT = 1

Site = tuple[str, int]


@dataclass(frozen=True)
class Traces:
    """Recorded queries and keys. Nothing is read before it is asked for."""

    path: Path
    index: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.index:
            raise InputError("index", "none", f"Traces.open({str(self.path)!r}), which reads it")

    @classmethod
    def open(cls, path: str | Path) -> Traces:
        """Open what a `TraceWriter` wrote."""
        want = f"a folder of traces, with its {INDEX}: that of record_traces, or traces/train in the folder of a run"
        check_type("path", path, (str, Path), want)
        folder = Path(path)
        if not folder.is_dir():
            raise InputError("path", f"{path}, which is {'a file' if folder.exists() else 'not there'}", want)
        if not (folder / INDEX).is_file():
            raise InputError("path", f"{path}, which has no {INDEX}", want)
        index = read_json(folder / INDEX)
        if index.get("format") != FORMAT:
            raise InputError("path", f"{path} of format {index.get('format')}", f"traces of format {FORMAT}")
        return cls(folder, index)

    @property
    def hash(self) -> str:
        """A hash of all there is in the traces and of how to read it."""
        return self.index["hash"]

    @property
    def teacher(self) -> str:
        """The hash of the model that they are of."""
        return self.index["teacher"]

    @property
    def sites(self) -> list[Site]:
        """The kinds and layers that were recorded."""
        return [(site["kind"], site["layer"]) for site in self.index["sites"]]

    def place(self, kind: str, layer: int) -> Place:
        """A layer as finders are told of it: how it scores."""
        site = self._site(kind, layer)
        alpha = site["alpha"]
        return Place(kind, layer, site["scale"], tuple(alpha) if isinstance(alpha, list) else alpha)

    def samples(
        self,
        kind: str,
        layer: int,
        batch: int = 16,
        *,
        start: int = 0,
        stop: int | None = None,
        seed: int | None = None,
    ) -> Samples:
        """Batches of one layer, from sequence `start` to before `stop`, shuffled if there is a seed."""
        if not isinstance(batch, int) or batch < 1:
            raise InputError("batch", repr(batch), "a number of sequences from 1 upwards")
        for name, place in (("start", start), ("stop", stop), ("seed", seed)):
            if place is not None and not isinstance(place, int):
                raise InputError(name, repr(place), "a whole number")
        return Samples(self.path, self._site(kind, layer), batch, start, stop, seed)

    def _site(self, kind: str, layer: int) -> Mapping[str, Any]:
        for site in self.index["sites"]:
            if (site["kind"], site["layer"]) == (kind, layer):
                return site
        raise InputError("kind, layer", f"{kind!r}, {layer!r}", f"one of {self.sites}")

    def verify(self) -> None:
        """Read everything, and raise if a file is not what was written."""
        for site in self.index["sites"]:
            for shard in site["shards"]:
                file = self.path / shard["file"]
                found = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "nothing"
                if found != shard["sha256"]:
                    raise InputError(str(file), f"content {found}", f"content {shard['sha256']}, as it was recorded")


@dataclass(frozen=True)
class Samples:
    """The batches of one layer: read from disk each time they are iterated over, one at a time."""

    path: Path
    site: Mapping[str, Any]
    batch: int
    start: int
    stop: int | None
    seed: int | None

    def __iter__(self) -> Iterator[Sample]:
        order = torch.arange(self._sequences)[self.start : self.stop]
        if self.seed is not None:
            order = order[torch.randperm(len(order), generator=torch.Generator().manual_seed(self.seed))]
        for chosen in order.split(self.batch) if len(order) else ():
            yield self._read(chosen.tolist())

    def __len__(self) -> int:
        return -(-len(range(self._sequences)[self.start : self.stop]) // self.batch)

    @property
    def _sequences(self) -> int:
        return sum(shard["sequences"] for shard in self.site["shards"])

    @cached_property
    def _places(self) -> list[tuple[Any, slice, slice]]:
        """For every sequence its file, its queries and its keys there."""
        places = []
        for shard in self.site["shards"]:
            if not (self.path / shard["file"]).is_file():
                raise InputError("path", f"traces without their {shard['file']}", "the whole folder, as it was written")
            file = safe_open(self.path / shard["file"], "pt")
            ends = [file.get_tensor(f"{name}_lengths").cumsum(0).tolist() for name in ("query", "key")]
            starts = [[0, *each] for each in ends]
            places += [
                (file, slice(starts[0][place], ends[0][place]), slice(starts[1][place], ends[1][place]))
                for place in range(shard["sequences"])
            ]
        return places

    def _read(self, chosen: list[int]) -> Sample:
        places = [self._places[sequence] for sequence in chosen]
        q, query_lengths = _padded([file.get_slice("q")[queries] for file, queries, _ in places])
        k, key_lengths = _padded([file.get_slice("k")[keys] for file, _, keys in places])
        alpha = self.site["alpha"]
        return Sample(
            q,
            k,
            Layout(self.site["causal"], key_lengths, query_lengths=query_lengths),
            self.site["scale"],
            torch.tensor(alpha) if isinstance(alpha, list) else alpha,
        )


def _padded(parts: list[Float[Tensor, "_ heads d"]]) -> tuple[Float[Tensor, "b heads n d"], Int[Tensor, " b"] | None]:
    """Sequences as a batch, and their lengths if they are not all the same."""
    lengths = torch.tensor([len(part) for part in parts])
    batch = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True).transpose(1, 2).float()
    return batch, None if bool((lengths == lengths.amax()).all()) else lengths
