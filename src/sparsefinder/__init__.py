"""Sparsefinder: predict which query–key pairs an entmax transformer will use, and compute only those."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .extras import present

if TYPE_CHECKING:
    from .attending import attention, gold_graph
    from .core.entmax import entmax
    from .core.graph import Graph
    from .core.layout import Grid, Layout
    from .core.metrics import GraphMetrics
    from .errors import InputError, SparsefinderError
    from .extras import MissingExtraError
    from .finders import Finder, Fitting, Full, GlobalTokens, Window, finder, register
    from .fitted import Sparsefinder
    from .hf.checkpoints import load_model, push_model, save_model
    from .hf.models import finders_of, predicting, record, use_entmax, use_finders
    from .hf.recording import record_traces
    from .learning.projection import Projection
    from .learning.sample import Sample
    from .traces.store import Traces
    from .traces.writer import TraceWriter

__version__ = "0.1.0"

# Where each name is. All wait until they are asked for: torch takes a second to import, and transformers several.
_HF = {
    "finders_of": "hf.models",
    "load_model": "hf.checkpoints",
    "predicting": "hf.models",
    "push_model": "hf.checkpoints",
    "record": "hf.models",
    "record_traces": "hf.recording",
    "save_model": "hf.checkpoints",
    "use_entmax": "hf.models",
    "use_finders": "hf.models",
}
_WAITING = _HF | {
    "Finder": "finders",
    "Fitting": "finders",
    "Full": "finders",
    "GlobalTokens": "finders",
    "Graph": "core.graph",
    "GraphMetrics": "core.metrics",
    "Grid": "core.layout",
    "InputError": "errors",
    "Layout": "core.layout",
    "MissingExtraError": "extras",
    "Projection": "learning.projection",
    "Sample": "learning.sample",
    "Sparsefinder": "fitted",
    "SparsefinderError": "errors",
    "TraceWriter": "traces.writer",
    "Traces": "traces.store",
    "Window": "finders",
    "attention": "attending",
    "entmax": "core.entmax",
    "finder": "finders",
    "gold_graph": "attending",
    "register": "finders",
}
# Rooms that can be reached without importing them by name.
_ROOMS = ("attending", "core", "errors", "finders", "hf", "learning", "testing", "traces")

__all__ = [
    "Finder",
    "Fitting",
    "Full",
    "GlobalTokens",
    "Graph",
    "GraphMetrics",
    "Grid",
    "InputError",
    "Layout",
    "MissingExtraError",
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
    "finders_of",
    "gold_graph",
    "load_model",
    "predicting",
    "push_model",
    "record",
    "record_traces",
    "register",
    "save_model",
    "use_entmax",
    "use_finders",
]
if not present("transformers"):
    # `import *` and help() go through every name here; asking for one of these says what to install.
    __all__ = [name for name in __all__ if name not in _HF]


def __getattr__(name: str) -> Any:
    if name in _WAITING:
        return getattr(import_module(f".{_WAITING[name]}", __name__), name)
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
