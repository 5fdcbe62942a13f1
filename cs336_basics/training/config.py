"""The configuration of a training run, as dataclasses that check their values.

`config_files.py` reads and writes them as YAML; every value is an option of the command `train`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Literal

from cs336_basics._support.arguments import MOST_THREADS
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import MAX_INT64, Amount, Checked, Count, Limits, option
from cs336_basics.data.data_config import DataConfig, Preparation
from cs336_basics.model import ModelConfig

LOGGERS = {
    "tensorboard": "torch.utils.tensorboard",
    "wandb": "wandb",
    "trackio": "trackio",
}
"""Name of a logger -> the module that it needs."""

DecayRate = Annotated[float, Limits(ge=0, lt=1)]


@dataclass(frozen=True)
class OptimizerConfig(Checked):
    """The optimizer, see training/optimizers.py, and gradient clipping."""

    kind: Literal["adamw", "muon", "sgd"] = option(
        "AdamW or SGD for all weights; or Muon for the matrices and AdamW for the rest", "adamw"
    )
    betas: tuple[DecayRate, DecayRate] = option(
        "decay rates of AdamW's two moment estimates, as [beta1, beta2]", (0.9, 0.95)
    )
    eps: float = option("added to the denominator of AdamW's update", 1e-8, gt=0)
    weight_decay: float = option(
        "decoupled weight decay; with sgd: added to the gradient", 0.1, ge=0
    )
    momentum: DecayRate = option(
        "decay rate of Muon's averaged gradient; with sgd: of the summed one, 0: none", 0.95
    )
    nesterov: bool = option("with sgd: Nesterov momentum", False)
    embedding_lr_scale: float = option(
        "with muon: learning rate of the embedding, relative to that of the matrices", 1.0, ge=0
    )
    head_lr_scale: float = option(
        "with muon: learning rate of the output head, relative to that of the matrices", 1.0, ge=0
    )
    max_grad_norm: float = option("gradients are scaled down to this L2 norm", 1.0, gt=0)

    def __post_init__(self) -> None:
        """Check the values, and those that depend on each other."""
        super().__post_init__()
        if self.nesterov and self.momentum == 0:
            raise ValueError("optimizer.nesterov is True: it needs an optimizer.momentum above 0")


@dataclass(frozen=True)
class ScheduleConfig(Checked):
    """Linear warm-up, then a cosine down to the minimum, or a plateau and a straight line."""

    shape: Literal["cosine", "linear"] = option(
        "decay from the maximum: half a cosine, or a plateau and a straight line", "cosine"
    )
    max_learning_rate: float = option("learning rate at the end of the warm-up", 1e-3, gt=0)
    min_learning_rate: float = option("learning rate at the end of the schedule", 1e-4, ge=0)
    warmup_fraction: float = option(
        "share of the schedule that is linear warm-up", 0.05, ge=0, lt=1
    )
    decay_fraction: float = option(
        "share of a linear schedule that is decay; 1: all but the warm-up, no plateau",
        1.0,
        ge=0,
        le=1,
    )
    cycle_steps: Count | None = option("step at which the schedule ends; unset: max_steps", None)

    def __post_init__(self) -> None:
        """Check the values, and those that depend on each other."""
        super().__post_init__()
        if self.min_learning_rate > self.max_learning_rate:
            raise ValueError(
                f"schedule.min_learning_rate is {self.min_learning_rate}: it should be at most "
                f"schedule.max_learning_rate, {self.max_learning_rate}"
            )


@dataclass(frozen=True)
class TrainConfig(Checked):
    """Everything that determines a run. The run directory stores it as `config.yaml`.

    Raises:
        ValueError: a value has another type, or is out of bounds.
    """

    name: str = option("name of the run; begins the name of its directory", "sample")
    # One word of the data order's Philox key; the sample corpus takes the next one.
    seed: int = option(
        "seed of the weights, the data order, the sample corpus and the samples",
        0,
        ge=0,
        le=MAX_INT64 - 1,
    )
    max_steps: Count = option("optimizer steps in the whole run", 1000)
    batch_size: Count = option("sequences per optimizer step", 32)
    accumulation: Count = option(
        "micro-batches in which a batch is computed: less memory, the same result", 1
    )
    precision: Literal["float32", "bfloat16"] = option(
        "type of the matrix products; weights and optimizer stay in float32", "float32"
    )
    compile: bool = option("compile the model with torch.compile", False)
    loss_chunks: Count = option(
        "chunks in which the logits are computed: less memory, the same loss; 1: all at once", 1
    )
    fused_optimizer: bool = option("use torch's fused AdamW instead of the readable one", False)
    checkpoint_activations: bool = option(
        "compute each block again in the backward pass: less memory, more time", False
    )
    fast: Literal["off", "auto"] = option(
        "auto: choose precision, compile, loss_chunks, fused_optimizer and "
        "model.attention for this machine, except options given",
        "off",
    )
    parallel: Literal["ddp", "fsdp"] = option(
        "under torchrun: replicate the weights in each process, or shard them", "ddp"
    )
    deterministic: bool = option(
        "on a GPU: exact resumption, by algorithms that are slower (a CPU is always exact)", False
    )
    device: str = option("cpu, cuda, cuda:N, mps; auto: a GPU if there is one", "auto")
    num_workers: int | None = option(
        "processes and threads to use; unset: all cores", None, ge=1, le=MOST_THREADS
    )
    log_every: Count = option("steps between rows in metrics.jsonl", 10)
    eval_every: Count = option("steps between evaluations, each with a checkpoint before it", 200)
    eval_batches: Amount = option(
        "fixed validation batches, spread over the file; 0: all of the validation data", 20
    )
    checkpoint_every: Count = option("steps between checkpoints", 200)
    keep_checkpoints: Count = option("number of newest checkpoints to keep, besides the best", 2)
    log_to: str = option(
        "also log to these, separated by commas: tensorboard, wandb (offline), trackio", ""
    )
    sample_tokens: Amount = option("length of the text sampled at each evaluation; 0: none", 200)
    sample_prompt: str = option("how sampled texts begin; empty: at the start of a document", "")
    sample_temperature: float = option("temperature of the sampled texts; 0: greedy", 0.8, ge=0)
    sample_top_p: float = option(
        "nucleus of the sampled texts; 1: the whole distribution", 0.95, gt=0, le=1
    )
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        """Check the values, and those that depend on each other."""
        super().__post_init__()
        if not re.fullmatch(r"[\w.-]+", self.name):
            raise ValueError(
                f"name is {short_repr(self.name)}: it should have letters, digits, - . and _ alone"
            )
        if self.batch_size % self.accumulation:
            raise ValueError(
                f"accumulation is {self.accumulation}: it should be a divisor of batch_size, "
                f"{self.batch_size}"
            )
        if not set(self.loggers) <= set(LOGGERS) or len(set(self.loggers)) < len(self.loggers):
            raise ValueError(
                f"log_to is {short_repr(self.log_to)}: it should be a list of "
                f"{', '.join(LOGGERS)}, each at most once"
            )

    @property
    def preparation(self) -> Preparation:
        """What the preparation of the data depends on."""
        return Preparation(self.data, self.model.vocab_size, self.seed, self.num_workers)

    @property
    def loggers(self) -> list[str]:
        """The names in `log_to`."""
        return [name for name in self.log_to.split(",") if name]


def check_fast_is_chosen(config: TrainConfig) -> None:
    """Check that `fast` is "off": how a run computes is chosen once, before the run is made.

    Raises:
        ValueError: it is "auto".
    """
    if config.fast != "off":
        raise ValueError(
            f"fast is {config.fast!r}: train with the configuration that "
            "cs336_basics.training.fast_path.choose_fast_path returns for this one"
        )
