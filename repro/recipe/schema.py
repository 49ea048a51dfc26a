"""What a run is: frozen, strict models of every setting that a recipe may give."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    SerializeAsAny,
    Tag,
    field_validator,
    model_validator,
)

from repro.corrections import Correction, parse_corrections
from repro.methods import Method, parse_method
from repro.paths import plain_name
from repro.recipe import network_settings
from repro.recipe.compatibility import check_corrections, check_precision, check_replicas
from repro.recipe.optimizers import SGD, OptimizerSpec, parse_optimizer
from repro.recipe.spec import Fraction, NonNegative, PositiveInt, Spec

PlainName = Annotated[str, AfterValidator(plain_name)]
CONTEXT = 64  # tokens of a sequence where a recipe gives none

ESTIMATORS = ("full", "zero", "random", "top1", "sampled", "shared-topk")
SCHEDULES = ("s1", "s2", "s3", "early", "all", "measured", "alternate")


class ModelSpec(Spec):
    """A network by name, with the options that its builder accepts; None: the network has no such setting."""

    name: str
    batch_norm: bool = True
    dropout: Fraction = 0.0
    layers: PositiveInt | None = None  # gpt: blocks of attention and MLP; mlp: hidden layers
    width: PositiveInt | None = None  # gpt: of the residual stream; mlp: of hidden layers
    heads: PositiveInt | None = None  # gpt only, as all below
    positions: Literal["learned", "rotary"] | None = None
    tied: bool | None = None  # embedding and head one weight

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        return network_settings.completed(given) if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _check(self) -> ModelSpec:
        network_settings.check(self.name, self.width, self.heads, self.positions, self.tied)
        return self


class DataSpec(Spec):
    """A data set, how much of it is used, and how it is cut into batches."""

    name: Literal[
        "digits", "fashion-mnist", "cifar10", "cifar100", "imagenet", "synthetic", "colours", "text"
    ]
    batch_size: PositiveInt = 128
    test_batch_size: PositiveInt = 256
    image_size: PositiveInt | None = None  # pixels a side after resizing; None keeps the set's own size
    context: PositiveInt | None = None  # text only: tokens of a sequence; 64 where none is given
    tokenizer: str | None = None  # text only: file of the `tokenizers` package; None: bytes are the tokens
    # First n samples of a seeded, class-balanced order, of a text its first n sequences; None = all.
    train_limit: PositiveInt | None = None
    test_limit: PositiveInt | None = None
    augment: Literal["none", "crop-flip", "crop"] = "none"
    crop_padding: Annotated[int, Field(ge=0, strict=True)] = 4
    last_batch: Literal["keep", "drop"] = "keep"
    seed: Annotated[int, Field(ge=0, strict=True)] | None = None  # order and augmentation; None = run's seed
    channels: PositiveInt = 3  # synthetic only
    classes: Annotated[int, Field(ge=2, strict=True)] = 10  # synthetic only
    bad_label: Annotated[int, Field(ge=0, strict=True)] | None = None  # colours only: break this sample
    skip_corrupt: bool = False  # imagenet only
    num_workers: Annotated[int, Field(ge=0, strict=True)] = 0  # imagenet only; changes no number
    # Folder of the files (text: a file, or a folder); None = the data root (text: the embedded one). Of itself it
    # changes no number: what is read has its digest in the hash.
    path: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("name") == "text" and given.get("context") is None:
            return {**given, "context": CONTEXT}
        return given


def _number_as_text(value: Any) -> Any:
    """A bare 2 in a recipe means "2"."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Slice = Annotated[str, BeforeValidator(_number_as_text)]


class GradientRule(Spec):
    """Where an estimator applies: slices "start:stop:step" over convolutions (from 1), batches, epochs (from 0)."""

    layers: Annotated[str | tuple[str | int, ...], BeforeValidator(_number_as_text)] = ":"
    batches: Slice = ":"
    epochs: Slice = ":"
    estimator: Literal["full", "zero", "random", "top1", "sampled", "shared-topk"] | None = None


class GradientSpec(Spec):
    """How filter gradients are estimated, and on which (layer, batch)."""

    estimator: Literal["full", "zero", "random", "top1", "sampled", "shared-topk"] = "full"
    scale: Literal["natural", "paper"] = "natural"
    # A name or rules. Told apart before they are read, so that an error is about what was meant; the brackets
    # mark what is no field in an error's place.
    schedule: Annotated[
        Annotated[Literal["s1", "s2", "s3", "early", "all", "measured", "alternate"], Tag("[name]")]
        | Annotated[tuple[GradientRule, ...], Field(min_length=1), Tag("[rules]")],
        Discriminator(lambda given: "[name]" if isinstance(given, str) else "[rules]"),
    ] = "all"
    kernel: Literal["auto", "reference", "cpu", "cupy", "torch"] = "auto"
    samples: PositiveInt = 4  # pixels per sample for `sampled` and `shared-topk`


class StragglerSpec(Spec):
    """Random delays: before a batch, with `probability`, a block sleeps `delay` x its median compute time."""

    probability: Fraction = 0.0
    delay: NonNegative = 0.0


