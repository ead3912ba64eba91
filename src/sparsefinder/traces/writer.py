"""Writing traces: shards as they come, under a name that they get when they are complete.

>>> with TraceWriter("runs/demo/traces") as writer, record(model, writer.take):
...     model(**inputs)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import save
from torch import Tensor

from ..attending.gold import check_mass
from ..core.layout import Layout
from ..errors import InputError, check_type
from ..files import whole_folder, write_text
from ..learning.sample import Sample
from .record import Record
from .store import FORMAT, INDEX, Site, Traces

__all__ = ["TraceWriter", "join", "stretch"]

# A shard is written when its tensors reach this size, which is about what a layer keeps in memory until then.
SHARD_BYTES = 1 << 26
DTYPES = {"float16": torch.float16, "float32": torch.float32}


@dataclass
class _Waiting:
    """What a site has collected since its last shard."""

    about: dict[str, Any]
    q: list[Tensor] = field(default_factory=list)
    k: list[Tensor] = field(default_factory=list)
    shards: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0

    @property
    def size(self) -> int:
        return sum(part.numel() * part.element_size() for part in (*self.q, *self.k))


class TraceWriter:
    """Writes traces as they come, a shard of each layer at a time.

    >>> with TraceWriter("runs/demo/traces") as writer, record(model, writer.take):
    ...     model(**inputs)

    dtype: "float16" halves the files; a gold graph may then differ in pairs whose weight is next to nothing.
    teacher: a hash of the model that the queries and keys are of, to tell when they are out of date.
    tokens: of longer sequences, a stretch of so many tokens: the files do not grow with their length. Gold graphs are
        then those within the stretch.
    first: the number of the first sequence, which says where its stretch is.
    mass: the share of a row's weight that is gold, as `gold_graph` takes it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        dtype: str = "float16",
        teacher: str = "",
        tokens: int | None = None,
        first: int = 0,
        mass: float | None = None,
    ) -> None:
        if dtype not in DTYPES:
            raise InputError("dtype", repr(dtype), f"one of {', '.join(map(repr, DTYPES))}")
        check_type("path", path, (str, Path), "the name of a new folder")
        self.path = Path(path)
        if self.path.exists():
            raise InputError("path", f"{path}, which exists", "the name of a new folder")
        if tokens is not None and (not isinstance(tokens, int) or tokens < 1):
            raise InputError("tokens", repr(tokens), "a number of tokens from 1 upwards, or None for all")
        check_mass(mass)
        self.dtype, self.teacher, self.tokens, self.first, self.mass = dtype, teacher, tokens, first, mass
        self._sites: dict[Site, _Waiting] = {}
        self._folder: Path | None = None
        self._open = ExitStack()

    def __enter__(self) -> TraceWriter:
        self._folder = self._open.enter_context(whole_folder(self.path))
        # Left in turn: what waits is written, and then the folder gets its name, or goes if that failed.
        self._open.push(self._finish)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._open.__exit__(kind, error, trace)
        finally:
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
        _check_tokens(kind, layer, q, k, layout, scale, alpha)
        offset = layout.query_offset
        if bool((offset != 0).any()) if isinstance(offset, Tensor) else offset != 0:
            raise InputError("layout.query_offset", offset, "0: whole sequences are recorded, not decoding steps")
        sample = Sample(q, k, layout, scale, alpha)
        about = {
            "heads": q.shape[1], "d": q.shape[3], "causal": layout.causal, "scale": sample.score_scale,
            "alpha": alpha.tolist() if isinstance(alpha, Tensor) else alpha,
            **({} if self.mass is None else {"mass": self.mass}),
        }  # fmt: skip
        waiting = self._sites.setdefault((kind, layer), _Waiting(about))
        if waiting.about != about:
            raise InputError(f"{kind} layer {layer}", about, f"what it was before: {waiting.about}")
        for tokens, real, parts in ((q, sample.real_queries(), waiting.q), (k, sample.real_keys(), waiting.k)):
            for place, (one, length) in enumerate(zip(tokens, real.sum(-1).tolist(), strict=True)):
                kept = stretch(self.first + waiting.count + place, length, self.tokens)
                # A copy: a slice would keep the whole batch in memory.
                parts.append(one[:, kept].transpose(0, 1).to("cpu", DTYPES[self.dtype]).contiguous().clone())
        waiting.count += len(q)
        if waiting.size >= SHARD_BYTES:
            self._flush(self._folder, (kind, layer))

    @property
    def sites(self) -> list[Site]:
        """The kinds and layers that something came from."""
        return sorted(self._sites)

    def take(self, record: Record) -> None:
        """Add what `sparsefinder.record` collects."""
        check_type("record", record, Record, "a record, as record(model) collects them; tensors are for add(...)")
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

    def _finish(self, kind: type[BaseException] | None, *_: object) -> None:
        folder = self._folder
        if kind is not None or folder is None:
            return
        for site in self._sites:
            self._flush(folder, site)
        sites = [
            {"kind": kind, "layer": layer, **waiting.about, "shards": waiting.shards}
            for (kind, layer), waiting in sorted(self._sites.items())
        ]
        _write_index(folder, {"format": FORMAT, "dtype": self.dtype, "teacher": self.teacher, "sites": sites})


