"""Other libraries' own displays are off: a bar for every file would bury the one that says how far a stage is."""

from __future__ import annotations

from .progress import console

__all__ = ["quiet"]


def quiet() -> None:
    """From now on, in this process: no bars of transformers; without a terminal, none of downloads either."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    if not console.is_terminal:
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()
