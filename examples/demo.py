"""The whole idea in a minute: train a small entmax model, see how sparse it is, and run it on predicted graphs.

The text is Python's own reference manual, which comes with every Python; nothing is downloaded.

    python examples/demo.py --steps 300
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from pydoc_data.topics import topics

import torch
from torch import Tensor
from transformers import ModernBertConfig, ModernBertForMaskedLM, PreTrainedModel

from sparsefinder import Full, GlobalTokens, GraphMetrics, Window, predicting, record, use_entmax
from sparsefinder.finders import Finder

UNKNOWN, MASK, FIRST = 1, 2, 3
LENGTH, BATCH = 96, 16
FINDERS: dict[str, Finder] = {
    "everything": Full(),
    "window 51, first token": Window(51) | GlobalTokens(1),
    "window 25, first token": Window(25) | GlobalTokens(1),
    "window 11, first token": Window(11) | GlobalTokens(1),
    "window 5, first token": Window(5) | GlobalTokens(1),
    "window 1": Window(1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="training steps (300 take about a minute on two cores)")
    parser.add_argument("--alpha", type=float, default=1.5, help="entmax's alpha: 1 is softmax, 2 is sparsemax")
    given = parser.parse_args()
    train, held_out, words = sequences()
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = use_entmax(ModernBertForMaskedLM(small(words)), given.alpha)
    print(f"{len(train)} sequences of {LENGTH} words, {words} different ones; alpha = {given.alpha}")
    fit(model, train, given.steps, generator)
    report(model, *masked(held_out, torch.Generator().manual_seed(1)))


def small(words: int) -> ModernBertConfig:
    """Three layers, every one of which sees the whole sequence."""
    return ModernBertConfig(
        hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256, vocab_size=words,
        layer_types=["full_attention"] * 3, pad_token_id=0, cls_token_id=FIRST, sep_token_id=FIRST, bos_token_id=FIRST,
        eos_token_id=FIRST,
    )  # fmt: skip


def sequences() -> tuple[Tensor, Tensor, int]:
    """The manual as rows of word numbers, in training and held-out parts."""
    tokens = re.findall(r"\w+|[^\w\s]", " ".join(topics[name] for name in sorted(topics)).lower())
    common = [word for word, count in Counter(tokens).most_common(3000) if count > 3]
    numbers = {word: place for place, word in enumerate(common, FIRST + 1)}
    ids = torch.tensor([numbers.get(word, UNKNOWN) for word in tokens])
    body = ids[: len(ids) // (LENGTH - 1) * (LENGTH - 1)].view(-1, LENGTH - 1)
    rows = torch.cat([torch.full((len(body), 1), FIRST), body], 1)
    return rows[32:], rows[:32], len(common) + FIRST + 1


def masked(rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Hide 15 % of the words: what the model sees, and what it should say."""
    hidden = (torch.rand(rows.shape, generator=generator) < 0.15) & (rows != FIRST)
    return rows.masked_fill(hidden, MASK), rows.masked_fill(~hidden, -100)


def fit(model: PreTrainedModel, rows: Tensor, steps: int, generator: torch.Generator) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, max(steps, 2), pct_start=0.1)
    model.train()
    for step in range(1, steps + 1):
        seen, wanted = masked(rows[torch.randint(len(rows), (BATCH,), generator=generator)], generator)
        loss = model(seen, labels=wanted).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 10 == 0 or step == steps:
            bar = "█" * (30 * step // steps)
            print(
                f"\rtraining {bar:30} {step}/{steps}  perplexity {math.exp(loss.item()):7.1f}", end="", file=sys.stderr
            )
    print(file=sys.stderr)


@torch.no_grad()
def report(model: PreTrainedModel, seen: Tensor, wanted: Tensor) -> None:
    """One line a finder: what it predicts of the graphs the model really uses, and what the model makes of that."""
    model.eval()
    with record(model) as records:
        model(seen)
    print(f"\n{'finder':30}{'sparsity':>10}{'recall':>8}{'exact rows':>12}{'perplexity':>12}")
    for name, finder in FINDERS.items():
        metrics = GraphMetrics()
        for one in records:
            metrics.update(finder(one.q, one.k, one.layout), one.gold, layer=one.layer)
        with predicting(model, finder):
            perplexity = math.exp(model(seen, labels=wanted).loss.item())
        scores = metrics.compute()
        print(f"{name:30}{scores.sparsity:10.3f}{scores.recall:8.3f}{scores.full_recall:12.3f}{perplexity:12.2f}")
    print(f"{'the model itself (gold)':30}{scores.gold_sparsity:10.3f}{1:8.3f}{1:12.3f}")
    print("\nEvery gold pair found (recall 1) gives exactly the full model: that is entmax's sparse-consistency.")


if __name__ == "__main__":
    main()
