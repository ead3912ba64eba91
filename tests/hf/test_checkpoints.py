"""Checkpoints: models, their α and their finders, saved and loaded."""

import json
from pathlib import Path

import pytest
import torch
import transformers as hf

from sparsefinder import (
    Full,
    GlobalTokens,
    Graph,
    InputError,
    Sparsefinder,
    Window,
    finders_of,
    load_model,
    predicting,
    save_model,
    use_entmax,
    use_finders,
)
from sparsefinder.core.layout import Grid
from sparsefinder.finders import About, Finder
from sparsefinder.finders.base import Keys, Queries
from sparsefinder.hf.models import sites
from sparsefinder.lab.tasks.teacher import from_checkpoint

from ..tiny_models import make, run, words

PREDICTED = Window(3) | GlobalTokens(1)


@pytest.mark.parametrize("family", ["bert", "marian", "llama"])
@pytest.mark.parametrize("learn", [False, True])
def test_saving_and_loading(family: str, learn: bool, tmp_path: Path) -> None:
    model = make(family)
    kinds = {attend.kind for attend in sites(use_entmax(model)).values()}
    use_entmax(model, {kind: [1.2, 1.7] for kind in kinds}, learn=learn)
    if learn:
        for name, parameter in model.named_parameters():
            if name.endswith("entmax_logit"):
                torch.nn.init.normal_(parameter)
    save_model(model, tmp_path)
    again = load_model(tmp_path, dtype=torch.float64).eval()
    assert type(again) is type(model)
    ids = words(2, 8)
    torch.testing.assert_close(run(again, ids), run(model, ids))
    assert again.config.entmax == model.config.entmax
    assert again.config.entmax["learned"] is learn


def test_a_trainers_checkpoint_keeps_learned_alpha(tmp_path: Path) -> None:
    """`save_pretrained` alone, as a trainer calls it, without `save_model` to bring the config up to date."""
    model = use_entmax(make("bert"), learn=True)
    for parameter in model.parameters():
        parameter.data.add_(0.1)
    model.save_pretrained(tmp_path)
    ids = words(2, 8)
    torch.testing.assert_close(run(load_model(tmp_path, dtype=torch.float64).eval(), ids), run(model, ids))


def test_an_entmax_checkpoint_is_never_softmax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = use_entmax(make("bert"))
    model.save_pretrained(tmp_path)
    # Loaded plainly where Sparsefinder is known: the first call says what to do.
    plain = hf.AutoModelForMaskedLM.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="load_model"):
        plain(words(1, 4))
    # And where it is not: transformers itself refuses the name.
    mapping = dict(hf.AttentionInterface._global_mapping)
    mapping.pop("entmax")
    monkeypatch.setattr(hf.AttentionInterface, "_global_mapping", mapping)
    with pytest.raises(ValueError, match="entmax"):
        hf.AutoModelForMaskedLM.from_pretrained(tmp_path)


def test_a_softmax_checkpoint_is_not_guessed_at(tmp_path: Path) -> None:
    make("bert").save_pretrained(tmp_path)
    with pytest.raises(InputError, match="alpha: got none for .*, want alpha=1.5"):
        load_model(tmp_path)
    switched = load_model(tmp_path, alpha=2.0)
    assert switched.config.entmax == {"alpha": 2.0, "learned": False, "scaled": False}
    save_model(switched, tmp_path / "two")
    with pytest.raises(InputError, match="alpha: got 1.5, want none, or its own"):
        load_model(tmp_path / "two", alpha=1.5)
    assert load_model(tmp_path / "two", alpha=2.0).config.entmax["alpha"] == 2.0


