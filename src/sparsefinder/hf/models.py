"""Entmax attention, predicted attention and recording for Hugging Face models.

>>> model = load_model("bert-base-uncased", alpha=1.5)
>>> with predicting(model, Window(51) | GlobalTokens(1)):
...     model(**inputs)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel

from ..attending.api import BACKENDS
from ..errors import InputError, check_type, wrong_type
from ..finders import Finder, Place
from ..fitted import Sparsefinder
from ..traces.record import Record
from .alphas import Alpha, alpha_of, alphas_for, set_alpha
from .attend import Attend, Use, Within, opened
from .generating import prepare_own_caches
from .interface import NAME, register
from .recomputing import carry_uses
from .scaling import set_scaling
from .sites import chosen_sites, find_sites, sites

__all__ = ["alpha_of", "finders_for", "finders_of", "predicting", "record", "sites", "use_entmax", "use_finders"]

Finders = Finder | Mapping[Any, Finder] | Callable[[str, int], Finder | None]


def use_entmax(
    model: PreTrainedModel, alpha: Alpha = 1.5, *, learn: bool = False, scaled: bool = False, backend: str = "auto"
) -> PreTrainedModel:
    """Switch every attention layer of a model to entmax. Changes the model and returns it.

    >>> use_entmax(model)                                             # 1.5 everywhere
    >>> use_entmax(model, {"encoder": 1.5, "cross": [1.3, 1.4, 1.5]})  # by kind and layer; a list of lists: by head
    >>> use_entmax(model, learn=True)                                 # one learned α in (1, 2) per head
    >>> use_entmax(model, scaled=True)                                # ASEntmax: scores by length, as heads learn

    Kinds that are not named have 1.5.
    scaled: scores grow with the logarithm of the number of keys, by as much as every head learns (`hf/scaling.py`);
    the model begins as it is.
    The α is kept in `model.config.entmax`, so that a checkpoint says what it was trained with.
    """
    register()
    found = list(find_sites(model).values())
    check_type("scaled", scaled, bool, "True or False")
    _check_backend(backend)
    alphas = alphas_for(alpha, [attend for _, attend in found], learn)
    model.set_attn_implementation(NAME)
    width = model.config.get_text_config().hidden_size if scaled else None
    for (module, attend), own in zip(found, alphas, strict=True):
        attend.for_good = Use(backend=backend)
        set_alpha(module, attend, own, learn)
        set_scaling(module, attend, width)
        module.sparsefinder = attend  # type: ignore[assignment]
    model.config.entmax = {"alpha": alpha_of(model), "learned": learn, "scaled": scaled}
    # Transformers does not save which implementation a model uses, and would load it with softmax. With this entry in
    # its config.json it asks for entmax by name, and so refuses where Sparsefinder is not there to provide it.
    model.config.attn_implementation = NAME
    carry_uses(model)
    prepare_own_caches(model)
    return model


def use_finders(
    model: PreTrainedModel,
    finders: Finders | None,
    *,
    kinds: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    exact: bool = False,
    backend: str | None = None,
) -> PreTrainedModel:
    """From now on, attention looks only at the pairs that the finders predict. Changes the model and returns it.

    >>> use_finders(model, Window(51) | GlobalTokens(1))  # for good: serving code, say
    >>> use_finders(model, None)                          # and off again

    finders: one for every site; a mapping from a kind, or from (kind, layer), to a finder; or a function of kind and
    layer that returns a finder, or None to have none at a site. What one finder for several layers draws, it draws anew
    in each.
    kinds, layers: which sites; all of them if None. Others stay as they are.
    exact: use predictions only as the order of work, and compute the full result.

    Within a block of `predicting`, what the block says is used until its end.
    """
    _check_backend(backend)
    for attend, use in _uses(model, finders, kinds, layers, exact).items():
        attend.for_good = replace(use, backend=backend or attend.for_good.backend)
    return model


def finders_of(model: PreTrainedModel) -> Sparsefinder:
    """The finders that are switched on in a model, by kind and layer.

    >>> finders_of(load_model("me/bert-with-finders"))
    """
    every = {(attend.kind, attend.layer): attend.use for attend in sites(model).values()}
    finders = {site: use.finder for site, use in every.items() if use.finder is not None}
    abouts = [every[site].about for site in finders]
    # What is known holds for finders that were fitted together, not for a mixture.
    about = abouts[0] if abouts and all(each is abouts[0] for each in abouts) else {}
    return Sparsefinder(finders, about)


@contextmanager
def predicting(
    model: PreTrainedModel,
    finders: Finders,
    *,
    kinds: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    exact: bool = False,
    backend: str | None = None,
) -> Iterator[PreTrainedModel]:
    """Within this block, attention looks only at the pairs that the finders predict.

    >>> with predicting(model, Window(11), kinds=["decoder"], layers=[0, 1]):
    ...     model.generate(**inputs)

    The arguments are those of `use_finders`, and what was used before is used again afterwards. The block holds for
    this model, not for copies of it, and for the thread that opens it: another one opens its own, or runs in the
    context of this one (`asyncio.to_thread`, `contextvars.copy_context().run`). With gradient checkpointing,
    `backward()` may come after the block: it uses what was used forward.
    """
    _check_backend(backend)
    uses = _uses(model, finders, kinds, layers, exact)
    with opened(Within({attend: replace(uses[attend], backend=backend or attend.use.backend) for attend in uses})):
        yield model


@contextmanager
def record(
    model: PreTrainedModel,
    sink: Callable[[Record], object] | None = None,
    *,
    kinds: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
) -> Iterator[list[Record]]:
    """Within this block, collect the queries and keys of every attention call.

    >>> with record(model, layers=[0]) as records:
    ...     model(**inputs)
    >>> records[0].gold.sparsity()

    With `sink`, each record goes there instead as it comes, and nothing is kept: for more than memory holds. As with
    `predicting`, calls of other threads and of copies are not collected, nor is a layer that is computed again for its
    gradient.
    """
    if sink is not None and not callable(sink):
        raise InputError("sink", repr(sink), "a function of a record; which layers is kinds=... and layers=...")
    records: list[Record] = []
    take = records.append if sink is None else sink
    with opened(Within(sinks=dict.fromkeys(chosen_sites(model, kinds, layers), take))):
        yield records


def _uses(
    model: PreTrainedModel,
    finders: Finders | None,
    kinds: Sequence[str] | None,
    layers: Sequence[int] | None,
    exact: bool,
) -> dict[Attend, Use]:
    """What the chosen sites shall attend with."""
    chosen = chosen_sites(model, kinds, layers)
    assigned = finders_for(chosen, finders)
    about = finders.about if isinstance(finders, Sparsefinder) else {}
    return {attend: Use(assigned.get((attend.kind, attend.layer)), about, exact) for attend in chosen}


def finders_for(chosen: Sequence[Attend], finders: Finders | None) -> dict[tuple[str, int], Finder]:
    """The finder of each site that gets one."""
    if finders is None:
        return {}
    if isinstance(finders, Mapping):
        _check_keys(finders, chosen)
    found = {(attend.kind, attend.layer): _finder_for(finders, attend) for attend in chosen}
    return {site: finder for site, finder in found.items() if finder is not None}


def _finder_for(finders: Finders, attend: Attend) -> Finder | None:
    place, site = Place(attend.kind, attend.layer), (attend.kind, attend.layer)
    if isinstance(finders, Finder):
        return finders.apart(place)
    if isinstance(finders, Mapping):
        found = finders[site] if site in finders else finders.get(attend.kind)
        if site not in finders and isinstance(found, Finder):
            found = found.apart(place)
    elif callable(finders) and not isinstance(finders, type):
        found = finders(attend.kind, attend.layer)
    else:
        want = "a finder, a mapping from kind or (kind, layer) to a finder, or a function of kind and layer"
        raise wrong_type("finders", finders, f"{want}; Sparsefinder.from_pretrained(path) has what was saved")
    if found is not None:
        check_type(f"finders for {attend.name}", found, Finder, "a finder, such as Window(51), or None")
    return found


def _check_backend(backend: str | None) -> None:
    """Say at once what attention would say only when it is called."""
    if backend is not None and backend not in ("auto", *BACKENDS):
        raise InputError("backend", repr(backend), f"one of {', '.join(map(repr, ['auto', *BACKENDS]))}")


def _check_keys(finders: Mapping[Any, Finder], chosen: Sequence[Attend]) -> None:
    known = {attend.kind for attend in chosen} | {(attend.kind, attend.layer) for attend in chosen}
    unknown = [key for key in finders if key not in known]
    if unknown:
        kinds = sorted({attend.kind for attend in chosen})
        raise InputError("finders", f"the key {unknown[0]!r}", f"a kind out of {kinds}, or (kind, layer) of this model")
