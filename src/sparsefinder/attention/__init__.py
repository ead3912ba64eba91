"""Entmax attention over a graph: one function, several implementations that give the same result."""

from .api import attention, backends

__all__ = ["attention", "backends"]
