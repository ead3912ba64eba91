"""Entmax: against the `entmax` package, its limits, its gradients, and the laws of the mapping."""

import math

import entmax as oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sparsefinder import InputError, entmax
from sparsefinder.core.entmax import entmax_threshold

from ..cases import on_the_threshold

ALPHAS = [0.05, 0.2, 0.5, 0.75, 0.95, 1.05, 1.25, 1.5, 1.75, 2.0, 2.5, 4.0]


def oracle_weights(scores: Tensor, alpha: float) -> Tensor:
    if alpha == 1.5:
        return oracle.entmax15(scores, -1)
    return oracle.sparsemax(scores, -1) if alpha == 2 else oracle.entmax_bisect(scores, alpha, n_iter=100)


def masked(scores: Tensor) -> Tensor:
    hidden = torch.rand(scores.shape) < 0.4
    hidden[:, 0] = False
    return scores.masked_fill(hidden, -math.inf)


SCORES = {
    "random": lambda: 3 * torch.randn(40, 33, dtype=torch.float64),
    "tied": lambda: torch.randint(-2, 3, (40, 33)).double(),
    "equal": lambda: torch.zeros(5, 33, dtype=torch.float64),
    "huge": lambda: 1e4 * torch.randn(40, 33, dtype=torch.float64),
    "tiny": lambda: 1e-6 * torch.randn(40, 33, dtype=torch.float64),
    "masked": lambda: masked(2 * torch.randn(40, 33, dtype=torch.float64)),
    "one": lambda: torch.randn(5, 1, dtype=torch.float64),
    "far off": lambda: 1e3 + torch.randn(5, 9, dtype=torch.float64),
}


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("kind", SCORES)
def test_agrees_with_the_entmax_package(kind: str, alpha: float) -> None:
    scores = SCORES[kind]().requires_grad_()
    weights, wanted = entmax(scores, alpha), oracle_weights(scores, alpha)
    # Above α = 2 a weight leaves the support with an infinite slope: rounding shows there, in the oracle too.
    tolerance = 1e-9 if alpha <= 2 else 1e-6
    torch.testing.assert_close(weights, wanted, rtol=0, atol=tolerance)
    single = scores.detach().float()
    torch.testing.assert_close(
        entmax(single, alpha).double(), oracle_weights(single.double(), alpha), rtol=0, atol=max(2e-6, 100 * tolerance)
    )
    if alpha <= 2 and kind != "tied":
        # Ties put weights on the very edge of the support, where the two may differ on which side.
        upstream = torch.randn_like(weights)
        (mine,) = torch.autograd.grad(weights, scores, upstream)
        (others,) = torch.autograd.grad(wanted, scores, upstream)
        torch.testing.assert_close(mine, others, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("alpha", [1.3, 1.5, 2.0])
def test_gradient_with_ties(alpha: float) -> None:
    """Equal scores that all get weight: no edge in sight, so the gradient is unique."""
    scores = torch.tensor([[1.0, 1.0, 1.0, -9.0], [0.2, 0.2, 0.1, 0.1]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: entmax(z, alpha), scores)


def test_softmax_is_the_limit() -> None:
    scores = torch.randn(6, 9, dtype=torch.float64)
    torch.testing.assert_close(entmax(scores, 1.0), scores.softmax(-1))
    torch.testing.assert_close(entmax(scores, 1 + 1e-9), scores.softmax(-1), rtol=0, atol=1e-7)
    torch.testing.assert_close(entmax(scores, torch.ones(1, 1, dtype=torch.float64)), scores.softmax(-1))


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("m", [1, 2, 9, 5000])
def test_below_one_the_weights_are_what_they_are_defined_to_be(alpha: float, m: int) -> None:
    """Of p^(α − 1) = c + (α − 1) z only c is to be found, so that p sums to one: here by halving, in float64."""
    scores = 3 * torch.randn(4, m, dtype=torch.float64)
    low = -(alpha - 1) * scores.amax(-1, keepdim=True)
    high = low + float(m) ** (1 - alpha)
    for _ in range(200):
        middle = (low + high) / 2
        enough = (middle + (alpha - 1) * scores).pow(1 / (alpha - 1)).sum(-1, keepdim=True) >= 1
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    wanted = (low + (alpha - 1) * scores).pow(1 / (alpha - 1))
    weights = entmax(scores, alpha)
    torch.testing.assert_close(weights, wanted, rtol=1e-9, atol=1e-12)
    assert (weights > 0).all()
    torch.testing.assert_close(entmax(scores.float(), alpha).double(), wanted, rtol=0, atol=5e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [2.0, 3.0, 5.0])
def test_a_score_on_the_threshold_is_outside(alpha: float, dtype: torch.dtype) -> None:
    """There the gradient jumps. It is that of the row without such scores."""
    for seed in range(200):
        exact, inside = on_the_threshold(alpha, seed)
        scores = exact.to(dtype).requires_grad_()
        without = scores.detach()[inside].requires_grad_()
        upstream = torch.linspace(-1, 2, len(scores), dtype=dtype)
        for chosen in (alpha, torch.tensor([alpha], dtype=dtype)):
            weights = entmax(scores, chosen)
            assert torch.equal(weights > 0, inside), seed
            (grad,) = torch.autograd.grad(weights, scores, upstream)
            (wanted,) = torch.autograd.grad(entmax(without, chosen), without, upstream[inside])
            # Slopes are p^(2 − α), up to so much for the least weights.
            tolerance = 8 * torch.finfo(dtype).eps * {2.0: 1, 3.0: 64, 5.0: 16**3}[alpha]
            torch.testing.assert_close(grad[inside], wanted, rtol=1e-5, atol=tolerance)
            assert (grad[~inside] == 0).all()


@pytest.mark.parametrize("alpha", [2.0, 3.0, 5.0])
def test_many_equal_scores_all_have_weight(alpha: float) -> None:
    """Weights as small as rounding are not taken for zero where all are."""
    weights = entmax(torch.zeros(1, 1 << 22), alpha)
    torch.testing.assert_close(weights, torch.full_like(weights, 2.0**-22))


def test_large_alpha_is_argmax() -> None:
    scores = torch.tensor([0.0, 0.4, 1.5])
    torch.testing.assert_close(entmax(scores, 8.0), torch.tensor([0.0, 0.0, 1.0]))


@given(
    st.lists(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=20), min_size=1, max_size=1),
    st.floats(0.05, 3.0),
    st.floats(-100, 100, width=32),
)
def test_laws(rows: list[list[float]], alpha: float, shift: float) -> None:
    """Weights sum to one, keep the order of the scores, and do not see a shift of all scores or a permutation."""
    scores = torch.tensor(rows, dtype=torch.float64)
    weights = entmax(scores, alpha)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, dtype=torch.float64))
    assert (weights >= 0).all()
    order = scores[0].argsort()
    assert (weights[0][order].diff() >= -1e-12).all()
    tolerance = 1e-9 if alpha <= 2 else 1e-4
    torch.testing.assert_close(entmax(scores + shift, alpha), weights, rtol=0, atol=tolerance)
    torch.testing.assert_close(entmax(scores[:, order], alpha), weights[:, order], rtol=0, atol=tolerance)


