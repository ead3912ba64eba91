"""How many steps maps are learned in, whatever the number of sequences."""

from hypothesis import given
from hypothesis import strategies as st

from sparsefinder.finders import Fitting
from sparsefinder.fitting import STEPS, enough_steps


@given(st.integers(1, 2000), st.integers(1, 64), st.integers(1, 5))
def test_there_are_enough_steps_and_no_more_passes_than_it_takes(count: int, batch: int, epochs: int) -> None:
    size, how = enough_steps(count, batch, Fitting(epochs=epochs))
    steps = -(-count // size)
    assert 1 <= size <= batch
    assert steps * how.epochs >= STEPS
    assert how.epochs == epochs or steps * (how.epochs - 1) < STEPS
    # What has enough sequences is learned as asked for.
    assert count < STEPS * batch or (size, how.epochs) == (batch, epochs)