@pytest.mark.parametrize("family", ["bert", "marian", "llama"])
def test_a_model_and_its_finders_are_loaded_together(family: str, tmp_path: Path) -> None:
    model, ids = use_entmax(make(family)), words(2, 8)
    save_model(model, tmp_path, finders=PREDICTED)
    with predicting(model, PREDICTED):
        wanted = run(model, ids)
    again = load_model(tmp_path, dtype=torch.float64).eval()
    torch.testing.assert_close(run(again, ids), wanted)
    assert set(finders_of(again).values()) == {PREDICTED}
    # In a folder of their own beside the weights, where they are found without the model too.
    assert sorted(file.name for file in (tmp_path / "finders").iterdir()) == ["finders.json", "finders.safetensors"]
    assert dict(Sparsefinder.from_pretrained(tmp_path)) == dict(finders_of(again))
    for more in ({"finders": False}, {"exact": True}):
        full = load_model(tmp_path, dtype=torch.float64, **more).eval()
        torch.testing.assert_close(run(full, ids), run(model, ids))
    assert len(finders_of(load_model(tmp_path, finders=False))) == 0


def test_what_is_switched_on_is_saved_and_nothing_else_stays(tmp_path: Path) -> None:
    model = use_entmax(make("bert"))
    about = {"method": "window", "sites": [{"kind": "encoder", "layer": 1, "recall": 0.5, "sparsity": 0.8}]}
    use_finders(model, Sparsefinder({("encoder", 1): Window(5)}, about))
    save_model(model, tmp_path)
    again = finders_of(load_model(tmp_path))
    assert dict(again) == {("encoder", 1): Window(5)}
    assert again.about == about
    save_model(model, tmp_path, finders={("encoder", 0): Window(3)})
    assert dict(finders_of(load_model(tmp_path))) == {("encoder", 0): Window(3)}
    use_finders(model, None)
    (tmp_path / "finders" / "notes.txt").write_text("not ours")
    save_model(model, tmp_path)
    assert [file.name for file in (tmp_path / "finders").iterdir()] == ["notes.txt"]
    assert len(finders_of(load_model(tmp_path))) == 0


class Own(Finder):
    """A method that Sparsefinder does not know by name."""

    about = About("own", "own", "rival")

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        return Graph.full(grid)


def test_finders_that_cannot_be_saved_leave_what_there_is(tmp_path: Path) -> None:
    model = use_entmax(make("bert"))
    save_model(model, tmp_path, finders=Full())
    with pytest.raises(InputError, match="sparsefinder.register"):
        save_model(model, tmp_path, finders=Own())
    with pytest.raises(InputError, match="finders: got the key 'cross'"):
        save_model(model, tmp_path, finders={"cross": Full()})
    with pytest.raises(InputError, match="push_to_hub: got True, want push_model"):
        save_model(model, tmp_path, push_to_hub=True)
    assert set(finders_of(load_model(tmp_path)).values()) == {Full()}


def test_finders_from_before_there_was_anything_about_them(tmp_path: Path) -> None:
    Sparsefinder({("encoder", 0): Window(3)}, {"method": "window"}).save_pretrained(tmp_path)
    assert Sparsefinder.from_pretrained(tmp_path).about == {"method": "window"}
    config = json.loads((tmp_path / "finders.json").read_text())
    del config["about"]
    (tmp_path / "finders.json").write_text(json.dumps(config))
    assert Sparsefinder.from_pretrained(tmp_path).about == {}


@pytest.mark.parametrize("path", ["no-such-folder", "runs/no/such/folder", "someone/nothing"])
def test_names_that_lead_nowhere(path: str) -> None:
    with pytest.raises(InputError, match=f"path: got {path}, which is neither a folder nor .* want a folder that"):
        Sparsefinder.from_pretrained(path)


def test_a_teacher_attends_to_all_pairs(tmp_path: Path) -> None:
    """What finders are fitted to and measured against is not what other finders left of it."""
    save_model(use_entmax(make("bert")), tmp_path, finders=PREDICTED)
    assert len(finders_of(load_model(tmp_path))) == 2
    assert len(finders_of(from_checkpoint(str(tmp_path), 1.5, hf.AutoModelForMaskedLM))) == 0
