"""A training that was killed ends as if it had not been; the order of the data; what is written on the way."""

import itertools
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import Trainer

from sparsefinder.files import DiskError
from sparsefinder.lab.tasks.checkpoints import COMPLETE, last_checkpoint
from sparsefinder.lab.tasks.order import Curriculum, Order, Stretch, steps_of_shares
from sparsefinder.lab.tasks.training import OrderedTrainer, generator_for

from .tiny import BERT, make


def weights(folder):
    return load_file(folder / "model.safetensors")


def assert_equal(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def train(kind, folder, **changes):
    make(kind, folder, **changes).train(folder / "training", folder / "teacher")
    return weights(folder / "teacher")


@pytest.mark.parametrize(
    ("kind", "killed", "left"),
    [
        ("masked-lm", ["6"], "checkpoint-4"),
        ("translation", ["8", "save"], "checkpoint-4"),
        ("causal-lm", ["2"], None),
        ("causal-lm", ["7"], "checkpoint-4"),
        ("causal-lm", ["10"], "checkpoint-8"),
    ],
    ids=["between checkpoints", "while writing a checkpoint", "with softmax", "on short blocks", "on long blocks"],
)
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path, kind, killed, left):
    undisturbed = train(kind, tmp_path / "undisturbed")
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.lab.tasks.tiny", kind, str(folder), *killed]
    result = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert not (folder / "teacher").exists()
    last = last_checkpoint(folder / "training")
    assert (None if last is None else last.name) == left
    assert_equal(train(kind, folder), undisturbed)


def test_a_curriculum_has_its_lengths_one_after_the_other_and_softmax_first(tmp_path, monkeypatch):
    seen = []
    step = OrderedTrainer.training_step

    def watching(self, model, inputs, *rest):
        seen.append((tuple(inputs["input_ids"].shape), model.config._attn_implementation))
        return step(self, model, inputs, *rest)

    monkeypatch.setattr(OrderedTrainer, "training_step", watching)
    train("causal-lm", tmp_path)
    # 12 steps of two batches of 128 tokens: two thirds on short blocks; softmax in the first three steps.
    assert [shape for shape, _ in seen] == [(8, 16)] * 16 + [(4, 32)] * 8
    assert [name for _, name in seen] == ["sdpa"] * 6 + ["entmax"] * 18
    assert make("causal-lm", tmp_path).load(tmp_path / "teacher").config._attn_implementation == "entmax"


