"""How far a stage is: plain lines without a terminal, one line that changes in one, and where it stopped."""

import io
import re

import pytest
from rich.console import Console

from sparsefinder.lab import progress
from sparsefinder.lab.progress import duration, measured, steps


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_it_says_plain_lines_now_and_then(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with steps("training", 100, "step") as bar:
        for step in range(100):
            clock[0] += 1.0
            bar.update(loss=3.0 - step / 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training: 10 of 100 steps, loss 2.91, 1/s, 1:30 left"
    assert len(lines) == 11, "one for each tenth, and one at the end"
    assert lines[-1] == "training: 100 steps in 1:40, loss 2.01"
    assert all(line.isprintable() for line in lines), "no escape codes, and nothing that moves the cursor"


def test_what_is_slow_is_heard_of_every_minute(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with steps("training", 10_000, "step") as bar:
        for _ in range(5):
            clock[0] += 30
            bar.update()
        clock[0] += 1
        bar.update()
        lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["training: 2 of 10", "training: 4 of 10"]
    assert "30 s each" in lines[0]


def test_going_on_says_from_where_and_nothing_to_do_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with steps("training", 10, "step", done=4) as bar:
        bar.update(6)
    assert capsys.readouterr().err.splitlines()[0] == "training: goes on after step 4 of 10"
    with steps("training", 10, "step", done=10):
        pass
    assert capsys.readouterr().err == ""


def test_ctrl_c_takes_along_where_it_was() -> None:
    def stopped() -> None:
        with steps("training", 10, "step", done=4) as bar:
            bar.update(2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        stopped()
    assert raised.value.__notes__ == ["training was at step 6 of 10"]


@pytest.mark.parametrize("width", [80, 120])
def test_in_a_terminal_it_is_one_line_that_vanishes(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=width, highlight=False, color_system=None)
    monkeypatch.setattr(progress, "console", terminal)
    with steps("sparsity and score", 46, "point") as bar:
        for number in range(46):
            bar.note(f"block-centroids with settings that have no end, window {number}")
            bar.update()
    shown = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", file.getvalue())
    lines = [line for line in re.split(r"[\r\n]+", shown) if line.strip()]
    assert lines[-1] == "sparsity and score: 46 points in 0:00"
    assert all(len(line) <= width for line in lines)
    assert any("46/46 points" in line for line in lines)


def test_what_ended_is_kept_for_whoever_asks(clock: list[float]) -> None:
    with measured() as found:
        with steps("tracing", 6, "sequence") as bar:
            for seconds in (20, 1, 1):
                clock[0] += seconds
                bar.update(2)
        clock[0] += 100
    # To get going took long; the pace is that of what came after.
    assert [(each.title, each.done, each.seconds, each.pace) for each in found] == [("tracing", 6, 22.0, 0.5)]


def test_durations() -> None:
    assert [duration(each) for each in (0.4, 61, 3600, 4000)] == ["0:00", "1:01", "1:00:00", "1:06:40"]
