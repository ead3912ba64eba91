"""A block of `predicting` or `record` holds for its thread and its model, and for nothing else."""

import asyncio
import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Event
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from sparsefinder import Full, GlobalTokens, Graph, Window, finders_of, predicting, record, use_entmax, use_finders
from sparsefinder.core.layout import Grid
from sparsefinder.finders import About, Finder
from sparsefinder.finders.base import Keys, Queries
from sparsefinder.hf.models import sites

from ..tiny_models import make, run, words

PREDICTED = Window(3) | GlobalTokens(1)
COPIES = [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]


class Waiting(Finder):
    """Predicts what a finder does, but not before others have had their turn."""

    about = About("waiting", "waiting", "rival")

    def __init__(self, finder: Finder) -> None:
        for name, value in {"finder": finder, "reached": Event(), "go_on": Event()}.items():
            object.__setattr__(self, name, value)

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        self.reached.set()  # type: ignore[attr-defined]
        assert self.go_on.wait(60)  # type: ignore[attr-defined]
        return self.finder.on(q, k, grid)  # type: ignore[attr-defined]


def meanwhile(waiting: Any, first: Callable[[], Tensor], other: Callable[[], Any]) -> tuple[Tensor, Any]:
    """What one thread gets, held up where it asks the finder, and another that runs while it is."""
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(first)
        assert waiting.reached.wait(60)
        try:
            between = other()
        finally:
            waiting.go_on.set()
        return result.result(), between


@pytest.mark.parametrize("family", ["bert", "llama", "marian"])
def test_other_threads_do_not_notice(family: str) -> None:
    model, ids = use_entmax(make(family)), words(2, 9)
    with torch.no_grad():
        full = run(model, ids)
        with predicting(model, PREDICTED):
            predicted = run(model, ids)
    waiting, taken = Waiting(PREDICTED), []

    @torch.no_grad()
    def predicts() -> Tensor:
        with predicting(model, waiting), record(model, taken.append):
            return run(model, ids)

    @torch.no_grad()
    def looks() -> Tensor:
        assert len(finders_of(model)) == 0
        return run(model, ids)

    found, between = meanwhile(waiting, predicts, looks)
    torch.testing.assert_close(found, predicted)
    torch.testing.assert_close(between, full)
    assert len(taken) == len(sites(model)), "records of the other thread"


def test_threads_that_decode_keep_apart() -> None:
    """Cross-attention learns from the decoder's self-attention where its queries stand: that of its own thread."""
    model, source = use_entmax(make("marian")), words(1, 7)
    waiting, layouts = Waiting(Full()), []

    @torch.no_grad()
    def first() -> Tensor:
        with predicting(model, {"decoder": waiting}), record(model, kinds=["cross"]) as records:
            out = model(source, decoder_input_ids=words(1, 4)).logits
        layouts.extend(one.layout for one in records)
        return out

    @torch.no_grad()
    def other() -> None:
        cache = model(source, decoder_input_ids=words(1, 5), use_cache=True).past_key_values
        model(source, decoder_input_ids=words(1, 1), past_key_values=cache)

    meanwhile(waiting, first, other)
    assert [layout.query_offset for layout in layouts] == [0, 0]


def test_tasks_keep_apart_and_a_thread_may_be_given_the_block() -> None:
    model, ids = use_entmax(make("bert")), words(2, 9)
    full = run(model, ids)

    async def predicts(start: asyncio.Event, end: asyncio.Event) -> tuple[Tensor, Tensor]:
        with predicting(model, PREDICTED):
            start.set()
            await end.wait()
            return run(model, ids), await asyncio.to_thread(run, model, ids)

    async def both() -> tuple[tuple[Tensor, Tensor], Tensor]:
        start, end = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(predicts(start, end))
        await start.wait()
        between = run(model, ids)
        end.set()
        return await task, between

    (here, there), between = asyncio.run(both())
    with predicting(model, PREDICTED):
        wanted, context = run(model, ids), copy_context()
        with ThreadPoolExecutor(1) as pool:
            alone, given = pool.submit(run, model, ids), pool.submit(context.run, run, model, ids)
            torch.testing.assert_close(alone.result(), full)
            torch.testing.assert_close(given.result(), wanted)
    torch.testing.assert_close(between, full)
    torch.testing.assert_close(here, wanted)
    torch.testing.assert_close(there, wanted)


@pytest.mark.parametrize("copied", COPIES, ids=["deepcopy", "pickle"])
def test_a_copy_does_not_keep_predicting(copied: Callable[[PreTrainedModel], PreTrainedModel]) -> None:
    model, ids = use_entmax(make("marian")), words(2, 9)
    full = run(model, ids)
    with predicting(model, PREDICTED), record(model) as records:
        run(model, ids)
        before = len(records)
        twin = copied(model)
        torch.testing.assert_close(run(twin, ids), full)
        assert len(finders_of(twin)) == 0
    torch.testing.assert_close(run(twin, ids), full)
    assert len(records) == before
    # What is on for good is.
    twin = copied(use_finders(model, Window(3)))
    assert set(finders_of(twin).values()) == {Window(3)}
    use_finders(model, None)
    torch.testing.assert_close(run(model, ids), full)
    assert set(finders_of(twin).values()) == {Window(3)}


@pytest.mark.parametrize("before", [False, True])
def test_a_copy_is_checkpointed_as_the_original(before: bool) -> None:
    model, ids = use_entmax(make("bert")).train(), words(2, 9)
    if before:
        model.gradient_checkpointing_enable()
    twin = copy.deepcopy(model)
    if not before:
        twin.gradient_checkpointing_enable()
    assert twin.is_gradient_checkpointing
    assert model.is_gradient_checkpointing == before
    for module in twin.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with predicting(twin, PREDICTED):
        lost = run(twin, ids).square().mean()
    lost.backward()
    found = {name: each.grad.clone() for name, each in twin.named_parameters() if each.grad is not None}
    twin.zero_grad()
    twin.gradient_checkpointing_disable()
    with predicting(twin, PREDICTED):
        run(twin, ids).square().mean().backward()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, twin.get_parameter(name).grad)


def test_blocks_may_be_left_in_any_order() -> None:
    model, ids = use_entmax(make("bert")), words(2, 9)
    full = run(model, ids)
    outer, inner = predicting(model, Window(1)), predicting(model, PREDICTED)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert set(finders_of(model).values()) == {PREDICTED}
    inner.__exit__(None, None, None)
    torch.testing.assert_close(run(model, ids), full)
    with predicting(model, Window(1), kinds=["encoder"], layers=[0]), predicting(model, Window(5), layers=[1]):
        assert dict(finders_of(model)) == {("encoder", 0): Window(1), ("encoder", 1): Window(5)}


def test_what_is_switched_on_for_good_within_a_block_waits_for_its_end() -> None:
    model = use_entmax(make("bert"))
    with predicting(model, PREDICTED, backend="portable"):
        use_finders(model, Window(5))
        assert set(finders_of(model).values()) == {PREDICTED}
    assert set(finders_of(model).values()) == {Window(5)}
    assert {attend.use.backend for attend in sites(model).values()} == {"auto"}
