"""What attention over graphs should take on a GPU, from counting: multiplications, bytes, and the rates of two GPUs.

    python benchmarks/roofline.py        a table in Markdown, as in docs/gpu.md

An estimate, not a measurement. A kernel takes the longest of three times: products on tensor cores, steps on each score
in float32, and tiles of keys and values from memory. Softmax attention is counted in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

# Forward: look passes twice over all tiles of the graph; attend passes over those in which a score is above the bound,
# a few times to find τ and once for the output. Backward: queries twice, keys once, over the latter.
LOOKS, STEPS = 2, 4
# Products of a pair in each pass, 2 d operations each, and steps on a score, counted in the kernels.
LOOK_PRODUCTS, STEP_PRODUCTS, OUTPUT_PRODUCTS, BACKWARD_PRODUCTS = 1, 1, 2, 9
PASS_STEPS, BACKWARD_STEPS, SOFTMAX_STEPS, SOFTMAX_BACKWARD_STEPS = 14, 60, 8, 16
SOFTMAX_PRODUCTS, SOFTMAX_BACKWARD_PRODUCTS = 2, 5
TILE, WIDE = 64, 128  # queries of a tile: ours, and those of torch's kernel
# The share of the tensor cores' rate that attention kernels are known to reach, on either side.
REACHED = 0.5
D, HEADS, BYTES = 64, 16, 2


@dataclass(frozen=True)
class Card:
    """Rates: products of bfloat16 and steps of float32 a second, bytes a second."""

    name: str
    products: float
    steps: float
    bytes: float


CARDS = (Card("A100", 312e12, 19.5e12, 2.0e12), Card("H100", 989e12, 67e12, 3.35e12))


@dataclass(frozen=True)
class Work:
    """Of all heads: operations in products, steps on scores, bytes of tiles."""

    products: float
    steps: float
    bytes: float

    def seconds(self, card: Card) -> float:
        return max(self.products / card.products / REACHED, self.steps / card.steps / REACHED, self.bytes / card.bytes)

    def __add__(self, other: Work) -> Work:
        return Work(self.products + other.products, self.steps + other.steps, self.bytes + other.bytes)


def passes(pairs: float, products: float, steps: float, vectors: int, rows: int) -> Work:
    """A pass over tiles of so many pairs: products and steps of each, and `vectors` read for each key of a tile."""
    return Work(2 * D * products * pairs, steps * pairs, vectors * D * BYTES * pairs / rows)


def ours(pairs: float, live: float, backward: bool) -> Work:
    """Over a graph whose tiles have `pairs` pairs, a share `live` of which has a weight."""
    work = passes(LOOKS * pairs, LOOK_PRODUCTS, PASS_STEPS, 1, TILE)
    work += passes(STEPS * live * pairs, STEP_PRODUCTS, PASS_STEPS, 1, TILE)
    work += passes(live * pairs, OUTPUT_PRODUCTS, PASS_STEPS, 2, TILE)
    return work + passes(live * pairs, BACKWARD_PRODUCTS, BACKWARD_STEPS, 6, TILE) if backward else work


def softmax(pairs: float, backward: bool) -> Work:
    work = passes(pairs, SOFTMAX_PRODUCTS, SOFTMAX_STEPS, 2, WIDE)
    if not backward:
        return work
    return work + passes(pairs, SOFTMAX_BACKWARD_PRODUCTS, SOFTMAX_BACKWARD_STEPS, 4, WIDE)


def rows() -> list[str]:
    """The table: for each length, over all pairs, a window, and blocks; causal, 16 heads of 64."""
    lines = [
        "| n | graph | pass | TFLOP | GB | A100, ms | share of softmax | H100, ms | share of softmax |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for n in (8_192, 32_768, 131_072):
        whole = HEADS * n * n / 2
        # Tiles at the ends of a window are half empty; of each 64 queries, 32 blocks of 64 keys.
        graphs = {
            "all pairs": (whole, 0.2),
            "window of 1,025": (HEADS * n * (513 + TILE), 0.5),
            "32 blocks of 64": (min(whole, HEADS * n * 32.0 * TILE), 0.5),
        }
        for name, (pairs, live) in graphs.items():
            for backward in (False, True):
                work = ours(pairs, live, backward)
                cells = [f"{n:,}", name, "training" if backward else "forward"]
                cells += [f"{work.products / 1e12:.2f}", f"{work.bytes / 1e9:.1f}"]
                for card in CARDS:
                    seconds = work.seconds(card)
                    cells += [f"{1e3 * seconds:.2f}", f"{seconds / softmax(whole, backward).seconds(card):.2f}"]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(rows()))
