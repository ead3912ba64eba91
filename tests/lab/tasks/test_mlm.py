"""Masked language modelling: blocks, what is hidden in them, perplexity near and far, and where a teacher starts."""

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertModel

from sparsefinder import Full, Window, predicting, record
from sparsefinder.errors import InputError
from sparsefinder.lab.tasks.blocks import IGNORED, cut, hide, nearest
from sparsefinder.lab.tasks.scores import scores_of
from sparsefinder.lab.tasks.tokenizer import byte_level

from .tiny import BERT, make

TEXTS = [f"The number {place} comes before {place + 1}, Ärger und so weiter." for place in range(60)]


@pytest.fixture(scope="module")
def tokenizer():
    return byte_level(TEXTS, 320)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A task with its teacher, trained long enough that not all answers are alike."""
    folder = tmp_path_factory.mktemp("masked-lm")
    task = make("masked-lm", folder, training={"steps": 60, "accumulate": 1, "every": 60, "learning_rate": 0.01})
    task.train(folder / "training", folder / "teacher")
    return task, folder / "teacher"


def test_blocks_hold_the_text_one_after_the_other(tokenizer):
    blocks = cut(TEXTS, tokenizer, 20)
    # The line feed after each is kept, so that the end of one is not glued to the next.
    lines = [f"{text}\n" for text in TEXTS]
    stream = [number for ids in tokenizer(lines, add_special_tokens=False)["input_ids"] for number in ids]
    inner = [number for block in blocks for number in block["input_ids"].tolist()[1:-1]]
    assert inner == stream[: len(inner)]
    assert 0 <= len(stream) - len(inner) < 18
    assert all(len(block["input_ids"]) == 20 for block in blocks)
    assert {int(block["input_ids"][0]) for block in blocks} == {tokenizer.bos_token_id}
    assert {int(block["input_ids"][-1]) for block in blocks} == {tokenizer.eos_token_id}
    assert "weiter.\n The number 1 comes" in tokenizer.decode(inner)


def test_a_text_shorter_than_a_block_is_a_block(tokenizer):
    (block,) = cut(TEXTS[:1], tokenizer, 100)
    assert tokenizer.decode(block["input_ids"], skip_special_tokens=True).strip() == TEXTS[0]
    with pytest.raises(InputError, match="length: got 2, want more than the 2 special tokens"):
        cut(TEXTS, tokenizer, 2)


def test_what_is_hidden(tokenizer):
    rows = cut(TEXTS * 20, tokenizer, 100).rows.long()
    seen, answers = hide(rows, tokenizer, 0.15, torch.Generator().manual_seed(0))
    hidden = answers != IGNORED
    assert (hidden.sum(-1) == round(98 * 0.15)).all()
    assert not hidden[:, [0, -1]].any()
    assert torch.equal(answers[hidden], rows[hidden])
    assert torch.equal(seen[~hidden], rows[~hidden])
    masked, kept = seen[hidden] == tokenizer.mask_token_id, seen[hidden] == rows[hidden]
    assert masked.float().mean() == pytest.approx(0.8, abs=0.02)
    assert kept.float().mean() == pytest.approx(0.1, abs=0.02)
    _, answers = hide(rows[:, :4], tokenizer, 0.01, torch.Generator())
    assert ((answers != IGNORED).sum(-1) == 1).all()


def test_how_far_away_an_answer_stands():
    generator = torch.Generator().manual_seed(1)
    seen = torch.randint(0, 12, (6, 30), generator=generator)
    # Some answers are twelve, which stands nowhere.
    drawn = torch.randint(0, 13, (6, 30), generator=generator)
    answers = torch.where(torch.rand(6, 30, generator=generator) < 0.3, drawn, IGNORED)
    expected = []
    for row, places in zip(seen.tolist(), answers.tolist(), strict=True):
        for place, answer in enumerate(places):
            if answer != IGNORED:
                at = [abs(other - place) for other in range(30) if other != place and row[other] == answer]
                expected.append(min(at, default=-1))
    assert nearest(seen, answers).tolist() == expected
    assert -1 in expected


@torch.no_grad()
def by_a_loop(task, teacher):
    """Losses of all hidden tokens and of the far ones, one place after the other."""
    model, mask = task.load(teacher), AutoTokenizer.from_pretrained(teacher).mask_token_id
    near_and_far, far = [], []
    for block in task._hidden_blocks(teacher):
        seen, answers = block["input_ids"].tolist(), block["labels"].tolist()
        chances = model(input_ids=block["input_ids"][None]).logits[0].double().log_softmax(-1)
        for place, answer in enumerate(answers):
            if answer == IGNORED:
                continue
            loss = -chances[place, answer].item()
            near_and_far.append(loss)
            at = [abs(other - place) for other, word in enumerate(seen) if word == answer and other != place]
            if at and min(at) > task.recipe.far and seen[place] == mask:
                far.append(loss)
    return near_and_far, far


def test_perplexity_is_that_of_a_loop_whatever_the_batches(trained):
    task, teacher = trained
    losses, far = by_a_loop(task, teacher)
    for batch in (1, 3, 64):
        score = task.evaluate(task.load(teacher), teacher, batch=batch)
        assert score.value == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5)
        assert score.details["far perplexity"] == pytest.approx(math.exp(sum(far) / len(far)), rel=1e-5)
        assert score.details["far tokens"] == len(far) > 0
    assert 0 < score.details["accuracy"] < 1
    assert (score.metric, score.better, score.sequences) == ("perplexity", "lower", len(task._hidden_blocks(teacher)))
    assert task.evaluate(task.load(teacher), teacher, count=2).sequences == 2


def test_what_blocks_add_to_perplexity_makes_it(trained):
    task, teacher = trained
    score = task.evaluate(task.load(teacher), teacher, batch=3)
    assert float(scores_of("perplexity", np.array(score.parts).sum(0))) == pytest.approx(score.value)
    hidden = [int((block["labels"] != IGNORED).sum()) for block in task._hidden_blocks(teacher)]
    assert [count for _, count in score.parts] == hidden
    alone = task.evaluate(task.load(teacher), teacher, count=1)
    assert score.parts[0] == pytest.approx(alone.parts[0])
    # The evaluation itself is one pass over the same sequences for every setting.
    assert task.forced(teacher) is None


def test_the_full_graph_gives_exactly_the_teachers_own_score(trained):
    task, teacher = trained
    model = task.load(teacher)
    plain = task.evaluate(model, teacher)
    with predicting(model, Full()):
        assert task.evaluate(model, teacher) == plain == task.evaluate(model, teacher, whole_prefix=True)
    with predicting(model, Window(1)):
        assert task.evaluate(model, teacher) != plain


def test_the_validation_text_as_inputs_has_nothing_hidden(trained):
    task, teacher = trained
    inputs, hidden = task.validation(teacher), task._hidden_blocks(teacher)
    assert len(inputs) == len(hidden)
    for one, block in zip(inputs, hidden, strict=True):
        seen, answers = block["input_ids"], block["labels"]
        assert one["input_ids"] == torch.where(answers == IGNORED, seen, answers).tolist()


def test_the_teachers_folder_says_what_it_is(trained):
    task, teacher = trained
    about = json.loads((teacher / "score.json").read_text())
    score = task.evaluate(task.load(teacher), teacher)
    assert about["value"] == score.value < 400
    assert about["details"] == score.details
    assert (about["metric"], about["better"], about["alpha"]) == ("perplexity", "lower", 1.5)
    assert len(AutoTokenizer.from_pretrained(teacher)) == 400


def test_sequences_to_record(trained):
    task, teacher = trained
    sequences = task.sequences(teacher, 10)
    assert sequences == task.sequences(teacher, 10)
    assert len({tuple(one["input_ids"]) for one in sequences}) == 10
    shorter = [{"input_ids": sequences[0]["input_ids"][:9]}, *sequences[1:3]]
    batches = list(task.batches(teacher, shorter, 2))
    assert [tuple(batch["input_ids"].shape) for batch in batches] == [(2, 32), (1, 32)]
    model = task.load(teacher)
    with torch.no_grad(), record(model) as records:
        model(**batches[0])
    assert records[0].layout.key_lengths.tolist() == records[0].layout.query_lengths.tolist() == [9, 32]
    tokens = task.tokens(teacher, sequences[0], "encoder")
    assert tokens.queries == tokens.keys
    assert (len(tokens.keys), tokens.keys[0], tokens.keys[-1]) == (32, "<s>", "</s>")
    # The tokens are what the model saw, some of them hidden; the text is what was written.
    assert 1 <= sum(answer != -100 for answer in sequences[0]["labels"]) <= 6
    plain = {
        "input_ids": [one if answer == -100 else answer for one, answer in zip(*sequences[0].values(), strict=True)]
    }
    written = task.tokens(teacher, plain, "encoder")
    assert "".join(written.keys[1:-1]).replace("Ġ", " ").replace("Ċ", "\n").strip() == written.text == tokens.text
    assert tokens.keys != written.keys
    with pytest.raises(InputError, match="no decoder"):
        task.tokens(teacher, sequences[0], "cross")
    with pytest.raises(InputError, match="count: got 9999 sequences, want at most"):
        task.sequences(teacher, 9999)
    with pytest.raises(InputError, match="at most 0"):
        task.sequences(teacher, 1, longer_than=32)


@pytest.mark.parametrize("saved_in", [torch.float32, torch.float16])
@pytest.mark.parametrize("head", [True, False])
def test_no_steps_leave_a_checkpoint_as_it_is(tmp_path, tokenizer, head, saved_in):
    config = BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, vocab_size=len(tokenizer)
    )
    model = (BertForMaskedLM if head else BertModel)(config).to(saved_in)
    model.save_pretrained(tmp_path / "given")
    tokenizer.save_pretrained(tmp_path / "given")
    task = make("masked-lm", tmp_path, checkpoint=str(tmp_path / "given"), training={"steps": 0})
    task.train(tmp_path / "training", tmp_path / "teacher")
    before = load_file(tmp_path / "given" / "model.safetensors")
    after = load_file(tmp_path / "teacher" / "model.safetensors")
    for name, tensor in before.items():
        if "pooler" not in name:
            assert torch.equal(after[name if head else f"bert.{name}"], tensor.float())
    teacher = task.load(tmp_path / "teacher")
    assert (teacher.config.entmax["alpha"], teacher.dtype) == (1.5, torch.float32)
    again = make("masked-lm", tmp_path, checkpoint=str(tmp_path / "teacher"), alpha=2.0, training={"steps": 0})
    with pytest.raises(InputError, match="was trained with alpha 1.5"):
        again.train(tmp_path / "training", tmp_path / "another")


@pytest.mark.parametrize(
    ("architecture", "names"),
    [
        ("BertForMaskedLM", ("hidden_dropout_prob", "attention_probs_dropout_prob")),
        ("ModernBertForMaskedLM", ("attention_dropout", "embedding_dropout", "mlp_dropout")),
    ],
)
def test_dropout_is_the_recipes_in_new_models_and_in_checkpoints(tmp_path, architecture, names):
    no_steps = {"steps": 0}
    make(
        "masked-lm", tmp_path, model={**BERT, "architecture": architecture}, dropout=0.25, training=no_steps
    ).train(tmp_path / "training", tmp_path / "new")  # fmt: skip
    again = make("masked-lm", tmp_path, checkpoint=str(tmp_path / "new"), dropout=0.0, training=no_steps)
    again.train(tmp_path / "training", tmp_path / "again")
    for folder, wanted in (("new", 0.25), ("again", 0.0)):
        config = json.loads((tmp_path / folder / "config.json").read_text())
        assert [config[name] for name in names] == [wanted] * len(names)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {**BERT, "architecture": "BertForMaskedLN"}}, r"did you mean BertForMaskedLM\?"),
        ({"model": {**BERT, "hiden_size": 3}}, r"the key hiden_size \(did you mean hidden_size\?\)"),
        ({"model": {**BERT, "max_position_embeddings": 16}}, "at least the task's length, 32"),
        ({"vocabulary": 100}, "at least 300"),
        ({"model": None, "checkpoint": "no-such-model"}, "no-such-model"),
        ({"tokenizer": "no-such-tokenizer"}, "the path or hub name of a tokenizer"),
    ],
)
def test_starts_that_cannot_be(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        make("masked-lm", tmp_path, **changes).train(tmp_path / "training", tmp_path / "teacher")
    assert not (tmp_path / "teacher").exists()
