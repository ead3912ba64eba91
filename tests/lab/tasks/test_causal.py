"""Causal language modelling: blocks, perplexity near, far and late, what looks ahead, decoding, and the whole sweep."""

import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from torch.multiprocessing.reductions import StorageWeakRef
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from sparsefinder import Full, Window, predicting, record
from sparsefinder.errors import InputError
from sparsefinder.finders import TopK
from sparsefinder.lab.recipe import Recipe
from sparsefinder.lab.run import run
from sparsefinder.lab.tasks.blocks import last_seen
from sparsefinder.lab.tasks.scores import scores_of
from sparsefinder.lab.tasks.tokenizer import byte_level

from .tiny import LLAMA, causal_lm, make


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A task with its teacher, trained long enough that not all answers are alike."""
    folder = tmp_path_factory.mktemp("causal-lm")
    training = {"steps": 60, "accumulate": 1, "every": 60, "learning_rate": 0.01}
    task = make("causal-lm", folder, training=training, model={**LLAMA, "num_key_value_heads": 2})
    task.train(folder / "training", folder / "teacher")
    return task, folder / "teacher"


def test_where_a_token_stood_last():
    rows = torch.randint(0, 9, (5, 40), generator=torch.Generator().manual_seed(0))
    rows[0] = torch.arange(40)
    for row, found in zip(rows.tolist(), last_seen(rows).tolist(), strict=True):
        for place, token in enumerate(row):
            before = [other for other in range(place) if row[other] == token]
            assert found[place] == (place - before[-1] if before else -1)


def test_blocks_begin_as_the_tokenizer_begins_and_end_where_they_are_cut(trained):
    task, teacher = trained
    tokenizer = AutoTokenizer.from_pretrained(teacher)
    blocks = [one["input_ids"] for one in task.validation(teacher)]
    assert {len(block) for block in blocks} == {32}
    assert {block[0] for block in blocks} == {tokenizer.bos_token_id}
    assert tokenizer.eos_token_id not in {token for block in blocks for token in block}
    said = tokenizer.decode([token for block in blocks for token in block[1:]])
    assert " ".join(Path(task.recipe.data.valid).read_text().split()).startswith(" ".join(said.split()))


@torch.no_grad()
def by_a_loop(task, teacher):
    """Losses of all tokens, of the far ones and of the late ones: each from its own prefix, one after the other."""
    model, every, far, late = task.load(teacher).double(), [], [], []
    for block in task.validation(teacher):
        ids = block["input_ids"]
        for place in range(1, len(ids)):
            chances = model(input_ids=torch.tensor([ids[:place]])).logits[0, -1].log_softmax(-1)
            loss = -chances[ids[place]].item()
            every.append(loss)
            if place >= len(ids) / 2:
                late.append(loss)
            if ids[place] in ids[:place] and ids[place] not in ids[max(0, place - task.recipe.far) : place]:
                far.append(loss)
    return every, far, late


def test_perplexity_is_that_of_a_loop_whatever_the_batches(trained):
    task, teacher = trained
    every, far, late = by_a_loop(task, teacher)
    for batch in (1, 3, 64):
        score = task.evaluate(task.load(teacher), teacher, batch=batch)
        assert score.value == pytest.approx(math.exp(sum(every) / len(every)), rel=1e-5)
        assert score.details["far perplexity"] == pytest.approx(math.exp(sum(far) / len(far)), rel=1e-5)
        assert score.details["late perplexity"] == pytest.approx(math.exp(sum(late) / len(late)), rel=1e-5)
        assert score.details["far tokens"] == len(far) > 0
    assert 0 < score.details["accuracy"] < 1
    assert (score.metric, score.better, score.sequences) == ("perplexity", "lower", len(task.validation(teacher)))
    assert float(scores_of("perplexity", np.array(score.parts).sum(0))) == pytest.approx(score.value)
    two = task.evaluate(task.load(teacher), teacher, count=2)
    assert np.array(two.parts) == pytest.approx(np.array(score.parts[:2]))


def test_each_prefix_by_itself_gives_the_same_where_nothing_looks_ahead(trained):
    task, teacher = trained
    model = task.load(teacher)
    plain = task.evaluate(model, teacher, count=2)
    with predicting(model, Full()):
        assert task.evaluate(model, teacher, count=2) == plain
    for finder in (Full(), Window(7)):
        with predicting(model, finder):
            once, prefixes = (task.evaluate(model, teacher, count=2, whole_prefix=whole) for whole in (False, True))
        assert prefixes.value == pytest.approx(once.value, rel=1e-5)
    # Pairs of all rows compete in it: in one pass, later rows take places from earlier ones.
    with predicting(model, TopK(0.3)):
        once, prefixes = (task.evaluate(model, teacher, count=2, whole_prefix=whole) for whole in (False, True))
    assert prefixes.value != pytest.approx(once.value, rel=1e-5)
    assert task.forced(teacher) is None
    (batch,) = task.forced(teacher, 2, whole_prefix=True)
    assert batch["input_ids"].tolist() == [one["input_ids"] for one in task.validation(teacher)[:2]]


def test_prefixes_keep_the_logits_of_their_last_token_only(trained):
    task, teacher = trained
    model, held = task.load(teacher), []
    alive = []

    def watch(_, __, output):
        alive.append(sum(not each.expired() for each in held))
        held.append(StorageWeakRef(output.logits.untyped_storage()))

    with model.register_forward_hook(watch):
        task.evaluate(model, teacher, count=1, whole_prefix=True)
    assert len(held) > 2
    assert max(alive) <= 1


def test_sequences_to_record_are_causal(trained):
    task, teacher = trained
    sequences = task.sequences(teacher, 5)
    assert sequences == task.sequences(teacher, 5)
    shorter = [{"input_ids": sequences[0]["input_ids"][:9]}, *sequences[1:2]]
    (batch,) = task.batches(teacher, shorter, 2)
    with torch.no_grad(), record(model := task.load(teacher)) as records:
        model(**batch)
    assert {one.kind for one in records} == {"decoder"} == set(task.kinds)
    assert all(one.layout.causal for one in records)
    assert records[0].layout.key_lengths.tolist() == [9, 32]
    # Of a row's pairs only those up to itself count.
    assert records[0].gold.grid.degrees()[1].tolist() == list(range(1, 33))
    tokens = task.tokens(teacher, sequences[0], "decoder")
    assert "".join(tokens.keys[1:]).replace("Ġ", " ").replace("Ċ", "\n").strip() == tokens.text
    with pytest.raises(InputError, match="nothing else"):
        task.tokens(teacher, sequences[0], "encoder")


def test_tokens_are_decoded_one_by_one_and_counted(trained, monkeypatch):
    task, teacher = trained
    model = task.load(teacher)
    assert task.decoding_rate(model, teacher) is None
    decoding = type(task)(task.recipe.model_copy(update={"decode": 6}), 3, task.device)
    seen = []
    forward = LlamaForCausalLM.forward

    def watching(self, *arguments, **more):
        seen.append(more["input_ids"].shape[1])
        return forward(self, *arguments, **more)

    monkeypatch.setattr(LlamaForCausalLM, "forward", watching)
    assert decoding.decoding_rate(model, teacher) > 0
    assert seen == [25, *[1] * 6]


def test_no_steps_leave_a_checkpoint_as_it_is(tmp_path):
    texts = [f"The number {place} comes before {place + 1}." for place in range(60)]
    tokenizer = byte_level(texts, 320, causal=True)
    assert tokenizer.mask_token is None
    config = LlamaConfig(**LLAMA, vocab_size=len(tokenizer), max_position_embeddings=64)
    LlamaForCausalLM(config).half().save_pretrained(tmp_path / "given")
    tokenizer.save_pretrained(tmp_path / "given")
    changes = {"checkpoint": str(tmp_path / "given"), "training": {"steps": 0}, "decode": 4}
    task = make("causal-lm", tmp_path, **changes)
    task.train(tmp_path / "training", tmp_path / "teacher")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("given", "teacher"))
    assert all(torch.equal(after[name], tensor.float()) for name, tensor in before.items())
    about = json.loads((tmp_path / "teacher/score.json").read_text())
    assert about["details"]["decoded tokens per second"] > 0
    assert task.load(tmp_path / "teacher").config.entmax["alpha"] == 1.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": [32, 16]}, "they grow, and the last is `length`, 32"),
        ({"lengths": [8, 16]}, "the last is `length`"),
        ({"shares": [1, 2, 3]}, "3 shares of 2 lengths"),
        ({"training": {"epochs": 2}}, "not of epochs"),
        ({"training": {"tokens": 20}}, "a block has 32"),
        ({"decode": 32}, "a block has 32 tokens"),
        ({"model": None}, "either `checkpoint`"),
    ],
)
def test_what_a_recipe_may_not_say(tmp_path, changes, message):
    with pytest.raises(ValidationError, match=message):
        causal_lm(tmp_path, **changes)


def test_a_sweep_scores_what_looks_ahead_from_prefixes_and_counts_it_in_one_pass(tmp_path):
    task = causal_lm(tmp_path, training={"steps": 4}, evaluate=2, decode=4, model={**LLAMA, "initializer_range": 1.0})
    methods = ["window", {"method": "sketch", "r": 2, "share": 0.3}, {"method": "topk", "share": 0.3}]
    recipe = {
        "name": "tiny", "task": task.model_dump(), "trace": {"train": 6, "valid": 3}, "fit": {"restarts": 1},
        "sweep": {"methods": methods, "windows": [0, 5], "processes": 1},
        "accuracy": {"methods": methods, "windows": [5]},
    }  # fmt: skip
    folder = run(Recipe.model_validate(recipe), tmp_path / "runs", say=lambda line: None)
    rows = {}
    for file in (folder / "points/accuracy").glob("*.parquet"):
        (row,) = parquet.read_table(file).to_pylist()
        rows[row["method"]] = row
    for method, row in rows.items():
        assert row["kinds"] == "decoder"
        # Only what is decoded step by step has a speed, and only what looks ahead is counted in a pass of its own.
        assert ("decoded tokens per second" in json.loads(row["details"])) == (method != "topk")
        assert (row["decoding_sparsity"] is not None) == (method == "topk")
        assert len(row["sequence_sparsity"]) == len(row["sequence_parts"]) == 2
    assert rows["full"]["sparsity"] == 0
    # Row i sees the first token, itself and two before it, of i + 1 that it may see.
    pairs = sum(min(i + 1, 3) + (i > 2) for i in range(32))
    assert rows["window"]["sparsity"] == pytest.approx(1 - pairs / (32 * 33 / 2))
    recall = parquet.read_table(folder / "points/recall").to_pylist()
    assert {row["visible"] for row in recall} == {3 * 32 * 33 // 2}
    assert (folder / "report/index.html").is_file()
