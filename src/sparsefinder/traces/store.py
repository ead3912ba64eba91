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

from ..attending.gold import check_mass
from ..core.layout import Layout
from ..errors import InputError, check_type
from ..files import inside, read_json, reading
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
        with reading(folder / INDEX):
            _check_index(folder, index)
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
        return Place(kind, layer, site["scale"], tuple(alpha) if isinstance(alpha, list) else alpha, site.get("mass"))

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

    def files(self, kind: str, layer: int) -> list[str]:
        """The files that hold one layer, as the folder has them."""
        return [shard["file"] for shard in self._site(kind, layer)["shards"]]

    def _site(self, kind: str, layer: int) -> Mapping[str, Any]:
        for site in self.index["sites"]:
            if (site["kind"], site["layer"]) == (kind, layer):
                return site
        raise InputError("kind, layer", f"{kind!r}, {layer!r}", f"one of {self.sites}")

    def verify(self) -> None:
        """Read everything, and raise if a file is not what was written."""
        for site in self.index["sites"]:
            for shard in site["shards"]:
                file = inside(self.path, shard["file"])
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
            with reading(self.path / shard["file"]):
                file = safe_open(self.path / shard["file"], "pt")
                ends = [
                    _ends(file, shard["sequences"], name, tokens) for name, tokens in (("query", "q"), ("key", "k"))
                ]
                starts = [[0, *each] for each in ends]
                places += [
                    (file, slice(starts[0][place], ends[0][place]), slice(starts[1][place], ends[1][place]))
                    for place in range(shard["sequences"])
                ]
        return places

    def _read(self, chosen: list[int]) -> Sample:
        places = [self._places[sequence] for sequence in chosen]
        with reading(self.path):
            q, query_lengths = _padded([file.get_slice("q")[queries] for file, queries, _ in places])
            k, key_lengths = _padded([file.get_slice("k")[keys] for file, _, keys in places])
            alpha, want = self.site["alpha"], (self.site["heads"], self.site["d"])
            if (q.shape[1], q.shape[3]) != want or (k.shape[1], k.shape[3]) != want:
                raise InputError(str(self.path), f"q {tuple(q.shape)}, k {tuple(k.shape)}", "shapes as the index says")
            return Sample(
                q,
                k,
                Layout(self.site["causal"], key_lengths, query_lengths=query_lengths),
                self.site["scale"],
                torch.tensor(alpha) if isinstance(alpha, list) else alpha,
                self.site.get("mass"),
            )


def _ends(file: Any, sequences: int, name: str, tokens: str) -> list[int]:
    """Where each sequence ends among the tokens of a file, of which the first `sequences` are asked for."""
    lengths = file.get_tensor(f"{name}_lengths")
    total = file.get_slice(tokens).get_shape()[0]
    if lengths.ndim != 1 or len(lengths) < sequences or bool((lengths < 0).any()) or int(lengths.sum()) != total:
        raise ValueError(f"lengths of {name} tokens that do not add up to {total} in {sequences} sequences")
    return lengths.cumsum(0).tolist()


def _check_index(folder: Path, index: Mapping[str, Any]) -> None:
    """Raise where an index does not have what is read from it, or names files that are not in its folder."""
    for name in ("hash", "teacher"):
        check_type(name, index[name], str, "a hash, as it was written")
    for site in index["sites"]:
        check_type("kind", site["kind"], str, "a kind of attention")
        check_type("causal", site["causal"], bool, "true or false")
        for name in ("layer", "heads", "d"):
            check_type(name, site[name], int, "a whole number")
        for alpha in site["alpha"] if isinstance(site["alpha"], list) else [site["alpha"]]:
            check_type("alpha", alpha, (int, float), "a number")
        check_type("scale", site["scale"], (int, float), "a number")
        check_mass(site.get("mass"))
        for shard in site["shards"]:
            file = inside(folder, shard["file"])
            check_type("sequences", shard["sequences"], int, "how many sequences a file has")
            # A length takes 8 bytes: no file has more of them than it has room for.
            if shard["sequences"] < 0 or (file.is_file() and shard["sequences"] > file.stat().st_size // 8):
                raise InputError("sequences", shard["sequences"], f"as many as {shard['file']} has")


def _padded(parts: list[Float[Tensor, "_ heads d"]]) -> tuple[Float[Tensor, "b heads n d"], Int[Tensor, " b"] | None]:
    """Sequences as a batch, and their lengths if they are not all the same."""
    lengths = torch.tensor([len(part) for part in parts])
    batch = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True).transpose(1, 2).float()
    return batch, None if bool((lengths == lengths.amax()).all()) else lengths
