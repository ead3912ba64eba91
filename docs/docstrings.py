"""An extension of griffe, which reads docstrings for the reference: ours as Markdown, and comments above fields too."""

from __future__ import annotations

import re
from typing import Any

import griffe

# What an argument or column means, in our docstrings: `name: words`, or `one, other: words`.
ARGUMENT = re.compile(r"^((?:\w+, )*\w+): (?=\S)", re.MULTILINE)
EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Examples become code, arguments a list, and what is said above a field its docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)

    def on_attribute(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        above = _above(attr)
        if attr.docstring is None and above:
            attr.docstring = griffe.Docstring(above, parent=attr)


def markdown(text: str) -> str:
    """A docstring as Markdown.

    >>> markdown("Sort it.\\nwords: what to sort")
    'Sort it.\\n\\n- `words`: what to sort'
    """
    text = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
    # A list begins after an empty line.
    return ARGUMENT.sub(r"\n- `\1`: ", text)


def _above(attr: griffe.Attribute) -> str:
    """The comment right above an attribute."""
    if attr.lineno is None or not isinstance(attr.filepath, type(attr.package.filepath)):
        return ""
    lines, words = attr.lines_collection[attr.filepath], []
    for line in reversed(lines[: attr.lineno - 1]):
        if not line.strip().startswith("# "):
            break
        words.insert(0, line.strip().removeprefix("# "))
    return " ".join(words)
