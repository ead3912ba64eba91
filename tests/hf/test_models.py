"""Hugging Face models of many families: padding, causality, decoding, predicting and recording."""

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from transformers import PreTrainedModel

from sparsefinder import Full, GlobalTokens, Graph, InputError, Layout, Window
from sparsefinder.core.layout import Grid
from sparsefinder.finders import About, Finder
from sparsefinder.finders.base import Keys, Queries
from sparsefinder.hf.models import predicting, record, sites, use_entmax

from ..tiny_models import CAUSAL, MODELS, SEQUENCE_TO_SEQUENCE, make, padded, positions, run, words

# Families whose positions cannot be told where the padding is, so that padding on the left moves their words.
FIXED_POSITIONS = ("distilbert", "marian", "bart")
PREDICTED = Window(3) | GlobalTokens(1)


def eager_entmax(model: PreTrainedModel) -> PreTrainedModel:
    """The model's own eager attention with entmax in the place of softmax: an oracle that knows nothing of ours."""
    model.set_attn_implementation("eager")
    return model


@pytest.mark.usefixtures("_softmax_is_entmax")
@pytest.mark.parametrize("family", MODELS)
def test_equals_the_models_own_attention_with_entmax(family: str) -> None:
    ids = padded(words(3, 12), [12, 7, 9], "right")
    mask = ids["attention_mask"].bool()
    own = run(eager_entmax(make(family)), ids=ids["input_ids"], attention_mask=ids["attention_mask"])
    ours = run(use_entmax(make(family)), ids=ids["input_ids"], attention_mask=ids["attention_mask"])
    if family not in SEQUENCE_TO_SEQUENCE:
        own, ours = own[mask], ours[mask]
    torch.testing.assert_close(ours, own, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("finder", [None, PREDICTED], ids=["full", "predicted"])
@pytest.mark.parametrize("family", MODELS)
def test_padding_changes_nothing(family: str, side: str, finder: Finder | None) -> None:
    if side == "left" and family in FIXED_POSITIONS:
        # The embedding of positions is out: only what attention does with the padding is under test.
        model = use_entmax(without_positions(make(family)))
    else:
        model = use_entmax(make(family))
    ids, lengths = words(3, 12), [12, 7, 9]
    batch = padded(ids, lengths, side)
    decoder = {"decoder_input_ids": words(3, 5)} if family in SEQUENCE_TO_SEQUENCE else {}
    with predicting(model, finder if finder is not None else Full()):
        out = run(model, batch["input_ids"], attention_mask=batch["attention_mask"], **decoder,
                  **positions(family, batch["attention_mask"]))  # fmt: skip
        for row, length in enumerate(lengths):
            one = {name: value[row : row + 1] for name, value in decoder.items()}
            alone = run(model, ids[row : row + 1, :length], **one)[0]
            place = batch["attention_mask"][row].bool() if not decoder else slice(None)
            torch.testing.assert_close(out[row][place], alone, rtol=1e-8, atol=1e-8)


def without_positions(model: PreTrainedModel) -> PreTrainedModel:
    for name, parameter in model.named_parameters():
        if "position" in name:
            parameter.data.zero_()
    return model


@pytest.mark.parametrize("finder", [None, PREDICTED], ids=["full", "predicted"])
@pytest.mark.parametrize("family", [*CAUSAL, *SEQUENCE_TO_SEQUENCE])
def test_decoding_token_by_token_is_the_whole_pass(family: str, finder: Finder | None) -> None:
    model, ids = use_entmax(make(family)), words(2, 9)
    source = {"input_ids": words(2, 7)}
    seq2seq = family in SEQUENCE_TO_SEQUENCE
    with torch.no_grad(), predicting(model, finder if finder is not None else Full()):
        whole = model(**source, decoder_input_ids=ids).logits if seq2seq else model(ids).logits
        cache, steps = None, []
        for step in range(ids.shape[1]):
            token = ids[:, step : step + 1]
            given = {**source, "decoder_input_ids": token} if seq2seq else {"input_ids": token}
            out = model(**given, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            steps.append(out.logits)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("family", CAUSAL)
def test_nothing_leaks_from_the_future(family: str) -> None:
    model, ids = use_entmax(make(family)), words(1, 10)
    changed = ids.clone()
    changed[:, 6:] = words(1, 4)
    torch.testing.assert_close(run(model, ids)[:, :6], run(model, changed)[:, :6], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", [*CAUSAL, *SEQUENCE_TO_SEQUENCE])
def test_generating_with_beams(family: str) -> None:
    """With a cache and without give the same words, padded on the left as generation wants it; so does a full graph."""
    model = use_entmax(make(family))
    side = "right" if family in SEQUENCE_TO_SEQUENCE else "left"
    batch = padded(words(2, 8), [8, 5], side)
    options: dict[str, Any] = {"max_new_tokens": 6, "num_beams": 3, "do_sample": False, "min_new_tokens": 6}
    wanted = model.generate(**batch, **options, use_cache=False)
    assert torch.equal(model.generate(**batch, **options), wanted)
    with predicting(model, Full()):
        assert torch.equal(model.generate(**batch, **options), wanted)
    with predicting(model, PREDICTED):
        assert torch.equal(model.generate(**batch, **options), model.generate(**batch, **options, use_cache=False))


@pytest.mark.parametrize("family", MODELS)
def test_attentions_on_request(family: str) -> None:
    model = use_entmax(make(family))
    batch = padded(words(2, 10), [10, 6], "right")
    more = {"decoder_input_ids": words(2, 5)} if family in SEQUENCE_TO_SEQUENCE else {}
    out = model(**batch, **more, output_attentions=True)
    kinds = ("encoder_attentions", "decoder_attentions", "cross_attentions") if more else ("attentions",)
    for kind in kinds:
        assert len(out[kind]) == 2
        for weights in out[kind]:
            real = weights[0]  # the first sequence has no padding
            assert weights.shape[:2] == (2, 4)
            torch.testing.assert_close(real.sum(-1), torch.ones_like(real.sum(-1)))
    plain = model(**batch, **more)
    assert getattr(plain, kinds[0], None) is None
    torch.testing.assert_close(plain.logits, out.logits)


@pytest.mark.parametrize("finder", [None, PREDICTED], ids=["full", "predicted"])
@pytest.mark.parametrize("family", MODELS)
def test_gradients_reach_every_weight_and_alpha(family: str, finder: Finder | None) -> None:
    model = use_entmax(make(family).train(), learn=True)
    with predicting(model, finder if finder is not None else Full()):
        run(model, words(2, 9)).square().mean().backward()
    learned = [parameter for name, parameter in model.named_parameters() if name.endswith("entmax_logit")]
    assert len(learned) == len(sites(model))
    for parameter in learned:
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().sum() > 0
    for name, parameter in model.named_parameters():
        if "query" in name or "q_proj" in name or "k_proj" in name:
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("finder", [None, PREDICTED], ids=["full", "predicted"])
@pytest.mark.parametrize("family", MODELS)
def test_half_precision_by_autocast_trains_as_single_precision_does(family: str, finder: Finder | None) -> None:
    torch.manual_seed(1)
    model, ids = use_entmax(MODELS[family]().eval()), words(2, 9)
    # As the Trainer has it: through a cache all has one type, without one values differ where positions are rotary.
    model.config.use_cache = False
    found = []
    for half in (False, True):
        model.zero_grad()
        with predicting(model, finder or Full()), torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = run(model, ids).float()
        logits.square().mean().backward()
        grads = [each.grad.flatten() for each in model.parameters() if each.grad is not None]
        found.append((logits.detach().flatten(), torch.cat(grads)))
    for single, rounded in zip(*found, strict=True):
        assert torch.cosine_similarity(single, rounded, dim=0) > 0.99


@pytest.mark.parametrize("family", MODELS)
def test_full_finder_changes_nothing_and_a_window_does(family: str) -> None:
    model, ids = use_entmax(make(family)), words(2, 12)
    wanted = run(model, ids)
    with predicting(model, Full()):
        torch.testing.assert_close(run(model, ids), wanted)
    with predicting(model, Window(1)):
        assert (run(model, ids) - wanted).abs().max() > 1e-3
    with predicting(model, Window(1), exact=True):
        torch.testing.assert_close(run(model, ids), wanted)
    torch.testing.assert_close(run(model, ids), wanted)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", MODELS)
def test_recorded_gold_is_what_the_model_attends_to(family: str, side: str) -> None:
    model = use_entmax(make(family))
    batch = padded(words(2, 10), [10, 6], side)
    more = {"decoder_input_ids": words(2, 5)} if family in SEQUENCE_TO_SEQUENCE else {}
    with record(model) as records:
        out = model(**batch, **more, output_attentions=True)
    by_kind = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    assert {(one.kind, one.layer) for one in records} == {(site.kind, site.layer) for site in sites(model).values()}
    for one in records:
        weights = out[by_kind[one.kind] if more else "attentions"][one.layer]
        # The first sequence has no padding, so that it stands in the record as in the model.
        assert torch.equal(one.gold.dense()[0], weights[0] > 0)
        assert one.gold.count()[1].sum() == (weights[1] > 0).sum()


def test_alpha_by_kind_layer_and_head() -> None:
    model = make("marian")
    use_entmax(model, {"encoder": 2.0, "decoder": [1.5, [1.1, 1.2, 1.3, 1.4]]})
    alphas = {(site.kind, site.layer): site.alpha_of(model.get_submodule(name)) for name, site in sites(model).items()}
    assert alphas["encoder", 0] == alphas["encoder", 1] == 2.0
    assert alphas["decoder", 0] == alphas["cross", 0] == 1.5
    per_head = alphas["decoder", 1]
    assert isinstance(per_head, Tensor)
    torch.testing.assert_close(per_head, torch.tensor([1.1, 1.2, 1.3, 1.4]))
    assert run(model, words(1, 5)).isfinite().all()


def test_softmax_is_alpha_one() -> None:
    ids = words(2, 9)
    torch.testing.assert_close(run(use_entmax(make("bert"), 1.0), ids), run(make("bert"), ids))


def test_masks_of_the_users_own() -> None:
    """A 4D mask, true or additive, goes through as it is; a packed batch keeps its sequences apart."""
    model, ids = use_entmax(make("bert")), words(1, 8)
    allowed = torch.zeros(1, 1, 8, 8, dtype=torch.bool)
    allowed[..., :5, :5], allowed[..., 5:, 5:] = True, True
    out = run(model, ids, attention_mask=allowed)
    additive = torch.zeros(1, 1, 8, 8, dtype=torch.float64).masked_fill(~allowed, torch.finfo(torch.float64).min)
    torch.testing.assert_close(run(model, ids, attention_mask=additive), out)
    with predicting(model, Full()):
        torch.testing.assert_close(run(model, ids, attention_mask=allowed), out)
    llama = use_entmax(make("llama"))
    positions = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2]])
    packed = run(llama, ids, position_ids=positions, use_cache=False)
    torch.testing.assert_close(packed[:, 5:], run(llama, ids[:, 5:]))
    torch.testing.assert_close(packed[:, :5], run(llama, ids[:, :5]))


