"""Runs: from text to a report, by recipe."""

from ..extras import require

require(
    "lab",
    "accelerate",
    "datasets",
    "matplotlib",
    "pyarrow",
    "pydantic",
    "rich",
    "sacrebleu",
    "sklearn",
    "threadpoolctl",
    "tokenizers",
    "tqdm",
    "transformers",
    "typer",
    "yaml",
)
