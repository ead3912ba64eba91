"""What a benchmark is asked for: methods by name and settings, lengths, sizes; what cannot be is said at once."""

import pytest

from sparsefinder import InputError
from sparsefinder.finders import methods
from sparsefinder.fitting import Wanted
from sparsefinder.lab.bench.asked import Asked
from sparsefinder.lab.bench.entries import REFERENCES, Entry, block_entries, entries_of
from sparsefinder.lab.recipe import Timing


def test_every_method_that_competes_is_measured_unless_told() -> None:
    wanted = [name for name, kind in methods().items() if kind.about.family != "reference"]
    found = [entry.method for entry in entries_of(None)]
    assert sorted(found) == sorted(wanted)
    assert found[:2] == ["sketch", "probe"]
    assert all(entry.options(0.95) for entry in entries_of(None))


def test_methods_take_settings_after_colons() -> None:
    sketch, kmeans, exact = entries_of("sketch, kmeans:top_k=2:clusters=[4,8],probe:exact")
    assert sketch == Entry("sketch")
    assert kmeans.settings == {"clusters": (4, 8), "top_k": 2}
    assert kmeans.label == "k-means, clusters 4 or 8, top k 2"
    assert (exact.exact, exact.label) == (True, "probe, exact")
    # Those are measured in any case.
    assert entries_of("full,sketch,softmax,sketch") == (sketch,)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("sketch", Wanted(0.9)),
        ("sketch:r=4", Wanted(0.9)),
        ("sketch:r=4:slack=1.5", None),
        ("sketch:sparsity=0.8", Wanted(sparsity=0.8)),
        ("kmeans:clusters=16:recall=0.5", Wanted(0.5)),
        ("bigbird", Wanted(0.9)),
        ("bigbird:random_blocks=2:window=3", None),
        ("reformer:inputs=projected", Wanted(0.9)),
    ],
)
def test_what_is_not_said_is_chosen_for_the_recall(words: str, wanted: Wanted | None) -> None:
    (entry,) = entries_of(words)
    assert entry.wanted(0.9) == wanted
    assert all("recall" not in name for name in entry.settings)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sketsh", "sketch"),
        ("kmeans:cluster=3", "clusters"),
        ("kmeans:clusters", "name=value"),
        ("sketch:inputs=projected", "what sketch takes: raw"),
        ("kmeans:clusters=0", "clusters"),
    ],
)
def test_what_is_no_method_is_said_at_once(words: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        entries_of(words)


def test_the_grid_of_blocks_has_only_methods_that_were_asked_for() -> None:
    timing = Timing(blocks=(2, 3), sizes=(4,), clusters=(2, 5))
    every = block_entries(timing, entries_of(None))
    assert set(every) == {(4, 2), (4, 3)}
    assert {entry.method for entry in every[4, 2]} == {"block-topk", "block-centroids", "bigbird"}
    assert [dict(entry.parameters)["clusters"] for entry in every[4, 3] if entry.method == "block-centroids"] == [2, 5]
    # All that is timed there is said: nothing is chosen for a recall.
    assert all(entry.wanted(0.95) is None for entry in every[4, 2])
    few = block_entries(timing, entries_of("sketch,block-topk"))
    assert {entry.method for some in few.values() for entry in some} == {"block-topk"}
    assert block_entries(timing, entries_of("sketch")) == {}


def test_an_entry_can_be_read_back_from_its_row() -> None:
    for entry in (*REFERENCES, *entries_of("sketch:r=4,kmeans:clusters=[2,3]:exact")):
        assert Entry.of_row({"method": entry.method, "setting": entry.as_json, "exact": entry.exact}) == entry


def test_lists_on_the_command_line_are_numbers() -> None:
    asked = Asked.of_words("window", "1024, 512,512", "none", None, None, recall=0.8)
    assert (asked.lengths, asked.grid, asked.recall) == ((512, 1024), None, 0.8)
    grid = Asked.of_words("window", None, "2,3", "16", None).grid
    assert grid == Timing(blocks=(2, 3), sizes=(16,))
    assert Asked.of_words("window", None, None, None, None).grid == Timing()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"lengths": "512;1024"}, "lengths"),
        ({"lengths": "0"}, "lengths"),
        ({"lengths": "1"}, "lengths"),
        ({"sizes": "a"}, "sizes"),
        ({"recall": 1.5}, "recall"),
        ({"repeats": 0}, "repeats"),
        ({"budget": 0.0}, "budget"),
    ],
)
def test_numbers_that_cannot_be_are_named(words: dict[str, object], said: str) -> None:
    lists = dict.fromkeys(("methods", "lengths", "blocks", "sizes", "clusters"))
    with pytest.raises(InputError, match=f"^{said}: got"):
        Asked.of_words(**(lists | words))  # type: ignore[arg-type]
