"""The one error that bad input gets: it names the argument, what was given, and what would be right."""

from __future__ import annotations


class SparsefinderError(Exception):
    """The base of every error that Sparsefinder raises on purpose."""


class InputError(SparsefinderError, ValueError):
    """An argument that cannot be used.

    >>> raise InputError("alpha", 0.5, "a number from 1 (softmax) upwards, such as 1.5")
    Traceback (most recent call last):
    sparsefinder.errors.InputError: alpha: got 0.5, want a number from 1 (softmax) upwards, such as 1.5
    """

    def __init__(self, argument: str, got: object, want: str) -> None:
        super().__init__(f"{argument}: got {got}, want {want}")
        self.argument = argument

    def of(self, where: str) -> InputError:
        """The same, with where it happened."""
        argument = f"{self.argument} of {where}"
        return _rebuild(type(self), argument, argument + self.args[0].removeprefix(self.argument))

    def __reduce__(self) -> tuple[object, ...]:
        # The message is built from three arguments, so the default pickling (one argument) would fail in a worker.
        return _rebuild, (type(self), self.argument, self.args[0])


def _rebuild(kind: type[InputError], argument: str, message: str) -> InputError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.argument = argument
    return error
