"""Where a recipe has its texts and sentence pairs from: files, the hub, or what every machine has."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

__all__ = ["SHAPES", "BuiltinSource", "HubPairs", "HubSource", "PairFiles", "PairSource", "Part", "TextSource"]


class Part(BaseModel):
    """A part of a recipe: no key that it does not know, no number that is none, nothing changed after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class HubSource(Part):
    """A data set by its name on the hub, read through `datasets`."""

    hub: str
    config: str | None = None
    # A folder of it that is read instead of a config, and a branch, tag or commit. Data sets that are still made by a
    # script have their files in `revision: refs/convert/parquet`, with a folder for each config.
    folder: str | None = None
    revision: str | None = None
    # Slices too, and several one after the other: test[1568:-1080], train[:10%]+validation.
    split: str = "train"
    # Of a text: its column. Of pairs: the column that holds both languages, or none if each has a column of its own.
    column: str | None = None


class HubPairs(HubSource):
    """The same for translation: the names of the two languages in that column, or of their columns."""

    source: str
    target: str
    # How many pairs there have to be; any number if not given.
    pairs: int | None = Field(None, ge=1)


class PairFiles(Part):
    """Sentence pairs in plain files of aligned lines; of several, one after the other."""

    source: tuple[str, ...] = Field(min_length=1)
    target: tuple[str, ...] = Field(min_length=1)
    # So many lines of a file, one after the other, make a pair: documents instead of sentences. One number for each
    # file, or one for all.
    join: tuple[Annotated[int, Field(ge=1)], ...] = (1,)
    # How many pairs there have to be; any number if not given.
    pairs: int | None = Field(None, ge=1)

    @field_validator("source", "target", "join", mode="before")
    @classmethod
    def _one_or_several(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str | int) else given

    @model_validator(mode="after")
    def _as_many(self) -> PairFiles:
        if len(self.source) != len(self.target):
            raise ValueError(
                f"{len(self.source)} files in `source` and {len(self.target)} in `target`: as many in each"
            )
        if len(self.join) not in (1, len(self.source)):
            raise ValueError(f"{len(self.join)} numbers in `join` for {len(self.source)} files: one for each, or one")
        return self


class BuiltinSource(Part):
    """Text that every machine has or that is made on the spot: `python` (Python's manual and the docstrings of
    installed packages), `numbers-de` and `numbers-fr` (numbers, dates and times with their translation).
    """

    builtin: Literal["python", "numbers-de", "numbers-fr"]
    part: Literal["train", "valid", "test"] = "train"
    # At most so many lines or pairs; all of them (or, where they are made, 20,000) if not given.
    count: int | None = Field(None, ge=1)


# What a source may look like. Which one is meant is seen before it is read, so that only that one complains.
PATH, PATHS, FILES, HUB, BUILTIN = SHAPES = ("<path>", "<paths>", "<files>", "<hub>", "<builtin>")
TEXT_SHAPES = """one of these shapes:
    a path, one paragraph per line: texts/train.txt.gz
    a data set of the hub: {hub: Salesforce/wikitext, config: wikitext-2-raw-v1, split: train, column: text}
    text that every machine has: {builtin: python}"""
PAIR_SHAPES = """one of these shapes:
    a path of tab-separated lines: pairs.tsv
    two paths of aligned lines: [train.en, train.de]
    several of each, one after the other: {source: [a.en, b.en], target: [a.de, b.de]}
    documents of so many lines: {source: a.en, target: a.de, join: 8}
    a data set of the hub: {hub: name, config: name, split: train, source: en, target: de}
    pairs that every machine has: {builtin: numbers-de}"""


def _shape(given: Any) -> str | None:
    """The shape that somebody had in mind, whatever is wrong with it; None where it is like none of them."""
    if isinstance(given, str):
        return PATH
    if isinstance(given, list | tuple):
        return PATHS
    keys = given.model_dump() if isinstance(given, BaseModel) else given if isinstance(given, dict) else {}
    marks = {"hub": HUB, "builtin": BUILTIN, "source": FILES, "target": FILES}
    return next((shape for key, shape in marks.items() if key in keys), None)


def _text_shape(given: Any) -> str | None:
    shape = _shape(given)
    return None if shape in (PATHS, FILES) else shape


# A path is text, one paragraph per line. Pairs: one path of tab-separated lines, or two of aligned lines. Plain or .gz.
TextSource = Annotated[
    Annotated[str, Tag(PATH)] | Annotated[HubSource, Tag(HUB)] | Annotated[BuiltinSource, Tag(BUILTIN)],
    Discriminator(_text_shape, custom_error_type="shape", custom_error_message=TEXT_SHAPES),
]
PairSource = Annotated[
    Annotated[str, Tag(PATH)]
    | Annotated[tuple[str, str], Tag(PATHS)]
    | Annotated[PairFiles, Tag(FILES)]
    | Annotated[HubPairs, Tag(HUB)]
    | Annotated[BuiltinSource, Tag(BUILTIN)],
    Discriminator(_shape, custom_error_type="shape", custom_error_message=PAIR_SHAPES),
]
