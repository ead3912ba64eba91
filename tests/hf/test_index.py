"""Generating with an index beside the cache gives what is generated without, whatever happens to the cache."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedModel, StaticCache

from sparsefinder import Sample, Window, predicting, record, use_entmax
from sparsefinder.attending import indexed
from sparsefinder.finders import Finder
from sparsefinder.finders.sketch import Sketch
from sparsefinder.hf import caches
from sparsefinder.hf.caches import GrowingLayer, GrowingWindowLayer, kept_with, with_room

from ..tiny_models import CAUSAL, SEQUENCE_TO_SEQUENCE, make, padded, words

HOW: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "top_k": 20},
    "beams": {"do_sample": False, "num_beams": 3},
    "sampled beams": {"do_sample": True, "num_beams": 2, "num_return_sequences": 2},
}


def _model(family: str) -> PreTrainedModel:
    return use_entmax(make(family).float())


def _sketches(model: PreTrainedModel, **how: Any) -> dict[tuple[str, int], Finder]:
    """Sketches of all layers, of all ranks unless told: at a slack that is wide, they find all."""
    ids = words(4, 16)
    batch = {"input_ids": ids, "labels": ids} if model.config.is_encoder_decoder else {"input_ids": ids}
    with torch.no_grad(), record(model) as records:
        model(**batch)
    fitted = Sketch(**(how or {"slack": 1000.0}))
    return {(one.kind, one.layer): fitted.fit([Sample(one.q, one.k, one.layout, one.scale)]) for one in records}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many queries each call asked an index for."""
    counts: list[int] = []
    original = indexed.asked

    def counted(index: Any, q: Tensor, *more: Any) -> Tensor:
        counts.append(q.shape[2])
        return original(index, q, *more)

    monkeypatch.setattr("sparsefinder.hf.indexed.asked", counted)
    return counts


def _generate(model: PreTrainedModel, finders: Any, batch: dict[str, Tensor], **how: Any) -> Tensor:
    torch.manual_seed(3)
    with predicting(model, finders):
        return model.generate(**batch, max_new_tokens=8, min_new_tokens=8, **how)


@pytest.mark.parametrize("how", list(HOW))
@pytest.mark.parametrize("family", [*CAUSAL, *SEQUENCE_TO_SEQUENCE])
def test_an_index_gives_the_same_words(family: str, how: str, asked: list[int]) -> None:
    model = _model(family)
    finders = _sketches(model)
    batch = padded(words(2, 9), [9, 5], "right" if family in SEQUENCE_TO_SEQUENCE else "left")
    with_index = _generate(model, finders, batch, **HOW[how])
    # T5 adds a bias to its scores, in self-attention.
    steps = 7 * (2 if family == "t5" else 4 if family in SEQUENCE_TO_SEQUENCE else 2)
    assert len(asked) >= steps
    caches_of = DynamicCache(config=model.config.get_text_config(decoder=True))
    if family in SEQUENCE_TO_SEQUENCE:
        from transformers import EncoderDecoderCache

        caches_of = EncoderDecoderCache(caches_of, DynamicCache(config=model.config.get_text_config(decoder=True)))
    asked.clear()
    without = _generate(model, finders, batch, past_key_values=caches_of, **HOW[how])
    assert not asked, "a cache that is not ours is used as it is"
    assert torch.equal(with_index, without)
    full = _generate(model, lambda kind, layer: None, batch, **HOW[how])
    assert torch.equal(with_index, full)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_tight_sketches_give_what_they_give_without_an_index(family: str, asked: list[int]) -> None:
    """Also where much is left out: what an index says is what the finder says."""
    model = _model(family)
    for how in ({"slack": 0.5, "r": 4}, {"share": 0.3, "r": 4}):
        finders = _sketches(model, **how)
        batch = padded(words(3, 12), [12, 7, 9], "left")
        asked.clear()
        ours = _generate(model, finders, batch, do_sample=False)
        assert asked
        other = _generate(model, finders, batch, do_sample=False, past_key_values=DynamicCache(config=model.config))
        assert torch.equal(ours, other)


def test_exact_indexes_give_the_words_of_full_attention(asked: list[int]) -> None:
    model = _model("llama")
    finders = _sketches(model, slack=0.0, bounded=True)
    batch = padded(words(2, 40), [40, 23], "left")
    with predicting(model, finders, exact=True):
        ours = model.generate(**batch, max_new_tokens=8, min_new_tokens=8, do_sample=False)
    assert len(asked) == 7 * 2
    assert torch.equal(ours, _generate(model, lambda kind, layer: None, batch, do_sample=False))


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_assisted_decoding(family: str, asked: list[int]) -> None:
    """Words of a guess are looked at together, and the cache is cropped to those that were right."""
    model, helper = _model(family), _model(family)
    with torch.no_grad():
        for parameter in helper.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    finders = _sketches(model)
    batch = {"input_ids": words(1, 9)}
    assisted = _generate(model, finders, batch, do_sample=False, assistant_model=helper)
    assert max(asked) > 1
    assert torch.equal(assisted, _generate(model, finders, batch, do_sample=False))


