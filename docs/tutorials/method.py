# %% [markdown]
# # Add a method
#
# A method is a small frozen dataclass that says which pairs it predicts, as a union of bands, blocks, buckets, rows,
# columns or pairs. Registered, it is fitted, swept, timed and drawn like the others. This one gives each query its
# neighbours and the last token of every sentence, which it knows by position.

# %%
from dataclasses import dataclass

import matplotlib.pyplot as plt
import torch

from sparsefinder import Finder, Graph, Layout, Window, finder, gold_graph, register
from sparsefinder.core.layout import Grid
from sparsefinder.finders import About
from sparsefinder.finders.base import Keys, Queries
from sparsefinder.testing import check_finder


@register
@dataclass(frozen=True)
class Sentences(Finder):
    """Connect each query to the `size` positions around it, and to every `every`-th token."""

    size: int
    every: int = 16

    about = About("sentences", "ends of sentences", "ours", grid={"size": (1, 5, 11, 25), "every": (8, 16)})

    def find(self, q: Queries, k: Keys, grid: Grid) -> Graph:
        near = Graph.band(-(self.size // 2), self.size // 2, grid)
        ends = torch.zeros(1, 1, grid.m, dtype=torch.bool, device=q.device)
        ends[..., self.every - 1 :: self.every] = True
        return near | Graph.columns(ends, grid)


# %% [markdown]
# `check_finder` holds it against the laws of all methods: padding and other sequences of a batch change nothing,
# nothing leaks from the future, the graph is the same on every call, and so on.

# %%
check_finder(Sentences(5, 8), heads=2, d=8)
print("the laws hold")

# %% [markdown]
# What it finds, beside what entmax attention really uses on queries and keys that are made up:

# %%
torch.manual_seed(0)
q, k = (2.0 * torch.randn(1, 1, 48, 8) for _ in range(2))
q[:, :, :, 0], k[:, :, 15::16, 0] = 3.0, 6.0
gold = gold_graph(q, k, layout=Layout())
figure, both = plt.subplots(1, 2, figsize=(6, 3.2))
for axes, graph, name in ((both[0], gold, "gold"), (both[1], finder("sentences", size=5)(q, k), "predicted")):
    axes.imshow(graph.dense()[0, 0].numpy(), cmap="Greys")
    axes.set_title(name)
figure.tight_layout()

# %% [markdown]
# How well, and whether a plain window does better at the same sparsity:

# %%
for one in (finder("sentences", size=5), Window(5), Window(11)):
    graph = one(q, k)
    print(f"{one!s:32} recall {graph.recall(gold).item():.2f}, sparsity {graph.sparsity().item():.2f}")

# %% [markdown]
# In a package of your own, name the class in the entry-point group `sparsefinder.finders`: recipes, `sparsefinder
# methods` and the page then have it. If one setting orders its graphs by inclusion, it is a `Dial`, and `recall=0.95`
# works; if it learns from data, it is a `Learned` with a `fit`. [Finders, in Python](../reference/finders.md) has the
# protocol, and CONTRIBUTING the steps for a method that comes with Sparsefinder.
