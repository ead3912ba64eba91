"""Sparsefinder: predict which query–key pairs an entmax transformer will use, and compute only those."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .attention import attention
from .entmax import entmax
from .errors import InputError, SparsefinderError
from .finders import Finder, Full, GlobalTokens, Window, finder
from .fitted import Sparsefinder
from .graph import Graph
from .layout import Layout
from .metrics import GraphMetrics
from .projection import Projection
from .recording import TraceWriter
from .sample import Sample
from .traces import Traces

if TYPE_CHECKING:
    from .checkpoints import load_model, save_model
    from .models import predicting, record, use_entmax

__version__ = "0.1.0"

# These bring in transformers, which takes seconds to import, so they wait until they are asked for.
_WAITING = {
    "load_model": "checkpoints",
    "predicting": "models",
    "record": "models",
    "save_model": "checkpoints",
    "use_entmax": "models",
}

__all__ = [
    "Finder",
    "Full",
    "GlobalTokens",
    "Graph",
    "GraphMetrics",
    "InputError",
    "Layout",
    "Projection",
    "Sample",
    "Sparsefinder",
    "SparsefinderError",
    "TraceWriter",
    "Traces",
    "Window",
    "attention",
    "entmax",
    "finder",
    "load_model",
    "predicting",
    "record",
    "save_model",
    "use_entmax",
]


def __getattr__(name: str) -> Any:
    if name in _WAITING:
        return getattr(import_module(f".{_WAITING[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WAITING})
