"""What a training step needs: the device, the model on it, its loss and its optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from cs336_basics.model import TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.devices import check_precision, choose_device
from cs336_basics.training.distributed import World, replicate, shard
from cs336_basics.training.loss import LanguageModelLoss, checkpoint_activations
from cs336_basics.training.optimizers import build_optimizer


@dataclass
class Components:
    """The model of a run and what trains it."""

    device: torch.device
    model: TransformerLM
    """Plain or sharded, never wrapped: checkpoints have its parameter names."""
    optimizer: Optimizer
    loss_module: Module
    """The model's loss; with DDP, wrapped."""
    loss_of: Callable[[Tensor, Tensor], Tensor]
    """The same loss of (inputs, targets), compiled where the configuration asks for it."""


def build_components(config: TrainConfig, world: World) -> Components:
    """Build the components that a configuration describes; the same seed gives the same weights.

    Sets torch's number of threads to `num_workers`, and torch's seed.

    Raises:
        ValueError: there is no such device, or it cannot compute in this precision.
    """
    if config.num_workers is not None:
        torch.set_num_threads(config.num_workers)
    device = choose_device(config.device)
    if device.type == "cuda" and world.size > 1:
        device = torch.device("cuda", world.local_rank)  # one GPU for each process
    check_precision(config.precision, device)
    torch.manual_seed(config.seed)
    # Weights are drawn on the CPU, so that a seed gives the same ones on every device.
    model = TransformerLM(config.model).to(device)
    if config.checkpoint_activations:
        checkpoint_activations(model)
    sharded = world.size > 1 and config.parallel == "fsdp"
    if sharded:
        shard(model, world, device, compiled=config.compile)
    optimizer = build_optimizer(
        model,
        config.optimizer,
        lr=config.schedule.max_learning_rate,
        precision=config.precision,
        fused=config.fused_optimizer,
    )
    loss_module: Module = LanguageModelLoss(model, config.loss_chunks, config.precision)
    if world.size > 1 and config.parallel == "ddp":
        loss_module = replicate(loss_module, device)
    loss_of: Callable[[Tensor, Tensor], Tensor] = loss_module
    if config.compile and not sharded:
        loss_of = torch.compile(loss_module, dynamic=False)
    return Components(device, model, optimizer, loss_module, loss_of)
