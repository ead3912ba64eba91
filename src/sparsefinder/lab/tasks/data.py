"""Texts and sentence pairs from where a recipe says they are: files, the hub, or what every machine has.

>>> read_texts("wiki.txt.gz")
['The first paragraph.', 'The second one.']
>>> read_pairs(("train.en", "train.de"))
[('Good morning.', 'Guten Morgen.')]
"""

from __future__ import annotations

import difflib
import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..recipe import HubPairs, HubSource, PairFiles, PairSource, TextSource
from .corpora import builtin_pairs, builtin_texts

__all__ = ["Pair", "read_pairs", "read_texts"]

Pair = tuple[str, str]
GZIP = b"\x1f\x8b"


def read_texts(source: TextSource) -> list[str]:
    """Paragraphs of text, without the empty ones."""
    if isinstance(source, str):
        texts = [line.strip() for line in _lines(source)]
    elif isinstance(source, HubSource):
        texts = [text.strip() for text in _hub_texts(source)]
    else:
        texts = builtin_texts(source)
    return _some([text for text in texts if text], source, "text")


def read_pairs(source: PairSource) -> list[Pair]:
    """Sentences and their translations, without pairs of which a side is empty."""
    if isinstance(source, str):
        pairs = list(_columns(source))
    elif isinstance(source, tuple):
        pairs = _aligned(*source)
    elif isinstance(source, PairFiles):
        joins = source.join if len(source.join) > 1 else source.join * len(source.source)
        files = zip(source.source, source.target, joins, strict=True)
        pairs = [pair for left, right, lines in files for pair in _documents(_aligned(left, right), lines)]
    elif isinstance(source, HubPairs):
        pairs = list(_hub_pairs(source))
    else:
        pairs = builtin_pairs(source)
    stripped = [(left.strip(), right.strip()) for left, right in pairs]
    found = _some([pair for pair in stripped if all(pair)], source, "sentence pair")
    if isinstance(source, PairFiles | HubPairs) and source.pairs not in (None, len(found)):
        want = f"{source.pairs:,}, as `pairs` says: another slice, other files, or another `pairs`"
        raise InputError("data.pairs", f"{len(found):,} sentence pairs in {source}", want)
    return found


def _some(found: list[Any], source: object, what: str) -> list[Any]:
    if not found:
        raise InputError("data", f"{source} without a single {what}", f"a source with at least one {what}")
    return found


def _lines(path: str) -> list[str]:
    """The lines of a file. Only line feeds end them: other characters that Unicode breaks lines at are text."""
    file = Path(path)
    if not file.is_file():
        raise InputError("data", f"{path}, which is not a file{_near(file)}", "the path of a text file, plain or .gz")
    content = file.read_bytes()
    if content.startswith(GZIP):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise InputError("data", f"{path}: {error}", "a whole gzip file") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        got = f"{path}, whose line {line} has bytes that are not UTF-8 ({error.reason})"
        raise InputError("data", got, "text in UTF-8") from error
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _near(file: Path) -> str:
    """The files of the same folder whose names are most like it."""
    if not file.parent.is_dir():
        return f" (there is no folder {file.parent})"
    names = [one.name for one in file.parent.iterdir() if one.is_file()]
    near = difflib.get_close_matches(file.name, names, n=3, cutoff=0.3) or sorted(names)[:3]
    return f" ({file.parent} has {', '.join(near)})" if near else f" ({file.parent} has no files)"


def _columns(path: str) -> Iterator[Pair]:
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) != 2:
            got = f"{path}, whose line {number} has {len(parts) - 1} tabs"
            raise InputError("data", got, "lines of a sentence, one tab and its translation; or two files of lines")
        yield parts[0], parts[1]


def _aligned(left: str, right: str) -> list[Pair]:
    sources, targets = _lines(left), _lines(right)
    if len(sources) != len(targets):
        got = f"{len(sources)} lines in {left} and {len(targets)} in {right}"
        raise InputError("data", got, "two files with as many lines, each the translation of the other's")
    return list(zip(sources, targets, strict=True))


def _documents(pairs: list[Pair], lines: int) -> Iterator[Pair]:
    """So many pairs, one after the other, as one; those at the end that are fewer make one, too."""
    whole = [pair for pair in pairs if all(side.strip() for side in pair)]
    for first in range(0, len(whole), lines):
        lefts, rights = zip(*whole[first : first + lines], strict=True)
        yield " ".join(map(str.strip, lefts)), " ".join(map(str.strip, rights))


def _load(source: HubSource) -> Any:
    from datasets import load_dataset  # takes a second, and only hub sources need it

    try:
        return load_dataset(
            source.hub, source.config, data_dir=source.folder, revision=source.revision, split=source.split
        )
    except Exception as error:
        # Of any class: no network, no such split, a loading script (refused since datasets 4.0), a broken file, …
        plain = (
            "plain files: {source: a.en, target: a.de}" if isinstance(source, HubPairs) else "the path of a text file"
        )
        want = "a data set of the hub (or a folder of data files), with one of its configs or folders and splits"
        script = "(one that is made by a script: with `revision: refs/convert/parquet` and a `folder`)"
        raise InputError("data.hub", f"{source.hub}: {error}", f"{want} {script}; or {plain}") from error


def _hub_texts(source: HubSource) -> Iterable[str]:
    data = _load(source)
    name = source.column or ("text" if "text" in data.column_names else None)
    if name is None and len(data.column_names) == 1:
        name = data.column_names[0]
    _check(source, "column", name, data.column_names)
    return (str(text or "") for text in data[name])


def _hub_pairs(source: HubPairs) -> Iterator[Pair]:
    data = _load(source)
    if source.column is not None:
        _check(source, "column", source.column, data.column_names)
        rows: Iterable[Any] = data[source.column]
    else:
        rows = data
    names: Any = data.column_names if source.column is None else None
    for row in rows:
        if names is None:
            names = list(row)
        _check(source, "source", source.source, names)
        _check(source, "target", source.target, names)
        yield str(row[source.source] or ""), str(row[source.target] or "")


def _check(source: HubSource, key: str, name: str | None, names: list[str]) -> None:
    if name not in names:
        got = f"{name!r} for {source.hub}" if name else f"none for {source.hub}"
        raise InputError(f"data.{key}", got, f"one of {', '.join(map(repr, names))}")
