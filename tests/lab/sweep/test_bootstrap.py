"""Intervals hold against what is known of them: the normal law for means, and sacreBLEU's own bootstrap for BLEU."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from sparsefinder import InputError
from sparsefinder.core.ratios import weighted_means
from sparsefinder.lab.sweep.bootstrap import DRAWS, Interval, drawn, interval
from sparsefinder.lab.tasks.scores import bleu_parts, scores_of


def test_the_interval_of_a_mean_is_about_two_standard_errors() -> None:
    values = np.random.default_rng(1).normal(3, 2, (2, 200))
    draws = drawn(200, lambda counts: weighted_means(values, counts))
    assert draws.shape == (DRAWS, 2)
    for one, mine in zip(draws.T, values, strict=True):
        found, error = interval(one), mine.std() / np.sqrt(200)
        assert found.low == pytest.approx(mine.mean() - 1.96 * error, abs=0.2 * error)
        assert found.high == pytest.approx(mine.mean() + 1.96 * error, abs=0.2 * error)


def test_settings_are_drawn_together() -> None:
    """What is better on every sequence is better in every draw, however much sequences differ."""
    easy = np.random.default_rng(1).normal(0, 5, 30)
    draws = drawn(30, lambda counts: weighted_means(np.stack([easy, easy + 0.01]), counts))
    apart = interval(draws[:, 1] - draws[:, 0])
    assert apart == pytest.approx((0.01, 0.01))
    assert apart.tells
    assert not interval(draws[:, 0]).tells


@pytest.mark.parametrize(
    ("ends", "tells"), [((0.1, 0.2), True), ((-0.2, -0.1), True), ((-0.1, 0.2), False), ((0.0, 0.1), False)]
)
def test_a_difference_is_one_if_zero_is_outside(ends: tuple[float, float], tells: bool) -> None:
    assert Interval(*ends).tells == tells


WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]


def _said(seed: int, wrong: float) -> tuple[list[str], list[str]]:
    """Sentences, and the same with some words replaced, some of them altogether short."""
    random = np.random.default_rng(seed)
    wanted = [" ".join(random.choice(WORDS, random.integers(2, 12))) for _ in range(60)]
    said = []
    for one in wanted:
        words = [word if random.random() > wrong else "falsch" for word in one.split()]
        said.append(" ".join(words[: random.integers(1, len(words) + 1)]))
    return said, wanted


@pytest.mark.parametrize("wrong", [0.1, 0.6, 1.0])
def test_bleu_follows_from_what_each_sentence_adds(wrong: float) -> None:
    said, wanted = _said(0, wrong)
    parts = np.array(bleu_parts(said, wanted))
    every = np.random.default_rng(0).integers(60, size=(4, 60))
    for places in (range(60), range(3), *every):
        mine = [int(place) for place in places]
        right = BLEU().corpus_score([said[place] for place in mine], [[wanted[place] for place in mine]]).score
        assert float(scores_of("BLEU", parts[mine].sum(0))) == pytest.approx(right)


def test_the_interval_of_bleu_is_that_of_sacrebleu() -> None:
    said, wanted = _said(0, 0.2)
    metrics = {"BLEU": BLEU(references=[wanted])}
    systems = [("one", said), ("other", said)]
    _, scores = PairedTest(systems, metrics, references=None, test_type="bs", n_samples=1000, n_jobs=1)()
    theirs = scores["BLEU"][0]
    parts = np.array(bleu_parts(said, wanted))
    ours = interval(drawn(60, lambda counts: scores_of("BLEU", counts @ parts)[..., None])[:, 0])
    assert (ours.high - ours.low) / 2 == pytest.approx(theirs.ci, rel=0.1)
    assert (ours.high + ours.low) / 2 == pytest.approx(theirs.mean, abs=0.1 * theirs.ci)


def test_perplexity_follows_from_losses() -> None:
    parts = np.array([[3.0, 2], [10.0, 4], [1.0, 5]])
    assert float(scores_of("perplexity", parts.sum(0))) == pytest.approx(np.exp(14 / 11))
    assert scores_of("perplexity", np.array([[1e6, 1.0]])) < np.inf
    with pytest.raises(InputError, match="'perplexity' or 'BLEU'"):
        scores_of("accuracy", parts)
