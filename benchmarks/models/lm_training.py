"""Measure training in tokens per second: readable path, fast path and transformers' Llama.

    pip install -r benchmarks/peers/peers.txt
    python -m benchmarks.models.lm_training                      # TinyStories, GPT-2 small, the CPU
    python -m benchmarks.models.lm_training --precision float32  # one precision only
    python -m benchmarks.models.lm_training --device cuda --batch-size 64 --shape gpt2

The script measures float32 and, where the device has instructions for it, bfloat16. All
implementations start from the same weights, read the same batches and clip their gradients. Before
anything is timed, the fast path and transformers must return the same loss as the readable path.
The implementations take turns step by step, so that other load on the machine affects all of them,
and ratios compare consecutive steps. The peak memory of each implementation is measured in a
separate process.

The fast path is the one that `--fast auto` chooses for a long run. The peer is LlamaForCausalLM,
compiled, with scaled dot-product attention, in the same precision (bfloat16 through autocast). It
runs with torch's default AdamW and again with the fused AdamW, which the fast path also uses. On a
CPU, all implementations keep freed memory, as `python -m cs336_basics.train` does.
"""

import argparse
import dataclasses
import functools
import itertools
import statistics
import tempfile
import time

import cs336_basics.commands  # noqa: F401 # sets how threads wait, before torch loads OpenMP

# isort: split
import numpy as np
import torch

from benchmarks.machine import spawned
from benchmarks.models.llama import PEER_SHAPES, SHAPES, llama_of
from benchmarks.models.speedup import SPEEDUP_HEADINGS, speedup_cells
from cs336_basics._support import memory
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.model import TransformerLM
from cs336_basics.training.allocator import keep_freed_memory
from cs336_basics.training.clipping import clip_gradients, clip_gradients_foreach
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.data import get_batch, step_generator
from cs336_basics.training.devices import (
    choose_device,
    device_name,
    flops_per_token,
    has_bfloat16,
    peak_flops,
)
from cs336_basics.training.fast_path import choose_fast_path
from cs336_basics.training.trainer import Trainer

SEED = 0
KINDS = ("readable", "fast", "transformers", "transformers-fused")


class Ours:
    """A training step of this library, on the readable path or the path `--fast auto` chooses."""

    def __init__(self, shape, batch_size, device, precision):
        config = TrainConfig(
            model=SHAPES[shape],
            batch_size=batch_size,
            max_steps=10**6,
            device=str(device),
            seed=SEED,
        )
        if precision is not None:
            config = dataclasses.replace(config, precision=precision)
            config, self.choices = choose_fast_path(config, device, ["precision"])
        self.config = config
        tokens = random_tokens(config.model.vocab_size)
        with tempfile.TemporaryDirectory() as directory:
            trainer = Trainer(config, tokens, tokens, RunDirectory(directory))
        self.model, self.loss, self.optimizer = trainer.model, trainer.loss_of, trainer.optimizer
        self.clip = clip_gradients if device.type == "cpu" else clip_gradients_foreach


class Peer:
    """A training step of transformers' LlamaForCausalLM with the same weights."""

    def __init__(self, shape, device, bfloat16, fused):
        torch.manual_seed(SEED)
        self.model = llama_of(TransformerLM(SHAPES[shape])).to(device).train()
        self.device, self.bfloat16 = device, bfloat16
        self.compiled = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=fused)
        self.clip = torch.nn.utils.clip_grad_norm_

    def loss(self, x, y):
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            # Without shift_labels, the model would drop one position per row and copy the logits.
            return self.compiled(input_ids=x, labels=y, shift_labels=y, use_cache=False).loss


def take_step(run, x, y):
    run.optimizer.zero_grad()
    run.loss(x, y).backward()
    run.clip(run.model.parameters(), 1.0)
    run.optimizer.step()


def implementation(kind, shape, batch_size, device, precision):
    if kind in ("readable", "fast"):
        return Ours(shape, batch_size, device, precision if kind == "fast" else None)
    fused = True if kind == "transformers-fused" else None  # None is torch's default
    return Peer(shape, device, precision == "bfloat16", fused)


