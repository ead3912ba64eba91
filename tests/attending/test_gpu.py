"""Where there is a GPU, at real sizes: correctness, memory and time. `pytest -m gpu` runs these, nothing else does."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from sparsefinder import Graph, Layout, Sample, attention
from sparsefinder.finders import BlockTopK, Distance, KMeans, Probe, Sketch, Window
from sparsefinder.lab.bench.clock import interleaved, ratio

pytestmark = pytest.mark.gpu
CAUSAL = Layout(causal=True)


def tokens(n: int, d: int = 64, dtype: torch.dtype = torch.bfloat16, heads: int = 4, kv_heads: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(1, count, n, d, generator=generator) for count in (heads, kv_heads, kv_heads)]
    return [(3 * x if place == 0 else x).to("cuda", dtype) for place, x in enumerate(made)]


def outcome(backend: str, given: list[Tensor], graph: Graph | None, **more: Any) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in given]
    out = attention(*leaves, graph, backend=backend, layout=CAUSAL, **more)
    upstream = torch.linspace(-1, 1, out.numel(), device=out.device).to(out.dtype).view_as(out)
    return [out, *torch.autograd.grad(out, leaves, upstream)]


def graphs(q: Tensor, k: Tensor) -> dict[str, Graph | None]:
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1).float()
    q = q.float()
    samples, clusters = [Sample(q, k)], torch.randn(q.shape[1], 16, q.shape[-1], device=q.device)
    return {
        "all pairs": None,
        "window": Window(257)(q, k, CAUSAL),
        "blocks": BlockTopK(64, 4)(q, k, CAUSAL),
        "k-means": KMeans(16, centroids=clusters)(q, k, CAUSAL),
        "probe": Probe(16, 2, centroids=clusters)(q, k, CAUSAL),
        "sketch": Sketch(16, slack=2.0).fit(samples).to("cuda")(q, k, CAUSAL),
        "distance": Distance(30.0)(q, k, CAUSAL),
    }


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-4), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)])
@pytest.mark.parametrize("d", [32, 64, 128, 256])
def test_triton_equals_the_reference(d: int, dtype: torch.dtype, tolerance: float) -> None:
    given = tokens(700, d, dtype)
    for name, graph in graphs(*given[:2]).items():
        wanted = outcome("reference", [x.double() for x in given], graph)
        for one, other in zip(outcome("triton", given, graph), wanted, strict=True):
            torch.testing.assert_close(
                one.double(), other, rtol=tolerance, atol=tolerance, msg=lambda why, n=name: n + why
            )


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
def test_adasplash_equals_the_reference(alpha: float) -> None:
    given = tokens(700)
    wanted = outcome("reference", [x.double() for x in given], None, alpha=alpha)
    for one, other in zip(outcome("adasplash", given, None, alpha=alpha), wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=5e-2, atol=5e-2)


def test_flex_equals_the_reference() -> None:
    given = tokens(700)
    for name, graph in graphs(*given[:2]).items():
        if graph is None:
            continue
        wanted = outcome("reference", [x.double() for x in given], graph, alpha=1.0)
        for one, other in zip(outcome("flex", given, graph, alpha=1.0), wanted, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=5e-2, atol=5e-2, msg=lambda why, n=name: n + why)


def test_attention_chooses_by_itself() -> None:
    given = tokens(256)
    for graph, backend in ((None, "adasplash"), (Window(65)(*given[:2], CAUSAL), "triton")):
        assert torch.equal(
            attention(*given, graph, layout=CAUSAL), attention(*given, graph, layout=CAUSAL, backend=backend)
        )


def test_no_matrix_of_pairs_is_held() -> None:
    """32,768 tokens of 4 heads: the scores alone would be 16 GiB in float32."""
    q, k, v = tokens(32_768)
    for graph in (None, Window(1025)(q, k, CAUSAL)):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        attention(*leaves, graph, layout=CAUSAL, backend="triton").sum().backward()
        assert torch.cuda.max_memory_allocated() - before < 1 << 30


def test_a_window_is_faster_than_all_pairs() -> None:
    """At 16,384 tokens a window of 1,025 has an eighth of the pairs: entmax over it beats softmax over all."""
    q, k, v = tokens(16_384, kv_heads=4)
    graph = Window(1025)(q, k, CAUSAL)

    def timed(run: Any) -> Any:
        return lambda: (run(), torch.cuda.synchronize())

    ours = timed(lambda: attention(q, k, v, graph, layout=CAUSAL, backend="triton"))
    softmax = timed(lambda: scaled_dot_product_attention(q, k, v, is_causal=True))
    times = interleaved(softmax, ours, repeats=10)
    assert ratio(*times).middle > 1
