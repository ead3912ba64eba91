"""What works with the base install alone, and what names the extra it needs. `make wheel` runs it with nothing else.

Not a test file: it imports no pytest. `tests/test_extras.py` runs it too, with the packages of the extras hidden.
"""

from collections.abc import Callable
from importlib.util import find_spec

import torch

import sparsefinder
from sparsefinder import Layout, MissingExtraError, Sample, SparsefinderError, attention, finder
from sparsefinder.__main__ import main
from sparsefinder.attending import native
from sparsefinder.finders import FINDERS, KMeans, Sketch
from sparsefinder.finders.base import finder_class

EXTRAS = ("transformers", "huggingface_hub", "sklearn", "tqdm", "pydantic", "matplotlib", "typer", "pyarrow")
UNFITTED: dict[str, dict[str, object]] = {
    "bigbird": {"random_blocks": 1, "block": 4},
    "block-topk": {"block": 4, "k": 2},
    "distance": {"t": 3.0},
    "full": {},
    "global": {"count": 1},
    "longformer": {"window": 3, "globals": 1},
    "oracle": {},
    "quantization": {"beta": 4},
    "random": {"count": 1, "block": 4},
    "reformer": {"buckets": 4},
    "strided": {"stride": 4},
    "topk": {"share": 0.2},
    "window": {"size": 5},
}


def attends() -> None:
    """Attention, on the C++ kernel where it was built, is what torch computes."""
    q, k, v = (torch.randn(2, 4, 24, 8) for _ in range(3))
    soft = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(attention(q, k, v, alpha=1.0, layout=Layout(causal=True)), soft)
    wanted = attention(q, k, v, backend="reference")
    torch.testing.assert_close(attention(q, k, v), wanted)
    assert native._native is not None, "the kernel was not built"
    torch.testing.assert_close(attention(q, k, v, backend="native"), wanted)


def finds() -> None:
    """Every finder that needs no fitting gives a graph that attention takes; a sketch can be fitted as well."""
    missing = {name for name in FINDERS if not hasattr(finder_class(name), "fit")} - set(UNFITTED)
    assert not missing, f"no settings for {missing}"
    q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
    sketch = Sketch.fit([Sample(q, k)], r=4, share=0.3)
    for one in (sketch, *(finder(name, **settings) for name, settings in UNFITTED.items())):
        graph = one(q, k)
        assert graph.count().sum() > 0, one
        assert attention(q, k, v, graph).isfinite().all(), one


def refusal(call: Callable[[], object]) -> BaseException:
    """What a call fails with."""
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError(f"{call} did not fail")


def names(extra: str, call: Callable[[], object]) -> None:
    """The call fails with an error that says which extra to install."""
    error = refusal(call)
    assert isinstance(error, MissingExtraError), error
    assert isinstance(error, ImportError)
    assert isinstance(error, SparsefinderError)
    assert f'pip install "sparsefinder[{extra}]"' in str(error), error


if __name__ == "__main__":
    there = [name for name in EXTRAS if find_spec(name) is not None]
    assert not there, f"not the base alone: {there}"
    attends()
    finds()
    for name in ("load_model", "save_model", "use_entmax", "predicting", "record", "record_traces"):
        names("hf", lambda name=name: getattr(sparsefinder, name))
        assert name not in dir(sparsefinder), name
    names("hf", lambda: KMeans.fit([Sample(torch.randn(1, 2, 9, 4), torch.randn(1, 2, 9, 4))], clusters=2))
    stopped = refusal(main)
    assert isinstance(stopped, SystemExit)
    assert str(stopped.code).startswith("error: "), stopped
    assert 'pip install "sparsefinder[lab]"' in str(stopped.code), stopped
    exec("from sparsefinder import *")
    print("the base works:", sparsefinder.__file__)