@functools.cache
def random_tokens(vocab_size):
    return np.random.default_rng(0).integers(vocab_size, size=1_000_000, dtype=np.uint16)


def random_batch(shape, batch_size, device, step):
    config = SHAPES[shape]
    tokens = random_tokens(config.vocab_size)
    return get_batch(tokens, batch_size, config.context_length, device, step_generator(0, step))


def measure(shape, batch_size, device, precision, rounds, kinds):
    """Check the losses. Return a dict from kind to step times in seconds, and the fast `Ours`."""
    runs = {kind: implementation(kind, shape, batch_size, device, precision) for kind in kinds}
    batch = functools.partial(random_batch, shape, batch_size, device)
    x, y = batch(0)
    losses = {kind: run.loss(x, y).item() for kind, run in runs.items()}
    tolerance = 0.02 if precision == "bfloat16" else 1e-3
    assert all(abs(loss - losses["readable"]) < tolerance for loss in losses.values()), losses

    for run in runs.values():
        for step in range(2):
            take_step(run, *batch(step))
    seconds = {kind: [] for kind in runs}
    for step in range(rounds):
        for kind, run in runs.items():
            start = time.perf_counter()
            take_step(run, *batch(step))
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds[kind].append(time.perf_counter() - start)
    return seconds, runs["fast"]


def peak_memory(kind, shape, batch_size, device, precision):
    """Take two steps with one implementation, and return this process's peak memory in bytes."""
    if device.type == "cpu":
        keep_freed_memory()
    run = implementation(kind, shape, batch_size, device, precision)
    for step in range(2):
        take_step(run, *random_batch(shape, batch_size, device, step))
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return memory.peak_memory()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shape", action="append", choices=PEER_SHAPES, help="default: tinystories and gpt2"
    )
    parser.add_argument("--batch-size", type=int, help="default: 1 for GPT-2 small, otherwise 8")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--precision",
        action="append",
        choices=["float32", "bfloat16"],
        help="precision to measure (default: all that the device has instructions for)",
    )
    parser.add_argument("--rounds", type=int, default=20, help="steps to time per implementation")
    options = parser.parse_args()
    device = choose_device(options.device)
    if device.type == "cpu":
        keep_freed_memory()
    shapes = options.shape or ["tinystories", "gpt2"]
    supported = ["float32", "bfloat16"] if has_bfloat16(device) else ["float32"]
    for shape, precision in itertools.product(shapes, options.precision or supported):
        batch_size = options.batch_size or (1 if SHAPES[shape].context_length > 256 else 8)
        torch.compiler.reset()
        seconds, fast = measure(shape, batch_size, device, precision, options.rounds, KINDS)
        peaks = {
            kind: spawned(peak_memory, kind, shape, batch_size, device, precision) for kind in KINDS
        }
        report(shape, batch_size, device, seconds, peaks, fast)


def report(shape, batch_size, device, seconds, peaks, fast):
    """Print the results of `measure`, the peak memory and, if known, the FLOP utilization."""
    print(f"{shape}, batch {batch_size}, {fast.config.precision}, on {device_name(device)}")
    for line in fast.choices:
        print(f"  {line}")
    flops = flops_per_token(fast.config.model)
    tokens = batch_size * SHAPES[shape].context_length
    print("Speedup of the fast path: median, lower quartile and minimum")
    print(f"{'':<20}{'ms/step':>10}{'tokens/s':>11}{SPEEDUP_HEADINGS}{'peak MB':>10}{'MFU':>8}")
    for kind, values in seconds.items():
        precision = "float32" if kind == "readable" else fast.config.precision
        peak = peak_flops(device_name(device), precision)
        speed = tokens / statistics.median(values)
        memory = f"{peaks[kind] / 1e6:,.0f}" if kind in peaks else ""
        mfu = "" if peak is None else f"{speed * flops / peak:.1%}"
        print(
            f"{kind:<20}{1e3 * statistics.median(values):>10,.0f}{speed:>11,.0f}"
            f"{speedup_cells(values, seconds['fast'])}{memory:>10}{mfu:>8}"
        )


if __name__ == "__main__":
    main()
