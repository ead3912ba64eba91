"""Laws that hold for every finder: for tests of one's own method.

>>> def test_mine():
...     check_finder(Mine(3), heads=4, d=16)

Each law is a function of a finder and a scene, and raises an AssertionError that says what does not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool
from torch import Tensor

from .core.graph import Graph
from .core.layout import Layout
from .errors import InputError
from .finders import Finder
from .finders.state import restored, state_of

__all__ = ["LAWS", "SCENES", "Law", "Scene", "check_finder", "scenes"]


@dataclass(frozen=True, eq=False)
class Scene:
    """Queries and keys of some sequences, and how they lie."""

    name: str
    q: Tensor
    k: Tensor
    layout: Layout

    @property
    def decodes(self) -> bool:
        offset = self.layout.query_offset
        return isinstance(offset, Tensor) or offset != 0

    def lengths(self, b: int) -> tuple[int, int]:
        """Real queries and real keys of a sequence."""
        queries, keys = self.layout.query_lengths, self.layout.key_lengths
        return (
            self.q.shape[2] if queries is None else int(queries[b]),
            self.k.shape[2] if keys is None else int(keys[b]),
        )

    def found(self, one: Finder) -> Bool[Tensor, "batch heads n m"]:
        return one(self.q, self.k, self.layout).dense()


def _long(*lengths: int) -> Tensor:
    return torch.tensor(lengths)


# Sizes (sequences, queries, keys) and a layout.
SCENES: dict[str, tuple[tuple[int, int, int], Layout]] = {
    "plain": ((2, 13, 13), Layout()),
    "ragged": ((3, 14, 14), Layout(key_lengths=_long(14, 5, 0), query_lengths=_long(14, 5, 0))),
    "causal": ((2, 13, 13), Layout(causal=True)),
    "causal ragged": ((2, 12, 12), Layout(causal=True, key_lengths=_long(12, 7), query_lengths=_long(12, 7))),
    "cross": ((2, 9, 14), Layout()),
    "cross ragged": ((2, 15, 11), Layout(key_lengths=_long(4, 11), query_lengths=_long(15, 6))),
    "one query of many keys": ((2, 1, 12), Layout(key_lengths=_long(12, 3))),
    "decoding": ((2, 1, 11), Layout(causal=True, query_offset=10)),
    "decoding ragged": ((3, 1, 12), Layout(True, _long(12, 4, 7), _long(11, 3, 6))),
    "decoding some": ((2, 4, 12), Layout(True, _long(12, 9), _long(8, 5))),
}


def scenes(heads: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> list[Scene]:
    """A scene of each kind, in which no two scores or distances come close to each other."""
    return [_scene(name, heads, d, seed, dtype) for name in SCENES]


def check_finder(one: Finder, heads: int, d: int, *, same_tokens: bool = False) -> None:
    """Raise unless every law holds for a finder, in every scene.

    heads, d: what the finder was made for.
    same_tokens: it is only for queries and keys of the same tokens, as many of one as of the other.
    """
    for scene in scenes(heads, d):
        if not same_tokens or scene.q.shape[2] == scene.k.shape[2]:
            for law in LAWS:
                law(one, scene)


def predicts_what_may_be_seen(one: Finder, scene: Scene) -> None:
    """The graph has the size of queries and keys, and no pair that may not be seen; who cannot decode says so."""
    if _refused(one, scene):
        return
    graph = one(scene.q, scene.k, scene.layout)
    grid = scene.layout.of(scene.q, scene.k)
    assert graph.grid.shape == grid.shape, f"{scene.name}: a graph for {graph.grid.shape}, not for {grid.shape}"
    assert not bool((graph.dense() & ~Graph.full(grid).dense()).any()), f"{scene.name}: pairs that may not be seen"
    assert torch.equal(graph.degrees(), graph.dense().sum(-1)), f"{scene.name}: degrees are not those of the matrix"


def is_repeatable(one: Finder, scene: Scene) -> None:
    """The same input gives the same graph, whatever the state of torch's own generator."""
    if _refused(one, scene):
        return
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = scene.found(one)
        torch.manual_seed(2)
        assert torch.equal(scene.found(one), first), f"{scene.name}: another graph the second time"


def knows_no_batch_and_no_padding(one: Finder, scene: Scene) -> None:
    """A sequence has the same graph in any batch, whatever stands in the padding."""
    if scene.decodes or scene.name.startswith("one query"):
        return
    together = scene.found(one)
    q, k = scene.q.clone(), scene.k.clone()
    for b in range(len(q)):
        queries, keys = scene.lengths(b)
        alone = one(q[b : b + 1, :, :queries], k[b : b + 1, :, :keys], Layout(causal=scene.layout.causal)).dense()
        assert torch.equal(alone[0], together[b, :, :queries, :keys]), (
            f"{scene.name}: another graph alone than in a batch"
        )
        q[b, :, queries:], k[b, :, keys:] = 50, -50
    filled = Scene(scene.name, q, k, scene.layout)
    assert torch.equal(filled.found(one), together), f"{scene.name}: what stands in the padding matters"


def decodes_step_by_step(one: Finder, scene: Scene) -> None:
    """Asked for one query after the other, a finder gives the rows of the whole, or refuses."""
    if scene.name not in ("causal", "cross"):
        return
    causal, n = scene.layout.causal, scene.q.shape[2]
    able = one.causal_safe if causal else one.query_wise
    whole = scene.found(one) if able else None
    for step in range(n):
        keys = scene.k[:, :, : step + 1] if causal else scene.k
        here = Scene("a step", scene.q[:, :, step : step + 1], keys, Layout(causal, query_offset=step))
        if whole is not None:
            assert torch.equal(here.found(one), whole[:, :, step : step + 1, : keys.shape[2]]), (
                f"{scene.name}: step {step}"
            )
        elif step:
            _assert_refuses(one, here)


