"""What a recipe may say: every key with what it means, and the default that it takes where it is left out."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, model_validator

from .sources import PairSource, Part, TextSource

__all__ = [
    "Accuracy", "Fit", "MaskedLM", "Method", "PairData", "Recipe", "Report", "Sweep", "TextData", "Timing", "Trace",
    "Training", "Translation",
]  # fmt: skip


class TextData(Part):
    """Texts to train on and to measure on."""

    train: TextSource
    valid: TextSource


class PairData(Part):
    """Sentence pairs to train on, to stop by and to measure on."""

    train: PairSource
    valid: PairSource
    test: PairSource


class Training(Part):
    """How the teacher is trained: what Hugging Face's Trainer takes, under the names of the paper's tables."""

    # 0 leaves the model as it is: to take a checkpoint that was trained elsewhere.
    steps: int = Field(1000, ge=0)
    # Passes over the data, instead of steps.
    epochs: float | None = Field(None, gt=0)
    batch: int = Field(8, ge=1)
    # Batches of at most so many tokens, with their padding, of the longer side: to train on, instead of `batch` each.
    tokens: int | None = Field(None, ge=1)
    # Batches whose gradients are added up before a step.
    accumulate: int = Field(1, ge=1)
    learning_rate: float = Field(5e-4, gt=0)
    schedule: Literal["linear", "cosine", "constant", "inverse_sqrt"] = "linear"
    warmup_steps: int = Field(0, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    # How long Adam remembers gradients and their squares. Short trainings gain from 0.98 (Vaswani et al., 2017).
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    # What Adam adds to the root of the squares.
    epsilon: float = Field(1e-8, gt=0)
    # Gradients longer than this are cut to it; 0 leaves them as they are.
    clip: float = Field(1.0, ge=0)
    # Steps between evaluations and checkpoints; a killed training goes on from the last one.
    every: int = Field(500, ge=1)
    # Stop when so many evaluations in a row brought nothing; never if not given.
    patience: int | None = Field(None, ge=1)
    precision: Literal["float32", "bfloat16"] = "float32"
    # TensorBoard, Weights & Biases, …: names as the Trainer knows them.
    log_to: tuple[str, ...] = ()

    @property
    def changes_the_model(self) -> bool:
        """Whether there is anything to train."""
        return self.steps > 0 or self.epochs is not None


class MaskedLM(Part):
    """Masked language modelling with any encoder of Hugging Face."""

    kind: Literal["masked-lm"]
    data: TextData
    # A checkpoint by path or hub name, to start from. With another α than its own, if it is trained on …
    checkpoint: str | None = None
    # … or an architecture and its config, to start from scratch: {architecture: BertForMaskedLM, hidden_size: 128, …}
    model: dict[str, Any] | None = None
    # A tokenizer by path or hub name; the checkpoint's own if not given, one trained on the data if there is none.
    tokenizer: str | None = None
    vocabulary: int = Field(8000, ge=64)
    # Tokens in a block of text.
    length: int = Field(512, ge=8)
    masked: float = Field(0.15, gt=0, lt=1)
    alpha: float = Field(1.5, ge=1)
    # Blocks that perplexity is measured on; all if not given.
    evaluate: int | None = Field(None, ge=1)
    # A word counts as one that only far attention can fetch if the next place where it occurs is farther than this.
    far: int = Field(64, ge=1)
    training: Training = Training()

    @model_validator(mode="after")
    def _one_start(self) -> MaskedLM:
        return _one_start(self)


class Translation(Part):
    """Translation with an encoder and a decoder of the Marian architecture."""

    kind: Literal["translation"]
    data: PairData
    checkpoint: str | None = None
    # The config of a MarianMTModel from scratch: {"d_model": 128, "encoder_layers": 3, …}
    model: dict[str, Any] | None = None
    tokenizer: str | None = None
    # Merges of the joint byte pair encoding, where a tokenizer is trained.
    vocabulary: int = Field(32_000, ge=64)
    # Longer sentences are left out of the training data and cut elsewhere.
    length: int = Field(128, ge=8)
    dropout: float = Field(0.3, ge=0, lt=1)
    # The share of the source's tokens that become the unknown one in training (CoWord dropout, Fernandes et al., 2021).
    word_dropout: float = Field(0.1, ge=0, lt=1)
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    beam: int = Field(5, ge=1)
    alpha: float = Field(1.5, ge=1)
    # Sentences that BLEU is measured on; all of the test data if not given.
    evaluate: int | None = Field(None, ge=1)
    training: Training = Training()

    @model_validator(mode="after")
    def _one_start(self) -> Translation:
        return _one_start(self)

    @model_validator(mode="after")
    def _longest_fits(self) -> Translation:
        if self.training.tokens is not None and self.training.tokens < self.length:
            raise ValueError(f"training.tokens is {self.training.tokens}, and a sentence may have {self.length}")
        return self


AnyTask = TypeVar("AnyTask", MaskedLM, Translation)


class Trace(Part):
    """Which inputs and layers are recorded: sequences of the training data, drawn at random."""

    train: int = Field(500, ge=1)
    valid: int = Field(500, ge=1)
    # Only sequences of more tokens than this.
    longer_than: int = Field(0, ge=0)
    # Kinds of attention (encoder, decoder, cross) and layers; the task's own kind and all layers if not given.
    kinds: tuple[Literal["encoder", "decoder", "cross"], ...] | None = None
    layers: tuple[int, ...] | None = None
    precision: Literal["float16", "float32"] = "float16"
    batch: int = Field(8, ge=1)


class Fit(Part):
    """How projections and finders are learned; the paper's values."""

    r: int = Field(4, ge=1)
    margin: float = Field(1.0, gt=0)
    learning_rate: float = Field(0.01, gt=0)
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

    # A grid by name (`mt`, `mlm`: the paper's; `mt-appendix`, `mlm-appendix`; `small`), with `methods` added to it.
    grid: Literal["mt", "mlm", "mt-appendix", "mlm-appendix", "small"] | None = None
    methods: tuple[Method, ...] = ()
    # Windows and numbers of global tokens that every setting is combined with; the grid's own if not given.
    windows: tuple[int, ...] | None = None
    globals: tuple[int, ...] | None = None
    # Sequences of `traces/valid` to measure on; all if not given.
    sequences: int | None = Field(None, ge=1)
    batch: int = Field(8, ge=1)
    # Processes to share the work among; as many as cores if not given.
    processes: int | None = Field(None, ge=1)