def test_a_hole_in_the_padding_mask() -> None:
    model, ids = use_entmax(make("gpt2")), words(1, 8)
    mask = torch.tensor([[1, 1, 0, 1, 1, 1, 0, 1]])
    changed = ids.clone()
    changed[0, [2, 6]] = words(2)
    kept = mask[0].bool()
    torch.testing.assert_close(
        run(model, ids, attention_mask=mask)[:, kept], run(model, changed, attention_mask=mask)[:, kept]
    )


def test_dropout_is_applied_in_training() -> None:
    config = hf.BertConfig(**MODELS["bert"]().config.to_diff_dict() | {"attention_probs_dropout_prob": 0.5})
    config.hidden_dropout_prob = 0.0
    model, ids = use_entmax(hf.BertForMaskedLM(config)), words(2, 9)
    model.train()
    assert (run(model, ids) - run(model, ids)).abs().max() > 0
    model.eval()
    assert torch.equal(run(model, ids), run(model, ids))


class WrongSize(Finder):
    """Returns a graph for one key too many."""

    about = About("wrong-size", "wrong size", "rival")

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return Graph.full(Grid(grid.batch, grid.heads, grid.n, grid.m + 1, Layout(), grid.device))


def test_a_graph_of_the_wrong_size_is_refused() -> None:
    words_of = "finder of encoder layer 0: got WrongSize.*, which returned a graph for .*, want a graph for"
    model = use_entmax(make("bert"))
    with pytest.raises(InputError, match=words_of), predicting(model, WrongSize()):
        run(model, words(2, 6))


def test_a_model_without_the_interface() -> None:
    config = hf.MPNetConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, vocab_size=60
    )
    with pytest.raises(InputError, match="model: got MPNetForMaskedLM, whose attention does not go through"):
        use_entmax(hf.MPNetForMaskedLM(config))
