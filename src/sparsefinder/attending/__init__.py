"""Entmax attention over a graph: one function, several implementations that give the same result."""

from .api import attention
from .gold import gold_graph

__all__ = ["attention", "gold_graph"]
