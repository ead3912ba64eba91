"""Full attention by AdaSplash: on a GPU where there is one, else what of it runs in Triton's interpreter."""

from typing import Any

import pytest
import torch
from torch import Tensor

from sparsefinder import InputError, Layout, Window, attention

from ..cases import inputs

# In the interpreter its kernels take logarithms of what they leave out afterwards.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# A GPU multiplies in half precision here, the interpreter in float32.
DTYPE, TOLERANCE = (torch.bfloat16, 5e-2) if DEVICE == "cuda" else (torch.float32, 2e-5)
LENGTHS = torch.tensor([9, 20])
LAYOUTS = {
    "plain": Layout(),
    "causal": Layout(causal=True),
    "padded": Layout(key_lengths=LENGTHS, query_lengths=LENGTHS),
}


def outcome(backend: str, tensors: list[Tensor], **more: Any) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    out = attention(*leaves, backend=backend, **more)
    upstream = torch.linspace(-1, 1, out.numel(), device=out.device).to(out.dtype).view_as(out)
    return [each.detach().double().cpu() for each in (out, *torch.autograd.grad(out, leaves, upstream))]


@pytest.mark.parametrize(("layout", "alpha", "n"), [("plain", 1.5, 32), ("causal", 1.5, 20), ("padded", 1.8, 20)])
def test_it_equals_the_oracle(layout: str, alpha: float, n: int) -> None:
    """Grouped heads, lengths that are no power of two, another scale, and sizes that it has no kernel for."""
    q, k, v = inputs(heads=2, kv_heads=1, n=n, m=n)
    more = {"layout": LAYOUTS[layout], "alpha": alpha, "scale": 0.3}
    there = [x.to(DEVICE, DTYPE) for x in (q, k, v)]
    got = outcome("adasplash", there, **more)
    wanted = outcome("reference", [x.double().cpu() for x in there], **more)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=TOLERANCE, atol=TOLERANCE)


def test_keys_alone_may_have_a_gradient() -> None:
    q, k, v = (x.to(DEVICE, DTYPE) for x in inputs(batch=1, heads=1, kv_heads=1, n=16, m=16))
    k.requires_grad_()
    (grad,) = torch.autograd.grad(attention(q, k, v, backend="adasplash").sum(), k)
    (wanted,) = torch.autograd.grad(attention(q, k, v, backend="reference").sum(), k)
    torch.testing.assert_close(grad, wanted, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"graph": "a window"}, "computes all pairs, and takes no graph"),
        ({"layout": Layout(causal=True, query_offset=3)}, "takes as many queries as keys, from the first one on"),
        ({"layout": Layout(key_lengths=LENGTHS[1:])}, "takes key_lengths and query_lengths that are the same"),
        ({"alpha": torch.tensor([1.5, 1.6])}, "takes one alpha for all heads"),
        ({"alpha": 2.5}, "takes no alpha above 2"),
        ({"dropout": 0.5}, "has no dropout"),
    ],
)
def test_what_it_refuses(change: dict[str, Any], words: str) -> None:
    x = torch.randn(1, 2, 20, 16, device=DEVICE)
    if "graph" in change:
        change = {"graph": Window(3)(x, x)}
    with pytest.raises(InputError, match=f"'adasplash', which {words}"):
        attention(x, x, x, backend="adasplash", **change)


def test_float32_is_refused_where_only_shorter_numbers_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, unless torch was told that TF32 is good enough."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr("sparsefinder.attending.adasplash.gpu_refusal", lambda call, *packages: None)
    x = torch.randn(1, 2, 16, 16, device=DEVICE)
    with pytest.raises(InputError, match="multiplies float32 in TF32"):
        attention(x, x, x, backend="adasplash")