@given(st.integers(0, 1000), st.sampled_from([1.2, 1.5, 2.0, 3.0]))
def test_threshold_separates_support(seed: int, alpha: float) -> None:
    """What is above the threshold gets weight, and a threshold of some scores never exceeds that of all."""
    torch.manual_seed(seed)
    scores = 3 * torch.randn(8, 15, dtype=torch.float64)
    threshold = entmax_threshold(scores, alpha)[:, None]
    clear = (scores - threshold).abs() > 1e-9
    assert ((entmax(scores, alpha) > 0) == (scores > threshold))[clear].all()
    assert (entmax_threshold(scores[:, :6], alpha)[:, None] <= threshold + 1e-12).all()
    # Bounds on the support from the row's maximum alone: what the kernel lives on.
    assert (threshold >= scores.amax(-1, keepdim=True) - 1 / (alpha - 1) - 1e-12).all()


@pytest.mark.parametrize("alpha", [0.1, 0.6, 1.0, 1.2, 1.5, 1.8, 2.0, 2.3])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gradcheck_scores(alpha: float, dim: int) -> None:
    scores = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: entmax(z, alpha, dim), scores)


def test_gradcheck_alpha_per_head() -> None:
    scores = torch.randn(2, 4, 3, 6, dtype=torch.float64, requires_grad=True)
    alpha = torch.tensor([0.3, 1.05, 1.5, 2.4], dtype=torch.float64)[:, None, None].requires_grad_()
    assert torch.autograd.gradcheck(lambda z, a: entmax(z, a), (scores, alpha))
    rows = torch.randn(4, 6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, a: entmax(z, a, dim=1), (rows, alpha))


