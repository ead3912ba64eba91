"""ASEntmax: what a head learns of lengths, in every kind of model, with caches, padding and checkpoints."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from sparsefinder import Full, InputError, load_model, predicting, record, save_model, use_entmax
from sparsefinder.hf.models import sites
from sparsefinder.hf.scaling import NAMES

from ..tiny_models import MODELS, SEQUENCE_TO_SEQUENCE, make, padded, words


def drawn(name: str, learn: bool = False) -> PreTrainedModel:
    """A model whose heads have learned something of lengths."""
    model = use_entmax(make(name), 1.3, learn=learn, scaled=True)
    generator = torch.Generator().manual_seed(1)
    for site in sites(model):
        for parameter in NAMES:
            each = getattr(model.get_submodule(site), parameter)
            with torch.no_grad():
                each += 0.1 * torch.randn(each.shape, generator=generator)
    return model


def inputs_of(name: str) -> dict[str, Tensor]:
    torch.manual_seed(0)
    ids = {"input_ids": words(2, 9)}
    return ids | ({"decoder_input_ids": words(2, 7)} if name in SEQUENCE_TO_SEQUENCE else {})


@pytest.mark.parametrize("name", MODELS)
def test_a_model_begins_as_it_is_and_learns(name: str) -> None:
    plain, model, inputs = use_entmax(make(name)), use_entmax(make(name), scaled=True), inputs_of(name)
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs).logits, plain(**inputs).logits)
    model(**inputs).logits.square().sum().backward()
    for site in sites(model):
        for parameter in NAMES:
            gradient = getattr(model.get_submodule(site), parameter).grad
            assert gradient.isfinite().all()
            assert gradient.any()


def test_the_factor_is_that_of_the_paper() -> None:
    """A loop over queries of the first layer, whose tokens are the same in both models."""
    model, plain, inputs, tokens = drawn("gpt2"), use_entmax(make("gpt2"), 1.3), inputs_of("gpt2"), []
    module = model.get_submodule(next(iter(sites(model))))
    with torch.no_grad(), record(model, layers=[0]) as after, record(plain, layers=[0]) as before:
        handle = module.register_forward_pre_hook(lambda _, given: tokens.append(given[0]))
        model(**inputs)
        handle.remove()
        plain(**inputs)
    delta, beta, gamma = (getattr(module, parameter).tolist() for parameter in NAMES)
    for b, h, i in itertools.product(range(2), range(4), range(9)):
        x = tokens[0][b, i].tolist()
        by = [sum(one * weight for one, weight in zip(x, side[h], strict=True)) for side in (beta, gamma)]
        factor = delta[h] + math.log1p(math.exp(by[0])) * math.log(max(2, i + 1)) ** (3 * math.tanh(by[1]))
        torch.testing.assert_close(after[0].q[b, h, i], factor * before[0].q[b, h, i])


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2", "marian", "t5"])
def test_decoding_with_a_cache_gives_the_same_tokens(name: str) -> None:
    model, told = drawn(name), {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    ids = inputs_of(name)["input_ids"]
    cached = model.generate(ids, **told, use_cache=True)
    assert torch.equal(cached, model.generate(ids, **told, use_cache=False))
    with predicting(model, Full()):
        assert torch.equal(cached, model.generate(ids, **told))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(side: str) -> None:
    model, ids = drawn("llama"), inputs_of("llama")["input_ids"]
    given = padded(ids, [6, 9], side)
    with torch.no_grad():
        found, alone = model(**given).logits, model(input_ids=ids[:1, :6]).logits
    torch.testing.assert_close(found[:1, 3:] if side == "left" else found[:1, :6], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("learn", [False, True])
def test_what_was_learned_is_saved(tmp_path: Path, learn: bool) -> None:
    model, inputs = drawn("bert", learn), inputs_of("bert")
    save_model(model, tmp_path)
    loaded = load_model(tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(loaded(**inputs).logits, model(**inputs).logits)
    assert loaded.config.entmax["scaled"] is True
    # And taken away again, with what remembers its inputs.
    plain = use_entmax(loaded, 1.5)
    assert not any(name.endswith(NAMES) for name, _ in plain.named_parameters())
    assert not any(plain.get_submodule(site)._forward_pre_hooks for site in sites(plain))


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(InputError, match="True or False"):
        use_entmax(make("bert"), scaled="log")  # type: ignore[arg-type]
