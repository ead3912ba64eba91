# %% [markdown]
# # Compare methods on my model
#
# A recipe says which teacher, which text and which methods; a run does the rest, and ends with a page. Here both are
# tiny, so that this page takes seconds; `recipes/demo-mlm.yaml` is a run to start from, and [Recipes](../recipes.md)
# has every key.
#
# In a terminal the same is `sparsefinder check RECIPE`, then `sparsefinder run RECIPE`.

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from sparsefinder.lab.recipe import load_recipe
from sparsefinder.lab.run import run
from sparsefinder.lab.sweep import summary
from sparsefinder.lab.sweep.measured import measured_recall

os.chdir(tempfile.mkdtemp())  # what is written below goes there
WORDS = "the cat and a dog saw one big red house near two small green trees by old blue water".split()
for name, lines in (("train", 120), ("valid", 24)):
    said = [" ".join(WORDS[(line * 7 + place * place) % 18] for place in range(9)) for line in range(lines)]
    Path(f"{name}.txt").write_text("".join(f"{one}.\n" for one in said))
Path("mine.yaml").write_text("""
name: mine
task:
  kind: masked-lm
  data: {train: train.txt, valid: valid.txt}
  model: {architecture: BertForMaskedLM, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2,
    intermediate_size: 32, initializer_range: 0.5}
  vocabulary: 300
  length: 32
  training: {steps: 20, batch: 8, every: 20}
trace: {train: 24, valid: 8}
fit: {restarts: 1}
sweep:
  methods:
    - window
    - {method: distance, recall: [0.5, 0.8, 0.9, 0.95, 0.99]}
    - {method: kmeans, clusters: 4, recall: [0.5, 0.8, 0.9, 0.95, 0.99]}
    - {method: sketch, r: 4, recall: [0.5, 0.8, 0.9, 0.95, 0.99]}
  windows: [0, 3, 11]
  processes: 1
accuracy: {methods: [window, {method: sketch, r: 4, recall: 0.95}], windows: [3]}
""")
folder = run(load_recipe("mine.yaml"), "runs", "sweep", say=lambda line: None)

# %% [markdown]
# `sparsefinder points runs/mine` prints a table of the methods; the numbers behind it are a list of rows.

# %%
print("method        pairs skipped at 95 % recall")
for row in summary(folder):
    if row["points"]:
        reached = row["sparsity_at_95"]
        print(f"{row['method']:14}{'never' if reached is None else f'{reached:.1%}'}")

# %% [markdown]
# Every setting is a point of sparsity and recall. The best of a method are its frontier; the dashed line is how sparse
# the teacher's own attention is. The report's page has this chart with the score of the model beside it, for every head
# and layer.

# %%
measured = measured_recall(folder)
assert measured is not None
figure, axes = plt.subplots(figsize=(5, 3.4))
for (method, _), places in measured.methods.items():
    best = sorted((place for place in places if measured.best[place]), key=lambda place: measured.sparsity[place])
    axes.plot(measured.sparsity[best], measured.value[best], "o-", label=method)
axes.axvline(measured.gold, linestyle="--", color="gray")
axes.set_xlabel("sparsity: the share of pairs that are not computed")
axes.set_ylabel("recall of the pairs that matter")
axes.legend()
figure.tight_layout()
