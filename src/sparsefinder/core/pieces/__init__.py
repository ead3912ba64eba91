"""The pieces a graph is a union of. Each is a family of complete bipartite parts, stored in far less than n × m, or a
rule that says of any pair whether it is in.

A piece answers the questions of `Piece` about queries and keys given by index, and never looks at the layout's
visibility: that is the graph's. Its tensors may have size 1 for batch or head, which then stands for all of them. −1
stands for nothing. As a string, a piece is a few words.
"""

from .base import Index, Piece, Truth, words
from .buckets import Buckets
from .lists import Blocks, Pairs
from .patterns import Band, Bands, Columns, Diagonals, Rows
from .rules import EveryPair, Near, Rule, Sketched

__all__ = [
    "Band", "Bands", "Blocks", "Buckets", "Columns", "Diagonals", "EveryPair", "Index", "Near", "Pairs", "Piece",
    "Rows", "Rule", "Sketched", "Truth", "words",
]  # fmt: skip
