"""A model small enough for any test, and some steps of training for it."""

from __future__ import annotations

import torch

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
