"""Checks of what graphs are made from: tables with an entry for every query or key, and sizes of blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError, check_type, wrong_type
from .layout import Grid

__all__ = ["NUMBERS", "TRUTHS", "check_block", "check_grid", "check_indices", "check_table"]

# What tables are made of.
TRUTHS, NUMBERS = "booleans", "whole numbers"


def check_block(name: str, size: object) -> None:
    """Raise unless this is the size of a block."""
    if type(size) is not int or size < 1:
        raise InputError(name, repr(size), "a number of positions from 1 upwards")


def check_grid(grid: object) -> None:
    """Raise unless this is a grid."""
    check_type("grid", grid, Grid, "the Grid that the graph is for: Layout(...).of(q, k)")


def check_indices(grid: object, **indices: object) -> None:
    """Raise unless all are tensors."""
    check_grid(grid)
    for name, index in indices.items():
        check_type(name, index, Tensor, "a tensor of whole numbers, one for each pair")


def check_table(name: str, table: Tensor, kind: str, grid: Grid, *axes: str, size: int = 1) -> None:
    """Raise unless a table has the sizes of a grid, in blocks of `size`; batch and heads may be 1."""
    check_grid(grid)
    check_block("size", size)
    if not isinstance(table, Tensor):
        raise wrong_type(name, table, f"a tensor of {kind}")
    if (table.dtype == torch.bool) != (kind == TRUTHS) or table.is_floating_point():
        raise InputError(name, f"a tensor of {table.dtype}", f"one of {kind}")
    sizes = tuple(-(-getattr(grid, axis) // size) for axis in axes)
    right = table.ndim >= 2 + len(sizes) and table.shape[2 : 2 + len(sizes)] == sizes
    if not right or table.shape[0] not in (1, grid.batch) or table.shape[1] not in (1, grid.heads):
        want = f"({grid.batch} or 1, {grid.heads} or 1, {', '.join(map(str, sizes))}) for the grid {grid.shape}"
        raise InputError(name, f"a tensor of shape {tuple(table.shape)}", want)
