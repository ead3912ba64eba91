"""The one error that bad input gets: it names the argument, what was given, and what would be right."""

from __future__ import annotations

from numbers import Real


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


def check_type(argument: str, value: object, kinds: type | tuple[type, ...], want: str) -> None:
    """Raise unless a value is of one of some types."""
    if not isinstance(value, kinds):
        raise wrong_type(argument, value, want)


def wrong_type(argument: str, value: object, want: str) -> InputError:
    """The error for a value whose type says enough of what is wrong."""
    name = type(value).__name__
    got = f"the class {value.__name__}" if isinstance(value, type) else f"{'an' if name[0] in 'aeio' else 'a'} {name}"
    return InputError(argument, "None" if value is None else got, want)


def is_number(value: object) -> bool:
    """Whether a value is one number, also one of numpy. True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _rebuild(kind: type[InputError], argument: str, message: str) -> InputError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.argument = argument
    return error
