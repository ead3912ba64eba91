"""torch.compile: attention runs between compiled parts, without noise. torch.export: refused in a sentence."""

from collections.abc import Iterator

import pytest
import torch

from sparsefinder import GlobalTokens, InputError, Window, predicting, record, use_entmax

from ..tiny_models import make, padded, run, words

PREDICTED = Window(3) | GlobalTokens(1)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "bart"])
def test_a_compiled_model_gives_the_same_without_noise(family: str, capfd: pytest.CaptureFixture[str]) -> None:
    model, ids = use_entmax(make(family)), words(2, 9)
    more = {"decoder_input_ids": ids[:, :5]} if model.config.is_encoder_decoder else {}
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(ids, **more).logits, run(model, ids))
        # What is compiled once is not tied to what was used then.
        with predicting(model, PREDICTED), record(model) as records:
            torch.testing.assert_close(compiled(ids, **more).logits, run(model, ids))
        assert len(records) > 0
        torch.testing.assert_close(compiled(ids, **more).logits, run(model, ids))
    said = capfd.readouterr()
    assert said.err == said.out == ""


# Torch itself asks for it, and hides the warning where warnings are not errors.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("checkpointed", [False, True])
def test_gradients_of_a_compiled_model(checkpointed: bool) -> None:
    ids, found = words(2, 9), []
    for compiles in (False, True):
        model = use_entmax(make("bert")).train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        if checkpointed and compiles:
            model.gradient_checkpointing_enable()
        with predicting(model, PREDICTED):
            loss = run(torch.compile(model, backend="aot_eager") if compiles else model, ids).square().mean()
        loss.backward()
        found.append({name: each.grad for name, each in model.named_parameters() if each.grad is not None})
    torch.testing.assert_close(found[1], found[0])


def test_why_a_graph_ends_is_said_where_it_is_asked() -> None:
    model = use_entmax(make("bert"))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="entmax attention of sparsefinder: its work depends"):
        torch.compile(model, backend="eager", fullgraph=True)(words(1, 5))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_export_is_refused_in_a_sentence(family: str) -> None:
    model = use_entmax(make(family))
    with pytest.raises(InputError, match=r"torch.export: got a model with entmax attention, .* want torch.compile"):
        torch.export.export(model, (words(2, 9),))
    with pytest.raises(InputError, match=r"torch.export: got a model with entmax attention"):
        torch.export.export(model, (), kwargs=dict(padded(words(2, 9), [9, 4], "right")))