@pytest.mark.parametrize("architecture", ["BertForMaskedLM", "RobertaForMaskedLM", "ModernBertForMaskedLM"])
def test_logits_of_hidden_tokens_alone_make_the_same_weights(tmp_path, monkeypatch, architecture):
    rows = []
    loss = OrderedTrainer.compute_loss

    def watching(self, model, inputs, *rest, **named):
        hidden = int((inputs["labels"] != -100).sum())
        head = self.model.get_output_embeddings()
        with head.register_forward_hook(lambda _, given, logits: rows.append((logits.shape[:-1], hidden))):
            return loss(self, model, inputs, *rest, **named)

    monkeypatch.setattr(OrderedTrainer, "compute_loss", watching)
    model = {**BERT, "architecture": architecture}
    few = train("masked-lm", tmp_path / "few", model=model)
    assert rows
    assert all(shape == (hidden,) for shape, hidden in rows)
    monkeypatch.setattr(OrderedTrainer, "compute_loss", Trainer.compute_loss)
    torch.testing.assert_close(few, train("masked-lm", tmp_path / "all", model=model), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("share", [(0, 1), (1, 3)])
def test_a_stretch_has_all_its_examples_before_any_again(share):
    order = Curriculum([Stretch(0, 10, 4, 5), Stretch(10, 7, 2, 3)], 5, 2, share)
    batches = list(order)
    assert len(batches) == len(order) == 16
    assert batches == list(order) != list(Curriculum(order.stretches, 6, 2, share))
    assert {len(batch) for batch in batches[:10]} == {4}
    assert set(flat(batches[:10])) <= set(range(10))
    assert set(flat(batches[10:])) <= set(range(10, 17))
    if share == (0, 1):
        every = flat(batches[:10])
        assert all(sorted(every[start : start + 10]) == list(range(10)) for start in (0, 10, 20, 30))
    else:
        # No two processes see the same batch at the same time.
        others = [list(Curriculum(order.stretches, 5, 2, (one, 3))) for one in range(3)]
        assert flat(zip(*others, strict=True)) == list(Curriculum([Stretch(0, 10, 4, 15), Stretch(10, 7, 2, 9)], 5, 2))


@pytest.mark.parametrize(("steps", "shares"), [(12, [2, 1]), (7, [1, 1, 1]), (1, [1, 1]), (1000, [0.1, 0.2, 0.7])])
def test_steps_by_shares_add_up(steps, shares):
    found = steps_of_shares(steps, shares)
    assert sum(found) == steps
    assert all(abs(one - steps * share / sum(shares)) <= 1 for one, share in zip(found, shares, strict=True))


def test_a_training_that_ended_is_not_gone_on_with(tmp_path, monkeypatch):
    first = train("masked-lm", tmp_path)
    score = (tmp_path / "teacher" / "score.json").read_text()
    shutil.rmtree(tmp_path / "teacher")
    monkeypatch.setattr(OrderedTrainer, "train", None)
    assert_equal(train("masked-lm", tmp_path), first)
    assert (tmp_path / "teacher" / "score.json").read_text() == score


def test_patience_stops_early_and_keeps_the_best(tmp_path, monkeypatch):
    # Steps this large make it worse and worse after a while.
    changes = {"training": {"steps": 60, "every": 3, "patience": 1, "learning_rate": 0.3, "accumulate": 1}}
    best = train("translation", tmp_path, **changes)
    last = last_checkpoint(tmp_path / "training")
    state = json.loads((last / "trainer_state.json").read_text())
    losses = {entry["step"]: entry["eval_loss"] for entry in state["log_history"] if "eval_loss" in entry}
    assert state["global_step"] < 60
    assert state["best_global_step"] == min(losses, key=losses.get) < state["global_step"]
    assert_equal(best, weights(tmp_path / "training" / f"checkpoint-{state['best_global_step']}"))
    shutil.rmtree(tmp_path / "teacher")
    monkeypatch.setattr(OrderedTrainer, "train", None)
    assert_equal(train("translation", tmp_path, **changes), best)


def test_another_seed_is_another_training(tmp_path):
    task = make("masked-lm", tmp_path / "one", training={"steps": 1})
    other = type(task)(task.recipe, 4, task.device)
    task.train(tmp_path / "one" / "training", tmp_path / "one" / "teacher")
    other.train(tmp_path / "two" / "training", tmp_path / "two" / "teacher")
    one, two = weights(tmp_path / "one" / "teacher"), weights(tmp_path / "two" / "teacher")
    assert any(not torch.equal(one[name], two[name]) for name in one)


def test_a_full_disk_is_said_and_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    save = OrderedTrainer._save_rng_state

    def full(self, output_dir):
        if self.state.global_step == 8:
            raise OSError(28, "No space left on device")
        save(self, output_dir)

    monkeypatch.setattr(OrderedTrainer, "_save_rng_state", full)
    with pytest.raises(DiskError, match="the disk is full. Earlier ones are intact"):
        train("masked-lm", tmp_path)
    assert last_checkpoint(tmp_path / "training").name == "checkpoint-4"
    assert not (tmp_path / "teacher").exists()


def test_logs_for_tensorboard_and_half_precision(tmp_path):
    train("masked-lm", tmp_path, training={"steps": 2, "log_to": ["tensorboard"], "precision": "bfloat16"})
    assert list((tmp_path / "training" / "logs").glob("events*"))


def test_batches_by_tokens_train_and_a_killed_training_goes_on_to_the_same_weights(tmp_path):
    changes = {"training": {"tokens": 128, "accumulate": 2}, "word_dropout": 0.3}
    undisturbed = train("translation", tmp_path / "one", **changes)
    folder = tmp_path / "two"
    train("translation", folder, **changes)
    # As if killed in the second epoch: what came after step 4 is gone.
    for path in (folder / "training" / "checkpoint-8", folder / "training" / "checkpoint-12", folder / "teacher"):
        shutil.rmtree(path)
    assert_equal(train("translation", folder, **changes), undisturbed)
    examples = make("translation", folder, **changes)._train_examples(folder / "teacher")
    state = json.loads((last_checkpoint(folder / "training") / "trainer_state.json").read_text())
    batches = Order([max(len(one["input_ids"]), len(one["labels"])) for one in examples], 4, 3, 128)
    assert state["epoch"] == pytest.approx(12 / -(-len(batches) // 2), rel=0.1)
    assert state["epoch"] > 1


def test_what_the_recipe_says_of_adam_reaches_it(tmp_path, monkeypatch):
    seen = {}
    create = OrderedTrainer.create_optimizer

    def watching(self, *arguments, **more):
        optimizer = create(self, *arguments, **more)
        seen.update(optimizer.param_groups[0], clip=self.args.max_grad_norm)
        return optimizer

    monkeypatch.setattr(OrderedTrainer, "create_optimizer", watching)
    given = {"betas": [0.9, 0.98], "epsilon": 1e-6, "clip": 0.1, "weight_decay": 1e-4, "steps": 1}
    train("masked-lm", tmp_path, training=given)
    assert (seen["betas"], seen["eps"], seen["weight_decay"], seen["clip"]) == ((0.9, 0.98), 1e-6, 1e-4, 0.1)


def test_epochs_instead_of_steps(tmp_path):
    train("masked-lm", tmp_path, training={"epochs": 2, "accumulate": 1})
    state = json.loads((last_checkpoint(tmp_path / "training") / "trainer_state.json").read_text())
    assert state["epoch"] == 2


def test_only_whole_checkpoints_count(tmp_path):
    for step, files in ((4, ["weights", "state"]), (10, ["weights", "state"]), (12, ["weights"])):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        for name in files:
            (folder / name).write_text(name)
        if step < 12:
            (folder / COMPLETE).write_text(json.dumps({name: len(name) for name in files}))
    assert last_checkpoint(tmp_path).name == "checkpoint-10"
    (tmp_path / "checkpoint-10" / "state").unlink()
    assert last_checkpoint(tmp_path).name == "checkpoint-4"
    (tmp_path / "checkpoint-4" / "weights").write_text("")
    assert last_checkpoint(tmp_path) is None


def flat(batches):
    return [place for batch in batches for place in batch]


@pytest.mark.parametrize("tokens", [None, 200])
@pytest.mark.parametrize("count", [1, 7, 64, 1003])
def test_every_epoch_has_everything_once_in_a_new_order(count, tokens):
    lengths = [1 + (place * 37) % 90 for place in range(count)]
    order = Order(lengths, 8, 5, tokens)
    first = list(order)
    assert sorted(flat(first)) == list(range(count)) == sorted(flat(Order(lengths, 8, 6, tokens)))
    assert first == list(order)
    assert len(first) == len(order)
    order.epoch = 1
    # A resumed training counts epochs by their batches: there are as many in each.
    assert len(list(order)) == len(first)
    if count > 8:
        assert first != list(order)
        # Within a batch, lengths are far closer than they are in all.
        several = [[lengths[place] for place in batch] for batch in first if len(batch) > 1]
        assert sum(max(batch) - min(batch) for batch in several) / len(several) < 30


def test_batches_of_tokens_hold_as_many_examples_as_fit_with_their_padding():
    lengths = [1 + (place * 37) % 90 for place in range(500)] + [300]
    sizes = [[lengths[place] for place in batch] for batch in Order(lengths, 8, 0, 200)]
    # What is longer than a batch may be is one by itself.
    assert [300] in sizes
    assert all(len(batch) * max(batch) <= 200 for batch in sizes if batch != [300])
    in_order = sorted(sizes, key=lambda batch: (max(batch), min(batch)))
    for batch, following in itertools.pairwise(in_order):
        assert (len(batch) + 1) * min(following) > 200


def test_processes_get_as_many_batches_each_and_none_twice():
    lengths = [1 + (place * 37) % 90 for place in range(103)]
    for tokens in (None, 200):
        shares = [list(Order(lengths, 8, 0, tokens, (process, 3))) for process in range(3)]
        assert len({len(share) for share in shares}) == 1
        seen = flat(flat(shares))
        assert len(set(seen)) == len(seen) > 80


def test_what_is_drawn_for_a_batch_depends_on_seed_and_content_alone():
    batch, other = torch.arange(10), torch.arange(1, 11)
    drawn = [torch.rand(3, generator=generator_for(*given)).tolist() for given in ((0, batch), (0, batch), (1, batch))]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] != torch.rand(3, generator=generator_for(0, other)).tolist()
