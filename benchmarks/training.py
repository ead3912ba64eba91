"""Tokens a second in training: a language model with entmax attention beside the same one with softmax.

    python benchmarks/training.py                            6 layers of 384, 12 heads, 8 blocks of 512 tokens
    python benchmarks/training.py --checkpoint runs/x/teacher   a trained model instead of made-up weights
    python benchmarks/training.py --layers 2 --turns 3       less of it
    python benchmarks/training.py --causal --layers 4 --width 256 --heads 4 --length 2048 --batch 1   a causal one

One step is a forward and a backward pass and a step of AdamW. The two models take turns, so that a slow moment of the
machine hits both; given are medians, and between which ratios the middle half of the turns lay. Softmax is torch's own
`scaled_dot_product_attention`, which is what transformers uses.

How fast entmax is depends on how sparse it is. Fresh weights give nearly equal scores, so that many keys get weight and
little is saved: that is the first moment of a training from scratch. Sharper ones are like what it becomes: queries are
scaled so that scores have a standard deviation of about 1. The table says how sparse each was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

sys.path[0] = str(Path(__file__).resolve().parents[1])

from sparsefinder import GraphMetrics, record, use_entmax
from sparsefinder.hf.interface import register
from sparsefinder.lab.bench.clock import interleaved, ratio

WORDS = 8000
MASKED = 0.15
# What queries are multiplied by: fresh weights, and weights as spread as trained ones.
SHARPNESS = {"fresh weights": 1.0, "sharper weights": 7.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, help="folder of a masked language model with entmax attention")
    parser.add_argument("--causal", action="store_true", help="of the Llama architecture, and nothing is hidden")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--alpha", type=float, default=1.5)
    given = parser.parse_args()
    cases: dict[str, Callable[[], PreTrainedModel]] = {
        name: lambda sharpness=sharpness: fresh(given, sharpness)  # type: ignore[misc]
        for name, sharpness in SHARPNESS.items()
    }
    if given.checkpoint:
        cases = {str(given.checkpoint.name): lambda: trained(given.checkpoint)}
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, float32\n")
    print("| weights | sparsity | softmax, tokens a second | entmax | entmax to softmax (middle half) |")
    print("|---|---|---|---|---|")
    rows = [measure(name, make, given) for name, make in cases.items()]
    print(f"\n{json.dumps(rows)}")


def measure(name: str, make: Callable[[], PreTrainedModel], given: argparse.Namespace) -> dict[str, object]:
    """Both models take turns, from the same weights."""
    softmax, entmax = make(), use_entmax(make(), given.alpha)
    sparsity = sparsity_of(entmax, given)
    times = interleaved(step_of(softmax, given), step_of(entmax, given), repeats=given.turns)
    rates = [given.batch * given.length / median(one) for one in times]
    print(f"| {name} | {sparsity:.1%} | {rates[0]:.0f} | {rates[1]:.0f} | {ratio(*times)} |", flush=True)
    return {
        "weights": name, "sparsity": sparsity, "softmax_tokens": rates[0], "entmax_tokens": rates[1],
        "softmax_seconds": times[0], "entmax_seconds": times[1],
    }  # fmt: skip


def fresh(given: argparse.Namespace, sharpness: float) -> PreTrainedModel:
    torch.manual_seed(0)
    return causal(given, sharpness) if given.causal else masked(given, sharpness)


def causal(given: argparse.Namespace, sharpness: float) -> PreTrainedModel:
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=given.width, num_hidden_layers=given.layers, num_attention_heads=given.heads,
        intermediate_size=int(2.75 * given.width), max_position_embeddings=given.length, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM._from_config(config, attn_implementation="sdpa")
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.mul_(sharpness)
    return model.train()


def masked(given: argparse.Namespace, sharpness: float) -> PreTrainedModel:
    config = BertConfig(
        vocab_size=WORDS, hidden_size=given.width, num_hidden_layers=given.layers, num_attention_heads=given.heads,
        intermediate_size=4 * given.width, max_position_embeddings=given.length,
        # Torch's attention has no fast path with dropout on the CPU.
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForMaskedLM._from_config(config, attn_implementation="sdpa")
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            layer.attention.self.query.weight.mul_(sharpness)
    return model.train()


def trained(checkpoint: Path) -> PreTrainedModel:
    """The weights of an entmax model under softmax: what it computes is nonsense then, but as much work."""
    register()
    config = AutoConfig.from_pretrained(checkpoint)
    config.attention_probs_dropout_prob = 0.0
    model = AutoModelForMaskedLM.from_pretrained(checkpoint, config=config, dtype=torch.float32)
    model.set_attn_implementation("sdpa")
    return model.train()


@torch.no_grad()
def sparsity_of(model: PreTrainedModel, given: argparse.Namespace) -> float:
    """Pairs without weight, of one block."""
    metrics = GraphMetrics()
    with record(model) as records:
        model(words_of(model, 1, given.length, torch.Generator().manual_seed(1)))
    for one in records:
        metrics.update(one.gold, one.gold, layer=one.layer)
    return metrics.compute().gold_sparsity


def words_of(model: PreTrainedModel, batch: int, length: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(5, model.config.vocab_size, (batch, length), generator=generator)


def step_of(model: PreTrainedModel, given: argparse.Namespace) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> None:
        words = words_of(model, given.batch, given.length, generator)
        hidden = torch.rand(words.shape, generator=generator) < MASKED
        seen, answers = words.masked_fill(hidden, 4), words.masked_fill(~hidden, -100)
        loss = model(words, labels=words).loss if given.causal else model(seen, labels=answers).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
