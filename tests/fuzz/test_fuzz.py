"""A bounded fuzz of all that a user can put something wrong into: a clear error or a right answer, nothing else."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsefinder import Sparsefinder, SparsefinderError
from sparsefinder.core.layout import Layout
from sparsefinder.errors import InputError
from sparsefinder.lab.recipe import Recipe, load_recipe
from sparsefinder.lab.tasks.data import read_pairs, read_texts
from sparsefinder.traces.store import Traces
from sparsefinder.traces.writer import TraceWriter

from ..synthetic import grouped
from .kernels import check

FEW = settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
RECIPE = yaml.safe_load((Path(__file__).parents[2] / "recipes/demo-mlm.yaml").read_text())
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.floats(), st.text(max_size=20),
    st.binary(max_size=9), st.sampled_from(["../..", "/etc/passwd", "\x00", "a" * 5000, "ray", "s3://x"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def paths(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in something nested."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [before, *(path for key, each in inner for path in paths(each, (*before, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The same with something else at a place."""
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = changed(value[path[0]], path[1:], new)
    return copied


def test_kernels() -> None:
    settings(max_examples=400, suppress_health_check=list(HealthCheck), deadline=None)(check)()


@FEW
@given(st.data())
def test_recipes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = changed(RECIPE, data.draw(st.sampled_from(paths(RECIPE))), data.draw(VALUES))
    file = tmp_path_factory.getbasetemp() / "recipe.yaml"
    file.write_text(yaml.dump(content))
    with suppress(InputError):
        assert isinstance(load_recipe(file), Recipe)


@FEW
@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_bytes_as_recipes_and_texts(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "bytes.yaml"
    file.write_bytes(content)
    for read in (load_recipe, lambda path: read_texts(str(path)), lambda path: read_pairs(str(path))):
        with suppress(InputError):
            assert read(file)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces and finders, as they should be."""
    folder = tmp_path_factory.mktemp("written")
    with TraceWriter(folder / "traces", dtype="float32", teacher="none") as writer:
        for seed in range(3):
            sample = grouped(2, 12, seed=seed, layout=Layout())
            writer.add("encoder", 0, sample.q, sample.k, sample.layout, sample.scale)
    Sparsefinder.fit(Traces.open(folder / "traces"), "kmeans", clusters=2, inputs="raw").save_pretrained(folder / "fit")
    return folder


def _traces(folder: Path) -> list[Any]:
    return [sample.q for sample in Traces.open(folder / "traces").samples("encoder", 0, 2)]


def _finders(folder: Path) -> list[Any]:
    return list(Sparsefinder.from_pretrained(folder / "fit").values())


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("traces/index.json", _traces),
        ("traces/encoder-0-00000.safetensors", _traces),
        ("fit/finders.json", _finders),
        ("fit/finders.safetensors", _finders),
    ],
)
def test_files(written: Path, name: str, read: Any) -> None:
    """Cut off, with bytes changed, or with another value at a place of its JSON."""
    file = written / name
    good = file.read_bytes()

    @FEW
    @given(st.data())
    def tried(data: st.DataObject) -> None:
        how = data.draw(st.sampled_from(["cut", "bytes", "json"] if name.endswith("json") else ["cut", "bytes"]))
        if how == "cut":
            bad = good[: data.draw(st.integers(0, len(good) - 1))]
        elif how == "bytes":
            place, new = data.draw(st.integers(0, len(good) - 1)), data.draw(st.binary(min_size=1, max_size=4))
            bad = good[:place] + new + good[place + len(new) :]
        else:
            content = json.loads(good)
            value = data.draw(
                st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just([]) | st.just({})
            )
            bad = json.dumps(changed(content, data.draw(st.sampled_from(paths(content))), value)).encode()
        file.write_bytes(bad)
        with suppress(SparsefinderError):
            assert read(written) is not None

    try:
        assert read(written)
        tried()
    finally:
        file.write_bytes(good)
    assert read(written)
