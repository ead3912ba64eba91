"""Recipes: what is written down comes back; what is wrong is named, with what was meant."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from sparsefinder import InputError
from sparsefinder.lab.recipe import HubPairs, Recipe, Translation, dump_recipe, load_recipe
from sparsefinder.lab.sweep.grids import grid_of
from sparsefinder.lab.sweep.settings import expand_all

SMALL = """
name: small
task:
  kind: masked-lm
  data: {train: a.txt, valid: {builtin: python, part: valid}}
  model: {architecture: BertForMaskedLM, hidden_size: 32}
sweep:
  methods: [window, {method: kmeans, clusters: [2, 4], inputs: raw}]
"""
FOLDER = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_every_recipe_of_the_project_can_be_read_and_written_back(file: Path) -> None:
    recipe = load_recipe(file)
    assert recipe.name == file.stem
    assert Recipe.model_validate(yaml.safe_load(dump_recipe(recipe))) == recipe


@pytest.mark.parametrize("name", ["mlm-wikitext103-roberta", "mt-iwslt17-ende", "mt-iwslt17-enfr"])
def test_the_papers_recipes_score_what_its_figures_show_and_say_how_many_that_is(name: str) -> None:
    file = FOLDER / f"{name}.yaml"
    recipe = load_recipe(file)
    assert recipe.accuracy is not None
    assert recipe.accuracy.methods is not None
    settings = expand_all(recipe.accuracy.methods)
    # Sec. 5: ten thresholds; eight numbers of buckets, random blocks or global tokens for six methods; and the window.
    assert Counter(one.method for one in settings) == {
        "distance": 10, "quantization": 8, "kmeans": 8, "reformer": 8, "routing": 8, "bigbird": 8, "longformer": 8,
        "window": 1,
    }  # fmt: skip
    evaluations = len(settings) * len(recipe.accuracy.windows) * len(recipe.accuracy.globals) + 1
    assert evaluations < 1500
    header = " ".join(line.lstrip("# ") for line in file.read_text().splitlines() if line.startswith("#"))
    assert f"{len(settings)} settings × {len(recipe.accuracy.windows)} windows" in header
    assert f"{evaluations:,} evaluations" in header
    # Nothing is fitted for them that the sweep does not have as well.
    assert set(settings) <= set(grid_of(recipe.sweep).settings)


# The pairs of tst2015, and of all years from 2010 on: the split of the hub, by the card of the data set.
@pytest.mark.parametrize(("pair", "tests", "years"), [("ende", 1080, 8079), ("enfr", 1210, 8597)])
def test_translation_as_in_the_paper_and_the_work_it_cites(pair: str, tests: int, years: int) -> None:
    before, after = (load_recipe(FOLDER / f"mt-{data}-{pair}.yaml").task for data in ("paracrawl", "iwslt17"))
    assert isinstance(before, Translation)
    assert isinstance(after, Translation)
    # The fine-tuning starts from what the pretraining writes, with another α.
    assert after.checkpoint == f"runs/mt-paracrawl-{pair}/teacher"
    assert (before.alpha, after.alpha) == (1.0, 1.5)
    for task in (before, after):
        assert (task.training.betas, task.training.weight_decay, task.training.clip) == ((0.9, 0.98), 1e-4, 0.1)
        assert (task.training.tokens, task.training.accumulate, task.word_dropout) == (4096, 8, 0.1)
    valid, test = after.data.valid, after.data.test
    assert isinstance(valid, HubPairs)
    assert isinstance(test, HubPairs)
    assert (valid.split, test.split, test.pairs) == (f"test[1568:-{tests}]", f"test[-{tests}:]", tests)
    assert valid.pairs == years - 1568 - tests


def test_masked_language_modelling_as_in_the_authors_script() -> None:
    recipe = load_recipe(FOLDER / "mlm-wikitext103-roberta.yaml")
    training = recipe.task.training
    assert (training.warmup_steps, training.weight_decay, training.epsilon, training.clip) == (500, 0.01, 1e-6, 5)
    assert 25 in grid_of(recipe.sweep).windows


def test_batches_that_are_smaller_than_a_sentence_may_be() -> None:
    with pytest.raises(InputError, match="training.tokens is 64, and a sentence may have 128"):
        load_recipe(FOLDER / "mt-paracrawl-ende.yaml", ["task.training.tokens=64"])


def test_methods_may_be_written_short(small: Path) -> None:
    window, kmeans = load_recipe(small).sweep.methods
    assert (window.method, window.inputs, window.settings) == ("window", None, {})
    assert (kmeans.method, kmeans.inputs, kmeans.settings) == ("kmeans", ("raw",), {"clusters": [2, 4]})


def test_set_changes_and_adds_keys(small: Path) -> None:
    recipe = load_recipe(small, ["seed=3", "task.training.steps=7", "sweep.windows=[0, 11]", "task.data.train=b=c.txt"])
    assert recipe.seed == 3
    assert recipe.task.training.steps == 7
    assert recipe.sweep.windows == (0, 11)
    assert recipe.task.data.train == "b=c.txt"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["task.trainin.steps=5"], "task.trainin: no such key .did you mean task.training.."),
        (["sweep.windos=[1]"], "did you mean sweep.windows"),
        (["alpha=1.5"], "--set: got alpha, which is no key of a recipe, want task.alpha$"),
        (["stepps=5"], "want task.training.steps$"),
        (["task.length=3"], "in .*small.yaml, task.length: got 3, want 8 or more$"),
        (["task.length=3", "seed=x"], "in .*small.yaml:\n  seed: got 'x', want a whole number\n  task.length: got 3"),
        (["task.alpha=.nan"], "task.alpha: got NaN, which is not a number"),
        (["task.training.learning_rate=.inf"], "neither NaN nor infinite"),
        (["task.checkpoint=here"], "either `checkpoint`.*both are there: task.model=null"),
        (["task.model=null"], "either `checkpoint`.*none is there$"),
        (["task.kind=poetry"], "task.kind: got 'poetry', want masked-lm or "),
        (["task.data={train: a.txt}"], "task.data.valid: is missing$"),
        (["name=a/b"], "name: "),
        (["seed"], "key=value"),
        (["sweep.windows=[1"], "valid YAML"),
        (["sweep.windows=3"], "sweep.windows: got 3, want a list$"),
        (["seed.low=1", "seed.low.er=2"], "seed|low"),
    ],
)
def test_what_is_wrong_is_named(small: Path, changes: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_recipe(small, changes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{sorce: a.en, target: a.de}", ["task.data.test.sorce: no such key (did you mean task.data.test.source?)"]),
        ("{hub: a, source: en}", ["task.data.test.target: is missing"]),
        ("{builtin: python3}", ["task.data.test.builtin: got 'python3', want 'python', 'numbers-de' or 'numbers-fr'"]),
        ("[a.en, a.de, a.fr]", ["task.data.test: got ['a.en', 'a.de', 'a.fr'], want 2 at most"]),
        ("{source: [a, b], target: c}", ["task.data.test: 2 files in `source` and 1 in `target`: as many in each"]),
        ("3", ["task.data.test: got 3, want one of these shapes:", *["    "] * 6]),
    ],
)
def test_of_several_shapes_only_the_one_that_was_meant_complains(given: str, said: list[str]) -> None:
    with pytest.raises(InputError) as raised:
        load_recipe(FOLDER / "demo-mt-de.yaml", [f"task.data.test={given}"])
    lines = str(raised.value).partition(", ")[2].split("\n")
    assert len(lines) == len(said)
    assert all(line.startswith(words) for line, words in zip(lines, said, strict=True))


def test_every_shape_of_a_source_can_be_given_and_written_back() -> None:
    for given in (
        "a.tsv",
        "[a, b]",
        "{source: a, target: b}",
        "{hub: a, source: b, target: c}",
        "{builtin: numbers-fr}",
    ):
        recipe = load_recipe(FOLDER / "demo-mt-de.yaml", [f"task.data.test={given}"])
        assert Recipe.model_validate(yaml.safe_load(dump_recipe(recipe))) == recipe


def test_files_that_are_no_recipes(tmp_path: Path, small: Path) -> None:
    with pytest.raises(InputError, match="smal.yaml, which is not there .did you mean .*small.yaml"):
        load_recipe(tmp_path / "smal.yaml")
    for content in ("- 1\n- 2\n", "a: [", "\xff"):
        small.write_text(content, encoding="latin-1")
        with pytest.raises(InputError, match="recipe"):
            load_recipe(small)