@pytest.mark.parametrize("family", CAUSAL)
def test_pieces_are_the_whole_pass(family: str, asked: list[int]) -> None:
    model, ids = _model(family), words(2, 40)
    finders = _sketches(model)
    with torch.no_grad(), predicting(model, finders):
        whole = model(ids).logits
        cache = with_room(DynamicCache(config=model.config))
        sizes = [5, 1, 17, 3, 1, 1, 2, *[1] * 10]
        steps = [model(part, past_key_values=cache).logits for part in ids.split(sizes, 1)]
    assert sorted(set(asked)) == [1, 2, 3, 5]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-3, atol=2e-3)


def _filled(model: PreTrainedModel, finders: Any, ids: Tensor) -> Cache:
    cache = with_room(DynamicCache(config=model.config))
    with torch.no_grad(), predicting(model, finders):
        for part in ids.split([ids.shape[1] - 3, 1, 1, 1], 1):
            model(part, past_key_values=cache)
    return cache


CHANGES: dict[str, tuple[Any, Any]] = {
    "crop": (lambda cache: cache.crop(-2), lambda ids: ids[:, :-2]),
    "reorder": (lambda cache: cache.reorder_cache(torch.tensor([2, 1, 1])), lambda ids: ids[[2, 1, 1]]),
    "same order": (lambda cache: cache.reorder_cache(torch.arange(3)), lambda ids: ids),
    "select": (lambda cache: cache.batch_select_indices(torch.tensor([2, 0])), lambda ids: ids[[2, 0]]),
    "select by mask": (
        lambda cache: cache.batch_select_indices(torch.tensor([True, False, True])),
        lambda ids: ids[[0, 2]],
    ),
    "several": (
        lambda cache: (cache.crop(-1), cache.reorder_cache(torch.tensor([1, 1, 2])), cache.batch_repeat_interleave(2)),
        lambda ids: ids[[1, 1, 1, 1, 2, 2], :-1],
    ),
    "repeat": (lambda cache: cache.batch_repeat_interleave(2), lambda ids: ids.repeat_interleave(2, 0)),
    "reset": (lambda cache: cache.reset(), lambda ids: ids[:, :0]),
    "copy": (lambda cache: None, lambda ids: ids),
}


@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_changed_caches_go_on_as_if_made_so(family: str, change: str, asked: list[int]) -> None:
    model, ids = _model(family), words(3, 10)
    # Under a window, a finder that sees all keys compares with the best of all, also of those that the window hides.
    finders = _sketches(model, **({"slack": 0.7, "r": 4} if family == "llama" else {}))
    cache = _filled(model, finders, ids)
    cache.activate_past_recording()
    if change == "copy":
        cache = copy.deepcopy(cache)
    CHANGES[change][0](cache)
    kept = CHANGES[change][1](ids)
    new = words(len(kept), 4)
    asked.clear()
    with torch.no_grad(), predicting(model, finders):
        found = [model(part, past_key_values=cache).logits for part in new.split(1, 1)]
        wanted = model(torch.cat([kept, new], 1)).logits[:, kept.shape[1] :]
    assert asked
    torch.testing.assert_close(torch.cat(found, 1), wanted, rtol=1e-3, atol=2e-3)
    for number, layer in enumerate(cache.layers):
        assert isinstance(layer, GrowingLayer)
        finder = finders["decoder", number]
        ours, whole = layer.indexed(finder, False), finder.index(layer.stored[0])
        assert ours is not None
        assert whole is not None
        assert torch.equal(ours.codes, whole.codes), "not what an index of the same keys is, made whole"


@pytest.mark.parametrize("exact", [False, True])
def test_a_cache_of_another_kind_is_asked_anew(exact: bool, asked: list[int]) -> None:
    """Its keys are looked at by the finder itself, in every step, with and without padding: the same words."""
    model = _model("llama")
    finders = _sketches(model, slack=1.0, r=4, bounded=True)
    for batch in ({"input_ids": words(2, 20)}, padded(words(2, 20), [20, 11], "left")):
        found = []
        for own in ({}, {"past_key_values": DynamicCache(config=model.config)}, {"cache_implementation": "static"}):
            asked.clear()
            with predicting(model, finders, exact=exact):
                found.append(model.generate(**batch, **own, max_new_tokens=8, min_new_tokens=8, do_sample=False))
            assert bool(asked) is (not own)
        assert torch.equal(found[0], found[1])
        assert torch.equal(found[0], found[2])


