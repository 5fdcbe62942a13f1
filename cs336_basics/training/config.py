"""The configuration of a training run, as dataclasses that check their values.

`config_files.py` reads and writes them as YAML; `commands/_options.py` takes options from a command
line.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from cs336_basics._support.arguments import MOST_THREADS
from cs336_basics._support.messages import short_repr
from cs336_basics._support.option import check_types, option
from cs336_basics.data.data_config import DataConfig, Preparation
from cs336_basics.model import ModelConfig
from cs336_basics.training.loggers import LOGGERS


@dataclass
class OptimizerConfig:
    """The optimizer, see training/optimizers.py, and gradient clipping."""

    kind: Literal["adamw", "muon", "sgd"] = option(
        "adamw", "AdamW or SGD for all weights; or Muon for the matrices and AdamW for the rest"
    )
    betas: tuple[float, float] = option(
        (0.9, 0.95), "decay rates of AdamW's two moment estimates, as [beta1, beta2]"
    )
    eps: float = option(1e-8, "added to the denominator of AdamW's update")
    weight_decay: float = option(0.1, "decoupled weight decay; with sgd: added to the gradient")
    momentum: float = option(
        0.95, "decay rate of Muon's averaged gradient; with sgd: of the summed one, 0: none"
    )
    nesterov: bool = option(False, "with sgd: Nesterov momentum")
    embedding_lr_scale: float = option(
        1.0, "with muon: learning rate of the embedding, relative to that of the matrices"
    )
    head_lr_scale: float = option(
        1.0, "with muon: learning rate of the output head, relative to that of the matrices"
    )
    max_grad_norm: float = option(1.0, "gradients are scaled down to this L2 norm")

    def __post_init__(self) -> None:
        check_types(self, "optimizer.")


@dataclass
class ScheduleConfig:
    """Linear warm-up, then a cosine down to the minimum, or a plateau and a straight line."""

    shape: Literal["cosine", "linear"] = option(
        "cosine", "decay from the maximum: half a cosine, or a plateau and a straight line"
    )
    max_learning_rate: float = option(1e-3, "learning rate at the end of the warm-up")
    min_learning_rate: float = option(1e-4, "learning rate at the end of the schedule")
    warmup_fraction: float = option(0.05, "share of the schedule that is linear warm-up")
    decay_fraction: float = option(
        1.0, "share of a linear schedule that is decay; 1: all but the warm-up, no plateau"
    )
    cycle_steps: int | None = option(None, "step at which the schedule ends; unset: max_steps")

    def __post_init__(self) -> None:
        check_types(self, "schedule.")


@dataclass
class TrainConfig:
    """Everything that determines a run. The run directory stores it as `config.yaml`.

    Raises:
        TypeError: a value has another type than its annotation says.
        ValueError: a value is out of bounds; both name the key and the value.
    """

    name: str = option("sample", "name of the run; begins the name of its directory")
    seed: int = option(0, "seed of the weights, the data order, the sample corpus and the samples")
    max_steps: int = option(1000, "optimizer steps in the whole run")
    batch_size: int = option(32, "sequences per optimizer step")
    accumulation: int = option(
        1, "micro-batches in which a batch is computed: less memory, the same result"
    )
    precision: Literal["float32", "bfloat16"] = option(
        "float32", "type of the matrix products; weights and optimizer stay in float32"
    )
    compile: bool = option(False, "compile the model with torch.compile")
    loss_chunks: int = option(
        1, "chunks in which the logits are computed: less memory, the same loss; 1: all at once"
    )
    fused_optimizer: bool = option(False, "use torch's fused AdamW instead of the readable one")
    checkpoint_activations: bool = option(
        False, "compute each block again in the backward pass: less memory, more time"
    )
    fast: Literal["off", "auto"] = option(
        "off",
        "auto: choose precision, compile, loss_chunks, fused_optimizer and model.attention for "
        "this machine, except options given",
    )
    parallel: Literal["ddp", "fsdp"] = option(
        "ddp", "under torchrun: replicate the weights in each process, or shard them"
    )
    deterministic: bool = option(
        False, "on a GPU: exact resumption, by algorithms that are slower (a CPU is always exact)"
    )
    device: str = option("auto", "cpu, cuda, cuda:N, mps; auto: a GPU if there is one")
    num_workers: int | None = option(None, "processes and threads to use; unset: all cores")
    log_every: int = option(10, "steps between rows in metrics.jsonl")
    eval_every: int = option(200, "steps between evaluations, each with a checkpoint before it")
    eval_batches: int = option(
        20, "fixed validation batches, spread over the file; 0: all of the validation data"
    )
    checkpoint_every: int = option(200, "steps between checkpoints")
    keep_checkpoints: int = option(2, "number of newest checkpoints to keep, besides the best")
    log_to: str = option(
        "", "also log to these, separated by commas: tensorboard, wandb (offline), trackio"
    )
    sample_tokens: int = option(200, "length of the text sampled at each evaluation; 0: none")
    sample_prompt: str = option("", "how sampled texts begin; empty: at the start of a document")
    sample_temperature: float = option(0.8, "temperature of the sampled texts; 0: greedy")
    sample_top_p: float = option(0.95, "nucleus of the sampled texts; 1: the whole distribution")
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        check_types(self)
        _check_values(self)

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


def _check_values(config: TrainConfig) -> None:
    """Check the bounds of the values.

    Raises:
        ValueError: naming the key and its value.
    """

    def require(key: str, holds: bool, rule: str) -> None:
        if not holds:
            value: Any = config
            for part in key.split("."):
                value = getattr(value, part)
            raise ValueError(f"{key} is {short_repr(value)}: it must be {rule}")

    positive, not_negative = "a finite number above 0", "a finite number, 0 or more"
    for key in ("batch_size", "max_steps", "accumulation", "log_every", "eval_every"):
        require(key, getattr(config, key) >= 1, "at least 1")
    for key in ("checkpoint_every", "keep_checkpoints", "loss_chunks"):
        require(key, getattr(config, key) >= 1, "at least 1")
    workers = config.num_workers
    require(
        "num_workers",
        workers is None or 1 <= workers <= MOST_THREADS,
        f"between 1 and {MOST_THREADS}",
    )
    for key in ("eval_batches", "sample_tokens", "sample_temperature"):
        require(key, 0 <= getattr(config, key) < math.inf, not_negative)
    require("sample_top_p", 0 < config.sample_top_p <= 1, "above 0 and at most 1")
    # Seeds are one word of the data order's Philox key, and the sample corpus takes the next one.
    require("seed", 0 <= config.seed < 2**63 - 1, "between 0 and 2^63 - 2")
    require("name", re.fullmatch(r"[\w.-]+", config.name) is not None, "letters, digits, . _ or -")
    require(
        "accumulation",
        config.batch_size % config.accumulation == 0,
        f"a divisor of batch_size, {config.batch_size}",
    )
    known = set(config.loggers) <= set(LOGGERS)
    require(
        "log_to",
        known and len(set(config.loggers)) == len(config.loggers),
        f"a list of {', '.join(LOGGERS)}, each at most once",
    )
    rates = config.schedule
    require("schedule.max_learning_rate", 0 < rates.max_learning_rate < math.inf, positive)
    require(
        "schedule.min_learning_rate",
        0 <= rates.min_learning_rate <= rates.max_learning_rate,
        "between 0 and schedule.max_learning_rate",
    )
    cycle = rates.cycle_steps
    require("schedule.cycle_steps", cycle is None or cycle >= 1, "at least 1")
    require("schedule.warmup_fraction", 0 <= rates.warmup_fraction < 1, "at least 0 and below 1")
    require("schedule.decay_fraction", 0 <= rates.decay_fraction <= 1, "between 0 and 1")
    betas = config.optimizer.betas
    require("optimizer.betas", all(0 <= beta < 1 for beta in betas), "two numbers in [0, 1)")
    require("optimizer.eps", 0 < config.optimizer.eps < math.inf, positive)
    require("optimizer.weight_decay", 0 <= config.optimizer.weight_decay < math.inf, not_negative)
    require("optimizer.momentum", 0 <= config.optimizer.momentum < 1, "at least 0 and below 1")
    require(
        "optimizer.nesterov",
        not (config.optimizer.nesterov and config.optimizer.momentum == 0),
        "false where optimizer.momentum is 0",
    )
    for key in ("optimizer.embedding_lr_scale", "optimizer.head_lr_scale"):
        scale = getattr(config.optimizer, key.partition(".")[2])
        require(key, 0 <= scale < math.inf, not_negative)
    require("optimizer.max_grad_norm", 0 < config.optimizer.max_grad_norm < math.inf, positive)
