"""Parts of speech reach the subwords they belong to, and the clusters that these are in."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from transformers import AutoTokenizer

from sparsefinder import Traces
from sparsefinder.lab.folder import RunFolder
from sparsefinder.lab.recipe import Recipe, load_recipe
from sparsefinder.lab.report.clusters import cluster_tags
from sparsefinder.lab.report.content import Content
from sparsefinder.lab.report.examples import read_examples, sample_of
from sparsefinder.lab.report.figures_clusters import cluster_figure
from sparsefinder.lab.report.page import page as page_of
from sparsefinder.lab.report.speech import NoTaggerError, spans, tagger
from sparsefinder.lab.report.validation import Vectors
from sparsefinder.lab.run import run
from sparsefinder.lab.tasks import Tokens

from .browser import browser, opened
from .made_up import Sizes, make_run

SIZES = Sizes(layers=1, heads=2, examples=2)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pipeline that knows a few words, made on the spot."""
    language = spacy.blank("en")
    ruler = language.add_pipe("attribute_ruler")
    for tag, words in (("NOUN", ["cat", "mat", "dogs", "towns"]), ("VERB", ["sat", "read"]), ("DET", ["the", "a"])):
        ruler.add([[{"LOWER": {"IN": words}}]], {"POS": tag})
    path = tmp_path_factory.mktemp("spacy") / "tiny"
    language.to_disk(path)
    return str(path)


@pytest.mark.parametrize(
    ("tokens", "text", "begins"),
    [
        (["[CLS]", "the", "cat", "##s", "sat", "[SEP]"], "The cats sat", [None, 0, 4, 7, 9, None]),
        (["<s>", "The", "Ġcats", "Ġs", "at", "</s>"], "The cats sat", [None, 0, 4, 9, 10, None]),
        (["▁The", "▁ca", "ts", "</s>"], "The cats", [0, 4, 6, None]),
        (["Ġna", "Ã¯", "ve", "Ġone"], "naïve one", [0, 2, 3, 6]),
        (["the", "[UNK]", "sat"], "the ☃ sat", [0, None, 6]),
        (["the", "[MASK]", "sat", "down"], "the big cat sat down", [0, None, 12, 16]),
        ([], "", []),
    ],
)
def test_tokens_are_found_in_the_text(tokens: list[str], text: str, begins: list[int | None]) -> None:
    assert spans(tokens, text) == begins


def test_words_hand_their_tag_to_every_character(pipeline: str) -> None:
    tags = tagger(pipeline)("the cat sat")
    assert tags == ["DET"] * 3 + [None] + ["NOUN"] * 3 + [None] + ["VERB"] * 3


def given(folder: RunFolder) -> tuple[list[dict[str, Tokens]], list[dict[tuple[str, int], Vectors]]]:
    """Tokens and vectors of a made-up run's sentences."""
    traces, examples = Traces.open(folder / "traces/valid"), read_examples(folder)
    tokens = [{one.kind: Tokens(one.queries, one.keys, one.text)} for one in examples]
    samples = [{site: sample_of(traces, site, one.sequence) for site in traces.sites} for one in examples]
    return tokens, [{site: (one.q, one.k) for site, one in layers.items()} for layers in samples]


def test_every_tagged_token_is_counted_once_on_each_side(tmp_path: Path, pipeline: str) -> None:
    folder = make_run(tmp_path / "run", SIZES)
    examples = read_examples(folder)
    clustered = Content(folder, load_recipe(folder / "recipe.yaml")).clustered
    (found,) = cluster_tags(*given(folder), clustered, tagger(pipeline))
    # The pipeline knows whole words only, and each of these is one token.
    words = [word for example in examples for word in example.text.split()]
    wanted = {"NOUN": ("cat", "mat", "dogs", "towns"), "VERB": ("sat", "read"), "DET": ("the", "a")}
    counts = found.counts["encoder", 0]
    assert counts.shape[:3] == (2, 2, 6)
    assert found.sequences == len(examples)
    for place, tag in enumerate(found.tags):
        assert (counts[..., place].sum(-1) == sum(word in wanted[tag] for word in words)).all()


