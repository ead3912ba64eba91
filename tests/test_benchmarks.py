"""Benchmarks share one clock, which lets work take turns."""

from pathlib import Path

import pytest

from sparsefinder.lab.bench.clock import Spread, interleaved, laps, ratio, seconds_of, turns_within

SCRIPTS = sorted(Path(__file__).parents[1].glob("benchmarks/*.py"))


@pytest.mark.parametrize("warm_up", [False, True])
def test_work_takes_turns_after_a_warm_up(warm_up: bool) -> None:
    done: list[str] = []
    times = interleaved(lambda: done.append("a"), lambda: done.append("b"), repeats=3, warm_up=warm_up)
    assert done == ["a", "b"] * (3 + warm_up)
    assert [len(each) for each in times] == [3, 3]
    assert all(seconds >= 0 for each in times for seconds in each)


def test_the_spread_is_the_middle_half() -> None:
    assert Spread.of([5, 1, 4, 2, 3]) == Spread(2, 3, 4)
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0)
    assert Spread.of([8, 1, 7, 2, 6, 3, 5, 4]) == Spread(3, 4.5, 6)


def test_ratios_are_those_of_each_turn() -> None:
    """A slow moment hits both of a turn, so that it does not show."""
    assert ratio([2.0, 20.0, 2.2], [1.0, 10.0, 1.1]) == Spread(2.0, 2.0, 2.0)
    assert str(ratio([3.0], [2.0])) == "1.50x (1.50 to 1.50)"


def test_turns_stay_within_bounds() -> None:
    done: list[int] = []
    assert turns_within(0.0, lambda: done.append(1), least=2) == 2
    assert turns_within(1e6, lambda: done.append(1), most=9) == 9
    assert len(done) == 2
    assert seconds_of(lambda: done.append(1)) >= 0


def test_the_second_lap_goes_on_with_what_the_first_gave() -> None:
    given: list[str] = []
    taken = laps(lambda: "found", given.append)
    assert given == ["found"]
    assert len(taken) == 2
    assert min(taken) >= 0


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_no_benchmark_has_a_clock_of_its_own(script: Path) -> None:
    clocks = ("perf_counter", "time.time", "monotonic", "timeit")
    found = [clock for clock in clocks if clock in script.read_text()]
    assert not found, found
