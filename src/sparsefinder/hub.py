"""Names on the Hugging Face hub: folders by name or path, and folders that are pushed there with a card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import InputError
from .extras import require

__all__ = ["folder_of", "push"]

LIBRARY, TAGS = "sparsefinder", ("entmax", "sparse-attention")


def folder_of(name_or_path: str | Path, files: Sequence[str], want: str, **options: Any) -> Path:
    """A folder: the one at a path, or that of a repository on the hub, with these of its files.

    options: `revision`, `token`, `cache_dir` and what else `huggingface_hub.snapshot_download` takes.
    """
    folder = Path(name_or_path)
    if folder.is_dir():
        return folder
    require("hf", "huggingface_hub")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(str(name_or_path), allow_patterns=list(files), **options))
    except (HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError) as error:
        got = f"{name_or_path}, which is neither a folder nor a repository that can be reached"
        raise InputError("path", got, want) from error


def push(name: str, save: Callable[[Path], object], card: str, **options: Any) -> str:
    """Create a repository on the hub if there is none, and commit what `save` writes to a folder, with a card.

    options: `private`, `token`, `branch`, `create_pr`, `commit_message` and what else the mixin's `push_to_hub` takes.
    Returns the address of the commit.
    """
    require("hf", "huggingface_hub")
    from huggingface_hub import ModelCard, ModelCardData, ModelHubMixin

    class Upload(ModelHubMixin):
        """The hub's own way to push, lent to objects that cannot inherit it: the base install has no hub."""

        def _save_pretrained(self, save_directory: Path) -> None:
            save(save_directory)

        def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
            data = ModelCardData(library_name=LIBRARY, tags=list(TAGS))
            return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{card}")

    return str(Upload().push_to_hub(name, **options))
