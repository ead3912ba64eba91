"""The protocol of finders, and the first three, against loops over pairs."""

import itertools

import pytest
import torch

from sparsefinder import Full, GlobalTokens, InputError, Layout, Window, finder
from sparsefinder.describing import does, setting_words, whose
from sparsefinder.finders import Finder, Union, finder_class, methods
from sparsefinder.finders.registry import parameters_of

from ..cases import LAYOUTS, B, H, M, N, inputs


def position(layout: Layout, b: int, i: int) -> int:
    offset = layout.query_offset
    return i + int(offset[b] if isinstance(offset, torch.Tensor) else offset)


def seen(layout: Layout, b: int, i: int, j: int, n: int, m: int) -> bool:
    keys = m if layout.key_lengths is None else int(layout.key_lengths[b])
    queries = n if layout.query_lengths is None else int(layout.query_lengths[b])
    return i < queries and j < keys and (not layout.causal or j <= position(layout, b, i))


def by_hand(which: Finder, layout: Layout, b: int, i: int, j: int, m: int) -> bool:
    if isinstance(which, Window):
        return which.size > 0 and abs(position(layout, b, i) - j) <= which.size // 2
    if isinstance(which, GlobalTokens):
        last = (m if layout.key_lengths is None else int(layout.key_lengths[b])) - 1
        chosen = {*range(which.count), *([last] if which.last else [])}
        return position(layout, b, i) in chosen or j in chosen
    if isinstance(which, Union):
        return any(by_hand(each, layout, b, i, j, m) for each in which.finders)
    return True


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "which",
    [Window(0), Window(1), Window(5), GlobalTokens(0), GlobalTokens(2), GlobalTokens(1, last=True), Full(),
     Window(3) | GlobalTokens(1), Window(3) | GlobalTokens(1) | Full()],
    ids=str,
)  # fmt: skip
def test_the_pairs_by_hand(which: Finder, layout: str) -> None:
    q, k, _ = inputs()
    where = LAYOUTS[layout]
    offset = where.query_offset
    if where.causal and not which.causal_safe and bool((torch.as_tensor(offset) != 0).any()):
        with pytest.raises(InputError, match="causal_safe"):
            which(q, k.repeat_interleave(2, 1), where)
        return
    found = which(q, k.repeat_interleave(2, 1), where).dense()
    for b, i, j in itertools.product(range(B), range(N), range(M)):
        wanted = seen(where, b, i, j, N, M) and by_hand(which, where, b, i, j, M)
        assert bool(found[b, 0, i, j]) is wanted, (b, i, j)
    assert torch.equal(found, found[:, :1].expand(-1, H, -1, -1))


@pytest.mark.parametrize("which", [Window(5), GlobalTokens(2), Full(), Window(3) | GlobalTokens(1)], ids=str)
def test_a_decoding_step_is_a_row_of_the_whole(which: Finder) -> None:
    assert which.causal_safe
    q, k, _ = inputs(kv_heads=H, n=N, m=N)
    whole = which(q, k, Layout(causal=True)).dense()
    for step in range(N):
        row = which(q[:, :, step : step + 1], k[:, :, : step + 1], Layout(causal=True, query_offset=step)).dense()
        assert torch.equal(row, whole[:, :, step : step + 1, : step + 1])


def test_unions_are_flat_and_know_what_they_are() -> None:
    union = Window(3) | GlobalTokens(1) | (Full() | Window(5))
    assert union.finders == (Window(3), GlobalTokens(1), Full(), Window(5))
    assert union.causal_safe
    assert not (Window(3) | GlobalTokens(1, last=True)).causal_safe
    assert union.cost(10, 10, 4) == 0


@pytest.mark.parametrize("name", methods())
def test_the_name_table_leads_to_finders(name: str) -> None:
    kind = finder_class(name)
    assert issubclass(kind, Finder)
    assert kind.about.name == name


def test_finders_by_name() -> None:
    assert finder("window", size=11) == Window(11)
    assert finder("global") == GlobalTokens(1)
    with pytest.raises(InputError, match=r"finder: got 'windw' \(did you mean 'window'\?\), want one of"):
        finder("windw")
    with pytest.raises(InputError, match="parameters of window: got width, want only what it takes: window takes size"):
        finder("window", width=3)
    with pytest.raises(InputError, match="size: got -1"):
        Window(-1)
    with pytest.raises(InputError, match="count: got -2"):
        GlobalTokens(-2)


@pytest.mark.parametrize("name", list(methods()))
def test_a_method_says_what_it_does_whose_it_is_and_its_settings_in_words(name: str) -> None:
    kind = methods()[name]
    assert does(name).endswith(".")
    assert whose(name)
    assert set(kind.about.words) <= set(parameters_of(kind))
    for field, words in kind.about.words.items():
        said = setting_words(name, {field: 2})
        assert said == setting_words(name, {field: 2, "seed": None, "nothing": 0})
        assert "{" not in said
        assert "(s)" not in said
        assert "%" in said if "{%}" in words else "2" in said


def test_settings_read_as_words() -> None:
    assert setting_words("sketch", {"r": 4, "share": 0.05}) == "4 dimensions, keeps the best 5 % of keys"
    assert setting_words("kmeans", {"clusters": 8, "recall": 0.995}) == "8 clusters, set for 99.5 % recall"
    assert setting_words("bigbird", {"block": 1, "random_blocks": 2}) == "blocks of 1 token, 2 random blocks"
    assert setting_words("distance", {"t": torch.tensor([1.0, 2.0])}) == "distance up to 1.5 (the mean of the heads)"
    # What a method does not say is said plainly, also of one that is not installed any more.
    assert setting_words("gone", {"top_k": 3}) == "top k 3"
    assert (does("gone"), whose("gone")) == ("", "")


def test_a_finder_that_was_not_fitted_leads_to_what_fits_it() -> None:
    q = torch.randn(1, 2, 8, 4)
    with pytest.raises(InputError, match=r'kmeans, which was not fitted, want Sparsefinder.fit\(traces, "kmeans", …\)'):
        finder("kmeans", clusters=4)(q, q)
