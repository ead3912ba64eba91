"""Methods that predict an attention graph, one per file, in the order in which they are listed."""

# ruff: noqa: I001 – the order of imports is the order of methods.
from .about import FIT, LEARNED, MAPS, RUN, About, Dial, Look, Place
from .base import Cascade, Finder, Fitting, Learned, Several, Union
from .registry import finder, finder_class, methods, register
from .k_means import KMeans
from .distance import Distance
from .quantization import Quantization
from .block_top_k import BlockTopK
from .block_centroids import BlockCentroids
from .sketch import Sketch
from .probe import Probe
from .bent_sketch import BentSketch
from .routing import Routing
from .reformer import Reformer
from .sparq import SparQ
from .loki import Loki
from .hash_attention import HashAttention
from .magic_pig import MagicPig
from .smyrf import Smyrf
from .cluster_former import ClusterFormer
from .clustered import ClusteredAttention
from .dsa import LightningIndexer
from .longformer import Longformer
from .big_bird import BigBird
from .quest import Quest
from .m_inference import MInference
from .flex_prefill import FlexPrefill
from .x_attention import XAttention
from .sparge_attention import SpargeAttention
from .seer_attention import SeerAttention
from .window import Window
from .strided import Strided
from .random_blocks import RandomBlocks
from .global_tokens import GlobalTokens
from .oracle import Oracle
from .top_k import TopK
from .full import Full
from .heads import Heads

__all__ = [
    "FIT",
    "LEARNED",
    "MAPS",
    "RUN",
    "About",
    "BentSketch",
    "BigBird",
    "BlockCentroids",
    "BlockTopK",
    "Cascade",
    "ClusterFormer",
    "ClusteredAttention",
    "Dial",
    "Distance",
    "Finder",
    "Fitting",
    "FlexPrefill",
    "Full",
    "GlobalTokens",
    "HashAttention",
    "Heads",
    "KMeans",
    "Learned",
    "LightningIndexer",
    "Loki",
    "Longformer",
    "Look",
    "MInference",
    "MagicPig",
    "Oracle",
    "Place",
    "Probe",
    "Quantization",
    "Quest",
    "RandomBlocks",
    "Reformer",
    "Routing",
    "SeerAttention",
    "Several",
    "Sketch",
    "Smyrf",
    "SparQ",
    "SpargeAttention",
    "Strided",
    "TopK",
    "Union",
    "Window",
    "XAttention",
    "finder",
    "finder_class",
    "methods",
    "register",
]