def test_alpha_gradient_is_continuous_at_softmax() -> None:
    scores, upstream = torch.randn(5, 7, dtype=torch.float64), torch.randn(5, 7, dtype=torch.float64)
    slopes = []
    for start in (1.0, 1 + 1e-7, 1 + 1e-4, 1 - 1e-7, 1 - 1e-4):
        alpha = torch.tensor([[start]], dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(entmax(scores, alpha), alpha, upstream)
        slopes.append(slope.item())
    assert slopes[1::2] == pytest.approx([slopes[0]] * 2, rel=1e-4)
    assert slopes[2::2] == pytest.approx([slopes[0]] * 2, abs=1e-3)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.3, 1.5, 2.0, 2.5])
def test_rows_of_nothing_give_zeros(alpha: float) -> None:
    scores = torch.randn(3, 5, dtype=torch.float64)
    scores[1] = -math.inf
    scores.requires_grad_()
    weights = entmax(scores, alpha)
    assert (weights[1] == 0).all()
    assert entmax_threshold(scores, alpha)[1] == -math.inf
    weights.square().sum().backward()
    assert scores.grad is not None
    assert (scores.grad[1] == 0).all()
    assert scores.grad.isfinite().all()
    assert entmax(torch.zeros(4, 0), alpha).shape == (4, 0)
    assert entmax(torch.zeros(0, 4), alpha).shape == (0, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    scores = (3 * torch.randn(9, 40)).to(dtype).requires_grad_()
    weights = entmax(scores)
    assert weights.dtype == dtype
    torch.testing.assert_close(weights, entmax(scores.float()).to(dtype))
    weights.sum().backward()
    assert scores.grad is not None
    assert scores.grad.dtype == dtype


def test_long_rows_cross_pieces_and_any_memory_layout() -> None:
    scores = torch.randn(300, 3000, dtype=torch.float64)
    torch.testing.assert_close(entmax(scores), oracle.entmax15(scores, -1))
    torch.testing.assert_close(entmax(scores.T, dim=0).T, entmax(scores))


@pytest.mark.parametrize(
    ("scores", "alpha", "words"),
    [
        (torch.tensor([1.0, math.nan]), 1.5, "scores: got NaN"),
        (torch.tensor([1.0, math.inf]), 1.5, r"scores: got \+inf"),
        (torch.tensor([1, 2]), 1.5, "scores: got a tensor of torch.int64"),
        (torch.zeros(2), 0.0, "alpha: got 0.0"),
        (torch.zeros(2), math.nan, "alpha: got nan"),
        (torch.zeros(2), torch.tensor([-0.9]), "alpha: got values down to -0.9"),
        (torch.zeros(2, 3), torch.full((5, 1), 1.5), "alpha: got a tensor of shape"),
        (torch.zeros(2, 3), torch.full((2, 3), 1.5), "size 1 in dim -1"),
    ],
)
def test_errors_name_the_argument(scores: Tensor, alpha: float | Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        entmax(scores, alpha)


def test_checks_can_be_left_out() -> None:
    assert entmax(torch.tensor([1.0, math.nan]), check=False).isnan().any()
    with pytest.raises(InputError, match="dim: got 3"):
        entmax(torch.zeros(2, 2), dim=3)


@pytest.mark.parametrize("alpha", [0.4, 1.3, 1.5, 2.0, 3.0])
def test_a_row_does_not_depend_on_its_neighbours(alpha: float) -> None:
    """To the last bit: how many steps other rows need must not show."""
    scores = torch.cat([torch.randn(50, 40) * scale for scale in (0.01, 1.0, 100.0)])
    together = entmax(scores, alpha)
    assert torch.equal(together, torch.cat([entmax(row[None], alpha) for row in scores]))
