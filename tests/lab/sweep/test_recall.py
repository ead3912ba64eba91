"""The sweep of sparsity and recall: its points are those of the metrics, whatever was killed or shared out."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparsefinder import GlobalTokens, GraphMetrics, InputError, Window
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.sweep import recall as module
from sparsefinder.lab.sweep.fit_stage import fit
from sparsefinder.lab.sweep.grids import grid_of
from sparsefinder.lab.sweep.jobs import JobError
from sparsefinder.lab.sweep.points import read_points
from sparsefinder.lab.sweep.recall import recall_units, sweep_recall
from sparsefinder.lab.sweep.run_finders import RunFinders, finders_of
from sparsefinder.traces.store import Traces

from .runs import folder, recipe


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = folder(tmp_path_factory.mktemp("run"))
    fit(run, recipe())
    return run


@pytest.fixture(scope="module")
def swept(fitted: RunFolder) -> pa.Table:
    sweep_recall(fitted, recipe())
    return read_points(fitted, "recall")


def _files(run: RunFolder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (run / "points/recall").glob("*.parquet")}


def test_points_are_those_of_the_metrics(fitted: RunFolder, swept: pa.Table) -> None:
    """Every setting, window and head, against finders united with windows and compared graph by graph."""
    rows = swept.to_pylist()
    found = {
        tuple(row[name] for name in ("method", "inputs", "setting", "window", "globals", "kind", "layer", "head")): row
        for row in rows
    }
    grid, traces = grid_of(recipe().sweep), Traces.open(fitted / "traces/valid")
    assert len(rows) == len(found) == len(grid.settings) * 3 * 2 * 3 * len(traces.sites)
    for setting in grid.settings:
        finders = finders_of(setting, fitted)
        for site in traces.sites:
            for window, few in ((0, 0), (9, 1))[site[1] :]:
                metrics = GraphMetrics()
                one = finders[site]
                union = one | Window(window) | GlobalTokens(few)
                if setting.method in ("bigbird", "block-topk", "block-centroids"):
                    # Their blocks are counted besides the window's and the global ones.
                    union = replace(one, window=window, globals=few)
                for sample in traces.samples(*site, 2):
                    metrics.update(union(sample.q, sample.k, sample.layout), sample.gold)
                for ratio in ("sparsity", "recall", "precision", "full_recall", "empty_rows", "gold_sparsity"):
                    for head, value in enumerate(metrics.by_head(ratio)[0].tolist()):
                        key = setting.method, setting.inputs, setting.as_json, window, few, *site, head
                        assert found[key][ratio] == pytest.approx(value, abs=1e-6, nan_ok=True), (key, ratio)


def test_a_second_sweep_computes_nothing(fitted: RunFolder, swept: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "tally", None)
    before = _files(fitted)
    sweep_recall(fitted, recipe())
    assert _files(fitted) == before


def test_what_is_missing_is_computed_again_to_the_bit(fitted: RunFolder, swept: pa.Table) -> None:
    before = _files(fitted)
    for file in sorted((fitted / "points/recall").glob("*.parquet"))[::7]:
        file.unlink()
    sweep_recall(fitted, recipe())
    assert _files(fitted) == before


def test_two_processes_give_the_same_points(fitted: RunFolder, swept: pa.Table, tmp_path: Path) -> None:
    shutil.copytree(fitted.path, tmp_path / "run", ignore=shutil.ignore_patterns("points"))
    other = RunFolder(tmp_path / "run")
    sweep_recall(other, recipe(processes=2))
    assert _files(other) == _files(fitted)


def test_a_setting_that_fails_is_named_and_takes_nothing_with_it(
    fitted: RunFolder, swept: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = RunFinders.at

    def broken(self: RunFinders, setting: Any, site: Any) -> Any:
        if setting.method == "probe":
            raise ValueError("out of luck")
        return made(self, setting, site)

    before = _files(fitted)
    probes = list((fitted / "points/recall").glob("probe*"))
    for file in (*probes, *(fitted / "points/recall").glob("kmeans*")):
        file.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(RunFinders, "at", broken)
        with pytest.raises(JobError, match=r"probe-raw-clusters=6-probes=1, .*out of luck"):
            sweep_recall(fitted, recipe())
    assert set(_files(fitted)) == set(before) - {file.name for file in probes}
    sweep_recall(fitted, recipe())
    assert _files(fitted) == before


def test_an_interrupted_sweep_goes_on(fitted: RunFolder, swept: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before, written = _files(fitted), []
    for file in (fitted / "points/recall").glob("*.parquet"):
        file.unlink()
    write = module.write_points

    def interrupted(path: Path, *more: Any) -> None:
        if len(written) == 5:
            raise KeyboardInterrupt
        written.append(path)
        write(path, *more)

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_points", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sweep_recall(fitted, recipe())
    assert len(_files(fitted)) == 5
    sweep_recall(fitted, recipe())
    assert _files(fitted) == before


def test_another_grid_sets_points_aside_and_takes_them_back(fitted: RunFolder, swept: pa.Table) -> None:
    before = _files(fitted)
    few = recipe([{"method": "window"}])
    sweep_recall(fitted, few)
    assert len(_files(fitted)) == 2
    assert set(read_points(fitted, "recall")["method"].to_pylist()) == {"window"}
    sweep_recall(fitted, recipe())
    assert _files(fitted) == before


def test_what_was_not_fitted_is_said(tmp_path: Path) -> None:
    run = folder(tmp_path)
    for method in ({"method": "kmeans", "clusters": 3}, {"method": "quantization", "beta": 2}):
        with pytest.raises(JobError, match="sparsefinder fit"):
            sweep_recall(run, recipe([method]))
    with pytest.raises(InputError, match="did you mean 'kmeans'"):
        recall_units(run, recipe([{"method": "kmenas", "clusters": 3}]))
