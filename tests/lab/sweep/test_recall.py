"""The sweep of sparsity and recall: its points are those of the metrics, whatever was killed or shared out."""

import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pytest

from sparsefinder import GlobalTokens, GraphMetrics, InputError, Window
from sparsefinder.lab.engines import JobError
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.sweep import recall as module
from sparsefinder.lab.sweep.fit_stage import fit
from sparsefinder.lab.sweep.grids import GRIDS, grid_of
from sparsefinder.lab.sweep.points import averaged, read_points
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
    sequences = {file.name for file in (run / "points/sequences").glob("*.parquet")}
    found = {file.name: file.read_bytes() for file in (run / "points/recall").glob("*.parquet")}
    assert set(found) <= sequences
    return found


def test_points_are_those_of_the_metrics(fitted: RunFolder, swept: pa.Table) -> None:
    """Every setting, window and head, against finders united with windows and compared graph by graph."""
    rows = swept.to_pylist()
    found = {
        tuple(row[name] for name in ("method", "inputs", "setting", "window", "globals", "kind", "layer", "head")): row
        for row in rows
    }
    grid, traces = grid_of(recipe().sweep), Traces.open(fitted / "traces/valid")
    # All but the bound are united with three windows, and with no global token or one.
    assert len(rows) == len(found) == ((len(grid.settings) - 1) * 3 * 2 + 1) * 3 * len(traces.sites)
    by_sequence = read_points(fitted, "sequences").to_pylist()
    assert len(by_sequence) == len(rows) / 3
    lists = {
        tuple(row[name] for name in ("method", "inputs", "setting", "window", "globals", "kind", "layer")): row
        for row in by_sequence
    }
    for setting in grid.settings:
        finders = finders_of(setting, fitted)
        for site in traces.sites:
            for window, few in ((0, 0), (9, 1))[site[1] : 1 if setting.method == "oracle" else 2]:
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
                counts = metrics._layer(0)
                for name in ("visible", "predicted", "gold", "hits", "queries", "complete", "empty"):
                    pooled = getattr(counts, name).sum(0).tolist()
                    key = setting.method, setting.inputs, setting.as_json, window, few, *site
                    assert [found[*key, head][name] for head in range(3)] == pooled, (key, name)
                sizes = [(*x.q.shape[2:], x.k.shape[2]) for x in traces.samples(*site, recipe().sweep.batch)]
                costs = [(one.cost(n, m, d) / (n * m * d), one.reads(n, m, d) / (4 * m * d)) for n, d, m in sizes]
                for name, each in zip(("cost", "bytes"), zip(*costs, strict=True), strict=True):
                    assert found[*key, 0][name] == pytest.approx(fmean(each)), (key, name)
                for ratio in ("sparsity", "recall"):
                    wanted = counts.ratios()[ratio].mean(1).tolist()
                    assert lists[key][f"sequence_{ratio}"] == pytest.approx(wanted, abs=1e-6)


def test_nothing_is_sparser_than_the_bound_at_its_recall(swept: pa.Table) -> None:
    """The gold graph, united with nothing: on the whole, and in every head."""
    points = averaged(swept).to_pylist()
    (bound,) = [row for row in points if row["method"] == "oracle"]
    assert (bound["window"], bound["globals"], bound["recall"], bound["precision"]) == (0, 0, 1, 1)
    assert bound["sparsity"] == bound["gold_sparsity"]
    assert max(row["sparsity"] for row in points if row["recall"] >= bound["recall"]) == bound["sparsity"]
    by_head: dict[Any, list[dict[str, Any]]] = {}
    for row in swept.to_pylist():
        by_head.setdefault((row["kind"], row["head"]), []).append(row)
    for rows in by_head.values():
        (bound,) = [row for row in rows if row["method"] == "oracle"]
        assert max(row["sparsity"] for row in rows if row["recall"] >= 1) == bound["sparsity"]


@pytest.mark.parametrize("grid", GRIDS)
def test_every_grid_has_the_bound_once(fitted: RunFolder, grid: str) -> None:
    every = recall_units(fitted, recipe([], sweep={"grid": grid}))
    units = [unit for unit in every if unit.settings[0].method == "oracle"]
    assert [(unit.windows, unit.globals) for unit in units] == [((0,), (0,))] * 2


def test_pooled_means_are_of_all_counts_together(swept: pa.Table) -> None:
    rows, which = swept.to_pylist(), ("method", "inputs", "setting", "window", "globals")
    counted = ("visible", "predicted", "gold", "hits", "queries", "complete", "empty")
    for point in averaged(swept).to_pylist()[::7]:
        mine = [row for row in rows if all(row[name] == point[name] for name in which)]
        sums = {name: sum(row[name] for row in mine) for name in counted}
        wanted = {
            "recall": sums["hits"] / sums["gold"], "sparsity": 1 - sums["predicted"] / sums["visible"],
            "full_recall": sums["complete"] / sums["queries"], "empty_rows": sums["empty"] / sums["queries"],
            "gold_sparsity": 1 - sums["gold"] / sums["visible"],
        }  # fmt: skip
        assert {name: point[f"pooled_{name}"] for name in wanted} == pytest.approx(wanted)


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
        # Two files per unit: here between those of the sixth.
        if len(written) == 11:
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
