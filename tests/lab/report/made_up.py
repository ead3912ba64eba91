"""Made-up runs, as realistic as a report needs: points that trade sparsity for recall, traces of tokens in groups,
finders fitted to them, timings, stages. Sizes are arguments.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparsefinder import Layout, Sparsefinder, Traces, TraceWriter
from sparsefinder.lab.folder import RunFolder, versions
from sparsefinder.lab.recipe import Recipe, dump_recipe
from sparsefinder.lab.sweep.points import ACCURACY, RECALL, SEQUENCES, TIMING, write_points

# How good each method is, and its own parameter with values from dense to sparse.
METHODS: dict[str, tuple[float, str, tuple[str, ...], tuple[float, ...]]] = {
    "distance": (0.80, "t", ("projected", "pca"), (5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5)),
    "kmeans": (0.72, "clusters", ("raw",), (2, 4, 6, 8, 10, 12, 16, 20)),
    "quantization": (0.45, "beta", ("projected",), (2, 4, 6, 8, 10, 12, 16, 20)),
    "sketch": (0.93, "share", ("raw",), (0.5, 0.3, 0.2, 0.15, 0.1, 0.05, 0.03, 0.01)),
    "routing": (0.70, "clusters", ("raw",), (2, 4, 6, 8, 10, 12, 16, 20)),
    "reformer": (0.40, "buckets", ("raw",), (2, 4, 6, 8, 10, 12, 16, 20)),
    "longformer": (0.36, "globals", ("none",), (20, 16, 12, 10, 8, 6, 4, 2)),
    "bigbird": (0.33, "random_blocks", ("none",), (20, 16, 12, 10, 8, 6, 4, 2)),
    "window": (0.42, "size", ("none",), (27, 23, 19, 15, 11, 9, 7, 5)),
}
# How sparse gold graphs are, in traces and where scores are measured.
GOLD, SCORE_GOLD = 0.92, 0.87
SEQUENCES_OF_A_RUN = 64
SENTENCE = (
    "the cat sat on a mat while two dogs were running home ; she read old books about quiet rivers and he would "
    "often write long letters to friends in other towns"
)
WORDS = SENTENCE.split()


@dataclass(frozen=True)
class Sizes:
    """How large a made-up run is."""

    layers: int = 2
    heads: int = 4
    settings: int = 8
    windows: tuple[int, ...] = (0, 5, 11)
    examples: int = 3
    tokens: int = 24
    finders: bool = True


def make_run(
    path: Path,
    sizes: Sizes = Sizes(),
    *,
    metric: str = "perplexity",
    full: float | None = None,
    timing: bool = True,
    tokens: list[list[str]] | None = None,
    pos: str | None = None,
    seed: int = 0,
) -> RunFolder:
    """Write a finished run without a report.

    full: the score of the full model; a likely one if not given.
    tokens: the tokens of the examples, instead of made-up words.
    """
    folder, random = RunFolder(path), np.random.default_rng(seed)
    (folder / "teacher").mkdir(parents=True)
    recipe = recipe_of(pos, metric)
    (folder / "recipe.yaml").write_text(dump_recipe(recipe), encoding="utf-8")
    if full is None:
        full = 11.37 if metric == "perplexity" else 34.47
    score = {
        "metric": metric, "value": full, "better": "lower" if metric == "perplexity" else "higher", "alpha": 1.5,
        "sequences": 64, "signature": None, "details": {"far perplexity": 19.8} if metric == "perplexity" else {},
    }  # fmt: skip
    (folder / "teacher/score.json").write_text(json.dumps(score))
    recall = recall_points(sizes, random)
    write_points(folder / "points/recall/part-0.parquet", recall, RECALL)
    write_points(folder / "points/sequences/part-0.parquet", sequence_points(recall, random), SEQUENCES)
    accuracy = accuracy_points(sizes, metric, full, random)
    write_points(folder / "points/accuracy/part-0.parquet", accuracy, ACCURACY)
    if timing:
        write_points(folder / "points/timing/part-0.parquet", timing_points(metric, full, random), TIMING)
    _training(folder)
    if sizes.examples:
        _traces(folder, sizes, tokens or sentences(sizes, random), seed)
    for number, stage in enumerate(("train", "trace", "fit", "sweep")):
        stamp = {
            "key": f"{number:016x}", "seconds": 41.5 * (number + 1), "versions": versions(),
            "finished": f"2026-01-0{number + 1}T12:00:00+00:00", "machine": "A processor, 2 cores",
            "peak_memory": 10**9 * (number + 1),
        }  # fmt: skip
        (folder / "stages").mkdir(exist_ok=True)
        (folder / f"stages/{stage}.json").write_text(json.dumps(stamp))
    return folder


def recipe_of(pos: str | None = None, metric: str = "perplexity") -> Recipe:
    """The recipe of a made-up run."""
    data = {"train": "train.txt", "valid": "valid.txt"}
    model = {"architecture": "BertForMaskedLM", "hidden_size": 128}
    task = {"kind": "masked-lm", "data": data, "model": model}
    if metric == "BLEU":
        task = {"kind": "translation", "data": {**data, "test": "test.tsv"}, "model": {"d_model": 128}}
    return Recipe.model_validate(
        {
            "name": "made-up",
            "description": "Points made up by a formula, to see what a report looks like.",
            "task": task,
            "report": {"pos": pos, "sentences": 3},
        }
    )


def recall_points(sizes: Sizes, random: np.random.Generator) -> dict[str, list[object]]:
    """Every setting in every head: quality sets how slowly recall falls as sparsity rises."""
    rows: dict[str, list[object]] = {}
    ease = random.normal(0, 0.5, (sizes.layers, sizes.heads))
    gold = GOLD + 0.05 * np.tanh(random.normal(0, 1, (sizes.layers, sizes.heads)))
    place = np.indices((sizes.layers, sizes.heads)).reshape(2, -1)
    heads = place.shape[1]
    for method, inputs, setting, window, quality, share in grid(sizes):
        shift = 0.25 * ease + random.normal(0, 0.02, ease.shape)
        sparsity = np.clip(1 - (1 - share) * np.exp(0.15 * shift) - window / 250, 0.02, 0.995)
        recall = np.clip(1 - sparsity ** np.maximum(12 * (quality + 0.3 * ease) + 1, 1) + window / 900, 0.02, 1)
        visible = 90_000
        columns = {
            "method": [method] * heads, "inputs": [inputs] * heads, "setting": [setting] * heads,
            "window": [window] * heads, "globals": [1] * heads, "kind": ["encoder"] * heads,
            "layer": place[0].tolist(), "head": place[1].tolist(), "sequences": [64] * heads,
            "sparsity": sparsity.ravel().tolist(), "recall": recall.ravel().tolist(),
            "precision": [0.2] * heads, "full_recall": (recall.ravel() ** 6).tolist(), "empty_rows": [0.0] * heads,
            "gold_sparsity": gold.ravel().tolist(), "visible": [visible] * heads,
            "cost": [0.0 if method == "window" else 0.1] * heads,
            "bytes": [0.0 if method == "window" else 0.05] * heads,
            "predicted": (visible * (1 - sparsity)).astype(int).ravel().tolist(),
            "gold": (visible * (1 - gold)).astype(int).ravel().tolist(),
            "hits": (visible * (1 - gold) * recall).astype(int).ravel().tolist(), "seed": [0] * heads,
            "queries": [6400] * heads, "complete": (6400 * recall.ravel() ** 6).astype(int).tolist(),
            "empty": [0] * heads,
        }  # fmt: skip
        for name, values in columns.items():
            rows.setdefault(name, []).extend(values)
    return rows


def sequence_points(recall: dict[str, list[Any]], random: np.random.Generator) -> dict[str, list[Any]]:
    """The same by sequence: the mean over heads, and noise that all settings share and that adds up to nothing."""
    names = ("method", "inputs", "setting", "window", "globals", "kind", "layer")
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, one in enumerate(zip(*(recall[name] for name in names), strict=True)):
        groups.setdefault(one, []).append(place)
    noise = noise_of(random)
    return {
        **{name: [one[place] for one in groups] for place, name in enumerate(names)},
        "heads": [len(places) for places in groups.values()],
        **{
            f"sequence_{name}": [np.mean([recall[name][one] for one in some]) + noise for some in groups.values()]
            for name in ("sparsity", "recall")
        },
    }


def noise_of(random: np.random.Generator) -> np.ndarray[Any, Any]:
    noise = random.normal(0, 0.02, SEQUENCES_OF_A_RUN)
    return noise - noise.mean()


def grid(sizes: Sizes) -> list[tuple[str, str, str, int, float, float]]:
    """Method, inputs, setting, window, quality and the sparsity that it is about."""
    found = []
    for method, (quality, name, inputs, values) in METHODS.items():
        for which, kind in enumerate(inputs):
            for number in range(sizes.settings):
                value = values[number] if sizes.settings <= len(values) else number + 1
                own = {} if method == "window" else {name: value}
                share = 0.35 + 0.62 * ((number + 0.5) / sizes.settings) ** 0.6
                for window in (int(value),) if method == "window" else sizes.windows:
                    setting = json.dumps(own, sort_keys=True)
                    found.append((method, kind, setting, window, quality - 0.08 * which, share))
    return found


def accuracy_points(sizes: Sizes, metric: str, full: float, random: np.random.Generator) -> dict[str, list[object]]:
    """The model's score falls away where recall does."""
    rows: list[dict[str, object]] = []
    noise = noise_of(random)
    for method, inputs, setting, window, quality, share in [
        ("full", "none", "{}", 0, 1.0, 0.0),
        *(one for one in grid(sizes) if one[3] in sizes.windows[-2:] or one[0] == "window"),
    ]:
        sparsity = float(np.clip(share - window / 250, 0, 0.995))
        lost = sparsity ** (12 * quality + 1) * (1 + random.normal(0, 0.03)) if method != "full" else 0.0
        value = full * (1 + 1.6 * lost**1.5) if metric == "perplexity" else full * (1 - 0.8 * lost**1.5)
        own = {"sparsity": sparsity, "empty_rows": 0.0, "own_recall": 1 - lost, "own_precision": 0.2}
        own |= {"own_full_recall": (1 - lost) ** 6, "own_gold_sparsity": SCORE_GOLD}
        rows.append({
            "method": method, "inputs": inputs, "setting": setting, "window": window, "globals": 1, "seed": 0,
            "kinds": "encoder", "metric": metric, "score": value, "details": "{}", **own,
            **{f"pooled_{name}": each for name, each in own.items()},
            "decoding_sparsity": min(1.0, sparsity + 0.02) if metric == "BLEU" else None,
            "sequence_sparsity": sparsity + noise, "sequence_recall": 1 - lost + noise,
            "sequence_gold_sparsity": SCORE_GOLD + noise, "sequence_parts": parts_of(metric, value, noise),
            "sequences": SEQUENCES_OF_A_RUN, "seconds": 3.0,
        })  # fmt: skip
    return {name: [row[name] for row in rows] for name in rows[0]}


