"""What can be known before a training is checked before it: nothing stops a run after hours that could stop it now."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from .away import is_url
from .folder import RunFolder
from .recipe import Recipe
from .tasks.base import Task

__all__ = ["check_recipe", "check_start", "made_folder"]


def check_recipe(recipe: Recipe) -> None:
    """Raise what is wrong with methods, their settings and grids."""
    from .sweep.fit_stage import settings_of

    settings_of(recipe)


def made_folder(runs: str | Path, recipe: Recipe) -> RunFolder:
    """The folder of a run, which is made if it is not there."""
    folder = RunFolder.at(f"{runs}/{recipe.name}" if is_url(runs) else Path(runs) / recipe.name)
    path = folder.path
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / ".lock").open("ab").close()
    except OSError as error:
        want = "a folder, there or to be made, that may be written to"
        raise InputError("--runs", f"{runs}, where {path} cannot be made: {error.strerror}", want) from error
    return folder


def check_start(recipe: Recipe, task: Task, training: Path) -> None:
    """Raise what is wrong with the tokenizer, the model or the data, or what is asked of them after training.

    training: the folder in which the tokenizer is made, if one has to be.
    """
    from ..hf.sites import chosen_sites
    from .trace import kinds_of

    tokenizer, model = task.prepare(training)
    kinds = kinds_of(recipe, task)
    try:
        places = chosen_sites(model, kinds, recipe.trace.layers)
    except InputError as error:
        raise error.of("trace") from None
    if not places:
        raise InputError("trace.layers", "none", "one or more layers")
    replaced = () if recipe.accuracy is None else recipe.accuracy.kinds or ()
    for kind in replaced:
        if kind not in kinds:
            raise InputError("accuracy.kinds", repr(kind), f"kinds that are recorded: {', '.join(kinds)}")
    width = getattr(model.config, "head_dim", None) or min(model.config.hidden_size // one.heads for one in places)
    if recipe.fit.r > width:
        raise InputError("fit.r", recipe.fit.r, f"at most {width}, the width of a head")
    wanted = recipe.trace
    try:
        task.sequences(tokenizer, wanted.train + wanted.valid, wanted.longer_than)
    except InputError as error:
        if error.argument != "count":
            raise
        longer = f" of more than {wanted.longer_than} tokens" if wanted.longer_than else ""
        raise InputError(
            "trace.train and trace.valid",
            f"{wanted.train} and {wanted.valid} sequences{longer}",
            str(error).partition("want ")[2],
        ) from None
