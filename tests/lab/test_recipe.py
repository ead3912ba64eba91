"""Recipes: what is written down comes back; what is wrong is named, with what was meant."""

from pathlib import Path

import pytest
import yaml

from sparsefinder import InputError
from sparsefinder.lab.recipe import Recipe, dump_recipe, load_recipe

SMALL = """
name: small
task:
  kind: masked-lm
  data: {train: a.txt, valid: {builtin: python, part: valid}}
  model: {architecture: BertForMaskedLM, hidden_size: 32}
sweep:
  methods: [window, {method: kmeans, clusters: [2, 4], inputs: raw}]
"""
RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))


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
        (["task.trainin.steps=5"], "task.trainin: no such key .did you mean 'training'"),
        (["sweep.windos=[1]"], "did you mean 'windows'"),
        (["task.length=3"], "task.length: .*greater than or equal to 8"),
        (["seed=x"], "seed: .*integer"),
        (["task.checkpoint=here"], "either `checkpoint`"),
        (["task.model=null"], "either `checkpoint`"),
        (["task.kind=poetry"], "poetry"),
        (["name=a/b"], "name: "),
        (["seed"], "key=value"),
        (["sweep.windows=[1"], "valid YAML"),
        (["seed.low=1", "seed.low.er=2"], "seed|low"),
    ],
)
def test_what_is_wrong_is_named(small: Path, changes: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_recipe(small, changes)


def test_files_that_are_no_recipes(tmp_path: Path, small: Path) -> None:
    with pytest.raises(InputError, match="small.yaml"):
        load_recipe(tmp_path / "smal.yaml")
    for content in ("- 1\n- 2\n", "a: [", "\xff"):
        small.write_text(content, encoding="latin-1")
        with pytest.raises(InputError, match="recipe"):
            load_recipe(small)
