"""Compare what `--fast auto` chooses by its short calibration with a search over whole steps.

    python benchmarks/check_calibration.py                    # TinyStories shape, this CPU
    python benchmarks/check_calibration.py --shape 124m --batch-size 4

The calibration times a Transformer block and the loss apart. Here every combination of its
candidates (attention, loss chunks, compiled or not, precision) trains the whole model, optimizer
included, alternately for several rounds. The last line says how far the calibrated choice is from
the fastest combination. Takes about a quarter of an hour on two cores.
"""

import argparse
import dataclasses
import itertools
import os
import statistics
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `python -m cs336_basics.train` has it

import numpy as np
import torch
from bench_lm_training import SHAPES
from machine import machine_info

from cs336_basics.model import TransformerLM
from cs336_basics.training.clipping import clip_gradients_foreach
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.data import BatchLoader, step_generator
from cs336_basics.training.devices import can_compile, has_bfloat16
from cs336_basics.training.fast_path import choose_fast_path
from cs336_basics.training.loss import LanguageModelLoss

CPU = torch.device("cpu")


class Step:
    """A training step of one combination; all share the weights of one model."""

    def __init__(self, model, config):
        self.model = TransformerLM(config.model)
        for name, parameter in model.named_parameters():
            module, _, leaf = name.rpartition(".")
            setattr(self.model.get_submodule(module), leaf, parameter)
        loss = LanguageModelLoss(self.model, config.loss_chunks, config.precision)
        self.loss = torch.compile(loss, dynamic=False) if config.compile else loss
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def __call__(self, x, y):
        self.optimizer.zero_grad()
        self.loss(x, y).backward()
        clip_gradients_foreach(self.model.parameters(), 1.0)
        self.optimizer.step()


def combinations(config):
    """Return the candidates of the calibration as configurations, by a name."""
    chunks = (2, 4, 8) if config.model.vocab_size >= 4096 else (1, 2, 4)
    precisions = ("float32", "bfloat16") if has_bfloat16(CPU) else ("float32",)
    compiled = (False, True) if can_compile(CPU) else (False,)
    attention = ("sdpa", "blocked", "reference")
    found = {}
    for choice in itertools.product(precisions, compiled, attention, chunks):
        precision, compile, kind, number = choice
        found[choice] = dataclasses.replace(
            config,
            precision=precision,
            compile=compile,
            loss_chunks=number,
            model=dataclasses.replace(config.model, attention=kind),
        )
    return found


def name_of(choice):
    precision, compiled, attention, chunks = choice
    return f"{precision}, {'compiled' if compiled else 'eager'}, {attention}, {chunks} chunks"


def time_steps(config, rounds):
    """Return the seconds of a step in each round, by combination."""
    model = TransformerLM(config.model)
    vocab_size = config.model.vocab_size
    tokens = np.random.default_rng(0).integers(vocab_size, size=1_000_000, dtype=np.uint16)
    batches = BatchLoader(
        tokens,
        config.batch_size,
        config.model.context_length,
        CPU,
        lambda step: step_generator(0, step),
    )
    steps = {}
    torch._dynamo.config.recompile_limit = 64
    for choice, combination in combinations(config).items():
        torch.manual_seed(0)
        start = time.perf_counter()
        steps[choice] = Step(model, combination)
        steps[choice](*batches.batch(0))
        print(f"prepared in {time.perf_counter() - start:5.1f} s: {name_of(choice)}", flush=True)
    seconds = {choice: [] for choice in steps}
    for number in range(rounds):
        for choice, step in steps.items():
            start = time.perf_counter()
            step(*batches.batch(number + 1))
            seconds[choice].append(time.perf_counter() - start)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="tinystories")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print("machine:", ", ".join(f"{k} {v}" for k, v in machine_info().items()))
    model = TrainConfig(model=SHAPES[options.shape]).model
    config = TrainConfig(model=model, batch_size=options.batch_size, max_steps=10**6)
    start = time.perf_counter()
    fast, lines = choose_fast_path(config, CPU, report=print)
    print(f"chosen in {time.perf_counter() - start:.0f} s")
    print("\n".join(f"  {line}" for line in lines))

    seconds = time_steps(config, options.rounds)
    medians = {choice: statistics.median(values) for choice, values in seconds.items()}
    tokens = config.batch_size * config.model.context_length
    for choice in sorted(medians, key=medians.get):
        print(
            f"{medians[choice]:7.3f} s a step ({min(seconds[choice]):.3f}-"
            f"{max(seconds[choice]):.3f}), {tokens / medians[choice]:7,.0f} tokens/s: "
            f"{name_of(choice)}"
        )
    best = min(medians, key=medians.get)
    chosen = (fast.precision, fast.compile, fast.model.attention, fast.loss_chunks)
    if chosen not in medians:
        raise SystemExit(f"the calibration chose {name_of(chosen)}, which the search does not hold")
    # Ratios within a round, since the load on the machine differs between rounds.
    ratio = statistics.median(a / b for a, b in zip(seconds[chosen], seconds[best], strict=True))
    print(f"chosen: {name_of(chosen)}; {ratio:.3f} times the step of {name_of(best)}")


if __name__ == "__main__":
    main()