def sees_no_future(one: Finder, scene: Scene) -> None:
    """Where a finder is `causal_safe`, tokens to come change nothing."""
    if scene.name != "causal" or not one.causal_safe:
        return
    heads, d = scene.q.shape[1], scene.q.shape[3]
    other = _scene("causal", heads, d, 20, scene.q.dtype)
    for now in range(1, scene.q.shape[2]):
        q, k = (torch.cat([a[:, :, :now], b[:, :, now:]], 2) for a, b in ((scene.q, other.q), (scene.k, other.k)))
        changed = Scene(scene.name, q, k, scene.layout).found(one)
        assert torch.equal(changed[:, :, :now], scene.found(one)[:, :, :now]), (
            f"token {now} changes what came before it"
        )


def grows_with_its_dial(one: Finder, scene: Scene) -> None:
    """Every pair is in at the setting that `needed` says and above, and not before."""
    dial = one.dial
    if dial is None or _refused(one, scene):
        return
    needed, seen = _needed(one, scene)
    settings = needed[seen & needed.isfinite()].clamp(min=dial.least).unique()
    # The lowest, the highest and some between, each with a setting between it and the one before it.
    before = torch.cat([settings.new_tensor([dial.least]), settings[:-1]])
    for place in torch.linspace(0, len(settings) - 1, min(len(settings), 6)).long().tolist():
        low, setting = float(before[place]), float(settings[place])
        # A product is rounded differently where others are computed with it: so a hair more than is needed.
        for value in (setting, setting - 1) if dial.whole else (setting * (1 + 1e-9), low + (setting - low) / 4):
            if value >= dial.least:
                expected = seen & (needed <= value)
                assert torch.equal(scene.found(one.turned(value)), expected), f"{scene.name}: {dial.field} = {value}"


def takes_a_dial_per_head(one: Finder, scene: Scene) -> None:
    """With a setting per head, each head has the graph that the setting alone gives it."""
    dial = one.dial
    if dial is None or _refused(one, scene):
        return
    needed, seen = _needed(one, scene)
    finite = needed[seen & needed.isfinite()].clamp(min=dial.least).unique()
    if not len(finite):
        return
    settings = finite[torch.linspace(0, len(finite) - 1, scene.q.shape[1]).long()]
    found = scene.found(one.turned(settings))
    for head, setting in enumerate(settings.tolist()):
        alone = scene.found(one.turned(setting))
        assert torch.equal(found[:, head], alone[:, head]), f"{scene.name}: head {head} with {dial.field} = {setting}"


def survives_saving(one: Finder, scene: Scene) -> None:
    """What is saved and loaded predicts the same."""
    if _refused(one, scene):
        return
    tensors: dict[str, Tensor] = {}
    again = restored(state_of(one, "finder", tensors), tensors)
    assert torch.equal(scene.found(again), scene.found(one)), f"{scene.name}: another graph after saving and loading"


def says_what_it_is(one: Finder, scene: Scene) -> None:
    """A name, a label, a first sentence, a cost no more than that of the scores, and no more bytes than the keys."""
    about = one.about
    assert about.name, "no name"
    assert about.label, "no label"
    assert (type(one).__doc__ or "").strip(), "no docstring: its first line is what people read of it"
    assert all(dial.field in {each.name for each in fields(one)} for dial in about.dials), "a dial that is no field"
    assert 0 <= one.cost(1000, 1000, 64) <= 1000 * 1000 * 64, "predicting costs more than the scores"
    bytes_read = [one.reads(1000, m, 64) for m in (1, 10, 500, 1000)]
    assert bytes_read[0] >= 0, "fewer bytes read than none"
    assert bytes_read == sorted(bytes_read), "fewer bytes read of more keys"
    assert bytes_read[-1] <= 4 * 1000 * 64, "predicting reads more than the keys"


Law = Callable[[Finder, Scene], None]
LAWS: tuple[Law, ...] = (
    says_what_it_is,
    predicts_what_may_be_seen,
    is_repeatable,
    knows_no_batch_and_no_padding,
    decodes_step_by_step,
    sees_no_future,
    grows_with_its_dial,
    takes_a_dial_per_head,
    survives_saving,
)


def _scene(name: str, heads: int, d: int, seed: int, dtype: torch.dtype) -> Scene:
    (batch, n, m), layout = SCENES[name]
    q, k = (
        torch.randn(batch, heads, length, d, generator=torch.Generator().manual_seed(seed + side), dtype=dtype)
        for side, length in ((10, n), (11, m))
    )
    return Scene(name, q, k, layout)


def _needed(one: Finder, scene: Scene) -> tuple[Tensor, Tensor]:
    """What pairs need of the dial, asked for in two parts; and which pairs may be seen."""
    grid = scene.layout.of(scene.q, scene.k)
    half = grid.n // 2
    q, k = one.compared(scene.q, scene.k)
    parts = [one.needed(q, k, grid, queries) for queries in (slice(0, half), slice(half, grid.n))]
    return torch.cat(parts, 2).expand(grid.shape), Graph.full(grid).dense()


def _refused(one: Finder, scene: Scene) -> bool:
    """Whether a finder cannot decode and the scene asks it to: then it has to say so."""
    if not scene.decodes or (one.causal_safe if scene.layout.causal else one.query_wise):
        return False
    _assert_refuses(one, scene)
    return True


def _assert_refuses(one: Finder, scene: Scene) -> None:
    try:
        one(scene.q, scene.k, scene.layout)
    except InputError:
        return
    raise AssertionError(f"{scene.name}: a finder that cannot decode has to refuse to")
