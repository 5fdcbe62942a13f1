"""The configuration of a training run as dataclasses that check their values.

`config_files.py` reads and writes them as YAML. Each value is also an option of `train`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from cs336_basics._support.arguments import MAX_INT64, MOST_THREADS
from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import Amount, Checked, Count, option, variant
from cs336_basics._support.warnings import warn
from cs336_basics.data.data_config import DataConfig, Preparation
from cs336_basics.model import ModelConfig
from cs336_basics.model.config import Positive
from cs336_basics.training.optimizers.registry import OPTIMIZERS
from cs336_basics.training.optimizers.settings import OptimizerSettings

LOGGERS = {
    "tensorboard": "torch.utils.tensorboard",
    "wandb": "wandb",
    "trackio": "trackio",
}
"""Mapping from the name of each logger to the module that it needs."""


@dataclass(frozen=True)
class ScheduleConfig(Checked):
    """Linear warm-up, then either a half cosine, or a plateau followed by a linear decay."""

    shape: Literal["cosine", "linear"] = option(
        "decay along a half cosine, or linearly after a plateau", "cosine"
    )
    max_learning_rate: Positive = option("learning rate at the end of the warm-up", 1e-3)
    min_learning_rate: float = option("learning rate at the end of the schedule", 1e-4, ge=0)
    warmup_fraction: float = option(
        "fraction of the schedule spent on linear warm-up", 0.05, ge=0, lt=1
    )
    decay_fraction: float = option(
        "fraction of a linear schedule spent on decay; 1: no plateau",
        1.0,
        ge=0,
        le=1,
    )
    cycle_steps: Count | None = option("step at which the schedule ends; unset: max_steps", None)

    def __post_init__(self) -> None:
        """Check each value, then the constraints between values."""
        super().__post_init__()
        if self.min_learning_rate > self.max_learning_rate:
            raise InputError(
                (
                    "must be at most ",
                    Argument("max_learning_rate"),
                    f" ({self.max_learning_rate}), got {self.min_learning_rate}",
                ),
                argument="min_learning_rate",
            )


@dataclass(frozen=True)
class OriginConfig(Checked):
    """The model that a run started from. The run records it; a hash that is set is compared.

    The fields are empty for a run that starts from drawn weights.
    """

    weights: str | None = option("SHA-256 of the weights that init_from names", None)
    tokenizer: str | None = option("hash of the tokenizer that init_from names", None)
    step: Amount | None = option("optimizer steps of these weights, if known", None)
    loss: float | None = option("validation loss of these weights in their own run, if known", None)

    def facts(self, name: str) -> dict[str, str]:
        """Return the facts as text, for cards and reports.

        Args:
            name: Name of the model, without directories, which may be private.
        """
        found = {
            "started from": name,
            "its weights, SHA-256": self.weights,
            "its tokenizer, SHA-256": self.tokenizer,
            "its step": None if self.step is None else f"{self.step:,}",
            "its validation loss": None if self.loss is None else f"{self.loss:.4f}",
        }
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True)
class TrainConfig(Checked):
    """The complete configuration of a run, stored in the run directory as `config.yaml`.

    Raises:
        ValueError: If a value has the wrong type or is out of range.
    """

    name: str = option(
        "name of the run; by default, its directory is runs/NAME-DATE", "sample", common=True
    )
    init_from: str | None = option(
        "run, checkpoint of a run or Hugging Face directory whose weights and tokenizer the run "
        "starts from; unset: drawn weights",
        None,
        common=True,
        resumable=True,
    )
    # The Philox key of the data order has 64 bits for the seed. The sample corpus uses seed + 1.
    seed: int = option(
        "seed for the weights, the data order, the sample corpus and the sampled texts",
        0,
        ge=0,
        le=MAX_INT64 - 1,
    )
    max_steps: Count = option("optimizer steps in the whole run", 1000, common=True, resumable=True)
    batch_size: Count = option("sequences per optimizer step", 32, common=True)
    accumulation: Count = option(
        "micro-batches per batch; a larger number saves memory without changing the result, except "
        "that dropout drops other features",
        1,
        resumable=True,
        changes_rounding=True,
    )
    dropout: float = option(
        "fraction of the features to drop in training, against memorizing a text read many times",
        0.0,
        ge=0,
        lt=1,
    )
    precision: Literal["float32", "bfloat16"] = option(
        "dtype of matrix products; weights and optimizer state stay in float32",
        "float32",
        resumable=True,
        changes_rounding=True,
    )
    products: Literal["torch", "onednn"] = option(
        "library that multiplies float32 matrices on a CPU: torch's choice (MKL on x86) or oneDNN",
        "torch",
        resumable=True,
        changes_rounding=True,
    )
    compile: bool = option(
        "compile the model with torch.compile", False, resumable=True, changes_rounding=True
    )
    loss_chunks: Count = option(
        "chunks of logits; a larger number saves memory", 1, resumable=True, changes_rounding=True
    )
    checkpoint_activations: bool = option(
        "recompute each block in the backward pass to save memory, at the cost of time",
        False,
        resumable=True,
    )
    parallel: Literal["ddp", "fsdp"] = option(
        "under torchrun, replicate the weights in each process (ddp) or shard them (fsdp)",
        "ddp",
        resumable=True,
        changes_rounding=True,
    )
    deterministic: bool = option(
        "on a GPU, use slower algorithms that make resuming exact (always exact on a CPU)", False
    )
    device: str = option(
        "cpu, cuda, cuda:N, mps or auto (a GPU if there is one)",
        "auto",
        common=True,
        resumable=True,
        changes_rounding=True,
    )
    num_workers: int | None = option(
        "number of processes and threads; unset: all cores",
        None,
        resumable=True,
        changes_rounding=True,
        ge=1,
        le=MOST_THREADS,
    )
    log_every: Count = option("steps between rows in metrics.jsonl", 10, resumable=True)
    eval_every: Count = option(
        "steps between evaluations; a checkpoint is saved before each", 200, resumable=True
    )
    eval_windows: Amount = option(
        "windows of context_length validation tokens in each evaluation, spread evenly over the "
        "data; 0: all; the last evaluation of a run always uses all",
        640,
    )
    eval_batches: int | None = option(
        "former way to set eval_windows, to this number times batch_size; until version 2.0",
        None,
        ge=0,
    )
    stop_after_worse: Amount = option(
        "end the run after this number of evaluations in a row without a new lowest validation "
        "loss; 0: never",
        0,
        resumable=True,
    )
    checkpoint_every: Count = option("steps between checkpoints", 200, resumable=True)
    keep_checkpoints: Count = option(
        "newest checkpoints to keep, in addition to the best", 2, resumable=True
    )
    log_to: str = option(
        "additional loggers, separated by commas: tensorboard, wandb (offline), trackio",
        "",
        resumable=True,
    )
    sample_tokens: Amount = option("tokens to sample at each evaluation; 0: none", 200)
    sample_prompt: str = option(
        "start of sampled texts; empty: start a new document; with data.answer_field: the prompt",
        "",
    )
    sample_temperature: float = option("temperature for sampling texts; 0: greedy", 0.8, ge=0)
    sample_top_p: float = option(
        "top-p (nucleus) for sampling texts; 1: allow all tokens", 0.95, gt=0, le=1
    )
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerSettings = variant(OPTIMIZERS)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    origin: OriginConfig = field(default_factory=OriginConfig)

    def __post_init__(self) -> None:
        """Check each value, then the constraints between values."""
        super().__post_init__()
        if self.eval_batches is not None:
            windows = self.eval_batches * self.batch_size
            warn(f"eval_batches ends in version 2.0; use eval_windows, which is set to {windows:,}")
            object.__setattr__(self, "eval_windows", windows)
            object.__setattr__(self, "eval_batches", None)
        if self.init_from is not None:
            object.__setattr__(self, "init_from", os.path.expanduser(self.init_from))
        elif self.origin != OriginConfig():
            recorded = [name for name, value in vars(self.origin).items() if value is not None]
            raise InputError(("requires ", Argument("init_from")), argument=f"origin.{recorded[0]}")
        if not re.fullmatch(r"[\w.-]+", self.name):
            raise InputError(
                f"must contain only letters, digits, '-', '.' and '_', got {short_repr(self.name)}",
                argument="name",
            )
        if self.batch_size % self.accumulation:
            raise InputError(
                f"must divide batch_size ({self.batch_size}), got {self.accumulation}",
                argument="accumulation",
            )
        if self.products == "onednn" and self.precision != "float32":
            raise InputError(
                f"must be torch with precision {self.precision}, got onednn; torch multiplies "
                "16-bit matrices with oneDNN anyway",
                argument="products",
            )
        if not set(self.loggers) <= set(LOGGERS) or len(set(self.loggers)) < len(self.loggers):
            raise InputError(
                f"must contain only {', '.join(LOGGERS)}, each at most once, got "
                f"{short_repr(self.log_to)}",
                argument="log_to",
            )

    def origin_facts(self) -> dict[str, str]:
        """Return the facts about the model that the run started from, for cards and reports."""
        if self.init_from is None:
            return {}
        path = Path(self.init_from)
        is_checkpoint = path.suffix == ".safetensors"
        name = f"{path.name} of {path.parent.parent.name}" if is_checkpoint else path.name
        return self.origin.facts(name)

    def with_vocab_size(self, vocab_size: int) -> TrainConfig:
        """Return the configuration for a tokenizer of this size. Loaded weights keep their size."""
        if self.init_from is not None:
            return self
        return replace(self, model=replace(self.model, vocab_size=vocab_size))

    @property
    def preparation(self) -> Preparation:
        """The values on which the prepared data depends."""
        return Preparation(self.data, self.model.vocab_size, self.seed, self.num_workers)

    @property
    def loggers(self) -> list[str]:
        """The names in `log_to`."""
        return [name for name in self.log_to.split(",") if name]
