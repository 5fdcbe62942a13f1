"""`python -m cs336_basics estimate`: estimate the memory and time of a training run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cs336_basics._support.validation import option
from cs336_basics.commands._cli import say
from cs336_basics.commands._training_options import CommandLine, RunOptions, TrainingCommand
from cs336_basics.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

# torch is imported inside functions, so that help pages do not load it.


@dataclass(kw_only=True)
class Options(RunOptions):
    """Estimate the memory and time of a training run, with the same options as train.

    Memory and FLOPs are computed. Then four steps are measured in another process.
    """

    no_measure: bool = option("only compute the estimate, without measuring steps", False)


def estimate(command: CommandLine) -> None:
    """Print the computed and the measured figures."""
    import torch

    from cs336_basics.training.devices import choose_device
    from cs336_basics.training.fast_path import choose_fast_path

    config = _checked(command.config)
    device = choose_device(config.device)
    if config.num_workers is not None:
        torch.set_num_threads(config.num_workers)
    if config.fast == "auto":
        config, choices = choose_fast_path(
            config, device, command.given, report=lambda line: say(f"fast: {line}")
        )
        for line in choices:
            say(f"fast: {line}")
        say("")
    for name, value in computed(config):
        say(f"{name:<24}{value}")
    if not command.options.no_measure:
        try:
            rows = measured(config, device)
        except RuntimeError as error:
            raise RuntimeError(
                f"{error}; reduce --batch-size or raise --accumulation to save memory, or give "
                "--no-measure to skip the measurement"
            ) from error
        for name, value in rows:
            say(f"{name:<24}{value}")


def _checked(config: TrainConfig) -> TrainConfig:
    """Run the checks of `train`, and return the configuration that it would use.

    The dataset may be missing, because users estimate a run before they download its data.
    """
    from cs336_basics.tokenizer import Tokenizer
    from cs336_basics.training.start import check_start

    data = config.data
    if data.train_path is None:
        data = dataclasses.replace(data, dataset="sample")
    check_start(dataclasses.replace(config, data=data))
    if data.tokenizer is None:
        return config
    vocab_size = Tokenizer.from_directory(data.tokenizer).vocab_size
    model = dataclasses.replace(config.model, vocab_size=vocab_size)
    return dataclasses.replace(config, model=model)


def computed(config: TrainConfig) -> list[tuple[str, str]]:
    """Return the figures computed from the configuration, as rows of name and value."""
    from cs336_basics.training.devices import flops_per_token, training_flops
    from cs336_basics.training.memory import step_memory

    tokens = config.max_steps * config.batch_size * config.model.context_length
    memory = step_memory(config)
    note = " without compilation" if config.compile else ""
    return [
        ("parameters", f"{config.model.num_parameters():,}"),
        ("tokens", f"{tokens:,}"),
        ("FLOPs per token", f"{flops_per_token(config.model):,}"),
        ("FLOPs of the run", f"{training_flops(config):.3g}"),
        ("weights", _megabytes(memory.weights)),
        ("gradients", _megabytes(memory.gradients)),
        ("optimizer", _megabytes(memory.optimizer)),
        ("activations", _megabytes(memory.activations) + note),
        ("tensors at the peak", _megabytes(memory.total) + note),
    ]


def measured(config: TrainConfig, device: torch.device) -> list[tuple[str, str]]:
    """Return the figures measured over a few steps, as rows of name and value.

    Raises:
        RuntimeError: If the steps fail, for example because memory runs out.
    """
    from cs336_basics.training.devices import device_name
    from cs336_basics.training.measure import measure_steps

    found = measure_steps(config)
    tokens = config.max_steps * config.batch_size * config.model.context_length
    seconds = tokens / found.tokens_per_second
    return [
        ("device", device_name(device)),
        ("peak memory", f"{_megabytes(found.peak)} (measured)"),
        ("tokens per second", f"{found.tokens_per_second:,.0f} (measured)"),
        ("time", f"about {_duration(seconds)}, plus evaluation"),
    ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 48:
        return f"{hours / 24:,.1f} days"
    if hours >= 2:
        return f"{hours:,.1f} hours"
    return f"{minutes:,.1f} minutes" if minutes >= 2 else f"{seconds:,.0f} seconds"


COMMAND = TrainingCommand(
    "estimate",
    Options,
    estimate,
    "estimate --config tinystories --fast auto",
    "estimate --config my.yaml --batch-size 128 --device cuda",
    "estimate --config huge.yaml --no-measure",
)