def stretch(number: int, length: int, tokens: int | None) -> slice:
    """The tokens that are kept of a sequence: all, or so many of them, from places that lie evenly over sequences."""
    if tokens is None or length <= tokens:
        return slice(0, length)
    # Multiples of the golden ratio, which leave no gap: every part of long sequences is seen, without a seed.
    start = int(number * 0.6180339887498949 % 1 * (length - tokens + 1))
    return slice(start, start + tokens)


def _check_tokens(
    kind: object, layer: object, q: object, k: object, layout: object, scale: object, alpha: object
) -> None:
    """Raise where what was recorded could not be read again, or not be understood."""
    check_type("kind", kind, str, "the kind of attention: 'encoder', 'decoder' or 'cross'")
    check_type("layer", layer, int, "the number of the layer, from 0 upwards")
    check_type("layout", layout, Layout, "a Layout, such as Layout(causal=True)")
    check_type("scale", scale, (int, float, type(None)), "what scores are multiplied by; None for 1 / √d")
    shapes = []
    for name, tensor in (("q", q), ("k", k)):
        want = "a tensor of floating-point numbers of shape (batch, heads, length, size)"
        check_type(name, tensor, Tensor, want)
        assert isinstance(tensor, Tensor)
        if tensor.ndim != 4 or not tensor.is_floating_point():
            raise InputError(name, f"{tensor.dtype} of shape {tuple(tensor.shape)}", want)
        shapes.append(tensor.shape)
    (batch, heads, _, d), of_keys = shapes
    if (of_keys[0], of_keys[1], of_keys[3]) != (batch, heads, d):
        want = f"({batch}, {heads}, keys, {d}) to go with q {tuple(shapes[0])}; keys that heads share are repeated"
        raise InputError("k", f"shape {tuple(of_keys)}", want)
    if not isinstance(alpha, Tensor | int | float) or (isinstance(alpha, Tensor) and alpha.shape != (heads,)):
        raise InputError("alpha", repr(alpha), f"one number, or a tensor with one for each of {heads} heads")


def join(path: str | Path, parts: Sequence[str]) -> Traces:
    """Make one of traces that were recorded in parts: folders within `path`, in this order. No tensor is copied."""
    if isinstance(parts, str):
        raise InputError("parts", repr(parts), f"a list, such as {[parts]!r}")
    folder = Path(path)
    indices = [Traces.open(folder / part).index for part in parts]
    if not indices:
        raise InputError("parts", "none", "at least one folder of traces")
    joined: dict[Site, dict[str, Any]] = {}
    for part, index in zip(parts, indices, strict=True):
        for name in ("dtype", "teacher"):
            if index[name] != indices[0][name]:
                raise InputError(f"{name} of {part}", index[name], f"that of {parts[0]}: {indices[0][name]}")
        for site in index["sites"]:
            shards = [{**shard, "file": f"{part}/{shard['file']}"} for shard in site["shards"]]
            about = {key: value for key, value in site.items() if key != "shards"}
            whole = joined.setdefault((site["kind"], site["layer"]), {**about, "shards": []})
            if {**whole, "shards": []} != {**about, "shards": []}:
                raise InputError(f"part {part}", about, f"what the parts before it have: {whole}")
            whole["shards"] += shards
    _write_index(folder, {**indices[0], "sites": [joined[site] for site in sorted(joined)]})
    return Traces.open(folder)


def _write_index(folder: Path, index: dict[str, Any]) -> None:
    """The index, with a hash of all that it says."""
    index = {key: value for key, value in index.items() if key != "hash"}
    content = hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
    write_text(folder / INDEX, json.dumps({**index, "hash": content}, indent=1))