def parts_of(metric: str, value: float, noise: np.ndarray[Any, Any]) -> list[list[float]]:
    """What each sequence adds to a score."""
    if metric == "perplexity":
        return [[100 * (np.log(value) + one), 100] for one in noise]
    # As many n-grams of each order are right: BLEU is then their share.
    right = [round(1000 * (value / 100) * (1 + one)) for one in noise]
    return [[1000, 1000, *[one] * 4, *[1000] * 4] for one in right]


def timing_points(metric: str, full: float, random: np.random.Generator) -> dict[str, list[object]]:
    """Block variants: time grows with the blocks, quality comes near the full model's, BigBird's hardly."""
    rows = []
    best = {"block-topk": (0.25, 30.0), "block-centroids": (0.35, 24.0), "bigbird": (1.1, 20.0)}
    for method, (lost, base) in best.items():
        for size in (4, 8, 16):
            for clusters in (0,) if method != "block-centroids" else (4, 8):
                for blocks in (2, 3, 4, 8, 16, 22):
                    seconds = base * (1 + blocks * size / 500) * (1 + random.normal(0, 0.01))
                    miss = lost * (2 / blocks) ** (0.15 if method == "bigbird" else 0.7)
                    rows.append((method, size, blocks, clusters, seconds, 1 + miss, 0.8))
    rows += [("full", 0, 0, 0, 61.0, 1.0, 0.0), ("softmax", 0, 0, 0, 48.0, 1.04, 0.0)]
    names = ("method", "block", "blocks", "clusters", "seconds", "score", "sparsity")
    columns: dict[str, list[object]] = {
        name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    worse = [float(one) for one in columns["score"]]
    columns["score"] = [full / one if metric == "BLEU" else full * one for one in worse]
    seconds = [float(one) for one in columns["seconds"]]
    constant = {"setting": "{}", "window": 3, "metric": metric, "sequences": 500, "batch": 8, "threads": 1}
    return columns | {
        "seconds_low": [0.97 * one for one in seconds], "seconds_high": [1.04 * one for one in seconds],
        "attention_seconds": [0.4 * one for one in seconds],
        **{name: [value] * len(seconds) for name, value in constant.items()},
    }  # fmt: skip


def _training(folder: RunFolder) -> None:
    """A complete checkpoint with the log of a training: loss every 50 steps, validation every 100."""
    log: list[dict[str, float]] = []
    for step in range(50, 201, 50):
        log.append({"step": step, "loss": 6.0 - step / 50})
        if step % 100 == 0:
            log.append({"step": step, "eval_loss": 6.5 - step / 50})
    checkpoint = folder / "training/checkpoint-200"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text(json.dumps({"log_history": log}))
    size = (checkpoint / "trainer_state.json").stat().st_size
    (checkpoint / "complete.json").write_text(json.dumps({"trainer_state.json": size}))


def sentences(sizes: Sizes, random: np.random.Generator) -> list[list[str]]:
    """Words as a byte-level tokenizer spells them, one of them in two pieces."""
    found = []
    for number in range(sizes.examples):
        words = [WORDS[one] for one in random.integers(len(WORDS), size=max(4, sizes.tokens - 3 * number))]
        found.append([words[0], *("Ġ" + word if len(word) < 7 else word for word in words[1:])])
    return found


def _traces(folder: RunFolder, sizes: Sizes, tokens: list[list[str]], seed: int) -> None:
    """Tokens of a group attend to each other and to their neighbours, in dimensions that differ from head to head."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(map(len, tokens))
    for part, lengths in (("train", [longest] * 6), ("valid", [len(one) for one in tokens])):
        with TraceWriter(folder / f"traces/{part}") as writer:
            for layer in range(sizes.layers):
                for length in lengths:
                    q, k = (_vectors(sizes.heads, length, layer, generator) for _ in range(2))
                    writer.add("encoder", layer, q, k, Layout(), 1.0, 1.5)
    lines = [
        {"sequence": number, "kind": "encoder", "queries": one, "keys": one, "text": "".join(one).replace("Ġ", " ")}
        for number, one in enumerate(tokens)
    ]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (folder / "traces/examples.jsonl").write_text(text + "\n", encoding="utf-8")
    if sizes.finders:
        train = Traces.open(folder / "traces/train")
        # Under the names that the fit stage gives them.
        for name, method, settings in (
            ("kmeans-raw-clusters=6", "kmeans", {"clusters": 6}),
            ("sketch-raw", "sketch", {"r": 4, "share": 0.2}),
        ):
            fitted = Sparsefinder.fit(train, method, progress=False, **settings)
            fitted.save_pretrained(folder / "finders" / name)


def _vectors(heads: int, length: int, layer: int, generator: torch.Generator) -> torch.Tensor:
    place = torch.arange(length)
    found = 0.3 * torch.randn(1, heads, length, 16, generator=generator)
    for head in range(heads):
        # The same groups for queries and keys: they follow from the place alone.
        angle = ((place * (2 * head + 3) + layer) % 7) * (2 * torch.pi / 7) + 0.2 * place / length
        near = place / max(length, 1) * torch.pi * (1 + head % 3)
        found[0, head, :, 0] += 2.2 * angle.cos()
        found[0, head, :, 1] += 2.2 * angle.sin()
        found[0, head, :, 2] += 1.5 * near.cos()
        found[0, head, :, 3] += 1.5 * near.sin()
    return found
