"""Caches of every kind: what is generated with them is what is generated with the one that grows."""

from typing import Any

import pytest
import torch
from transformers import StaticCache

from sparsefinder import Full, GlobalTokens, InputError, Window, predicting, record, use_entmax
from sparsefinder.finders import Finder

from ..elsewhere import in_a_process as elsewhere
from ..tiny_models import CAUSAL, SEQUENCE_TO_SEQUENCE, make, padded, words

GLOBAL = Window(3) | GlobalTokens(1)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("finder", [None, GLOBAL], ids=["full", "predicted"])
@pytest.mark.parametrize("family", [*CAUSAL, *SEQUENCE_TO_SEQUENCE])
def test_a_cache_of_a_fixed_size_gives_the_same_words(family: str, finder: Finder | None, beams: int) -> None:
    model = use_entmax(make(family))
    batch = padded(words(2, 8), [8, 5], "right" if family in SEQUENCE_TO_SEQUENCE else "left")
    options: dict[str, Any] = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "num_beams": beams}
    with predicting(model, finder or Full()):
        wanted = model.generate(**batch, **options)
        assert torch.equal(model.generate(**batch, **options, cache_implementation="static"), wanted)


@pytest.mark.parametrize("finder", [Full(), GLOBAL], ids=["full", "predicted"])
@pytest.mark.parametrize("family", CAUSAL)
def test_pieces_in_a_cache_with_room_are_the_whole_pass(family: str, finder: Finder) -> None:
    model, ids = use_entmax(make(family)), words(2, 12)
    with torch.no_grad(), predicting(model, finder):
        whole = model(ids).logits
        cache = StaticCache(config=model.config, max_cache_len=20)
        steps = [model(part, past_key_values=cache).logits for part in ids.split([5, 4, 1, 1, 1], 1)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-8, atol=1e-8)


def test_records_hold_what_is_filled_and_keep_it() -> None:
    model, ids = use_entmax(make("gpt2")), words(2, 8)
    with torch.no_grad(), record(model) as wanted:
        model(ids)
    cache = StaticCache(config=model.config, max_cache_len=20)
    with torch.no_grad(), record(model) as records:
        model(ids, past_key_values=cache)
        for _ in range(3):
            model(words(2, 1), past_key_values=cache)
    for one, two in zip(wanted, records, strict=False):
        assert two.k.shape == one.k.shape
        torch.testing.assert_close(two.k, one.k)
    assert [one.k.shape[2] for one in records[::2]] == [8, 9, 10, 11]


@pytest.mark.usefixtures("_softmax_is_entmax")
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_quantized_cache(family: str) -> None:
    """Keys and values come back rounded, for the model's own attention with entmax as for ours."""
    ids, found = words(2, 8), []
    options: dict[str, Any] = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    own, ours = make(family).float(), use_entmax(make(family)).float()
    own.set_attn_implementation("eager")
    for model in (own, ours):
        quantized = {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}}
        found.append(model.generate(ids, **options, **quantized))
    assert torch.equal(*found)


@pytest.mark.parametrize("name", ["offloaded", "offloaded_static"])
def test_a_cache_that_leaves_the_gpu_needs_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    model = use_entmax(make("gpt2"))
    with pytest.raises(InputError, match=f"cache_implementation: got '{name}', and torch finds no GPU here, want 'sta"):
        model.generate(words(1, 4), max_new_tokens=2, cache_implementation=name)
    # Transformers fetches the keys of self-attention back, and those of cross-attention never.
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    with pytest.raises(InputError, match=f"cache_implementation: got '{name}' for a model with cross-attention, want "):
        use_entmax(make("bart")).generate(words(1, 4), max_new_tokens=2, cache_implementation=name)


def test_a_cache_that_leaves_the_gpu_gives_the_same_words() -> None:
    elsewhere("caches")