class RuntimeSpec(Spec):
    """How a run is carried out; nothing here changes a number, so the hash leaves it out."""

    threads: PositiveInt | None = None  # per block; None = max(1, cores // blocks)
    port: Annotated[int, Field(ge=0, le=65535, strict=True)] = 0  # rendezvous; 0 = any free port
    rendezvous_seconds: Annotated[float, Field(gt=0)] = 60.0  # for all blocks to meet
    message_seconds: Annotated[float, Field(gt=0)] = 1800.0  # a longer wait for a neighbour ends the run
    stall_seconds: Annotated[float, Field(gt=0)] = 120.0  # without any sign: say who waits for whom
    heartbeat_seconds: Annotated[float, Field(gt=0)] = 10.0  # a run that misses six is dead to other hosts
    checkpoint_every: Annotated[int, Field(ge=0, strict=True)] = 1  # epochs; 0 = never
    two_streams: bool = False  # CUDA: the recompute and the next forward may overlap
    # Of a run on several hosts (docs/hosts.md):
    interface: str | None = None  # network interface of this host; None = that of the way to the rendezvous
    join_seconds: Annotated[float, Field(gt=0)] = 25.0  # for all hosts to come
    silence_seconds: Annotated[float, Field(gt=0)] = 20.0  # without a sign of life a host is lost


class Recipe(Spec):
    """One experiment, complete: every value that takes part in a run."""

    name: PlainName
    group: Literal["dsp", "gradient-approximation", "asynchronous"]
    reproduces: str
    experiment: Literal["train", "straggler", "gradient-gap", "bias"] = "train"
    profile: str = "paper"
    model: ModelSpec
    data: DataSpec
    method: SerializeAsAny[Method]
    blocks: PositiveInt = 1
    # Data parallel x pipeline: each block on so many devices, each with its share of every batch.
    replicas: PositiveInt = 1
    cut: Literal["measured", "estimated"] | tuple[PositiveInt, ...] = "measured"
    optimizer: SerializeAsAny[OptimizerSpec] = SGD()
    corrections: tuple[SerializeAsAny[Correction], ...] = ()  # of staleness; applied in this order
    epochs: PositiveInt = 1
    max_steps: PositiveInt | None = None
    evaluate_every: PositiveInt = 1  # epochs
    # Of images, maps and filters; auto: the faster one, measured on this machine (in the hash: what was taken).
    memory_format: Literal["contiguous", "channels_last", "auto"] = "contiguous"
    autocast: Literal["none", "bfloat16"] = "none"  # of forwards; weights and optimiser stay float32
    tf32: bool = False  # CUDA: products of float32 may round to TF32
    norm_statistics: Literal["recompute", "forward", "both"] = "recompute"
    norm_recalibration: Annotated[int, Field(ge=0, strict=True)] = (
        0  # training batches; 0: running statistics
    )
    deterministic: bool = True
    gradient: GradientSpec = GradientSpec()
    straggler: StragglerSpec = StragglerSpec()
    timing_only: bool = False  # straggler only: blocks wait as long as they would compute, nothing is trained
    runtime: RuntimeSpec = RuntimeSpec()

    @property
    def ranks(self) -> int:
        """K x R: processes, a block of a replica each."""
        return self.blocks * self.replicas

    @property
    def of_replicas(self) -> str:
        """What stands behind a number of blocks: " of 2 replicas", or nothing where there is one."""
        return "" if self.replicas == 1 else f" of {self.replicas} replicas"

    @property
    def shard_size(self) -> int:
        """Samples of a batch that one replica takes."""
        return self.data.batch_size // self.replicas

    @field_validator("method", mode="before")
    @classmethod
    def _method(cls, value: Any) -> Method:
        return parse_method(value)

    @field_validator("optimizer", mode="before")
    @classmethod
    def _optimizer(cls, value: Any) -> OptimizerSpec:
        return parse_optimizer(value)

    @field_validator("corrections", mode="before")
    @classmethod
    def _corrections(cls, value: Any) -> tuple[Correction, ...]:
        return parse_corrections(value)

    @model_validator(mode="after")
    def _check(self) -> Recipe:
        if isinstance(self.cut, tuple):
            if len(self.cut) != self.blocks - 1:
                raise ValueError(
                    f"cut = {list(self.cut)} makes {len(self.cut) + 1} blocks, but blocks = {self.blocks}: "
                    f"give {self.blocks - 1} cuts (the index of each later block's first layer)"
                )
            if list(self.cut) != sorted(set(self.cut)):
                raise ValueError(f"cut must increase, got {list(self.cut)}")
        check_replicas(self)
        self.method.check(self.blocks, self.shard_size)
        check_corrections(self)
        check_precision(self)
        if self.timing_only and self.experiment != "straggler":
            raise ValueError(
                f"timing_only = true: a timing-only run trains nothing, so that only straggler recipes may ask for it, "
                f"not experiment = '{self.experiment}' (`repro bench pipeline` times all methods)"
            )
        if self.timing_only and self.method.name == "dni":
            raise ValueError(
                "timing_only = true: the time of method 'dni''s predictor is not known; take another method"
            )
        return self
