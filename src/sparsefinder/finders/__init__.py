"""Methods that predict an attention graph, one a file."""

from .base import FINDERS, Finder, Union, finder
from .full import Full
from .global_tokens import GlobalTokens
from .window import Window

__all__ = ["FINDERS", "Finder", "Full", "GlobalTokens", "Union", "Window", "finder"]
