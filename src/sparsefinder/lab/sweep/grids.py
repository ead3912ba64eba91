"""The grids of a sweep by name: the paper's (Sec. 5), its appendices', a small one, and one of every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...finders import finder_class
from ..recipe import Method, Sweep, Timing
from .settings import Setting, expand_all

__all__ = ["GRIDS", "SweepGrid", "grid_of", "timed_settings", "united_with"]


@dataclass(frozen=True)
class SweepGrid:
    """Settings, and the windows and numbers of global tokens that each of them is united with."""

    settings: tuple[Setting, ...]
    windows: tuple[int, ...]
    globals: tuple[int, ...] = (1,)


def _paper(
    thresholds: Sequence[float], buckets: Sequence[int], clusters: Sequence[int], blocks: Sequence[int],
    tokens: Sequence[int],
) -> tuple[Setting, ...]:  # fmt: skip
    """Every method of the paper, then ours and the best that is possible, which the paper does not have."""
    both = ("raw", "projected")
    return tuple(expand_all([
        _method("distance", t=thresholds),
        _method("quantization", beta=buckets),
        _method("kmeans", clusters=buckets, top_k=(1, 2)),
        _method("reformer", both, buckets=buckets),
        _method("routing", both, clusters=clusters),
        # Their own windows and global tokens are off: every setting gets those of the grid, and BigBird draws blocks
        # besides each of them.
        _method("bigbird", random_blocks=blocks, block=1, window=0, globals=0),
        _method("longformer", globals=tokens, window=0),
        _method("window"),
        *_ours(),
    ]))  # fmt: skip


def _ours() -> list[Method]:
    return [
        _method("sketch", r=8, share=(0.02, 0.05, 0.1, 0.2)),
        _method("probe", clusters=32, probes=(1, 2, 4, 8)),
        _method("topk", share=(0.02, 0.05, 0.1)),
        _method("oracle"),
    ]


def _method(method: str, inputs: tuple[Any, ...] | None = None, **settings: Any) -> Method:
    return Method(method=method, inputs=inputs, settings=settings)


MAIN_BUCKETS = (2, 4, 6, 8, 10, 12, 16, 20)
MAIN_WINDOWS = (0, 1, 3, 5, 7, 9, 11, 15, 19, 23, 27)
# The 25 is that of the appendix' charts of single heads.
LONG_WINDOWS = (25, 31, 41, 51, 75, 101, 125, 151, 175, 201, 251)
APPENDIX_WINDOWS = (0, 1, 3, 7, 11, 25, 31, 41, 51, 75, 101, 125, 151, 175, 201, 251, 301, 351, 401, 451, 501, 512)
MAIN = _paper([each / 2 for each in range(1, 11)], MAIN_BUCKETS, MAIN_BUCKETS, MAIN_BUCKETS, MAIN_BUCKETS)
APPENDIX = _paper(
    (0.5, 1.0, 1.5, 2.0, 2.5), (2, 4, 6, 8, 10, 12), (2, 4, 6, 8, 10), (2, 4, 6, 8, 10), (4, 8, 12, 16, 20)
)
# Decoders are less sparse than encoders: of the short prefix that a token sees, a third may get weight.
DENSER = tuple(expand_all([_method("sketch", r=8, share=0.4), _method("topk", share=(0.2, 0.4))]))
# A whole curve of a method that has a dial.
RECALLS = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 0.995)
SMALL = tuple(
    expand_all(
        [
            _method("distance", recall=RECALLS),
            _method("quantization", beta=(2, 4, 12)),
            _method("kmeans", clusters=(8, 32), recall=RECALLS),
            _method("reformer", buckets=(2, 4, 16)),
            _method("routing", clusters=(2, 4, 8)),
            _method("bigbird", random_blocks=(2, 8), block=1, window=0, globals=0),
            _method("longformer", globals=(2, 8), window=0),
            _method("window"),
            _method("sketch", r=4, recall=RECALLS),
            _method("probe", clusters=32, recall=RECALLS),
            _method("oracle"),
        ]
    )
)

# Every method that is here, ours with more settings of the dial.
SOME, MORE = (0.6, 0.8, 0.9, 0.95, 0.99), (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.99, 0.995, 0.999)
RIVALS = tuple(
    expand_all(
        [
            _method("kmeans", clusters=(16, 32), recall=SOME),
            _method("distance", recall=SOME),
            _method("quantization", beta=(4, 8, 12)),
            _method("block-topk", block=(4, 16), recall=SOME),
            _method("block-centroids", block=(4, 16), clusters=8, recall=SOME),
            _method("sketch", r=(4, 8, 16), steps=300, recall=MORE),
            _method("bent-sketch", r=(4, 8, 16), steps=300, recall=MORE),
            _method("probe", clusters=(32, 64), steps=300, recall=MORE),
            _method("routing", clusters=(4, 8, 16)),
            _method("reformer", buckets=(4, 8, 16)),
            _method("sparq", r=(4, 8), recall=MORE),
            _method("dsa", r=(4, 8), recall=MORE),
            _method("loki", r=(4, 8), recall=SOME),
            _method("hash-attention", bits=32, recall=SOME),
            _method("magicpig", bits=(4, 8), recall=SOME[:-1]),
            _method("smyrf", clusters=(8, 16), recall=SOME[:-1]),
            _method("cluster-former", clusters=(8, 16), size=(32, 128)),
            _method("clustered", clusters=(16, 32), recall=SOME),
            _method("longformer", globals=(4, 16), window=0),
            _method("bigbird", random_blocks=(2, 8), block=16, window=0, globals=0),
            _method("quest", page=(4, 16), recall=SOME),
            _method("minference", vertical=(8, 32), recall=SOME),
            _method("flexprefill", block=16, recall=SOME),
            _method("xattention", block=16, stride=8, recall=SOME),
            _method("spargeattention", block=16, recall=SOME),
            _method("seerattention", block=16, recall=SOME),
            _method("strided", stride=(4, 8, 16, 32)),
            _method("window"),
            _method("oracle"),
        ]
    )
)

GRIDS = {
    "mt": SweepGrid(MAIN + DENSER, MAIN_WINDOWS),
    "mlm": SweepGrid(MAIN, MAIN_WINDOWS + LONG_WINDOWS),
    "mt-appendix": SweepGrid(APPENDIX + DENSER, MAIN_WINDOWS),
    "mlm-appendix": SweepGrid(APPENDIX, APPENDIX_WINDOWS),
    # Windows up to such that reach over a short text: so every method has a setting of any recall.
    "small": SweepGrid(SMALL, (0, 3, 7, 11, 25, 51, 75, 101, 151, 255)),
    "rivals": SweepGrid(RIVALS, (0, 11, 51, 101, 251)),
}


def grid_of(sweep: Sweep) -> SweepGrid:
    """The grid that a recipe asks for: one by name and the methods added to it, or these alone; if neither, `small`."""
    named = GRIDS[sweep.grid] if sweep.grid is not None else GRIDS["small"]
    own = expand_all(sweep.methods)
    settings = named.settings if sweep.grid is not None or not own else ()
    return SweepGrid(
        tuple(dict.fromkeys([*settings, *own])),
        tuple(sorted(set(named.windows if sweep.windows is None else sweep.windows))),
        tuple(sorted(set(named.globals if sweep.globals is None else sweep.globals))),
    )


def united_with(
    setting: Setting, windows: tuple[int, ...], few: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The windows and numbers of global tokens that a setting is united with.

    A bound is united with none: with anything more than it needs, it would bound nothing.
    """
    return ((0,), (0,)) if finder_class(setting.method).about.bound else (windows, few)


def timed_settings(timing: Timing) -> dict[tuple[int, int], list[Setting]]:
    """The block variants, v1 and v2, and BigBird, whose time is measured: for each size and number of blocks."""
    return {
        (size, blocks): expand_all([
            _method("block-topk", block=size, k=blocks),
            _method("block-centroids", block=size, k=blocks, clusters=timing.clusters),
            _method("bigbird", random_blocks=blocks, block=size, window=0, globals=0),
        ])
        for size in timing.sizes
        for blocks in timing.blocks
    }  # fmt: skip
