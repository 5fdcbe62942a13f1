"""A common interface to both checkpoint formats, and small runs to save."""

from __future__ import annotations

import copy

import torch
from torch.nn.functional import linear
from torch.testing import assert_close

from cs336_basics.checkpoints.checkpoint import read_checkpoint, write_checkpoint
from cs336_basics.checkpoints.torch_file import load_checkpoint, save_checkpoint
from cs336_basics.model import TransformerLM
from cs336_basics.training.optimizers import SGD, AdamW, MomentumSGD, Muon
from tests.training.small_runs import SMALL, train

FORMATS = {
    "run": (lambda path, *run: write_checkpoint(path, *run), read_checkpoint),
    "torch": (lambda path, *run: save_checkpoint(*run, path), load_checkpoint),
}
OPTIMIZERS = {
    "SGD": lambda p: SGD(p),
    "MomentumSGD": lambda p: MomentumSGD(p, momentum=0.9),
    "AdamW": lambda p: AdamW(p),
    "Muon": lambda p: Muon([{"params": list(p), "muon": True}]),
    "torch AdamW": lambda p: torch.optim.AdamW(p, fused=False),
    "fused AdamW": lambda p: torch.optim.AdamW(p, fused=True),
    "torch Adam": lambda p: torch.optim.Adam(p, weight_decay=0.1),
    "torch SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}
SAME = {"AdamW", "torch AdamW", "fused AdamW"}


def new_run(seed, steps=0):
    """Return a small model and its optimizer, trained for a few steps."""
    torch.manual_seed(seed)
    model = TransformerLM(SMALL)
    optimizer = AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer, steps, seed)
    return model, optimizer


def linear_run(kind, steps=3):
    """Return a model that is a float64 matrix, and an optimizer from OPTIMIZERS."""
    torch.manual_seed(5)
    model = torch.nn.Linear(3, 2, bias=False).double()
    optimizer = OPTIMIZERS[kind](model.parameters())
    for _ in range(steps):
        take_step(model, optimizer)
    return model, optimizer


def take_step(model, optimizer):
    optimizer.zero_grad()
    x = torch.arange(12, dtype=torch.float64).reshape(4, 3) / 7
    torch.autograd.backward(linear(x, model.weight).square().mean())
    optimizer.step()


def state_of(run):
    return copy.deepcopy([each.state_dict() for each in run])


def assert_same(run, other):
    assert_close(state_of(run), state_of(other), atol=0, rtol=0)