def test_room_is_made_seldom_and_nothing_is_moved_meanwhile() -> None:
    layer, moved = GrowingLayer(), 0
    for step in range(2000):
        before = layer._stored
        layer.update(torch.full((1, 2, 1, 4), float(step)), torch.full((1, 2, 1, 6), -float(step)))
        moved += before is None or before[0] is not layer._stored[0]
    assert moved < 10
    assert layer.get_seq_length() == 2000
    assert layer.keys is not None
    assert layer.values is not None
    assert torch.equal(layer.keys[0, 1, :, 2], torch.arange(2000.0))
    assert torch.equal(layer.values[0, 0, :, 5], -torch.arange(2000.0))


def test_a_window_keeps_no_more_than_it_needs() -> None:
    layer = GrowingWindowLayer(sliding_window=50)
    for step in range(2000):
        keys, values = layer.update(torch.full((1, 2, 1, 4), float(step)), torch.full((1, 2, 1, 4), -float(step)))
        assert torch.equal(keys[0, 0, :, 0], torch.arange(max(0.0, step - 49.0), step + 1.0))
        assert torch.equal(keys, -values)
    assert layer._stored is not None
    assert layer._stored[0].shape[2] < 300
    with pytest.raises(RuntimeError, match="activate_past_recording"):
        layer.crop(-1500)
    with pytest.raises(ValueError, match="positive"):
        layer.crop(3)


def test_gradients_go_through_a_cache_with_room() -> None:
    model, ids = _model("llama"), words(1, 12)
    found = []
    for cache in (with_room(DynamicCache(config=model.config)), DynamicCache(config=model.config)):
        model.zero_grad()
        total = sum(model(part, past_key_values=cache).logits.square().sum() for part in ids.split(4, 1))
        total.backward()
        found.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_which_caches_are_ours() -> None:
    model = _model("llama")
    seen: list[Cache] = []
    original = type(model).forward

    def spied(self: Any, *arguments: Any, **more: Any) -> Any:
        seen.append(more["past_key_values"])
        return original(self, *arguments, **more)

    type(model).forward = spied
    try:
        ids = words(1, 5)
        model.generate(ids, max_new_tokens=2, do_sample=False)
        copy.deepcopy(model).generate(ids, max_new_tokens=2, do_sample=False)
        mine = DynamicCache(config=model.config)
        model.generate(ids, max_new_tokens=2, do_sample=False, past_key_values=mine)
        model.generate(ids, max_new_tokens=2, do_sample=False, cache_implementation="static")
    finally:
        type(model).forward = original
    ours = [all(isinstance(layer, GrowingLayer) for layer in cache.layers) for cache in seen[::2]]
    assert ours == [True, True, False, False]
    assert isinstance(seen[-1], StaticCache)
    cache = with_room(DynamicCache())
    cache.update(torch.ones(1, 1, 2, 8), torch.ones(1, 1, 2, 8), 0)
    assert isinstance(cache.layers[0], GrowingLayer)
    assert with_room(cache) is cache
    assert cache.get_seq_length() == 2


def test_shared_keys_are_never_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finders that can take the keys of a group as they are get them so."""
    model = _model("llama")
    finders = _sketches(model)
    batch = {"input_ids": words(2, 9)}
    wanted = _generate(model, finders, batch, do_sample=False)
    monkeypatch.setattr(Tensor, "repeat_interleave", lambda *arguments, **more: pytest.fail("keys are repeated"))
    assert torch.equal(_generate(model, finders, batch, do_sample=False), wanted)
    mine = DynamicCache(config=model.config)
    assert torch.equal(_generate(model, finders, batch, do_sample=False, past_key_values=mine), wanted)
    _generate(model, Window(5), batch, do_sample=False)


def test_records_and_weights_are_still_to_be_had(asked: list[int]) -> None:
    model = _model("llama")
    finders = _sketches(model)
    cache = _filled(model, finders, words(2, 8))
    asked.clear()
    with torch.no_grad(), predicting(model, finders):
        with record(model) as records:
            model(words(2, 1), past_key_values=cache)
        out = model(words(2, 1), past_key_values=cache, output_attentions=True)
    assert not asked
    assert records[0].k.shape[2] == 9
    assert out.attentions[0].shape == (2, 4, 1, 10)


def test_another_finder_has_another_index() -> None:
    model = _model("llama")
    one, two = _sketches(model), _sketches(model, share=0.5, r=4)
    cache = _filled(model, one, words(2, 8))
    layer = cache.layers[0]
    assert isinstance(layer, GrowingLayer)
    first: Finder = one["decoder", 0]
    index = layer.indexed(first, False)
    assert index is layer.indexed(first, False)
    other = layer.indexed(two["decoder", 0], False)
    assert other is not None
    assert other is not index
    assert other.length == 8
    assert layer.indexed(Window(3), False) is None
    assert kept_with(torch.ones(1)) is None
    assert caches.KEPT
