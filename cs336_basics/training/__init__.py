"""Training: loss, optimizers, learning-rate schedule, gradient clipping, batches, checkpoints."""

from cs336_basics.runs.checkpoint import load_checkpoint, save_checkpoint
from cs336_basics.training.clipping import clip_gradients
from cs336_basics.training.data import get_batch
from cs336_basics.training.loss import cross_entropy
from cs336_basics.training.optimizers import SGD, AdamW, Muon, build_optimizer
from cs336_basics.training.schedule import cosine_schedule, linear_schedule

__all__ = [
    "SGD",
    "AdamW",
    "Muon",
    "build_optimizer",
    "clip_gradients",
    "cosine_schedule",
    "cross_entropy",
    "get_batch",
    "linear_schedule",
    "load_checkpoint",
    "save_checkpoint",
]
