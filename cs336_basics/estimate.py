"""`python -m cs336_basics.estimate`: what a run will take, before it is started.

python -m cs336_basics.estimate --config tinystories --fast auto
python -m cs336_basics.estimate --config my.yaml --batch-size 128 --device cuda

takes the options of `python -m cs336_basics.train`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see train.py

import sys
import time
from collections.abc import Sequence

import torch

from cs336_basics.training.config import ConfigError, TrainConfig, parse_command_line
from cs336_basics.training.devices import (
    check_precision,
    choose_device,
    choose_fast_path,
    device_name,
    flops_per_token,
    training_flops,
)
from cs336_basics.training.memory import memory_of_process, step_memory

# Share of the speed of large matrix products that a whole step reaches: measured on two cores and
# the TinyStories shape, with and without torch.compile.
_EFFICIENCY = {True: 0.6, False: 0.5}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 for what cannot be used."""
    try:
        command = parse_command_line(sys.argv[1:] if arguments is None else arguments)
        config = command.config
        device = choose_device(config.device)
        check_precision(config.precision, device)
    except (ConfigError, ValueError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    if config.num_workers is not None:
        torch.set_num_threads(config.num_workers)
    if config.fast == "auto":
        config, choices = choose_fast_path(config, device)
        for line in choices:
            print(f"fast: {line}")
        print()
    for name, value in estimate(config, device):
        print(f"{name:<24}{value}")
    return 0


def estimate(config: TrainConfig, device: torch.device) -> list[tuple[str, str]]:
    """Return what a run takes, as rows of name and value."""
    tokens = config.max_steps * config.batch_size * config.model.context_length
    memory = step_memory(config)
    # On a CPU the program and its libraries are in the same memory as the tensors.
    program = (memory_of_process() or 0) if device.type == "cpu" else 0
    rate = product_rate(config, device)
    seconds = training_flops(config) / (rate * _EFFICIENCY[config.compile])
    rows = [
        ("parameters", f"{config.model.num_parameters():,}"),
        ("tokens", f"{tokens:,}"),
        ("FLOPs per token", f"{flops_per_token(config.model):,}"),
        ("FLOPs of the run", f"{training_flops(config):.3g}"),
        ("", ""),
        ("memory: weights", _megabytes(memory.weights)),
        ("gradients", _megabytes(memory.gradients)),
        ("optimizer", _megabytes(memory.optimizer)),
        ("activations", _megabytes(memory.activations)),
    ]
    if program:
        rows.append(("program", _megabytes(program)))
    rows += [
        ("peak", _megabytes(memory.total + program) + _peak_note(config)),
        ("", ""),
        ("device", f"{device_name(device)}, {rate / 1e9:,.0f} GFLOP/s in {config.precision}"),
        ("tokens per second", f"about {tokens / seconds:,.0f}"),
        ("time", f"about {_duration(seconds)}"),
    ]
    return rows


def product_rate(config: TrainConfig, device: torch.device, seconds: float = 0.3) -> float:
    """Return the FLOP/s of matrix products of the model's size on the device, by measuring."""
    rows = min(config.batch_size * config.model.context_length, 4096)
    dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    a = torch.randn(rows, config.model.d_model, device=device, dtype=dtype)
    b = torch.randn(config.model.d_model, config.model.d_ff, device=device, dtype=dtype)
    for _ in range(3):
        result = a @ b
    result.sum().item()  # waits for a GPU
    start = time.perf_counter()
    count = 0
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            result = a @ b
        result.sum().item()
        count += 10
    elapsed = time.perf_counter() - start
    return 2 * rows * config.model.d_model * config.model.d_ff * count / elapsed


def _peak_note(config: TrainConfig) -> str:
    return " without compilation, which needs less or about as much" if config.compile else ""


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 48:
        return f"{hours / 24:,.1f} days"
    if hours >= 2:
        return f"{hours:,.1f} hours"
    return f"{minutes:,.1f} minutes" if minutes >= 2 else f"{seconds:,.0f} seconds"


if __name__ == "__main__":
    sys.exit(main())
