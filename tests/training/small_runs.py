"""A small model, a configuration that trains it for a few steps, and two small runs."""

from __future__ import annotations

import torch

from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.model import ModelConfig
from cs336_basics.training import cross_entropy

SMALL = ModelConfig(vocab_size=20, context_length=6, d_model=8, num_layers=2, num_heads=2, d_ff=8)


def train(model, optimizer, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        ids = torch.randint(0, 20, (4, 7), generator=generator)
        optimizer.zero_grad()
        cross_entropy(model(ids[:, :-1]), ids[:, 1:]).backward()
        optimizer.step()


def write_two_runs(directory):
    """Write the metrics of the runs "plain" and "fast", whose losses fall to 4.5 and 3.5."""
    for name, slope in (("plain", 0.1), ("fast", 0.2)):
        run = RunDirectory(directory / name)
        run.create()
        for step in range(1, 11):
            row = {"step": step, "tokens": 64 * step, "train_loss": 5 - slope * step}
            run.append_metrics(row, {"seconds": step / slope})
            if step % 5 == 0:
                row = {"step": step, "tokens": 64 * step, "val_loss": 5.5 - slope * step}
                run.append_metrics(row, {"seconds": step / slope})
