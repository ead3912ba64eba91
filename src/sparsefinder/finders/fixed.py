"""Fixed patterns: the window and the global tokens that methods are united with. Sec. 4.7 of the paper."""

from __future__ import annotations

from dataclasses import replace

from .base import Finder, Union
from .global_tokens import GlobalTokens
from .window import Window

__all__ = ["fixed", "united"]


def fixed(window: int, global_tokens: int) -> Union:
    """A window, and the first tokens as global ones."""
    return Window(window) | GlobalTokens(global_tokens)


def united(one: Finder, window: int, global_tokens: int) -> Finder:
    """A finder together with a window and global tokens, as sweeps and timings use it.

    Its union with them; but who counts what comes besides them (`about.besides`) has to know of them before it chooses.
    """
    if not one.about.besides:
        return one | fixed(window, global_tokens)
    own = {"window": window, "globals": global_tokens}
    return replace(one, **{name: max(getattr(one, name), value) for name, value in own.items()})
