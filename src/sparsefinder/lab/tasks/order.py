"""Which examples a training sees together, and when: by the seed and the epoch alone, so that it can be resumed.

`Order` has all examples in every epoch. `Curriculum` has stretches, one after the other, each of examples of its own:
short blocks of a text before longer ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.utils.data import Sampler

__all__ = ["Curriculum", "Order", "Stretch", "steps_of_shares"]

# Sentences of so many batches are sorted by length together: enough for little padding, few enough to stay shuffled.
POOL = 50


class Order(Sampler[list[int]]):
    """Batches of examples that are about as long, in a new order for each epoch, by seed and epoch alone.

    batch: examples in each.
    tokens: instead, at most so many tokens in each, padding counted. Their number has to be the same in every epoch,
    so these batches are put together once, and each epoch has them in another order, with their examples in another.
    share: which process this is, and of how many. Each gets as many batches; a few may be left out in an epoch.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch: int,
        seed: int,
        tokens: int | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self.lengths, self.batch, self.seed, self.epoch, self.share = lengths, batch, seed, 0, share
        drawn = torch.Generator().manual_seed(seed)
        self.fixed = None if tokens is None else self._by_tokens(tokens, drawn)
        every = -(-len(lengths) // batch) if self.fixed is None else len(self.fixed)
        self.count = every // share[1]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        batches = self._by_size(generator) if self.fixed is None else self._shuffled(self.fixed, generator)
        process, processes = self.share
        return iter(batches[process::processes][: self.count])

    def _by_size(self, generator: torch.Generator) -> list[list[int]]:
        order = torch.randperm(len(self.lengths), generator=generator).tolist()
        pool = POOL * self.batch
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            # Sorting is stable: where all are as long, the order stays a random one.
            together = sorted(order[start : start + pool], key=lambda place: self.lengths[place])
            batches += [together[first : first + self.batch] for first in range(0, len(together), self.batch)]
        # A last batch that is not full stays last: it is left out first, if any are.
        whole = len(order) // self.batch
        shuffled = torch.randperm(whole, generator=generator).tolist() + list(range(whole, len(batches)))
        return [batches[number] for number in shuffled]

    def _by_tokens(self, tokens: int, generator: torch.Generator) -> list[list[int]]:
        order = torch.randperm(len(self.lengths), generator=generator).tolist()
        batches: list[list[int]] = []
        for place in sorted(order, key=lambda place: self.lengths[place]):
            # The longest is the last one: it is what all others are padded to.
            if batches and (len(batches[-1]) + 1) * self.lengths[place] <= tokens:
                batches[-1].append(place)
            else:
                batches.append([place])
        return batches

    def _shuffled(self, batches: Sequence[list[int]], generator: torch.Generator) -> list[list[int]]:
        # Collators draw by a batch's content: with its examples in another order, what is dropped differs as well.
        return [
            [batches[number][place] for place in torch.randperm(len(batches[number]), generator=generator).tolist()]
            for number in torch.randperm(len(batches), generator=generator).tolist()
        ]


@dataclass(frozen=True)
class Stretch:
    """A part of a training: so many steps on `count` examples from number `first` on, `batch` of them at a time."""

    first: int
    count: int
    batch: int
    steps: int


class Curriculum(Sampler[list[int]]):
    """Batches of one stretch after the other. All steps are one epoch, so that a resumed training knows where it was.

    accumulate: batches that make a step. share: as in `Order`.
    """

    def __init__(
        self, stretches: Sequence[Stretch], seed: int, accumulate: int = 1, share: tuple[int, int] = (0, 1)
    ) -> None:
        self.stretches, self.seed, self.accumulate, self.share = stretches, seed, accumulate, share
        self.epoch = 0

    def __len__(self) -> int:
        return self.accumulate * sum(one.steps for one in self.stretches)

    def __iter__(self) -> Iterator[list[int]]:
        process, processes = self.share
        for number, one in enumerate(self.stretches):
            batches = self._batches(number, one)
            for _ in range(one.steps * self.accumulate):
                yield [next(batches) for _ in range(processes)][process]

    def _batches(self, number: int, one: Stretch) -> Iterator[list[int]]:
        """Without end: all examples of a stretch in a new order, time and again."""
        waiting: list[int] = []
        turn = 0
        while True:
            while len(waiting) < one.batch:
                generator = torch.Generator().manual_seed((self.seed * 1_000_003 + number) * 1_000_003 + turn)
                waiting += (one.first + torch.randperm(one.count, generator=generator)).tolist()
                turn += 1
            yield waiting[: one.batch]
            waiting = waiting[one.batch :]


def steps_of_shares(steps: int, shares: Sequence[float]) -> list[int]:
    """Steps by their shares: whole numbers that add up to all of them."""
    ends = [round(steps * sum(shares[: place + 1]) / sum(shares)) for place in range(len(shares))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
