"""What cannot be is refused in a sentence that names the argument, what was given and what would be right."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from sparsefinder import (
    Full,
    InputError,
    Window,
    finders_of,
    load_model,
    predicting,
    record,
    record_traces,
    save_model,
    use_entmax,
    use_finders,
)

from ..tiny_models import make, run, words

SOFTMAX = make("bert")
MODEL, MARIAN = use_entmax(make("bert")), use_entmax(make("marian"))


def refused(want: str) -> Any:
    return pytest.raises(InputError, match=want)


@pytest.mark.parametrize(
    ("alpha", "want"),
    [
        (0.3, "alpha: got 0.3, want numbers from 1"),
        ("1.5", "alpha: got '1.5', want numbers from 1"),
        (True, "alpha: got True, want numbers from 1"),
        (float("inf"), "alpha: got inf"),
        (float("nan"), "alpha: got nan"),
        (None, "alpha: got None"),
        ([1.5, 1.2], "alpha: got 2 numbers for encoder layer 0, want one number, or one for each of 4 heads"),
        ({"encode": 1.5}, "alpha: got the kind 'encode', want kinds of attention that this model has: encoder"),
        ({"encoder": 1.5, "cross": 2.0}, "alpha: got the kind 'cross', want kinds .* this model has: encoder"),
        ({("encoder", 0): 1.5}, r"alpha: got the kind \('encoder', 0\)"),
        ({"encoder": "1.5"}, "alpha: got '1.5'"),
        ({"encoder": [1.5]}, "alpha: got 1 values for encoder layers, want one for each encoder layer: 2"),
        ({"encoder": [1.5, 1.4, 1.3]}, "alpha: got 3 values for encoder layers, want one for each encoder layer: 2"),
        ({"encoder": [[1.5, 1.5, 1.5], 1.5]}, "alpha: got 3 numbers for encoder layer 0"),
    ],
)
def test_alphas_that_cannot_be(alpha: Any, want: str) -> None:
    model = copy.deepcopy(SOFTMAX)
    with refused(want):
        use_entmax(model, alpha)
    # Nothing has changed: it is a model with softmax attention still.
    torch.testing.assert_close(run(model, words(1, 5) * 0 + 7), run(SOFTMAX, words(1, 5) * 0 + 7))
    with refused("model: got BertForMaskedLM with softmax attention"):
        finders_of(model)


def test_a_learned_alpha_starts_between_1_and_2() -> None:
    model = copy.deepcopy(SOFTMAX)
    with refused("both excluded, where it is learned"):
        use_entmax(model, {"encoder": [1.5, 2.0]}, learn=True)
    with refused("softmax attention"):
        finders_of(model)


@pytest.mark.parametrize("alpha", [np.float32(1.25), torch.tensor(1.25), 1.25])
def test_one_number_is_one_number(alpha: Any) -> None:
    assert use_entmax(copy.deepcopy(SOFTMAX), alpha).config.entmax["alpha"] == 1.25


@pytest.mark.parametrize("values", [np.array, torch.tensor, list])
def test_many_numbers_may_come_in_any_way(values: Any) -> None:
    per_head = [[1.25, 1.5, 1.75, 2.0], [2.0, 1.25, 1.5, 1.75]]
    assert use_entmax(copy.deepcopy(SOFTMAX), {"encoder": values(per_head)}).config.entmax["alpha"] == {
        "encoder": per_head
    }


@pytest.mark.parametrize(
    ("chosen", "want"),
    [
        ({"kinds": "encoder"}, r"kinds: got 'encoder', want a list, such as \['encoder'\]"),
        (
            {"kinds": ["decode"]},
            "kinds: got 'decode', want kinds of attention that this model has: cross, decoder, enc",
        ),
        ({"kinds": 0}, r"kinds: got 0, want a list, such as \['encoder'\]"),
        ({"layers": 0}, r"layers: got 0, want a list, such as \[0\]"),
        ({"layers": "01"}, r"layers: got '01', want a list, such as \[0\]"),
        ({"layers": ["0"]}, "layers: got '0', want layers from 0 to 1"),
        ({"layers": [7]}, "layers: got 7, want layers from 0 to 1"),
        ({"layers": [-1]}, "layers: got -1, want layers from 0 to 1"),
        ({"layers": [True]}, "layers: got True, want layers from 0 to 1"),
        ({"layers": [0.5]}, "layers: got 0.5, want layers from 0 to 1"),
    ],
)
def test_sites_that_are_not_there(chosen: Any, want: str, tmp_path: Path) -> None:
    with refused(want), predicting(MARIAN, Full(), **chosen):
        pass
    with refused(want), record(MARIAN, **chosen):
        pass
    with refused(want):
        use_finders(MARIAN, Full(), **chosen)
    with refused(want):
        record_traces(MARIAN, [{"input_ids": words(1, 4)}], tmp_path / "traces", **chosen)
    assert len(finders_of(MARIAN)) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("layers", [(0, 1), np.array([0, 1]), torch.tensor([0, 1]), range(2), iter([0, 1])])
def test_layers_may_come_in_any_way(layers: Any) -> None:
    with predicting(MODEL, Full(), layers=layers):
        assert len(finders_of(MODEL)) == 2


def test_layers_are_those_of_the_kinds() -> None:
    config = make("marian").config
    config.decoder_layers = 3
    model = use_entmax(type(make("marian"))(config))
    with record(model, kinds=["decoder"], layers=[2]):
        pass
    with refused("layers: got 2, want layers from 0 to 1"), record(model, kinds=["encoder"], layers=[2]):
        pass


@pytest.mark.parametrize(
    ("finders", "want"),
    [
        ("window", "finders: got a str, want a finder.*from_pretrained"),
        ([Window(3)], "finders: got a list, want a finder"),
        (Window, "finders: got the class Window, want a finder"),
        ({"enc": Full()}, r"finders: got the key 'enc', want a kind out of \['encoder'\]"),
        ({("encoder", 9): Full()}, r"finders: got the key \('encoder', 9\)"),
        ({"encoder": "window"}, "finders for encoder layer 0: got a str, want a finder, such as Window"),
        (lambda kind, layer: Window, "finders for encoder layer 0: got the class Window, want a finder"),
    ],
)
def test_finders_that_are_none(finders: Any, want: str, tmp_path: Path) -> None:
    with refused(want), predicting(MODEL, finders):
        pass
    with refused(want):
        use_finders(MODEL, finders)
    with refused(want):
        save_model(MODEL, tmp_path / "model", finders=finders)
    assert len(finders_of(MODEL)) == 0
    assert not (tmp_path / "model").exists()


def test_a_backend_that_is_not_there(tmp_path: Path) -> None:
    want = "backend: got 'fast', want one of 'auto', 'reference', 'portable', 'native'"
    with refused(want), predicting(MODEL, Full(), backend="fast"):
        pass
    with refused(want):
        use_finders(MODEL, Full(), backend="fast")
    with refused(want):
        use_entmax(copy.deepcopy(SOFTMAX), backend="fast")
    save_model(MODEL, tmp_path)
    with refused(want):
        load_model(tmp_path, backend="fast")


@pytest.mark.parametrize("model", ["bert-base-uncased", None, Window(3)])
def test_what_is_no_model(model: Any, tmp_path: Path) -> None:
    with refused("model: got .*, want a model of transformers; load_model"):
        use_entmax(model)
    with refused("model: got .*, want one switched by use_entmax.* or loaded by load_model"), predicting(model, Full()):
        pass
    with refused("model: got .*, want one switched by"):
        save_model(model, tmp_path)
    with refused("model: got .*, want one switched by"):
        record_traces(model, [], tmp_path / "traces")


def test_a_sink_that_takes_nothing() -> None:
    with refused("sink: got 'encoder', want a function of a record"), record(MODEL, "encoder"):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize(
    ("inputs", "want"),
    [
        ({"input_ids": words(1, 4)}, "inputs: got a dict, want a list of batches"),
        ("a text", "inputs: got a str, want a list of batches"),
        (words(1, 4), "inputs: got a Tensor, want a list of batches"),
        (3, "inputs: got an int, want a list of batches"),
        (["a text"], "batch 0 of inputs: got a str, want what the model takes, by name, as tensors"),
        ([{"input_ids": words(1, 4)}, words(1, 4)], "batch 1 of inputs: got a Tensor, want what the model takes"),
        ([{"input_ids": [[4, 5]]}], "input_ids of batch 0 of inputs: got a list, want .* as tensors"),
        ([{"input_ids": np.array([[4, 5]])}], "input_ids of batch 0 of inputs: got a ndarray, want .* as tensors"),
        ([], "inputs: got no batch, want at least one"),
    ],
)
def test_batches_that_are_none(inputs: Any, want: str, tmp_path: Path) -> None:
    with refused(want):
        record_traces(MODEL, inputs, tmp_path / "traces")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["no-such-model", "runs/no/such/model", "someone/nothing"])
def test_models_that_are_not_there(path: str) -> None:
    with refused(f"name_or_path: got {path}, which is no folder: .* want a folder that save_model"):
        load_model(path)


def test_folders_without_a_model(tmp_path: Path) -> None:
    with refused("name_or_path: got .*, which is a folder without config.json, want a folder that save_model"):
        load_model(tmp_path, alpha=1.5)
    (tmp_path / "config.json").write_text("{")
    with refused("name_or_path: got .*not a valid JSON file"):
        load_model(tmp_path)
    with refused("name_or_path: got .*config.json, which is a file, want a folder"):
        load_model(tmp_path / "config.json")
    with refused("name_or_path: got a BertForMaskedLM, want a folder"):
        load_model(MODEL)  # type: ignore[arg-type]
    with refused("path: got .*config.json, which is a file, want the name of a folder"):
        save_model(MODEL, tmp_path / "config.json")
    with refused("path: got None, want the name of a folder"):
        save_model(MODEL, None)  # type: ignore[arg-type]
    save_model(MODEL, tmp_path)
    with refused("model_class: got 'BertModel', want a class of transformers"):
        load_model(tmp_path, model_class="BertModel")  # type: ignore[arg-type]


def test_a_model_is_one_also_when_it_is_compiled() -> None:
    compiled: PreTrainedModel = torch.compile(MODEL, backend="eager")  # type: ignore[assignment]
    with predicting(compiled, Full()):
        assert len(finders_of(compiled)) == len(finders_of(MODEL)) == 2
