"""Each source of texts and pairs, and what each mistake in one is answered with."""

import gzip
import json

import datasets
import pytest
from pydantic import ValidationError

from sparsefinder.errors import InputError
from sparsefinder.lab.recipe import BuiltinSource, HubPairs, HubSource, PairFiles
from sparsefinder.lab.tasks.corpora import builtin_texts, python_documents
from sparsefinder.lab.tasks.data import read_pairs, read_texts

TEXT = "One paragraph.\n\n  Another one,\u2028with an odd break.  \r\nThe third: Ärger."
TEXTS = ["One paragraph.", "Another one,\u2028with an odd break.", "The third: Ärger."]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder of JSON lines, which `datasets` reads as it reads the hub."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()

    def make(**splits):
        folder = tmp_path / "data"
        for name, rows in splits.items():
            (folder / f"{name}.jsonl").parent.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return str(folder)

    return make


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz", "zipped-without-saying.txt"])
def test_texts_of_files(tmp_path, name):
    content = TEXT.encode() if name == "text.txt" else gzip.compress(TEXT.encode())
    (tmp_path / name).write_bytes(content)
    assert read_texts(str(tmp_path / name)) == TEXTS


def test_pairs_of_one_file_and_of_two(tmp_path):
    one, left, right = tmp_path / "pairs.tsv", tmp_path / "train.en", tmp_path / "train.de.gz"
    one.write_text("good\tgut\n\nbad \tschlecht\nnothing\t\n", encoding="utf-8")
    left.write_text("good\n\nbad\nnothing\n", encoding="utf-8")
    right.write_bytes(gzip.compress(b"gut\n\nschlecht\n\n"))
    wanted = [("good", "gut"), ("bad", "schlecht")]
    assert read_pairs(str(one)) == wanted
    assert read_pairs((str(left), str(right))) == wanted


def test_texts_of_the_hub(hub):
    folder = hub(train=[{"text": "first", "id": 1}, {"text": "", "id": 2}, {"text": "second", "id": 3}])
    assert read_texts(HubSource(hub=folder)) == ["first", "second"]
    assert read_texts(HubSource(hub=folder, column="id")) == ["1", "2", "3"]
    with pytest.raises(InputError, match="data.column: got 'txt' .* want one of 'text', 'id'"):
        read_texts(HubSource(hub=folder, column="txt"))
    with pytest.raises(InputError, match="data.hub: got .*split"):
        read_texts(HubSource(hub=folder, split="nowhere"))


def test_pairs_of_the_hub(hub):
    both = [{"translation": {"en": "good", "de": "gut"}}, {"translation": {"en": "bad", "de": "schlecht"}}]
    folder = hub(train=both)
    wanted = [("good", "gut"), ("bad", "schlecht")]
    assert read_pairs(HubPairs(hub=folder, column="translation", source="en", target="de")) == wanted
    with pytest.raises(InputError, match="data.target: got 'fr' .* want one of 'en', 'de'"):
        read_pairs(HubPairs(hub=folder, column="translation", source="en", target="fr"))
    with pytest.raises(InputError, match="data.source: got 'en' .* want one of 'translation'"):
        read_pairs(HubPairs(hub=folder, source="en", target="de"))


def test_pairs_of_the_hub_in_two_columns(hub):
    folder = hub(train=[{"english": "good", "german": "gut"}], test=[{"english": "bad", "german": "schlecht"}])
    assert read_pairs(HubPairs(hub=folder, source="english", target="german", split="test")) == [("bad", "schlecht")]


def test_slices_of_the_hub_in_a_folder_and_how_many_there_should_be(hub):
    # As the files of IWSLT17 are: a folder for each pair of languages, and six years in one split.
    rows = [
        {"translation": {"en": f"year {year}, line {line}", "de": "x"}} for year in range(2010, 2016) for line in "ab"
    ]
    folder = hub(**{"iwslt2017-en-de/train": rows[:1], "iwslt2017-en-de/test": rows, "iwslt2017-en-fr/test": rows[:3]})
    common = {"hub": folder, "folder": "iwslt2017-en-de", "column": "translation", "source": "en", "target": "de"}

    def years(**changes):
        return [left[5:9] for left, _ in read_pairs(HubPairs(**common, **changes))]

    assert years(split="test[2:-2]", pairs=8) == [str(year) for year in range(2011, 2015) for _ in "ab"]
    assert years(split="test[-2:]", pairs=2) == ["2015", "2015"]
    assert years(split="train+test[-1:]") == ["2010", "2015"]
    with pytest.raises(InputError, match=r"data.pairs: got 2 sentence pairs in hub=.* want 1,080, as `pairs` says"):
        years(split="test[-2:]", pairs=1080)


def test_several_files_and_how_many_pairs_they_should_have(tmp_path):
    for year in (2011, 2012):
        (tmp_path / f"{year}.en").write_text(f"one {year}\ntwo {year}\n")
        (tmp_path / f"{year}.de").write_text(f"eins {year}\nzwei {year}\n")
    files = {side: [str(tmp_path / f"{year}.{side}") for year in (2011, 2012)] for side in ("en", "de")}
    found = read_pairs(PairFiles(source=files["en"], target=files["de"], pairs=4))
    assert [left for left, _ in found] == ["one 2011", "two 2011", "one 2012", "two 2012"]
    assert found[-1] == ("two 2012", "zwei 2012")
    assert read_pairs(PairFiles(source=files["en"][0], target=files["de"][0])) == found[:2]
    with pytest.raises(InputError, match="data.pairs: got 4 sentence pairs"):
        read_pairs(PairFiles(source=files["en"], target=files["de"], pairs=5))
    with pytest.raises(ValidationError, match="2 files in `source` and 1 in `target`"):
        PairFiles(source=files["en"], target=files["de"][0])


