"""Corpora that need no download: English that comes with Python, and pairs that a grammar makes.

`python` is CPython's reference manual and the docstrings of packages that are always there. What stands in one manual
topic or module stays together and in one part, so that a block of text has long-range structure as real text has.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import warnings
import zlib
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics
from typing import TYPE_CHECKING

from ...errors import InputError
from .grammar import pairs

if TYPE_CHECKING:
    from ..recipe import BuiltinSource

__all__ = ["builtin_pairs", "builtin_texts", "part_of", "python_documents"]

# Made pairs, where a recipe does not say how many.
PAIRS = {"train": 20_000, "valid": 1_000, "test": 1_000}
# Of a hundred documents or sentences, so many go to the last two parts each; the rest is to train on.
HELD_OUT = 6
STANDARD = ("", "asyncio", "concurrent", "email", "http", "importlib", "json", "logging", "multiprocessing", "unittest")
# Where the packages that this one needs have prose; reading everything would take a minute.
PACKAGES = {
    "numpy": ("", "_core", "fft", "lib", "linalg", "ma", "polynomial"),
    "sklearn": ("cluster", "decomposition", "ensemble", "linear_model", "metrics", "model_selection", "neighbors"),
    "torch": ("", "distributions", "nn", "nn/modules", "optim", "utils/data"),
}
SHORTEST = 40


def builtin_texts(source: BuiltinSource) -> list[str]:
    """Paragraphs of a built-in corpus."""
    if source.builtin != "python":
        want = "'python': numbers-de and numbers-fr are sentence pairs, for translation"
        raise InputError("data.builtin", repr(source.builtin), want)
    found = [text for key, texts in python_documents() if part_of(key) == source.part for text in texts]
    return found[: source.count]


@lru_cache(maxsize=4)
def builtin_pairs(source: BuiltinSource) -> list[tuple[str, str]]:
    """Sentence pairs of a built-in corpus."""
    if source.builtin == "python":
        raise InputError("data.builtin", "'python'", "'numbers-de' or 'numbers-fr': python is text without translation")
    wanted, found = source.count or PAIRS[source.part], []
    # The stream never ends and is the same for every part: whatever the counts, no sentence is in two parts.
    for english, other in pairs(source.builtin.removeprefix("numbers-")):
        if part_of(english) == source.part:
            found.append((english, other))
            if len(found) == wanted:
                break
    return found


def part_of(text: str) -> str:
    """Which part a document or sentence belongs to: the same on every machine."""
    place = zlib.crc32(text.encode()) % 100
    return "test" if place < HELD_OUT else "valid" if place < 2 * HELD_OUT else "train"


@cache
def python_documents() -> tuple[tuple[str, list[str]], ...]:
    """The manual's topics and the docstrings of modules: a name, and paragraphs that no earlier document had."""
    seen: set[str] = set()
    found = []
    for name, text in _documents():
        paragraphs = []
        for paragraph in re.split(r"\n\s*\n", text):
            joined = " ".join(paragraph.split())
            if len(joined) >= SHORTEST and joined not in seen:
                seen.add(joined)
                paragraphs.append(joined)
        if paragraphs:
            found.append((name, paragraphs))
    return tuple(found)


def _documents() -> Iterator[tuple[str, str]]:
    for topic in sorted(topics):
        yield f"manual {topic}", topics[topic]
    for name, folder in _folders():
        for file in sorted(folder.glob("*.py")):
            text = "\n\n".join(_docstrings(file))
            if text:
                yield f"{name}/{file.name}", text


def _folders() -> Iterator[tuple[str, Path]]:
    standard = Path(sysconfig.get_path("stdlib"))
    for folder in STANDARD:
        yield f"python/{folder}", standard / folder
    for package, folders in PACKAGES.items():
        # Only looks where the package is; it is not imported.
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or [])[:1] if spec else []:
            for folder in folders:
                yield f"{package}/{folder}", Path(place) / folder


def _docstrings(file: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            # Other people's escape sequences.
            warnings.simplefilter("ignore")
            tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    yield from _docstrings_of(tree)


def _docstrings_of(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Depth first, as they stand in the file; functions within functions have none worth reading."""
    text = ast.get_docstring(node)
    if text:
        yield text
    if isinstance(node, ast.Module | ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _docstrings_of(inner)
