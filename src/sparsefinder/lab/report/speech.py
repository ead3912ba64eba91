"""Parts of speech of subwords: spaCy tags the words of a text, and subwords take the tag of where they stand in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from ...errors import SparsefinderError

__all__ = ["NoTaggerError", "Tagger", "spans", "tagger"]

# From a text to the tag of each of its characters; none for spaces.
Tagger = Callable[[str], list[str | None]]

HOW = (
    "Parts of speech come from a spaCy pipeline, by its name: `pip install spacy`, `python -m spacy download "
    "en_core_web_sm`, then `sparsefinder report RUN --pos en_core_web_sm`."
)


class NoTaggerError(SparsefinderError):
    """There is no pipeline to tag with."""


def tagger(name: str | None) -> Tagger:
    """A spaCy pipeline by name; where there is none, the error says how to get one."""
    if name is None:
        raise NoTaggerError(f"This run names no pipeline. {HOW}")
    try:
        import spacy
    except ImportError as error:
        raise NoTaggerError(f"spaCy is not installed. {HOW}") from error
    try:
        pipeline = spacy.load(name)
    except OSError as error:
        raise NoTaggerError(f"spaCy has no pipeline {name!r} here. {HOW}") from error

    def tag(text: str) -> list[str | None]:
        tags: list[str | None] = [None] * len(text)
        for word in pipeline(text):
            if word.pos_ and word.pos_ != "SPACE":
                tags[word.idx : word.idx + len(word)] = [word.pos_] * len(word)
        return tags

    return tag


def spans(tokens: Sequence[str], text: str) -> list[int | None]:
    """Where each token begins in the text, whatever marks its tokenizer makes; None where it is not in it, as [CLS]."""
    byte_level = any("Ġ" in token or "Ċ" in token for token in tokens)
    lowered = text.lower() if len(text.lower()) == len(text) else text
    found: list[int | None] = []
    place, lost = 0, False
    for token in tokens:
        surface = _surface(token, byte_level)
        while place < len(text) and text[place].isspace():
            place += 1
        start: int | None = None
        for whole, part in ((text, surface), (lowered, surface.lower())):
            if part and whole.startswith(part, place):
                start = place
            elif part and lost and len(part) > 2:
                # After a token that is not in the text (unknown, masked) the next one stands a little further on.
                ahead = whole.find(part, place, place + 60)
                start = ahead if ahead >= 0 else None
            if start is not None:
                break
        found.append(start)
        lost = start is None and bool(surface)
        place = place if start is None else start + len(surface)
    return found


def _surface(token: str, byte_level: bool) -> str:
    """The text that a token stands for."""
    if byte_level:
        table = _bytes()
        raw = bytes(table[one] for one in token if one in table)
        return raw.decode("utf-8", "ignore").strip()
    return token.removeprefix("##").replace("▁", " ").removesuffix("</w>").strip()


@cache
def _bytes() -> dict[str, int]:
    """The characters that byte-level tokenizers write bytes as (GPT-2's table)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    themselves = {chr(byte): byte for byte in plain}
    return themselves | {chr(256 + place): byte for place, byte in enumerate(others)}
