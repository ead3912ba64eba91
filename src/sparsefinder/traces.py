"""Traces: the queries and keys of a teacher's attention layers on many inputs, in memory-mapped files.

>>> traces = Traces.record(model, batches, "runs/demo/traces", layers=[0, 3])
>>> for sample in traces.samples("encoder", 3, batch=16):
...     sample.gold.sparsity()

A folder of safetensors shards, without padding, and an index.json with how to read them, a hash of their content and
one of the teacher. It appears when it is complete, under its name, or not at all. Gold graphs are not stored: they
follow from queries and keys, in less time than reading them would take.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from .errors import InputError
from .layout import Layout
from .sample import Sample

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .interface import Record

__all__ = ["Samples", "TraceWriter", "Traces", "teacher_hash"]

INDEX = "index.json"
FORMAT = 1
# A shard is written when its tensors reach this size, which is about what a layer keeps in memory until then.
SHARD_BYTES = 1 << 26
DTYPES = {"float16": torch.float16, "float32": torch.float32}

Site = tuple[str, int]


@dataclass
class _Waiting:
    """What a site has collected since its last shard."""

    about: dict[str, Any]
    q: list[Tensor] = field(default_factory=list)
    k: list[Tensor] = field(default_factory=list)
    shards: list[dict[str, Any]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(part.numel() * part.element_size() for part in (*self.q, *self.k))


class TraceWriter:
    """Writes traces as they come, a shard of each layer at a time.

    >>> with TraceWriter("runs/demo/traces") as writer, record(model, writer.take):
    ...     model(**inputs)

    dtype: "float16" halves the files; a gold graph may then differ in pairs whose weight is next to nothing.
    teacher: a hash of the model that the queries and keys are of, to tell when they are out of date.
    """

    def __init__(self, path: str | Path, *, dtype: str = "float16", teacher: str = "") -> None:
        if dtype not in DTYPES:
            raise InputError("dtype", repr(dtype), f"one of {', '.join(DTYPES)}")
        self.path = Path(path)
        if self.path.exists():
            raise InputError("path", f"{path}, which exists", "the name of a new folder")
        self.dtype, self.teacher = dtype, teacher
        self._sites: dict[Site, _Waiting] = {}
        self._folder: Path | None = None

    def __enter__(self) -> TraceWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, so that giving it its name is one step of the file system.
        self._folder = Path(tempfile.mkdtemp(prefix=f".{self.path.name}-", dir=self.path.parent))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._folder is not None
        try:
            if kind is None:
                self._finish(self._folder)
                self._folder.rename(self.path)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def add(
        self,
        kind: str,
        layer: int,
        q: Float[Tensor, "batch heads n d"],
        k: Float[Tensor, "batch heads m d"],
        layout: Layout = Layout(),
        scale: float | None = None,
        alpha: float | Float[Tensor, " heads"] = 1.5,
    ) -> None:
        """Take the queries and keys of one layer on a batch of whole sequences."""
        if self._folder is None:
            raise InputError("writer", "one that is not open", "a writer within its `with` block")
        offset = layout.query_offset
        if bool((offset != 0).any()) if isinstance(offset, Tensor) else offset != 0:
            raise InputError("layout.query_offset", offset, "0: whole sequences are recorded, not decoding steps")
        sample = Sample(q, k, layout, scale, alpha)
        about = {
            "heads": q.shape[1], "d": q.shape[3], "causal": layout.causal, "scale": sample.score_scale,
            "alpha": alpha.tolist() if isinstance(alpha, Tensor) else alpha,
        }  # fmt: skip
        waiting = self._sites.setdefault((kind, layer), _Waiting(about))
        if waiting.about != about:
            raise InputError(f"{kind} layer {layer}", about, f"what it was before: {waiting.about}")
        for tokens, real, parts in ((q, sample.real_queries(), waiting.q), (k, sample.real_keys(), waiting.k)):
            for one, length in zip(tokens, real.sum(-1).tolist(), strict=True):
                # A copy: a slice would keep the whole batch in memory.
                parts.append(one[:, :length].transpose(0, 1).to("cpu", DTYPES[self.dtype]).contiguous().clone())
        if waiting.size >= SHARD_BYTES:
            self._flush(self._folder, (kind, layer))

    def take(self, record: Record) -> None:
        """Add what `sparsefinder.record` collects."""
        if record.bias is not None or record.allowed is not None:
            got = f"{record.kind} layer {record.layer}, with a bias or a mask of its own"
            raise InputError("model", got, "attention that follows from queries, keys, padding and causality alone")
        alpha = record.alpha.cpu() if isinstance(record.alpha, Tensor) else record.alpha
        self.add(record.kind, record.layer, record.q, record.k, record.layout, record.scale, alpha)

    def _flush(self, folder: Path, site: Site) -> None:
        waiting = self._sites[site]
        if not waiting.q:
            return
        lengths = {
            f"{name}_lengths": torch.tensor([len(one) for one in parts])
            for name, parts in (("query", waiting.q), ("key", waiting.k))
        }
        content = save({"q": torch.cat(waiting.q), "k": torch.cat(waiting.k), **lengths})
        name = f"{site[0]}-{site[1]}-{len(waiting.shards):05}.safetensors"
        (folder / name).write_bytes(content)
        waiting.shards.append(
            {"file": name, "sequences": len(waiting.q), "sha256": hashlib.sha256(content).hexdigest()}
        )
        waiting.q.clear()
        waiting.k.clear()

    def _finish(self, folder: Path) -> None:
        for site in self._sites:
            self._flush(folder, site)
        sites = [
            {"kind": kind, "layer": layer, **waiting.about, "shards": waiting.shards}
            for (kind, layer), waiting in sorted(self._sites.items())
        ]
        index = {"format": FORMAT, "dtype": self.dtype, "teacher": self.teacher, "sites": sites}
        content = hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
        (folder / INDEX).write_text(json.dumps({**index, "hash": content}, indent=1))


@dataclass(frozen=True)
class Traces:
    """Recorded queries and keys. Nothing is read before it is asked for."""

    path: Path
    index: Mapping[str, Any]

    @classmethod
    def open(cls, path: str | Path) -> Traces:
        """Open what a `TraceWriter` wrote."""
        file = Path(path) / INDEX
        if not file.is_file():
            raise InputError("path", path, "a folder of traces, with its index.json")
        index = json.loads(file.read_text())
        if index.get("format") != FORMAT:
            raise InputError("path", f"{path} of format {index.get('format')}", f"traces of format {FORMAT}")
        return cls(Path(path), index)

    @classmethod
    def record(
        cls,
        model: PreTrainedModel,
        inputs: Iterable[Mapping[str, Any]],
        path: str | Path,
        *,
        kinds: Sequence[str] | None = None,
        layers: Sequence[int] | None = None,
        dtype: str = "float16",
    ) -> Traces:
        """Run an entmax model on batches of inputs, and write the queries and keys of the chosen layers.

        A layer that adds a bias to its scores (T5) or has a mask of its own (sliding windows) is refused: what it
        attends to does not follow from queries and keys, so finders that see nothing else could not learn it.
        """
        from .models import record

        with (
            TraceWriter(path, dtype=dtype, teacher=teacher_hash(model)) as writer,
            record(model, writer.take, kinds=kinds, layers=layers),
            torch.no_grad(),
        ):
            for batch in inputs:
                model(**batch)
        return cls.open(path)

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
        if batch < 1:
            raise InputError("batch", batch, "a number of sequences from 1 upwards")
        for site in self.index["sites"]:
            if (site["kind"], site["layer"]) == (kind, layer):
                return Samples(self.path, site, batch, start, stop, seed)
        raise InputError("kind, layer", f"{kind}, {layer}", f"one of {self.sites}")

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
        for chosen in order.split(self.batch):
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


def teacher_hash(model: torch.nn.Module) -> str:
    """A hash of a model's weights, their names and types."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _padded(parts: list[Float[Tensor, "_ heads d"]]) -> tuple[Float[Tensor, "b heads n d"], Int[Tensor, " b"] | None]:
    """Sequences as a batch, and their lengths if they are not all the same."""
    lengths = torch.tensor([len(part) for part in parts])
    batch = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True).transpose(1, 2).float()
    return batch, None if bool((lengths == lengths.amax()).all()) else lengths
