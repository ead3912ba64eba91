"""Sparsefinder: predict which query–key pairs an entmax transformer will use, and compute only those."""

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
    from .models import load_model, predicting, record, save_model, use_entmax

__version__ = "0.1.0"

# These bring in transformers, which takes seconds to import, so they wait until they are asked for.
_MODELS = ("load_model", "predicting", "record", "save_model", "use_entmax")

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
    if name in _MODELS:
        from . import models

        return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODELS})