def test_lines_one_after_the_other_make_documents_within_a_file_and_none_is_lost(tmp_path):
    lines = [f"line {number}" for number in range(7)]
    left, right = tmp_path / "a.en", tmp_path / "a.de"
    left.write_text("\n".join([*lines[:3], " ", *lines[3:]]))
    right.write_text("\n".join([*lines[:3], "of an empty line", *lines[3:]]).upper())
    both = {"source": [str(left)] * 2, "target": [str(right)] * 2}
    found = read_pairs(PairFiles(**both, join=[1, 3]))
    assert found[:7] == [(line, line.upper()) for line in lines]
    wanted = ["line 0 line 1 line 2", "line 3 line 4 line 5", "line 6"]
    assert found[7:] == [(text, text.upper()) for text in wanted]
    assert read_pairs(PairFiles(**both, join=3)) == found[7:] * 2
    with pytest.raises(ValidationError, match="3 numbers in `join` for 2 files: one for each, or one"):
        PairFiles(**both, join=[1, 3, 5])


def test_any_error_of_the_library_is_a_sentence_that_names_plain_files(tmp_path, monkeypatch):
    # A data set that is made by a script, as IWSLT17's is: refused with a RuntimeError.
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "made.py").write_text("")
    source = HubPairs(hub=str(tmp_path / "made"), source="en", target="de")
    with pytest.raises(InputError, match=r"scripts are no longer supported.*refs/convert/parquet.*source: a.en"):
        read_pairs(source)
    given = {}

    def load(*arguments, **more):
        given.update(more)
        raise KeyError("something else")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(InputError, match="something else.*the path of a text file"):
        read_texts(HubSource(hub="a/b", revision="refs/convert/parquet"))
    assert given["revision"] == "refs/convert/parquet"


def test_a_hub_that_cannot_be_reached():
    with pytest.raises(InputError, match=r"data.hub: got no-such/data-set: .* want a data set of the hub"):
        read_texts(HubSource(hub="no-such/data-set"))


def test_parts_of_the_made_pairs_are_disjoint():
    parts = {
        part: {pair[0] for pair in read_pairs(BuiltinSource(builtin="numbers-de", part=part, count=500))}
        for part in ("train", "valid", "test")
    }
    assert [len(part) for part in parts.values()] == [500, 500, 500]
    assert not parts["train"] & parts["valid"]
    assert not (parts["train"] | parts["valid"]) & parts["test"]
    fewer = read_pairs(BuiltinSource(builtin="numbers-de", count=100))
    assert fewer == read_pairs(BuiltinSource(builtin="numbers-de", count=500))[:100]
    assert len(read_pairs(BuiltinSource(builtin="numbers-fr", part="valid"))) == 1000


def test_python_comes_with_enough_english_in_disjoint_parts():
    parts = {part: builtin_texts(BuiltinSource(builtin="python", part=part)) for part in ("train", "valid", "test")}
    every = [text for part in parts.values() for text in part]
    assert len(set(every)) == len(every) == sum(len(texts) for _, texts in python_documents())
    assert sum(map(len, parts["train"])) > 2_000_000
    assert all(sum(map(len, parts[part])) > 100_000 for part in ("valid", "test"))
    assert any("iterate over the elements of a sequence" in text for text in every)
    assert read_texts(BuiltinSource(builtin="python", part="test", count=3)) == parts["test"][:3]


def test_a_builtin_corpus_of_the_other_task():
    with pytest.raises(InputError, match="are sentence pairs"):
        read_texts(BuiltinSource(builtin="numbers-de"))
    with pytest.raises(InputError, match="without translation"):
        read_pairs(BuiltinSource(builtin="python"))


def test_a_missing_file_names_those_that_are_near(tmp_path):
    (tmp_path / "train.txt").write_text("x")
    with pytest.raises(InputError, match=r"trian.txt, which is not a file \(.* has train.txt\)"):
        read_texts(str(tmp_path / "trian.txt"))
    with pytest.raises(InputError, match=r"there is no folder .*nowhere"):
        read_texts(str(tmp_path / "nowhere" / "train.txt"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n\n", "without a single text"),
        (b"fine\nb\xe4d\n", "whose line 2 has bytes that are not UTF-8"),
        (gzip.compress(b"text " * 1000)[:30], "a whole gzip file"),
    ],
    # Not by content: a gzip file holds the time it was made at.
    ids=["empty", "not UTF-8", "cut off"],
)
def test_texts_that_cannot_be_read(tmp_path, content, message):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_texts(str(tmp_path / "text"))


def test_pairs_that_do_not_match(tmp_path):
    one, left, right = tmp_path / "pairs.tsv", tmp_path / "a.en", tmp_path / "a.de"
    one.write_text("good\tgut\nno tab here\n")
    with pytest.raises(InputError, match=r"pairs.tsv, whose line 2 has 0 tabs, want .* one tab"):
        read_pairs(str(one))
    one.write_text("a\tb\tc\n")
    with pytest.raises(InputError, match="line 1 has 2 tabs"):
        read_pairs(str(one))
    left.write_text("1\n2\n3\n")
    right.write_text("1\n2\n")
    with pytest.raises(InputError, match=r"got 3 lines in .*a.en and 2 in .*a.de"):
        read_pairs((str(left), str(right)))
