"""A method of one's own, in one file: registered or installed, it is fitted, checked, swept and shown like others."""

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch

from sparsefinder import InputError, Sparsefinder, finder, register
from sparsefinder.files import write_text
from sparsefinder.finders import finder_class, methods, registry
from sparsefinder.lab.recipe import dump_recipe
from sparsefinder.lab.report import write_report
from sparsefinder.lab.sweep import sweep_recall, write_summary
from sparsefinder.lab.sweep.fit_stage import fit
from sparsefinder.lab.sweep.points import read_points
from sparsefinder.testing import check_finder
from sparsefinder.traces.store import Traces

from ..own_method import Offsets
from ..synthetic import grouped
from .sweep.runs import folder, recipe


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_kinds", dict(registry._kinds))
    register(Offsets)


@pytest.mark.usefixtures("registered")
def test_it_keeps_the_laws() -> None:
    places = torch.stack([torch.randperm(9, generator=torch.Generator().manual_seed(head)) - 4 for head in range(3)])
    check_finder(Offsets(4, 3, places), heads=3, d=6)


@pytest.mark.usefixtures("registered")
def test_it_is_fitted_saved_and_loaded(tmp_path: Path) -> None:
    traces = Traces.open(folder(tmp_path) / "traces/train")
    fitted = Sparsefinder.fit(traces, "offsets", recall=0.8, progress=False)
    fitted.save_pretrained(tmp_path / "finders")
    again = Sparsefinder.from_pretrained(tmp_path / "finders")
    held = grouped(2, 30, seed=3)
    assert isinstance(again["encoder", 0], Offsets)
    assert torch.equal(again["encoder", 0](held.q, held.k).dense(), fitted["encoder", 0](held.q, held.k).dense())
    assert min(fitted.about["sites"][0]["recall"]) >= 0.8


@pytest.mark.usefixtures("registered")
def test_it_is_swept_and_shown(tmp_path: Path) -> None:
    run = folder(tmp_path / "small")
    asked = recipe([{"method": "offsets", "count": [1, 5]}, {"method": "offsets", "recall": [0.5, 0.9]}, "window"])
    write_text(run / "recipe.yaml", dump_recipe(asked))
    fit(run, asked)
    sweep_recall(run, asked)
    write_summary(run)
    rows = read_points(run, "recall").to_pylist()
    assert {row["setting"] for row in rows if row["method"] == "offsets"} == {
        '{"count": 1}', '{"count": 5}', '{"recall": 0.5}', '{"recall": 0.9}',
    }  # fmt: skip
    page = write_report(run, asked).read_text(encoding="utf-8")
    assert "frequent offsets" in page
    assert "#123456" in page


def test_it_may_come_from_an_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(value: str) -> None:
        registry._load_installed.cache_clear()
        found: Any = lambda group: [EntryPoint("offsets", value, group)] if group == registry.GROUP else []  # noqa: E731
        monkeypatch.setattr(registry, "entry_points", found)

    monkeypatch.setattr(registry, "_kinds", dict(registry._kinds))
    installed("tests.own_method:Offsets")
    assert finder_class("offsets") is Offsets
    assert isinstance(finder("offsets", count=3), Offsets)
    assert list(methods()).index("offsets") < list(methods()).index("oracle")
    installed("tests.own_method:Nothing")
    with pytest.raises(InputError, match="entry point offsets: got tests.own_method:Nothing, which fails"):
        methods()
    monkeypatch.undo()
    registry._load_installed.cache_clear()
    assert "offsets" not in methods()


@pytest.mark.usefixtures("registered")
def test_what_cannot_be_registered_is_refused() -> None:
    class Other(Offsets):
        """Another class of the same name."""

    with pytest.raises(InputError, match="name: got 'offsets', which is tests.own_method.Offsets, want another name"):
        register(Other)
    register(Offsets)
