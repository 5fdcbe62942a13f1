"""Measuring a run's memory and speed by taking a few steps in a separate process.

Measured memory includes the overhead of the allocator and the libraries. `memory.py` computes only
the memory of the tensors.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

import numpy as np
import torch

from cs336_basics._support.errors import RunError
from cs336_basics._support.memory import is_out_of_memory, peak_memory
from cs336_basics._support.processes import end_with_parent
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.allocator import keep_freed_memory
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.trainer import Trainer

NUM_STEPS = 4
"""Number of steps. The first step compiles the model and fills caches."""


class Measurement(NamedTuple):
    """Memory use and speed of a run, measured over a few steps."""

    peak: int
    """Peak memory of the GPU or the process in bytes; 0 if the system does not report it."""
    tokens_per_second: float


def measure_steps(config: TrainConfig) -> Measurement:
    """Take a few steps of a run in a new process.

    Raises:
        RunError: If the process failed, for example because it ran out of memory.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=end_with_parent) as pool:
        try:
            return pool.submit(take_steps, config).result()
        except Exception as error:
            if not (is_out_of_memory(error) or isinstance(error, BrokenProcessPool)):
                raise
            raise RunError(f"measuring a few steps failed: {error}") from error


def take_steps(config: TrainConfig) -> Measurement:
    """Train for a few steps on random tokens in this process.

    Evaluations and checkpoints are included, because they need more memory and fragment it.
    """
    keep_freed_memory()  # like the `train` command
    config = dataclasses.replace(
        config,
        max_steps=NUM_STEPS,
        eval_every=NUM_STEPS // 2,
        eval_windows=config.batch_size,
        checkpoint_every=NUM_STEPS // 2,
        log_every=1,
        log_to="",
    )
    num_tokens = (config.batch_size + 1) * (config.model.context_length + 1)
    tokens = np.random.default_rng(0).integers(config.model.vocab_size, size=num_tokens)
    with tempfile.TemporaryDirectory() as directory:
        run = RunDirectory(directory)
        trainer = Trainer(config, tokens, tokens, run, report=lambda line: None)
        trainer.fit()
        rows = [row for row in run.read_metrics() if "tokens_per_second" in row]
    if trainer.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(trainer.device)
    else:
        peak = peak_memory() or 0
    return Measurement(peak, max(row["tokens_per_second"] for row in rows[1:]))