def test_parts_of_speech_are_counted_over_the_whole_validation_text(tmp_path: Path, pipeline: str) -> None:
    # Nouns are in the validation text alone: what is traced, out of the training text, has none.
    lines = {"train": "she read the long letter while he sat\n", "valid": "the cat sat on a mat and dogs read\n"}
    for name, line in lines.items():
        (tmp_path / name).write_text(line * 40)
    recipe = Recipe.model_validate({
        "name": "tiny",
        "task": {
            "kind": "masked-lm", "data": {name: str(tmp_path / name) for name in lines}, "vocabulary": 300,
            "length": 24, "training": {"steps": 1, "batch": 4, "every": 1},
            "model": {
                "architecture": "BertForMaskedLM", "hidden_size": 16, "num_hidden_layers": 2,
                "num_attention_heads": 2, "intermediate_size": 32, "initializer_range": 1.0,
            },
        },
        "trace": {"train": 6, "valid": 3},
        "fit": {"restarts": 1},
        "sweep": {"methods": [{"method": "kmeans", "clusters": 3}], "windows": [0], "processes": 1},
        "report": {"pos": pipeline},
    })  # fmt: skip
    folder = run(recipe, tmp_path / "runs", "sweep", say=lambda line: None)
    (found,) = Content(folder, recipe).clusters
    tokenizer = AutoTokenizer.from_pretrained(folder / "teacher")
    ids = [one for line in range(40) for one in tokenizer(lines["valid"], add_special_tokens=False)["input_ids"]]
    blocks = len(ids) // 22
    assert found.sequences == blocks
    # A word is the tokens from one with a space before it to the next; only the first of a block may be cut.
    nouns, word = 0, list[str]()
    for place, token in enumerate([*tokenizer.convert_ids_to_tokens(ids[: blocks * 22]), "Ġ"]):
        if token.startswith("Ġ") or token == "Ċ" or place % 22 == 0:
            # A space that is a token of its own is no part of a word.
            nouns += sum(one != "Ġ" for one in word) * ("".join(word).lstrip("Ġ") in ("cat", "mat", "dogs"))
            word = []
        word.append(token)
    counts = found.counts["encoder", 1]
    assert counts.shape == (2, 2, 3, len(found.tags))
    assert (counts[..., found.tags.index("NOUN")].sum(-1) == nouns).all()
    assert nouns > 3 * blocks


def test_a_text_that_is_gone_is_named_and_the_rest_of_the_report_is_there(tmp_path: Path, pipeline: str) -> None:
    content = Content(folder := make_run(tmp_path / "run", SIZES, pos=pipeline), load_recipe(folder / "recipe.yaml"))
    assert "teacher has no model" in content.clusters
    (folder / "teacher/config.json").write_text("{}")
    assert "valid.txt" in Content(folder, content.recipe).clusters
    assert content.recall is not None


def test_the_page_shows_shares_that_add_up(tmp_path: Path, pipeline: str) -> None:
    content = Content(folder := make_run(tmp_path / "run", SIZES, pos=pipeline), load_recipe(folder / "recipe.yaml"))
    # In place of the validation text, which a made-up run has not.
    content.__dict__["clusters"] = cluster_tags(*given(folder), content.clustered, tagger(pipeline))
    path = tmp_path / "index.html"
    path.write_text(page_of(content), encoding="utf-8")
    with browser() as running, opened(running, path) as page:
        page.wait_for_selector('#cluster-tables[data-shown$="/cluster"]')
        assert "over the validation text (2 sequences)" in page.locator("#clusters").inner_text()
        page.get_by_label("Shares").select_option("tag")
        page.wait_for_selector('#cluster-tables[data-shown$="/tag"]')
        rows = page.locator("#cluster-tables tbody tr").all()
        assert len(rows) == 6
        for row in rows:
            shares = [int(text) for text in row.locator("td.cell").all_inner_texts() if text]
            assert abs(sum(shares) - 100) <= len(shares)
    assert cluster_figure(content) is not None


@pytest.mark.parametrize(
    ("name", "said"), [(None, "names no pipeline"), ("xx_no_such_model", "no pipeline 'xx_no_such")]
)
def test_without_a_pipeline_the_section_says_how_to_get_one(tmp_path: Path, name: str | None, said: str) -> None:
    content = Content(folder := make_run(tmp_path / "run", SIZES, pos=name), load_recipe(folder / "recipe.yaml"))
    assert isinstance(content.clusters, str)
    assert said in content.clusters
    assert "python -m spacy download" in content.clusters


def test_a_pipeline_without_tags_is_named_as_the_reason(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", SIZES)
    with pytest.raises(NoTaggerError, match="may lack a tagger"):
        cluster_tags(*given(folder), {}, lambda text: [None] * len(text))
