"""How far a stage is: one line of the terminal that changes, or plain lines now and then where there is no terminal.

>>> with steps("training", 800, "step", done=400) as bar:
...     bar.update(loss=3.2)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

__all__ = ["Steps", "console", "duration", "measured", "say", "steps"]

# What is said on the way goes to stderr; results go to stdout.
console = Console(stderr=True, highlight=False)
# Without a terminal: a line after so many seconds, if a tenth was done meanwhile; and after so many in any case.
SOON, LATEST = 10.0, 60.0

_collected: ContextVar[list[Steps] | None] = ContextVar("collected", default=None)


@dataclass
class Steps:
    """Work under way.

    title: what is done; unit: what is counted, one of them.
    first: how many were done before.
    """

    title: str
    total: int
    unit: str
    first: int = 0
    done: int = 0
    # What it is at, and numbers to show.
    at: str = ""
    values: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=lambda: time.monotonic())
    ended: float | None = None
    _updates: list[tuple[float, int]] = field(default_factory=list)
    _said: tuple[float, int] | None = None
    _live: tuple[Progress, TaskID] | None = None

    def update(self, count: int = 1, **values: float) -> None:
        """So many more are done; the values are shown, as `loss 3.21`."""
        self.done += count
        if count:
            self._updates += [(time.monotonic(), self.done)]
            # The first and the last are enough for a pace.
            del self._updates[1:-1]
        self.values |= values
        self._show()

    def note(self, words: str) -> None:
        """What it is at."""
        self.at = words
        self._show()

    @property
    def seconds(self) -> float:
        """How long it has taken so far, or took."""
        return (self.ended or time.monotonic()) - self.started

    @property
    def pace(self) -> float:
        """Seconds for one of them, without what the first ones took to get going, if there were others."""
        (before, first), (after, last) = self._updates[0], self._updates[-1]
        return (after - before) / (last - first) if last > first else self.seconds / max(1, self.done - self.first)

    @property
    def where(self) -> str:
        return f"{self.title} was at {self.unit} {self.done:,} of {self.total:,}"

    def _show(self) -> None:
        if self._live is not None:
            progress, task = self._live
            progress.update(task, completed=self.done, about=self._about())
            return
        now = time.monotonic()
        before, done = self._said or (self.started, self.first)
        if now - before >= LATEST or (now - before >= SOON and self.done - done >= self.total / 10):
            self._said = now, self.done
            say(f"{self.title}: {self.done:,} of {self.total:,} {_many(self.unit, self.total)}, {self._about()}")

    def _about(self) -> str:
        """The values, the rate, the time that is left, and what it is at."""
        new = self.done - self.first
        rate = new / max(self.seconds, 1e-9)
        left = [f"{_rate(rate)}", f"{duration((self.total - self.done) / rate)} left"] if new else []
        return ", ".join(
            [*(f"{name} {value:.3g}" for name, value in self.values.items()), *left, *filter(None, [self.at])]
        )

    def _ended(self) -> str:
        new = self.done - self.first
        took = f"{self.title}: {new:,} {_many(self.unit, new)} in {duration(self.seconds)}"
        return ", ".join([took, *_named(self.values)])


@contextmanager
def steps(title: str, total: int, unit: str, done: int = 0) -> Iterator[Steps]:
    """A display for so many pieces of work, of which some may be done already; nothing where nothing is left."""
    bar = Steps(title, total, unit, done, done)
    if done >= total:
        yield bar
        return
    if done:
        say(f"{title}: goes on after {unit} {done:,} of {total:,}")
    try:
        if console.is_terminal and not console.is_dumb_terminal:
            with _progress() as live:
                bar._live = live, live.add_task(title, total=total, completed=done, unit=_many(unit, total), about="")
                yield bar
        else:
            yield bar
    except KeyboardInterrupt as stopped:
        stopped.add_note(bar.where)
        raise
    bar.ended = time.monotonic()
    say(bar._ended())
    collected = _collected.get()
    if collected is not None:
        collected.append(bar)


def say(line: str, whole: bool = False) -> None:
    """A line for whoever watches, above the display if there is one. A terminal's lines break between words.

    whole: but not this one, which is there to be copied.
    """
    console.print(line, markup=False, soft_wrap=whole or not console.is_terminal)


@contextmanager
def measured() -> Iterator[list[Steps]]:
    """Within this block, whatever comes to its end is kept: how many of what took how long."""
    found: list[Steps] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are some.

    >>> duration(4000)
    '1:06:40'
    """
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _progress() -> Progress:
    """It vanishes when it ends: the line that is said then stays."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(10),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
        TextColumn("{task.fields[about]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        console=console, transient=True, expand=True, refresh_per_second=4,
    )  # fmt: skip


def _named(values: dict[str, float]) -> list[str]:
    return [f"{name} {value:.3g}" for name, value in values.items()]


def _rate(rate: float) -> str:
    return f"{rate:.3g}/s" if rate >= 1 else f"{1 / rate:.3g} s each"


def _many(unit: str, count: int) -> str:
    return unit if count == 1 else f"{unit}s"
