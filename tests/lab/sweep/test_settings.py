"""From recipes to settings: names, grids, and what is refused."""

import json

import pytest

from sparsefinder import InputError
from sparsefinder.finders import methods
from sparsefinder.lab.recipe import Method, Sweep
from sparsefinder.lab.sweep.grids import GRIDS, grid_of
from sparsefinder.lab.sweep.settings import Setting, expand, expand_all


def _method(method: str, **given: object) -> Method:
    return Method.model_validate({"method": method, **given})


def test_lists_are_swept_over() -> None:
    settings = expand(_method("kmeans", clusters=[2, 4], top_k=[1, 2]))
    assert [setting.name for setting in settings] == [
        f"kmeans-projected-clusters={clusters}-top_k={top}" for clusters in (2, 4) for top in (1, 2)
    ]
    assert json.loads(settings[3].as_json) == {"clusters": 4, "top_k": 2}
    assert [each.name for each in expand(_method("routing", clusters=2, inputs=["raw", "pca"]))] == [
        "routing-raw-clusters=2", "routing-pca-clusters=2",
    ]  # fmt: skip


def test_settings_that_differ_in_use_share_a_fit_and_thresholds_a_pass() -> None:
    settings = expand(_method("kmeans", clusters=[2, 4], top_k=[1, 2]))
    assert [setting.fitted for setting in settings] == [
        Setting("kmeans", "projected", (("clusters", clusters),)) for clusters in (2, 2, 4, 4)
    ]
    several = [*expand(_method("distance", t=[1.0, 2.0])), *expand(_method("distance", recall=[0.5, 0.9]))]
    assert {setting.family.name for setting in several} == {"distance-projected"}
    unfitted = ("distance", {"t": 1.0}), ("quantization", {"beta": 4}), ("reformer", {"buckets": 4}), ("oracle", {})
    for method, values in unfitted:
        assert expand(_method(method, **values))[0].fitted is None
    assert expand(_method("quantization", beta=4, bins="quantiles"))[0].fitted is not None
    assert expand(_method("sketch", r=4, share=0.1))[0].fitted == Setting("sketch", "raw", (("r", 4),))


def test_what_a_method_looks_at() -> None:
    looks = {
        "projected": _method("distance", t=1.0),
        "raw": _method("routing", clusters=2),
        "none": _method("longformer"),
    }
    for inputs, method in looks.items():
        assert {setting.inputs for setting in expand(method)} == {inputs}


@pytest.mark.parametrize(
    ("method", "match"),
    [
        (_method("kmean", clusters=2), "did you mean 'kmeans'"),
        (_method("kmeans", cluster=2), r"parameter of kmeans: got 'cluster' \(did you mean 'clusters'\?\)"),
        (_method("kmeans", top_k=2), "clusters among them"),
        (_method("kmeans", clusters=2, top_k=3), "top_k: got 3, want a number from 1 to 2"),
        (_method("kmeans", clusters=2, top_k=1, recall=0.9), "each of them sets the dial"),
        (_method("kmeans", clusters=2, recall=2), "recall: got 2"),
        (_method("distance", recall=0.9, sparsity=0.5), "each of them sets the dial"),
        (_method("routing", clusters=2, recall=0.9), "not nested"),
        (_method("kmeans", clusters=2, centroids=3), "'centroids'"),
        (_method("reformer", buckets=3), "an even number"),
        (_method("sketch", r=4), "share or slack"),
        (_method("window", size=-3), "size: got -3, want a whole number"),
        (_method("window", inputs="raw"), "none given"),
        (_method("sketch", r=4, share=0.1, inputs="projected"), "none given"),
    ],
)
def test_what_cannot_be_is_refused(method: Method, match: str) -> None:
    with pytest.raises(InputError, match=match):
        expand(method)


def test_maps_are_named_for_all_they_are_learned_for() -> None:
    names = {setting.maps for setting in expand(_method("block-topk", block=[1, 4], k=2, pooling=["mean", "concat"]))}
    assert names == {
        "projection",
        "projection-pooling=concat",
        "projection-block=4",
        "projection-block=4-pooling=concat",
    }
    assert {setting.maps for setting in expand(_method("kmeans", clusters=2, inputs=["projected", "pca", "raw"]))} == {
        "projection", "pca", None,
    }  # fmt: skip


def test_a_method_without_a_dial_has_a_grid_of_its_own() -> None:
    assert [setting.values["clusters"] for setting in expand(_method("routing"))] == [2, 4, 8, 16]


def test_grids_are_the_papers() -> None:
    main, appendix = GRIDS["mlm"], GRIDS["mlm-appendix"]
    # Those of Sec. 6, and the one that the appendix fixes for single heads.
    assert len(main.windows) == 22
    assert 25 in main.windows
    assert len(appendix.windows) == 22
    assert GRIDS["mt"].windows == (0, 1, 3, 5, 7, 9, 11, 15, 19, 23, 27)
    for grid, thresholds, buckets in ((main, 10, 8), (appendix, 5, 6)):
        counts = {method: sum(each.method == method for each in grid.settings) for method in ("distance", "kmeans")}
        assert counts == {"distance": thresholds, "kmeans": 2 * buckets}
    for grid in GRIDS.values():
        assert len({setting.name for setting in grid.settings}) == len(grid.settings)


def test_the_grid_of_rivals_has_every_method_that_competes() -> None:
    swept = {setting.method for setting in GRIDS["rivals"].settings}
    competing = {name for name, kind in methods().items() if kind.about.family != "reference"}
    assert swept == {*competing, "oracle"}


def test_a_recipe_adds_to_a_grid_or_makes_its_own() -> None:
    more = (_method("strided", stride=[2, 4]),)
    both = grid_of(Sweep(grid="small", methods=more))
    assert both.settings == (*GRIDS["small"].settings, *expand_all(more))
    alone = grid_of(Sweep(methods=more, windows=(9, 0), globals=(0, 1)))
    assert (alone.settings, alone.windows, alone.globals) == (tuple(expand_all(more)), (0, 9), (0, 1))
    assert grid_of(Sweep()).settings == GRIDS["small"].settings
