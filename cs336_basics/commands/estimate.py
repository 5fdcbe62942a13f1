"""`python -m cs336_basics estimate`: what a run will take, before it is started.

python -m cs336_basics estimate --config tinystories --fast auto
python -m cs336_basics estimate --config my.yaml --batch-size 128 --device cuda
python -m cs336_basics estimate --config huge.yaml --no-measure

takes the options of `python -m cs336_basics.train`. Parameters, FLOPs and the memory of the tensors
are computed. Then, unless --no-measure says otherwise, four steps are taken in a process of their
own: only that shows what the memory allocator and the libraries add, on a CPU up to a third, and
how fast the machine is.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see train.py

import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cs336_basics.commands._cli import complain, complain_of, say
from cs336_basics.commands._options import parse_command_line
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import ConfigError, config_to_yaml, load_config
from cs336_basics.training.devices import (
    check_precision,
    choose_device,
    choose_fast_path,
    device_name,
    flops_per_token,
    training_flops,
)
from cs336_basics.training.memory import peak_memory_of_process, step_memory
from cs336_basics.training.trainer import Trainer

_MEASURED_STEPS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 2 for what cannot be used, 130 for Ctrl-C."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--take-steps"]:  # the process that `measure_steps` starts
        print(json.dumps(take_steps(load_config(Path(words[1])))))
        return 0
    measure = "--no-measure" not in words
    try:
        command = parse_command_line([word for word in words if word != "--no-measure"])
        config = command.config
        device = choose_device(config.device)
        check_precision(config.precision, device)
    except (ConfigError, ValueError) as error:
        complain_of(error)
        return 2
    if config.num_workers is not None:
        torch.set_num_threads(config.num_workers)
    if config.fast == "auto":
        config, choices = choose_fast_path(config, device, command.given)
        for line in choices:
            say(f"fast: {line}")
        say("")
    for name, value in computed(config):
        say(f"{name:<24}{value}")
    if measure:
        try:
            rows = measured(config, device)
        except RuntimeError as error:
            complain_of(error)
            return 2
        except KeyboardInterrupt:
            complain("stopped before the steps were measured")
            return 128 + signal.SIGINT
        for name, value in rows:
            say(f"{name:<24}{value}")
    return 0


def computed(config: TrainConfig) -> list[tuple[str, str]]:
    """Return what follows from the configuration alone, as rows of name and value."""
    tokens = config.max_steps * config.batch_size * config.model.context_length
    memory = step_memory(config)
    return [
        ("parameters", f"{config.model.num_parameters():,}"),
        ("tokens", f"{tokens:,}"),
        ("FLOPs per token", f"{flops_per_token(config.model):,}"),
        ("FLOPs of the run", f"{training_flops(config):.3g}"),
        ("weights", _megabytes(memory.weights)),
        ("gradients", _megabytes(memory.gradients)),
        ("optimizer", _megabytes(memory.optimizer)),
        ("activations", _megabytes(memory.activations) + (" if not compiled" * config.compile)),
        ("tensors at the peak", _megabytes(memory.total) + (" if not compiled" * config.compile)),
    ]


def measured(config: TrainConfig, device: torch.device) -> list[tuple[str, str]]:
    """Return what a few steps show, as rows of name and value.

    Raises:
        RuntimeError: the steps failed, for want of memory for instance.
    """
    found = measure_steps(config)
    tokens = config.max_steps * config.batch_size * config.model.context_length
    return [
        ("device", device_name(device)),
        ("peak memory", _megabytes(found["peak"]) + " (measured)"),
        ("tokens per second", f"{found['tokens_per_second']:,.0f} (measured)"),
        ("time", f"about {_duration(tokens / found['tokens_per_second'])}, and the evaluations"),
    ]


def measure_steps(config: TrainConfig) -> dict[str, Any]:
    """Take a few steps in a process of its own; return its peak memory and tokens per second.

    Raises:
        RuntimeError: the process failed.
    """
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "config.yaml"
        file.write_text(config_to_yaml(config), encoding="utf-8")
        command = [sys.executable, "-m", "cs336_basics", "estimate", "--take-steps", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise RuntimeError(
            f"the steps to measure failed ({last}): a smaller batch_size or more "
            "accumulation needs less memory; --no-measure only computes"
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def take_steps(config: TrainConfig) -> dict[str, float]:
    """Train for a few steps on random tokens in this process, evaluations and checkpoints too.

    They need memory of their own, and leave the allocator's in pieces.
    """
    config = dataclasses.replace(
        config,
        max_steps=_MEASURED_STEPS,
        eval_every=_MEASURED_STEPS // 2,
        eval_batches=1,
        checkpoint_every=_MEASURED_STEPS // 2,
        log_every=1,
        log_to="",
    )
    number = (config.batch_size + 1) * (config.model.context_length + 1)
    tokens = np.random.default_rng(0).integers(config.model.vocab_size, size=number)
    with tempfile.TemporaryDirectory() as directory:
        run = RunDirectory(directory)
        trainer = Trainer(config, tokens, tokens, run, report=lambda line: None)
        trainer.fit()
        rows = [row for row in run.read_metrics() if "tokens_per_second" in row]
    if trainer.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(trainer.device)
    else:
        peak = peak_memory_of_process() or 0
    # The first step compiles, and fills the caches.
    return {"peak": peak, "tokens_per_second": max(row["tokens_per_second"] for row in rows[1:])}


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
