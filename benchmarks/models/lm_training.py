"""Measure tokens per second of training: readable path, fast path and transformers' Llama.

pip install -r benchmarks/peers/peers.txt
python -m benchmarks.models.lm_training                     # TinyStories shape, this machine's CPU
python -m benchmarks.models.lm_training --precision float32 # one precision only
python -m benchmarks.models.lm_training --device cuda --batch-size 64 --shape gpt2

Measures float32 and, where the device has instructions for it, bfloat16. All implementations start
from the same weights, read the same batches and clip their gradients. Before anything is timed, the
fast path and transformers must return the loss of the readable path. Rounds alternate, so that
other load on the machine affects all implementations.

The fast path is the choice of `--fast auto` for a long run. The peer is LlamaForCausalLM, compiled,
with scaled dot-product attention, in the same precision (bfloat16 by autocast). It runs with
torch's default AdamW and again with the fused AdamW, which the fast path uses too. On a CPU, all
keep freed memory, as `python -m cs336_basics.train` does.
"""

import argparse
import dataclasses
import os
import statistics
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in `python -m cs336_basics.train`

import numpy as np
import torch

from cs336_basics.formats.huggingface.llama import llama_config, llama_state
from cs336_basics.model import ModelConfig, TransformerLM
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
from cs336_basics.training.loss import LanguageModelLoss
from cs336_basics.training.optimizers import AdamW

GPT2 = ModelConfig(
    vocab_size=50_257, context_length=1024, d_model=768, num_layers=12, num_heads=12, d_ff=2048
)
SHAPES = {
    "tinystories": ModelConfig(),
    "gpt2": GPT2,
    "124m": dataclasses.replace(GPT2, tied_embeddings=True),  # the size of GPT-2 small
    "tiny": ModelConfig(
        vocab_size=500, context_length=32, d_model=32, num_layers=2, num_heads=2, d_ff=64
    ),
}
KINDS = ("readable", "fast", "transformers", "transformers-fused")


class Ours:
    """A training step of this library, on the readable path or the choice of `--fast auto`."""

    def __init__(self, shape, batch_size, device, precision=None):
        model = TrainConfig(model=SHAPES[shape]).model
        config = TrainConfig(model=model, batch_size=batch_size, max_steps=10**6)
        if precision is not None:
            config = dataclasses.replace(config, precision=precision)
            config, self.choices = choose_fast_path(config, device, ["precision"], report=print)
        self.config = config
        torch.manual_seed(0)
        self.model = TransformerLM(config.model).to(device)
        self.loss_of = LanguageModelLoss(self.model, config.loss_chunks, config.precision)
        if config.compile:
            self.loss_of = torch.compile(self.loss_of, dynamic=False)
        self.clip = clip_gradients if precision is None else clip_gradients_foreach
        if config.fused_optimizer:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        else:
            self.optimizer = AdamW(self.model.parameters(), lr=1e-4)

    def loss(self, x, y):
        return self.loss_of(x, y)

    def step(self, x, y):
        self.optimizer.zero_grad()
        self.loss(x, y).backward()
        self.clip(self.model.parameters(), 1.0)
        self.optimizer.step()


class Peer:
    """A training step of transformers' LlamaForCausalLM with the same weights."""

    def __init__(self, shape, device, bfloat16, fused=None):
        from transformers import LlamaConfig, LlamaForCausalLM

        c = SHAPES[shape]
        config = LlamaConfig(**llama_config(c), attn_implementation="sdpa")
        torch.manual_seed(0)
        ours = TransformerLM(c)
        self.model = LlamaForCausalLM(config)
        self.model.load_state_dict(llama_state(c, ours.state_dict()))
        self.model.to(device).train()
        self.device, self.bfloat16 = device, bfloat16
        self.compiled = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=fused)

    def loss(self, x, y):
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            # Without shift_labels, it would drop one position per row and copy the logits.
            return self.compiled(input_ids=x, labels=y, shift_labels=y, use_cache=False).loss

    def step(self, x, y):
        self.optimizer.zero_grad()
        self.loss(x, y).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


