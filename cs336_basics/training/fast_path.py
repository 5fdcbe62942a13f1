"""`--fast auto`: choosing the fastest implementation for a run on this machine.

Most choices follow fixed rules. Matrix products are timed where the run starts, because the best
library and precision depend on the CPU. The chosen values are part of the run's configuration, so a
resumed run keeps them.
"""

from __future__ import annotations

import dataclasses
import functools
import timeit
from collections.abc import Callable, Collection
from typing import Any

import torch

from cs336_basics._support.memory import physical_memory
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.devices import can_compile, device_name, has_bfloat16, training_flops
from cs336_basics.training.products import compare_products, has_onednn

# Compiling takes up to a minute, which pays off for runs with at least this many FLOPs
# (benchmarks/NOTES.md).
_WORTH_COMPILING = {"cpu": 1e14, "cuda": 1e16}

# Each chunk of the loss updates the gradient of the entire head, so a few large chunks are faster
# than many small ones.
_LOSS_CHUNKS = 4
_ROWS_IN_A_CHUNK = 2048

# bfloat16 must speed up matrix products by this factor to pay for converting weights and
# activations.
_WORTH_ROUNDING = 1.2

# oneDNN must speed up the products of the linear layers by this factor. They take about four fifths
# of a step, so a smaller gain is hardly visible.
_WORTH_ONEDNN = 1.04
_MOST_ERROR = 10.0  # maximum error of oneDNN's product, as a multiple of the error of torch's
_WORTH_TIMING = 1e13  # FLOPs of a run from which on a second of timing pays off

Decision = tuple[Any, str | None]
"""A chosen value and the reason for it, or None if there is no choice on this machine."""


def choose_fast_path(
    config: TrainConfig,
    device: torch.device,
    given: Collection[str] = (),
    num_processes: int = 1,
) -> tuple[TrainConfig, list[str]]:
    """Return the configuration with the fastest implementation for this machine.

    The values of precision, products, compile, loss_chunks, model.attention and, if the optimizer
    has this setting, optimizer.fused are chosen, except for keys in `given`. The results are the
    same up to rounding.

    Args:
        config: Configuration of the run.
        device: Device of the run.
        given: Keys that keep their values.
        num_processes: Number of processes that share each batch. The choices are made for the share
            of one process and are the same for all processes.

    Returns:
        The configuration, and a line of text for each choice with its reason.
    """
    if config.num_workers is not None:
        torch.set_num_threads(config.num_workers)
    scores_fit = _scores_fit(config)  # for the whole batch, because processes share the memory
    rules: dict[str, Callable[[TrainConfig, torch.device], Decision]] = {
        "precision": _precision,
        "products": _products,
        "compile": _compile,
        "loss_chunks": _loss_chunks,
        "optimizer.fused": _fused,
        "model.attention": functools.partial(_attention, scores_fit),
    }
    chosen = dataclasses.replace(config, batch_size=config.batch_size // num_processes)
    lines = []
    for key, rule in rules.items():
        section, _, name = key.rpartition(".")
        owner: Any = getattr(chosen, section) if section else chosen
        if not hasattr(owner, name):  # a setting of another optimizer
            continue
        if key in given:
            lines.append(f"{key} {str(getattr(owner, name)).lower()}: as requested")
            continue
        value, why = rule(chosen, device)
        if why is not None:
            lines.append(f"{key} {str(value).lower()}: {why}")
        owner = dataclasses.replace(owner, **{name: value})
        chosen = dataclasses.replace(chosen, **{section: owner}) if section else owner
    return dataclasses.replace(chosen, batch_size=config.batch_size), lines


def _precision(config: TrainConfig, device: torch.device) -> Decision:
    if config.products == "onednn":
        return "float32", "oneDNN was requested for products in float32"
    if not has_bfloat16(device):
        return "float32", f"{device_name(device)} would emulate bfloat16"
    if device.type != "cpu":
        return "bfloat16", f"{device_name(device)} has instructions for bfloat16"
    # On some CPUs, bfloat16 instructions are slower than float32 instructions.
    exact, rounded = (product_seconds(device, d) for d in (torch.float32, torch.bfloat16))
    precision = "bfloat16" if _WORTH_ROUNDING * rounded < exact else "float32"
    times = f"{exact * 1e3:.1f} ms in float32, {rounded * 1e3:.1f} ms in bfloat16"
    return precision, f"measured for a matrix product: {times}"


def _products(config: TrainConfig, device: torch.device) -> Decision:
    if device.type != "cpu" or config.precision != "float32" or not has_onednn():
        return "torch", None
    if training_flops(config) < _WORTH_TIMING:
        return "torch", "the run is too short to time other libraries"
    rows = config.batch_size // config.accumulation * config.model.context_length
    times, error = compare_products(config.model, rows)
    if error > _MOST_ERROR:
        return "torch", f"the error of oneDNN's products is {error:.3g} times as large as torch's"
    gains = times["torch"] > _WORTH_ONEDNN * times["onednn"]
    shown = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in times.items())
    return "onednn" if gains else "torch", f"measured for the linear layers: {shown}"


def _compile(config: TrainConfig, device: torch.device) -> Decision:
    if not can_compile(device):
        on_cpu = device.type == "cpu"
        return False, "no C++ compiler found" if on_cpu else f"not supported on {device.type}"
    if training_flops(config) < _WORTH_COMPILING[device.type]:
        return False, "the run is too short for a minute of compilation"
    return True, "the run is long enough for a minute of compilation"


def _loss_chunks(config: TrainConfig, _: torch.device) -> Decision:
    rows = config.batch_size // config.accumulation * config.model.context_length
    chunks = max(_LOSS_CHUNKS, rows // _ROWS_IN_A_CHUNK)
    return chunks, "chunks of logits need less memory and fit into caches"


def _fused(_config: TrainConfig, _device: torch.device) -> Decision:
    return True, "one pass over the weights instead of one for each operation"


def _attention(scores_fit: bool, config: TrainConfig, device: torch.device) -> Decision:
    """Choose between PyTorch's kernel and blocks of queries, which keep all scores in memory."""
    if device.type != "cpu":
        return "sdpa", "PyTorch's fused kernel"
    if config.precision != "bfloat16":
        return "sdpa", "PyTorch's kernel, whose memory use is linear in the context length"
    if not scores_fit:
        return "sdpa", "the scores of all layers would not fit in memory"
    return "blocked", "PyTorch's backward pass is slow in bfloat16"


def _scores_fit(config: TrainConfig) -> bool:
    """Return whether the scores of all layers in float32 fit into an eighth of the memory."""
    model = config.model
    sequences = config.batch_size // config.accumulation
    scores = model.num_layers * sequences * model.num_heads * model.context_length**2
    return 4 * scores < (physical_memory() or 8 << 30) / 8


def product_seconds(device: torch.device, dtype: torch.dtype) -> float:
    """Return the time of a matrix product in seconds, the shortest of eight runs."""
    x = torch.ones(512, 1024, device=device, dtype=dtype)
    weight = torch.ones(1024, 1024, device=device, dtype=dtype)
    return min(timeit.repeat(lambda: x @ weight, number=1, repeat=8))
