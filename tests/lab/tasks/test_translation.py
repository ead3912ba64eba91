"""Translation: tokenizer and batches, what is recorded of a decoder, beam search on predicted graphs, and BLEU."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from sacrebleu import corpus_bleu

from sparsefinder import Full, Window, predicting, record
from sparsefinder.errors import InputError
from sparsefinder.finders import TopK
from sparsefinder.hf.models import alpha_of
from sparsefinder.lab.recipe import BuiltinSource
from sparsefinder.lab.tasks import grammar
from sparsefinder.lab.tasks.blocks import IGNORED
from sparsefinder.lab.tasks.data import read_pairs
from sparsefinder.lab.tasks.scores import scores_of
from sparsefinder.lab.tasks.sentences import NOISY, Collator, encode
from sparsefinder.lab.tasks.tokenizer import joint

from .tiny import MARIAN, make

PAIRS = read_pairs(BuiltinSource(builtin="numbers-fr", count=60))


@pytest.fixture(scope="module")
def tokenizer():
    return joint([text for pair in PAIRS for text in pair], 300)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A task that is asked for what it was trained on, so that it has something to say."""
    folder = tmp_path_factory.mktemp("translation")
    short = [pair for pair in islice(grammar.pairs("de"), 200) if len(pair[0].split()) <= 9][:12]
    some = str(folder / "pairs.tsv")
    Path(some).write_text("\n".join(map("\t".join, short)), encoding="utf-8")
    task = make(
        "translation", folder, data={"train": some, "valid": some, "test": some}, dropout=0.0, word_dropout=0.0,
        label_smoothing=0.0, model={**MARIAN, "d_model": 32}, vocabulary=200, length=40, evaluate=None,
        training={"steps": 120, "batch": 6, "accumulate": 1, "every": 120, "learning_rate": 0.02, "schedule": "linear"},
    )  # fmt: skip
    task.train(folder / "training", folder / "teacher")
    return task, folder / "teacher"


def test_the_joint_tokenizer_gives_the_text_back(tokenizer):
    assert len(tokenizer) == 300
    for pair, one in zip(PAIRS, encode(PAIRS, tokenizer, None), strict=True):
        for text, ids in zip(pair, (one["input_ids"], one["labels"]), strict=True):
            assert tokenizer.decode(ids, skip_special_tokens=True) == text
            assert ids[-1] == tokenizer.eos_token_id
            assert ids.count(tokenizer.eos_token_id) == 1
            assert tokenizer.unk_token_id not in ids
    cut = encode(PAIRS, tokenizer, 10)
    assert max(len(one["labels"]) for one in cut) == 10
    assert all(one["labels"][-1] == tokenizer.eos_token_id for one in cut)


def test_batches_are_padded_and_the_decoder_is_one_step_behind(tokenizer):
    examples = encode(PAIRS[:5], tokenizer, None)
    batch = Collator(tokenizer, 1, 0.5, 0)(examples)
    for place, one in enumerate(examples):
        source, target = len(one["input_ids"]), len(one["labels"])
        assert batch["input_ids"][place, :source].tolist() == one["input_ids"]
        assert batch["decoder_input_ids"][place, :target].tolist() == [1, *one["labels"][:-1]]
        assert batch["labels"][place, :target].tolist() == one["labels"]
        assert batch["attention_mask"][place].sum() == source
        assert batch["decoder_attention_mask"][place].sum() == target
        assert (batch["labels"][place, target:] == IGNORED).all()


def test_word_dropout_hides_tokens_of_the_source_alone(tokenizer):
    examples = [{**one, NOISY: True} for one in encode(PAIRS, tokenizer, None)]
    collate = Collator(tokenizer, 1, 0.3, 0)
    clean, batch, again = Collator(tokenizer, 1, 0.0, 0)(examples), collate(examples), collate(examples)
    changed = batch["input_ids"] != clean["input_ids"]
    assert (batch["input_ids"][changed] == tokenizer.unk_token_id).all()
    assert not changed[clean["attention_mask"] == 0].any()
    assert changed.sum() / clean["attention_mask"].sum() == pytest.approx(0.3, abs=0.03)
    # Each by itself: of two neighbours, as often both as independent draws give.
    both = (changed[:, 1:] & changed[:, :-1]).sum() / clean["attention_mask"][:, 1:].sum()
    assert both == pytest.approx(0.09, abs=0.03)
    for name in clean:
        assert torch.equal(batch[name], again[name])
        assert name == "input_ids" or torch.equal(batch[name], clean[name])


