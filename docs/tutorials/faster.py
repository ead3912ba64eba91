# %% [markdown]
# # Run my model faster
#
# From a model to the same model on found pairs, in six steps. The model here is a small one made on the spot, so that
# this page runs anywhere; with a checkpoint of your own it is `model = load_model("path or hub name", alpha=1.5)`.

# %%
import os
import tempfile
import time

import matplotlib.pyplot as plt
import torch
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from sparsefinder import (
    Sparsefinder,
    finders_of,
    load_model,
    predicting,
    record_traces,
    save_model,
    use_entmax,
    use_finders,
)

disable_progress_bar()
os.chdir(tempfile.mkdtemp())  # what is written below goes there
torch.manual_seed(0)
config = BertConfig(
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    vocab_size=500,
    max_position_embeddings=2048,
    initializer_range=0.4,
)
model = use_entmax(BertForMaskedLM(config), alpha=1.5).eval()

# %% [markdown]
# **Record** what its attention does on some of your text: queries and keys go to a folder. The "text" is made up here,
# words that come again after a while.


# %%
def text(sequences: int, length: int) -> torch.Tensor:
    topics = torch.randint(5, 500, (sequences, 16))
    return topics.gather(1, torch.randint(16, (sequences, length)))


batches = [{"input_ids": text(2, 256)} for _ in range(8)]
traces = record_traces(model, batches, "my-traces")
print(len(traces.sites), "layers recorded")

# %% [markdown]
# **Fit** a finder to them. `recall=0.95` asks each head for 95 % of the pairs that it really uses, and gets the
# sparsest setting that reaches it on sequences that were held out.

# %%
fitted = Sparsefinder.fit(traces, "sketch", recall=0.95, progress=False)
print(fitted)

# %% [markdown]
# **Switch it on.** From here, the model computes only what is found. How far its outputs move says what that costs:
# much in this model, which has learned nothing, so that every pair has its say; a trained one loses a little
# perplexity, which a run measures.

# %%
words = text(1, 2048)
with torch.no_grad():
    full = model(words).logits
    use_finders(model, fitted)
    sparse = model(words).logits
print(f"outputs move by {(sparse - full).norm() / full.norm():.1%}")

# %% [markdown]
# **Time it**, at lengths of your own: finding costs something too, so that short sequences may gain nothing. On a run,
# `sparsefinder bench` does this for every method, with intervals.


# %%
def seconds(length: int, finders: Sparsefinder | None) -> float:
    use_finders(model, finders)
    tokens = text(1, length)
    taken = []
    with torch.no_grad():
        for _ in range(4):
            started = time.perf_counter()
            model(tokens)
            taken.append(time.perf_counter() - started)
    return min(taken[1:])


lengths = [256, 512, 1024, 2048]
times = {
    name: [1000 * seconds(length, one) for length in lengths] for name, one in (("full", None), ("sketch", fitted))
}
figure, axes = plt.subplots(figsize=(5, 3))
for name, values in times.items():
    axes.plot(lengths, values, "o-", label=name)
axes.set_xlabel("tokens")
axes.set_ylabel("milliseconds for a forward pass")
axes.legend()
figure.tight_layout()

# %% [markdown]
# **Keep it.** Finders are saved with the model, and at work again when it is loaded.

# %%
use_finders(model, fitted)
save_model(model, "my-fast-model")
print(finders_of(load_model("my-fast-model")))

# %% [markdown]
# **Generate.** A causal model keeps of each key a few bytes beside its cache. `bounded=True` learns what it takes to
# prove by these that a key gets no weight, and with `exact=True` a step skips those keys only: what comes out is what
# full attention would have said. That pays from thousands of cached tokens on; what it brings on your model is said by
# `sparsefinder bench my-model --text my.txt --decode`.

# %%
llama = LlamaConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, initializer_range=0.4)
causal = use_entmax(LlamaForCausalLM(llama), alpha=1.5).eval()
causal_traces = record_traces(causal, batches, "causal-traces")
proven = Sparsefinder.fit(causal_traces, "sketch", recall=0.98, bounded=True, progress=False)
prompt = text(1, 128)
plain = causal.generate(prompt, max_new_tokens=16, do_sample=False, pad_token_id=0)
with predicting(causal, proven, exact=True):
    fast = causal.generate(prompt, max_new_tokens=16, do_sample=False, pad_token_id=0)
print("the same tokens:", torch.equal(plain, fast))
