"""Finders as JSON and tensors, to be saved and found again by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

from jaxtyping import Float, jaxtyped
from torch import Tensor

from ..errors import InputError
from ..learning.projection import Projection
from .base import Cascade, Finder, Union
from .heads import Heads
from .registry import finder, finder_class, methods

__all__ = ["restored", "state_of"]

# Finders that are made of others, and are no methods.
COMPOSED: dict[str, type[Finder]] = {kind.about.name: kind for kind in (Cascade, Heads, Union)}


def state_of(one: Finder, key: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """A finder as JSON; its tensors go into the table under names that begin with the key."""
    settings: dict[str, Any] = {}
    for each in fields(one):
        value, name = getattr(one, each.name), f"{key}.{each.name}"
        if isinstance(value, Tensor):
            value = {"tensor": _stored(name, value, tensors)}
        elif isinstance(value, Projection):
            sides = {"queries": value.queries, "keys": value.keys}
            value = {"projection": [_stored(f"{name}.{side}", maps, tensors) for side, maps in sides.items()]}
        elif isinstance(value, tuple) and all(isinstance(part, Finder) for part in value):
            value = {"finders": [state_of(part, f"{name}.{place}", tensors) for place, part in enumerate(value)]}
        settings[each.name] = value
    return {"name": _name(one), "settings": settings}


def _stored(name: str, tensor: Tensor, tensors: dict[str, Tensor]) -> str:
    """Where the tensor is in the table: under this name, unless it is there already, as shared maps are."""
    for place, known in tensors.items():
        if known is tensor:
            return place
    tensors[name] = tensor
    return name


def restored(state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Finder:
    """The finder that `state_of` gave this for."""
    settings: dict[str, Any] = {}
    for name, value in state["settings"].items():
        if isinstance(value, dict):
            if "tensor" in value:
                value = tensors[value["tensor"]]
            elif "projection" in value:
                value = Projection(*(tensors[place] for place in value["projection"]))
            else:
                value = tuple(restored(one, tensors) for one in value["finders"])
        settings[name] = tuple(value) if isinstance(value, list) else value
    if state["name"] in COMPOSED:
        return COMPOSED[state["name"]](**settings)
    _check_shapes(state["name"], settings)
    return finder(state["name"], **settings)


def _check_shapes(method: str, settings: Mapping[str, Any]) -> None:
    """Raise unless tensors have the shapes that the fields of the method say, all of as many heads."""
    hints: dict[str, Any] = get_type_hints(finder_class(method))
    with jaxtyped("context"):
        for name, value in settings.items():
            maps = [value.queries, value.keys] if isinstance(value, Projection) else []
            expected: Any = Float[Tensor, "heads d r"] if maps else hints.get(name, object)
            for tensor in maps or [value]:
                if isinstance(tensor, Tensor) and not isinstance(tensor, expected):
                    got = f"{name} of the shape {tuple(tensor.shape)}"
                    want = f"the shape of its field, with as many heads: {expected}"
                    raise InputError(f"finder {method}", got, want)


def _name(one: Finder) -> str:
    name = one.about.name
    if {**methods(), **COMPOSED}.get(name) is not type(one):
        raise InputError("finder", type(one).__name__, "a method that sparsefinder.register knows, to be found again")
    return name
