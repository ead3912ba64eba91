"""Where a recipe has its texts and sentence pairs from: files, the hub, or what every machine has."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["BuiltinSource", "HubPairs", "HubSource", "PairFiles", "PairSource", "Part", "TextSource"]


class Part(BaseModel):
    """A part of a recipe: no key that it does not know, nothing changed after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
    # How many pairs there have to be; any number if not given.
    pairs: int | None = Field(None, ge=1)

    @field_validator("source", "target", mode="before")
    @classmethod
    def _one_or_several(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _as_many(self) -> PairFiles:
        if len(self.source) != len(self.target):
            raise ValueError(
                f"{len(self.source)} files in `source` and {len(self.target)} in `target`: as many in each"
            )
        return self


class BuiltinSource(Part):
    """Text that every machine has or that is made on the spot: `python` (Python's manual and the docstrings of
    installed packages), `numbers-de` and `numbers-fr` (numbers, dates and times with their translation).
    """

    builtin: Literal["python", "numbers-de", "numbers-fr"]
    part: Literal["train", "valid", "test"] = "train"
    # At most so many lines or pairs; all of them (or, where they are made, 20,000) if not given.
    count: int | None = Field(None, ge=1)


# A path is text, one paragraph per line. Pairs: one path of tab-separated lines, or two of aligned lines. Plain or .gz.
TextSource = str | HubSource | BuiltinSource
PairSource = str | tuple[str, str] | PairFiles | HubPairs | BuiltinSource
