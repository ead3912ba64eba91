"""Gradient checkpointing: gradients are those without it, wherever and whenever `backward()` runs."""

import gc
import inspect
import weakref
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from sparsefinder import Full, GlobalTokens, Window, predicting, record, use_entmax, use_finders

from ..tiny_models import ENCODER, make, run, words

PREDICTED = Window(3) | GlobalTokens(1)
FAMILIES = ["bert", "gpt2", "llama", "bart", "t5"]
Checked = Callable[[PreTrainedModel], None]


def plain(model: PreTrainedModel) -> None:
    """No checkpointing."""


def reentrant(model: PreTrainedModel) -> None:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})


def early_stopping(model: PreTrainedModel) -> None:
    model.gradient_checkpointing_enable()


def by_hand(model: PreTrainedModel) -> None:
    """Every layer wrapped by somebody else than transformers, as trainers do that shard a model."""
    for layer in model.modules():
        if isinstance(layer, hf.modeling_layers.GradientCheckpointingLayer):
            own = layer.forward
            layer.forward = lambda *given, _own=own, **more: checkpoint(_own, *given, **more, use_reentrant=False)


CHECKPOINTED = [reentrant, early_stopping]


def trained(family: str, checkpointed: Checked, **more: Any) -> PreTrainedModel:
    model = use_entmax(make(family), **more).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.1
    checkpointed(model)
    return model


def loss(model: PreTrainedModel, ids: Tensor) -> Tensor:
    torch.manual_seed(3)
    return run(model, ids, use_cache=False).square().mean()


def gradients(model: PreTrainedModel) -> dict[str, Tensor]:
    found = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    assert len(found) > 10
    return found


def after_the_block(model: PreTrainedModel, ids: Tensor) -> None:
    with predicting(model, PREDICTED):
        lost = loss(model, ids)
    lost.backward()


def in_another_block(model: PreTrainedModel, ids: Tensor) -> None:
    with predicting(model, PREDICTED):
        lost = loss(model, ids)
    with predicting(model, Window(1)):
        lost.backward()


def in_another_thread(model: PreTrainedModel, ids: Tensor) -> None:
    """As on GPUs, whose backward passes run in threads of autograd's own."""
    with predicting(model, PREDICTED):
        lost = loss(model, ids)
        thread = Thread(target=lost.backward)
        thread.start()
        thread.join()


def with_both_under_way(model: PreTrainedModel, ids: Tensor) -> None:
    whole = loss(model, ids)
    with predicting(model, PREDICTED):
        part = loss(model, ids)
    (whole + 2 * part).backward()


def switched_for_good(model: PreTrainedModel, ids: Tensor) -> None:
    use_finders(model, PREDICTED)
    lost = loss(model, ids)
    use_finders(model, None)
    lost.backward()


WAYS = [after_the_block, in_another_block, in_another_thread, with_both_under_way, switched_for_good]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("checkpointed", CHECKPOINTED)
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_without_checkpointing(family: str, checkpointed: Checked, way: Any) -> None:
    ids, found = words(2, 9), []
    for each in (plain, checkpointed):
        model = trained(family, each, learn=True)
        way(model, ids)
        found.append(gradients(model))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_the_way_matters() -> None:
    """The gradients compared above differ between a finder and none, or the test would say nothing."""
    ids, found = words(2, 9), []
    for finder in (PREDICTED, Full()):
        model = trained("bert", early_stopping)
        with predicting(model, finder):
            lost = loss(model, ids)
        lost.backward()
        found.append(torch.cat([each.flatten() for each in gradients(model).values()]))
    assert (found[0] - found[1]).abs().max() > 1e-2 * found[1].abs().max()


@pytest.mark.parametrize("way", [after_the_block, in_another_block, in_another_thread])
def test_layers_that_others_checkpoint(way: Any) -> None:
    ids, found = words(2, 9), []
    for each in (plain, by_hand):
        model = trained("bert", each)
        way(model, ids)
        found.append(gradients(model))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("checkpointed", CHECKPOINTED)
def test_it_may_be_on_before_the_model_is_switched_or_within_the_block(checkpointed: Checked) -> None:
    ids, found = words(2, 9), []
    before = make("bert").train()
    checkpointed(before)
    within = trained("bert", plain)
    for model in (trained("bert", plain), use_entmax(before), within):
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        with predicting(model, PREDICTED):
            if model is within:
                checkpointed(model)
            lost = loss(model, ids)
        lost.backward()
        found.append(gradients(model))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found[2], found[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("checkpointed", [*CHECKPOINTED, by_hand])
def test_nothing_is_recorded_twice(checkpointed: Checked) -> None:
    model = trained("bert", checkpointed)
    with record(model) as records:
        loss(model, words(2, 9)).backward()
    assert [(one.kind, one.layer) for one in records] == [("encoder", 0), ("encoder", 1)]


@pytest.mark.parametrize("checkpointed", [plain, *CHECKPOINTED])
def test_a_model_that_nobody_needs_goes_at_once(checkpointed: Checked) -> None:
    model = trained("bert", checkpointed)
    gone, weight = weakref.ref(model), weakref.ref(next(model.parameters()))
    gc.disable()
    try:
        del model
        assert gone() is None
        assert weight() is None
    finally:
        gc.enable()


def test_switched_twice_is_carried_as_once() -> None:
    ids, found = words(2, 9), []
    for each in (plain, early_stopping):
        model = use_entmax(trained("bert", each), 2.0)
        after_the_block(model, ids)
        found.append(gradients(model))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_its_arguments_stay_known() -> None:
    model = make("bert")
    own = inspect.signature(model.gradient_checkpointing_enable)
    assert inspect.signature(use_entmax(model).gradient_checkpointing_enable) == own


@pytest.mark.parametrize("checkpointed", CHECKPOINTED)
def test_models_of_images(checkpointed: Checked) -> None:
    found = []
    for each in (plain, checkpointed):
        torch.manual_seed(0)
        config = hf.ViTConfig(**ENCODER, image_size=8, patch_size=2, num_channels=1, num_labels=3)
        model = use_entmax(hf.ViTForImageClassification(config).double()).train()
        each(model)
        pixels = torch.randn(2, 1, 8, 8, dtype=torch.float64)
        whole = model(pixels).logits
        with predicting(model, PREDICTED):
            part = model(pixels).logits
        (whole - 3 * part).square().sum().backward()
        found.append(gradients(model))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)