def test_a_teacher_learns_and_its_folder_says_how_well(trained):
    task, teacher = trained
    about = json.loads((teacher / "score.json").read_text())
    score = task.evaluate(task.load(teacher), teacher)
    assert about["value"] == score.value > 50
    assert about["signature"] == score.signature
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")
    assert (score.metric, score.better, score.sequences) == ("BLEU", "higher", 12)
    assert task.evaluate(task.load(teacher), teacher, count=5, batch=2).sequences == 5


def test_bleu_is_that_of_the_decoded_sentences(trained):
    task, teacher = trained
    model, pairs = task.load(teacher), read_pairs(task.recipe.data.test)
    said = []
    tokenizer = task._tokenizer_of(teacher)
    for source, _ in pairs:
        out = model.generate(**tokenizer(source, return_tensors="pt"), num_beams=2, max_new_tokens=40)
        said.append(tokenizer.decode(out[0], skip_special_tokens=True).strip())
    score = task.evaluate(model, teacher)
    assert score.value == pytest.approx(corpus_bleu(said, [[target for _, target in pairs]]).score)
    assert score.details["exact sentences"] == sum(a == b for a, (_, b) in zip(said, pairs, strict=True)) / len(pairs)


def test_what_sentences_add_to_bleu_is_in_their_order_and_makes_it(trained):
    task, teacher = trained
    model = task.load(teacher)
    score = task.evaluate(model, teacher)
    assert float(scores_of("BLEU", np.array(score.parts).sum(0))) == pytest.approx(score.value)
    few = task.evaluate(model, teacher, count=5)
    assert few.parts == score.parts[:5]
    # The references' lengths, in the order of the data.
    wanted = [corpus_bleu([target], [[target]]).ref_len for _, target in read_pairs(task.recipe.data.test)]
    assert [part[1] for part in score.parts] == wanted


def test_a_forced_pass_sees_the_evaluation_pairs_in_their_order(trained):
    task, teacher = trained
    pairs, tokenizer = read_pairs(task.recipe.data.test), task._tokenizer_of(teacher)
    rows = [row for batch in task.forced(teacher, 8) for row in zip(*batch.values(), strict=True)]
    assert len(rows) == 8
    for (source, target), (ids, real, inputs, decoded) in zip(pairs, rows, strict=False):
        assert tokenizer.decode(ids[real.bool()], skip_special_tokens=True) == source
        # One step behind: without its end.
        assert tokenizer.decode(inputs[decoded.bool()], skip_special_tokens=True) == target
    assert sum(len(batch["input_ids"]) for batch in task.forced(teacher)) == len(pairs)


def test_the_full_graph_gives_exactly_the_teachers_own_score(trained):
    task, teacher = trained
    model = task.load(teacher)
    plain = task.evaluate(model, teacher)
    with predicting(model, Full()):
        assert task.evaluate(model, teacher) == plain
        assert task.evaluate(model, teacher, whole_prefix=True) == plain
    with predicting(model, Window(1), kinds=["decoder"]):
        assert task.evaluate(model, teacher).value < plain.value


def test_finders_that_look_ahead_can_be_measured_on_whole_prefixes(trained):
    task, teacher = trained
    model, finder = task.load(teacher), TopK(0.5)
    assert not finder.causal_safe
    with predicting(model, finder, kinds=["decoder"]):
        with pytest.raises(InputError, match="finder of decoder layer 0: .*to decode step by step"):
            task.evaluate(model, teacher, count=4)
        assert task.evaluate(model, teacher, count=4, whole_prefix=True).value >= 0


