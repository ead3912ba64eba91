"""What works with the base install alone, and what names the extra it needs. `make wheel` runs it with nothing else.

Not a test file: it imports no pytest. `tests/test_extras.py` runs it too, with the packages of the extras hidden.
"""

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch

import sparsefinder
from sparsefinder import MissingExtraError, Sparsefinder, SparsefinderError, Traces, TraceWriter, attention, finders
from sparsefinder.__main__ import main
from sparsefinder.attending import native

EXTRAS = ("transformers", "huggingface_hub", "sklearn", "tqdm", "pydantic", "matplotlib", "typer", "pyarrow")
UNFITTED = (
    finders.BigBird(1, 4),
    finders.BlockTopK(4, 2),
    finders.ClusteredAttention(4, 0.2),
    finders.Distance(3.0),
    finders.FlexPrefill(4, 0.9),
    finders.Full(),
    finders.GlobalTokens(1),
    finders.Longformer(3, 1),
    finders.MInference(2, 2),
    finders.Oracle(),
    finders.Quantization(4),
    finders.Quest(4, 2),
    finders.RandomBlocks(1, 4),
    finders.Reformer(4),
    finders.Smyrf(4),
    finders.SparQ(4, 0.2),
    finders.SpargeAttention(4, 0.9),
    finders.Strided(4),
    finders.TopK(0.2),
    finders.Window(5),
    finders.Window(5) | finders.GlobalTokens(1),
    finders.XAttention(8, 0.9),
)
# Made of others, or of what is learned from data.
COMPOSED_OR_FITTED = {
    "BentSketch",
    "BlockCentroids",
    "Cascade",
    "ClusterFormer",
    "Finder",
    "HashAttention",
    "Heads",
    "KMeans",
    "Learned",
    "LightningIndexer",
    "Loki",
    "MagicPig",
    "Probe",
    "Routing",
    "SeerAttention",
    "Several",
    "Sketch",
}


def attends() -> None:
    """Attention, on the C++ kernel where it was built, is what torch computes."""
    q, k, v = (torch.randn(2, 4, 24, 8) for _ in range(3))
    soft = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(attention(q, k, v, alpha=1.0, is_causal=True), soft)
    wanted = attention(q, k, v, backend="reference")
    torch.testing.assert_close(attention(q, k, v), wanted)
    assert native._native is not None, "the kernel was not built"
    torch.testing.assert_close(attention(q, k, v, backend="native"), wanted)


def finds() -> None:
    """Every finder that needs no fitting gives a graph that attention takes."""
    kinds = {name for name in finders.__all__ if isinstance(getattr(finders, name), type)}
    kinds = {name for name in kinds if issubclass(getattr(finders, name), finders.Finder)}
    assert kinds - COMPOSED_OR_FITTED == {type(one).__name__ for one in UNFITTED}
    q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
    for one in UNFITTED:
        graph = one(q, k)
        assert graph.count().sum() > 0, one
        assert attention(q, k, v, graph).isfinite().all(), one


def traces(folder: Path) -> Traces:
    with TraceWriter(folder) as writer:
        for _ in range(3):
            writer.add("encoder", 0, torch.randn(2, 2, 16, 8), torch.randn(2, 2, 16, 8))
    return Traces.open(folder)


def fits(recorded: Traces, folder: Path) -> None:
    """Finders that cluster nothing are fitted, saved and loaded."""
    Sparsefinder.fit(recorded, "sketch", r=4, share=0.3).save_pretrained(folder)
    q, k = torch.randn(1, 2, 16, 8), torch.randn(1, 2, 16, 8)
    assert Sparsefinder.from_pretrained(folder)["encoder", 0](q, k).count().sum() > 0


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
    with tempfile.TemporaryDirectory() as scratch:
        recorded = traces(Path(scratch) / "traces")
        fits(recorded, Path(scratch) / "finders")
        names("hf", lambda: Sparsefinder.fit(recorded, "kmeans", clusters=2))
        names("hf", lambda: Sparsefinder.from_pretrained("someone/finders"))
        names("hf", lambda: Sparsefinder({}).push_to_hub("someone/finders"))
    for name in sparsefinder._HF:
        names("hf", lambda name=name: getattr(sparsefinder, name))
        assert name not in dir(sparsefinder), name
    exec("from sparsefinder import *")
    stopped = refusal(main)
    assert isinstance(stopped, SystemExit)
    assert str(stopped.code).startswith("error: "), stopped
    assert 'pip install "sparsefinder[lab]"' in str(stopped.code), stopped
    print("the base works:", sparsefinder.__file__)
