"""How finders are fitted: what a person may say of it, whatever the method."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError, check_type, is_number
from .checks import whole

__all__ = ["Fitting"]


@dataclass(frozen=True)
class Fitting:
    """How finders are fitted, whatever the method.

    tokens: so many per head at most are looked at where tokens are clustered or counted, drawn at random.
    restarts: how often k-means starts anew; as often as the method does by itself if None.
    r, margin, rate, epochs, shared, summed: how maps are learned, as `learn` takes them.
    """

    seed: int = 0
    tokens: int = 20_000
    restarts: int | None = None
    r: int = 4
    margin: float = 1.0
    rate: float = 0.01
    epochs: int = 1
    shared: bool = True
    summed: bool = False

    def __post_init__(self) -> None:
        whole(0, seed=self.seed)
        whole(1, tokens=self.tokens, r=self.r, epochs=self.epochs)
        if self.restarts is not None:
            whole(1, restarts=self.restarts)
        for name in ("margin", "rate"):
            if not is_number(getattr(self, name)):
                raise InputError(name, repr(getattr(self, name)), "a number")
        for name in ("shared", "summed"):
            check_type(name, getattr(self, name), bool, "True or False")