def test_what_is_recorded_of_a_batch_has_its_lengths(trained):
    task, teacher = trained
    model, sequences = task.load(teacher), task.sequences(teacher, 4, longer_than=15)
    assert sequences == task.sequences(teacher, 4, longer_than=15)
    assert all(len(one["labels"]) > 15 for one in sequences)
    (batch,) = task.batches(teacher, sequences, 4)
    assert set(batch) == {"input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"}
    with torch.no_grad(), record(model) as records:
        model(**batch)
    sources, targets = ([len(one[name]) for one in sequences] for name in ("input_ids", "labels"))
    for one in records:
        queries = sources if one.kind == "encoder" else targets
        keys = targets if one.kind == "decoder" else sources
        assert one.layout.query_lengths.tolist() == queries
        assert one.layout.key_lengths.tolist() == keys
    for kind in ("encoder", "decoder", "cross"):
        tokens = task.tokens(teacher, sequences[0], kind)
        assert len(tokens.queries) == (sources if kind == "encoder" else targets)[0]
        assert len(tokens.keys) == (targets if kind == "decoder" else sources)[0]
        assert tokens.queries[0] == ("<s>" if kind != "encoder" else tokens.keys[0])
    assert "".join(task.tokens(teacher, sequences[0], "decoder").keys[1:]).replace("▁", " ").strip() in (
        task.tokens(teacher, sequences[0], "decoder").text
    )
    with pytest.raises(InputError, match="'encoder', 'decoder' or 'cross'"):
        task.tokens(teacher, sequences[0], "self")


def test_a_checkpoint_of_a_teacher_is_trained_on(trained, tmp_path):
    _, teacher = trained
    changes = {"data": trained[0].recipe.data.model_dump(), "length": 40, "training": {"steps": 2, "every": 2}}
    task = make("translation", tmp_path, model=None, checkpoint=str(teacher), **changes)
    task.train(tmp_path / "training", tmp_path / "teacher")
    assert task.load(tmp_path / "teacher").config.dropout == 0.3
    assert len(task._tokenizer_of(tmp_path / "teacher")) == 200


def test_a_softmax_checkpoint_is_continued_with_entmax_where_training_follows(tmp_path):
    (tmp_path / "before").mkdir()
    before = make("translation", tmp_path / "before", alpha=1.0, training={"steps": 2, "every": 2})
    before.train(tmp_path / "before/training", tmp_path / "before/teacher")
    assert before.load(tmp_path / "before/teacher").config.entmax["alpha"] == 1.0
    common = {"model": None, "checkpoint": str(tmp_path / "before/teacher"), "alpha": 1.5}
    task = make("translation", tmp_path, **common, training={"steps": 2, "every": 1})
    task.train(tmp_path / "training", tmp_path / "teacher")
    model = task.load(tmp_path / "teacher")
    assert (model.config.entmax["alpha"], alpha_of(model)) == (1.5, 1.5)
    # From its weights: two small steps leave them near.
    start = before.load(tmp_path / "before/teacher").get_input_embeddings().weight
    assert torch.dist(model.get_input_embeddings().weight, start) < 0.2 * start.norm()
    # Where nothing is trained, another mapping would give plausible nonsense.
    with pytest.raises(InputError, match="was trained with alpha 1.0"):
        make("translation", tmp_path, **common, training={"steps": 0}).train(tmp_path / "a", tmp_path / "b")


def test_a_wrong_number_of_test_pairs_is_said_before_training(tmp_path):
    for side in ("en", "de"):
        (tmp_path / f"test.{side}").write_text("one\ntwo\n")
    data = {part: {"builtin": "numbers-de", "part": part, "count": 8} for part in ("train", "valid")}
    test = {"source": str(tmp_path / "test.en"), "target": str(tmp_path / "test.de"), "pairs": 1080}
    task = make("translation", tmp_path, data={**data, "test": test}, length=128)
    with pytest.raises(InputError, match="data.pairs: got 2 sentence pairs.* want 1,080"):
        task.train(tmp_path / "training", tmp_path / "teacher")
    assert not list((tmp_path / "training").glob("checkpoint-*"))


def test_the_validation_data_as_inputs(trained):
    task, teacher = trained
    inputs = task.validation(teacher)
    tokenizer = task._tokenizer_of(teacher)
    said = [tokenizer.decode(one["labels"], skip_special_tokens=True) for one in inputs]
    assert said == [target for _, target in read_pairs(task.recipe.data.valid)]


def test_sentences_that_are_all_too_long(tmp_path):
    with pytest.raises(InputError, match="not one of 26 training pairs is that short"):
        make("translation", tmp_path, length=8).train(tmp_path / "training", tmp_path / "teacher")
