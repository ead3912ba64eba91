"""Methods that predict an attention graph, one a file."""

from .base import FINDERS, Finder, Union, finder
from .big_bird import BigBird
from .block_centroids import BlockCentroids
from .block_top_k import BlockTopK
from .distance import Distance
from .full import Full
from .global_tokens import GlobalTokens
from .heads import Heads
from .k_means import KMeans
from .longformer import Longformer
from .oracle import Oracle
from .probe import Probe
from .quantization import Quantization
from .random_blocks import RandomBlocks
from .reformer import Reformer
from .routing import Routing
from .sketch import Sketch
from .strided import Strided
from .top_k import TopK
from .window import Window

__all__ = [
    "FINDERS",
    "BigBird",
    "BlockCentroids",
    "BlockTopK",
    "Distance",
    "Finder",
    "Full",
    "GlobalTokens",
    "Heads",
    "KMeans",
    "Longformer",
    "Oracle",
    "Probe",
    "Quantization",
    "RandomBlocks",
    "Reformer",
    "Routing",
    "Sketch",
    "Strided",
    "TopK",
    "Union",
    "Window",
    "finder",
]
