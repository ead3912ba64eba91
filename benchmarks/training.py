"""Tokens a second in training: a masked language model with entmax attention beside the same one with softmax.

    python benchmarks/training.py                       6 layers of 384, 12 heads, 8 blocks of 512 tokens
    python benchmarks/training.py --layers 2 --turns 3  less of it

One step is a forward and a backward pass and a step of AdamW. The two models take turns, so that a slow moment of the
machine hits both; given are medians, and between which ratios the middle half of the turns lay. Softmax is torch's own
`scaled_dot_product_attention`, which is what transformers uses.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from transformers import BertConfig, BertForMaskedLM, PreTrainedModel

sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.timing import interleaved, ratio
from sparsefinder import use_entmax

WORDS = 8000
MASKED = 0.15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--alpha", type=float, default=1.5)
    given = parser.parse_args()
    softmax = step_of(model_of(given, None), given)
    entmax = step_of(model_of(given, given.alpha), given)
    times = interleaved(softmax, entmax, repeats=given.turns)
    tokens = given.batch * given.length
    rates = [tokens / median(one) for one in times]
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, float32; {vars(given)}\n")
    print("| attention | seconds a step | tokens a second |")
    print("|---|---|---|")
    for name, one, rate in zip(("softmax (SDPA)", f"{given.alpha}-entmax"), times, rates, strict=True):
        print(f"| {name} | {median(one):.2f} ({min(one):.2f}–{max(one):.2f}) | {rate:.0f} |")
    print(f"\nentmax to softmax: {ratio(*times)}")
    print(json.dumps({"softmax_tokens": rates[0], "entmax_tokens": rates[1], "ratio": rates[1] / rates[0]}))


def model_of(given: argparse.Namespace, alpha: float | None) -> PreTrainedModel:
    """The same weights for both."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=given.width, num_hidden_layers=given.layers, num_attention_heads=given.heads,
        intermediate_size=4 * given.width, max_position_embeddings=given.length,
        # Torch's attention has no fast path with dropout on the CPU.
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForMaskedLM._from_config(config, attn_implementation="sdpa")
    return (model if alpha is None else use_entmax(model, alpha)).train()


def step_of(model: PreTrainedModel, given: argparse.Namespace) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        words = torch.randint(5, WORDS, (given.batch, given.length), generator=generator)
        hidden = torch.rand(words.shape, generator=generator) < MASKED
        loss = model(words.masked_fill(hidden, 4), labels=words.masked_fill(~hidden, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