def measure(shape, batch_size, device, precision, rounds, steps, kinds):
    """Check the losses; return kind -> tokens per second of each round, and the fast path."""
    config = SHAPES[shape]
    tokens = np.random.default_rng(0).integers(config.vocab_size, size=1_000_000, dtype=np.uint16)

    def batch(step):
        return get_batch(tokens, batch_size, config.context_length, device, step_generator(0, step))

    fast = Ours(shape, batch_size, device, precision)
    bfloat16 = precision == "bfloat16"
    make = {
        "readable": lambda: Ours(shape, batch_size, device),
        "fast": lambda: fast,
        "transformers": lambda: Peer(shape, device, bfloat16),
        "transformers-fused": lambda: Peer(shape, device, bfloat16, fused=True),
    }
    runs = {kind: make[kind]() for kind in kinds}

    x, y = batch(0)
    losses = {}
    for kind, run in runs.items():
        losses[kind] = run.loss(x, y).item()
    expected = next(iter(losses.values()))
    for kind, loss in losses.items():
        assert abs(loss - expected) < (0.02 if bfloat16 else 1e-3), (kind, losses)

    for run in runs.values():
        for step in range(2):
            run.step(*batch(step))
    speeds = {kind: [] for kind in runs}
    step = 0
    for _ in range(rounds):
        for kind, run in runs.items():
            number = max(1, steps // 4) if kind == "readable" else steps
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(number):
                step += 1
                run.step(*batch(step))
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds = time.perf_counter() - start
            speeds[kind].append(number * batch_size * config.context_length / seconds)
    return speeds, fast


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="tinystories")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--precision",
        action="append",
        choices=["float32", "bfloat16"],
        help="precision to measure (default: all that the device has instructions for)",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="steps per round")
    parser.add_argument("--without", action="append", default=[], help="implementation to omit")
    options = parser.parse_args()
    device = choose_device(options.device)
    if device.type == "cpu":
        keep_freed_memory()
    if "transformers" in options.without:
        options.without.append("transformers-fused")
    kinds = [k for k in KINDS if k not in options.without]
    if SHAPES[options.shape].tied_embeddings and "transformers" in kinds:
        parser.error("Llama does not scale tied embeddings; add --without transformers")
    precisions = options.precision
    if precisions is None:
        precisions = ["float32", "bfloat16"] if has_bfloat16(device) else ["float32"]
    for precision in precisions:
        torch.compiler.reset()
        speeds, fast = measure(
            options.shape, options.batch_size, device, precision, options.rounds, options.steps,
            kinds,
        )  # fmt: skip
        report(options.shape, options.batch_size, device, speeds, fast)


def report(shape, batch_size, device, speeds, fast):
    """Print the results of `measure`, with model FLOP utilization if the peak is known."""
    print(f"{shape}, batch {batch_size}, {fast.config.precision}, on {device_name(device)}")
    for line in fast.choices:
        print(f"  {line}")
    flops = flops_per_token(fast.config.model)
    print(f"{'':<20}{'tokens/s':>12}{'lowest':>10}{'highest':>10}{'fast is':>10}{'MFU':>8}")
    for kind, values in speeds.items():
        # Ratios within a round: the load on the machine differs between rounds.
        ratio = statistics.median(f / v for f, v in zip(speeds["fast"], values, strict=True))
        precision = "float32" if kind == "readable" else fast.config.precision
        peak = peak_flops(device_name(device), precision)
        mfu = "" if peak is None else f"{statistics.median(values) * flops / peak:.1%}"
        print(
            f"{kind:<20}{statistics.median(values):>12,.0f}{min(values):>10,.0f}"
            f"{max(values):>10,.0f}{ratio:>9.2f}x{mfu:>8}"
        )


if __name__ == "__main__":
    main()
