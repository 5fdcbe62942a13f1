"""Measure what generation with weights in bfloat16 and int8 changes in a trained model.

    python -m benchmarks.models.rounded_weights runs/my

For each precision, prints the loss on the run's validation tokens, how far the logits are from
those in float32, and the share of prompts with the same greedy text. The prompts are the starts of
windows of the validation tokens. Before that, the compiled code must compute the logits of the
readable model with the same rounded weights.
"""

import argparse

import numpy as np
import torch

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.generation import Sampling, generate_batch
from cs336_basics.generation.engines import Compiled
from cs336_basics.generation.precision import rounded, with_rounded_matrices
from cs336_basics.model import Linear
from cs336_basics.training.load_run import load_run

PRECISIONS = ["float32", "bfloat16", "int8"]


def validation_windows(run, number, length):
    """Return windows (number, length) of the run's validation tokens, at equal distances."""
    tokens = np.load(RunDirectory(run).path / "data" / "valid.npy", mmap_mode="r")
    starts = np.linspace(0, len(tokens) - length, number).astype(int)
    return torch.from_numpy(
        np.stack([tokens[start : start + length] for start in starts]).astype(int)
    )


def logits_of(model, precision, windows):
    """Return the logits after each window, computed by the compiled code."""
    engine = Compiled(model, len(windows), precision)
    return engine.next_logits(windows.tolist()).double()


def relative_rounding(model, precision):
    """Return the sum of the relative errors of all matrices: a first-order bound for the logits."""
    return sum(
        float((rounded(module.weight, precision) - module.weight).norm() / module.weight.norm())
        for module in model.modules()
        if isinstance(module, Linear)
    )


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--prompt-tokens", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=64)
    options = parser.parse_args()
    model = load_run(options.run).model.eval()
    length = options.prompt_tokens + options.new_tokens
    windows = validation_windows(options.run, options.prompts, length)
    prompts = windows[:, : options.prompt_tokens].tolist()
    exact = logits_of(model, "float32", windows)
    texts = generate_batch(model, prompts, options.new_tokens, Sampling(temperature=0))
    print(f"{options.prompts} prompts of {options.prompt_tokens} tokens, {options.new_tokens} new")
    print(
        f"{'':<10}{'loss':>9}{'logits off by':>15}{'bound':>8}{'same text':>11}{'same tokens':>13}"
    )
    for precision in PRECISIONS:
        readable = with_rounded_matrices(model, precision)
        logits = logits_of(model, precision, windows)
        difference = (logits - readable(windows)[:, -1].double()).norm() / logits.norm()
        assert difference < 1e-3, difference
        ids, targets = windows[:, :-1], windows[:, 1:]
        losses = torch.nn.functional.cross_entropy(
            readable(ids).flatten(0, 1).double(), targets.flatten()
        )
        new = generate_batch(
            model, prompts, options.new_tokens, Sampling(temperature=0), precision=precision
        )
        same = [a == b for a, b in zip(texts, new, strict=True)]
        equal = [sum(np.cumprod(np.equal(a, b))) / len(a) for a, b in zip(texts, new, strict=True)]
        error = float((logits - exact).norm() / exact.norm())
        print(
            f"{precision:<10}{float(losses):>9.4f}{error:>15.2%}"
            f"{relative_rounding(model, precision):>8.1%}{np.mean(same):>11.0%}"
            f"{np.mean(equal):>13.1%}"
        )


if __name__ == "__main__":
    main()