class Accuracy(Part):
    """Which points of the grid are also run inside the model."""

    # As in `sweep`; all of its methods, and the windows below, if not given.
    methods: tuple[Method, ...] | None = None
    windows: tuple[int, ...] = (0, 11)
    globals: tuple[int, ...] = (1,)
    # Kinds of attention to replace; what was traced if not given.
    kinds: tuple[Literal["encoder", "decoder", "cross"], ...] | None = None
    # Blocks or sentences to measure on; what the task evaluates on if not given.
    evaluate: int | None = Field(None, ge=1)


class Timing(Part):
    """Running time and quality of the block variants by number of attended blocks."""

    blocks: tuple[int, ...] = (2, 3, 4, 8, 16, 22)
    sizes: tuple[int, ...] = (2, 4, 8, 16)
    clusters: tuple[int, ...] = (2, 4, 8, 12, 16, 20)
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


class Recipe(Part):
    """A whole run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    seed: int = 0
    # Where models train and run: a GPU if there is one, unless it is said.
    device: Literal["auto", "cpu", "cuda"] = "auto"
    task: Annotated[MaskedLM | Translation, Field(discriminator="kind")]
    trace: Trace = Trace()
    fit: Fit = Fit()
    sweep: Sweep = Sweep()
    accuracy: Accuracy | None = None
    timing: Timing | None = None
    report: Report = Report()


def _one_start(task: AnyTask) -> AnyTask:
    if (task.checkpoint is None) == (task.model is None):
        raise ValueError("either `checkpoint` (to start from) or `model` (a config, to start from scratch) is needed")
    return task
