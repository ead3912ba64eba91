"""What a recipe may say: every key with what it means, and the default that it takes where it is left out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from .sources import Part
from .teachers import CausalLM, MaskedLM, Translation

__all__ = ["Accuracy", "Engine", "Fit", "Method", "Needs", "Recipe", "Report", "Sweep", "Timing", "Trace"]

Count = Annotated[int, Field(ge=0)]
Some = Annotated[int, Field(ge=1)]


class Trace(Part):
    """Which inputs and layers are recorded: sequences of the training data, drawn at random."""

    train: int = Field(500, ge=1)
    valid: int = Field(500, ge=1)
    # Only sequences of more tokens than this.
    longer_than: int = Field(0, ge=0)
    # Kinds of attention (encoder, decoder, cross) and layers; the task's own kind and all layers if not given.
    kinds: tuple[Literal["encoder", "decoder", "cross"], ...] | None = None
    layers: tuple[Count, ...] | None = None
    precision: Literal["float16", "float32"] = "float16"
    # Of longer sequences, a stretch of so many tokens is kept: disk does not grow with their length. All if not given.
    tokens_per_sequence: int | None = Field(None, ge=2)
    # Of teachers with softmax (alpha: 1), the share of a row's weight that its gold keys have: 0.95 if not given.
    mass: float | None = Field(None, gt=0, le=1)
    batch: int = Field(8, ge=1)
    # Sequences that are recorded together: what a kill loses at most, and what a task of a cluster does.
    sequences_per_part: int = Field(64, ge=1)


class Fit(Part):
    """How projections and finders are learned; the paper's values."""

    r: int = Field(4, ge=1)
    margin: float = Field(1.0, gt=0)
    learning_rate: float = Field(0.01, gt=0)
    # Sequences to a step, and passes over them. Of few sequences, fewer to a step and more passes: `enough_steps`.
    batch: int = Field(16, ge=1)
    epochs: int = Field(1, ge=1)
    # One map for queries and keys, or one each; the loss of a query summed over its gold keys, or of each by itself.
    shared: bool = True
    summed: bool = False
    # Tokens per head at most that centroids are computed from, and how often k-means starts anew; as often as each
    # method does by itself if not given.
    tokens: int = Field(20_000, ge=1)
    restarts: int | None = Field(None, ge=1)


class Method(Part):
    """One method of a sweep and its settings: lists are swept over, every combination.

    A method with a dial (`sparsefinder methods` says which) takes `recall: [0.8, 0.95]` or `sparsity: [...]` in place
    of a setting of it: every head then gets the setting that just has it, on sequences of the training data.
    """

    method: str
    # Which vectors it compares: the learned projection's, those of as many principal components, or queries and keys as
    # they are. Several are swept over. Left out: learned for the methods of the paper, raw for the others.
    inputs: tuple[Literal["projected", "pca", "raw"], ...] | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, given: Any) -> Any:
        """`{method: kmeans, clusters: [2, 4]}` as well as with a key of its own for the settings."""
        if isinstance(given, str):
            return {"method": given}
        if isinstance(given, dict) and "settings" not in given:
            own = {key: given[key] for key in ("method", "inputs") if key in given}
            if isinstance(own.get("inputs"), str):
                own["inputs"] = [own["inputs"]]
            return {**own, "settings": {key: value for key, value in given.items() if key not in own}}
        return given


class Sweep(Part):
    """The grid of sparsity and recall."""

    # A grid by name (`mt`, `mlm`: the paper's; `mt-appendix`, `mlm-appendix`; `small`; `rivals`: every method),
    # with `methods` added to it.
    grid: Literal["mt", "mlm", "mt-appendix", "mlm-appendix", "small", "rivals"] | None = None
    methods: tuple[Method, ...] = ()
    # Windows and numbers of global tokens that every setting is combined with; the grid's own if not given.
    windows: tuple[Count, ...] | None = None
    globals: tuple[Count, ...] | None = None
    # Sequences of `traces/valid` to measure on; all if not given.
    sequences: int | None = Field(None, ge=1)
    batch: int = Field(8, ge=1)
    # Processes to share the work among; as many as cores if not given.
    processes: int | None = Field(None, ge=1)


class Accuracy(Part):
    """Which points of the grid are also run inside the model."""

    # As in `sweep`; all of its methods, and the windows below, if not given.
    methods: tuple[Method, ...] | None = None
    windows: tuple[Count, ...] = (0, 11)
    globals: tuple[Count, ...] = (1,)
    # Kinds of attention to replace; what was traced if not given.
    kinds: tuple[Literal["encoder", "decoder", "cross"], ...] | None = None
    # Blocks or sentences to measure on; what the task evaluates on if not given.
    evaluate: int | None = Field(None, ge=1)


class Timing(Part):
    """Running time and quality of the block variants by number of attended blocks."""

    blocks: tuple[Some, ...] = (2, 3, 4, 8, 16, 22)
    sizes: tuple[Some, ...] = (2, 4, 8, 16)
    clusters: tuple[Some, ...] = (2, 4, 8, 12, 16, 20)
    window: int = Field(3, ge=0)
    sequences: int = Field(500, ge=1)
    batch: int = Field(8, ge=1)
    repeats: int = Field(3, ge=1)


class Report(Part):
    """What the page shows besides the charts."""

    # A spaCy pipeline for parts of speech, by name; none leaves that section out.
    pos: str | None = None
    # Sentences with attention maps.
    sentences: int = Field(4, ge=0)


class Needs(Part):
    """What one unit of a stage's work gets."""

    # Processors, and threads where it runs a model; as many as the driver has there, and one elsewhere, if not given.
    cpus: int | None = Field(None, ge=1)
    # On a cluster: graphics processors, or a share of one.
    gpus: float = Field(0, ge=0)


class Engine(Part):
    """Where the units of work are done: on this machine, or on a cluster. What comes out is the same."""

    kind: Literal["local", "ray"] = "local"
    # That of a Ray cluster: auto, HOST:6379, ray://HOST:10001; a new one on this machine if not given.
    address: str | None = None
    # By what is done: a unit is a part of the sequences to trace, some finders of a layer, some settings of a layer, a
    # point of the accuracy sweep.
    trace: Needs = Needs()
    fit: Needs = Needs()
    sweep: Needs = Needs()
    accuracy: Needs = Needs()

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        """`engine: ray` as well as with keys."""
        return {"kind": given} if isinstance(given, str) else given


class Recipe(Part):
    """A whole run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    seed: int = 0
    # Where models train and run: a GPU if there is one, unless it is said.
    device: Literal["auto", "cpu", "cuda"] = "auto"
    # `ray`, or {kind: ray, address: …, trace: {cpus: 4, gpus: 1}}.
    engine: Engine = Engine()
    task: Annotated[MaskedLM | CausalLM | Translation, Field(discriminator="kind")]
    trace: Trace = Trace()
    fit: Fit = Fit()
    sweep: Sweep = Sweep()
    accuracy: Accuracy | None = None
    timing: Timing | None = None
    report: Report = Report()
