"""Training one model in several processes: `torchrun --nproc-per-node N -m cs336_basics.train ...`.

With DDP, each process stores the whole model and computes its share of each batch. Gradients are
averaged during the backward pass (Li et al. 2020). FSDP is for models that would otherwise not fit
into memory: each process stores a shard of the weights, gradients and moments, and gathers the
weights of one block at a time (Zhao et al. 2023). The batches are the same as with one process,
and so are the losses without dropout.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import short_repr

if TYPE_CHECKING:
    from cs336_basics.training.config import TrainConfig

# How long to wait for an unresponsive process. A process that dies is detected immediately.
TIMEOUT = datetime.timedelta(minutes=30)
# How long to wait for the first process to prepare the data.
PREPARATION_TIMEOUT = datetime.timedelta(days=7)


@dataclass(frozen=True)
class World:
    """The process group and this process's rank. The default is a single process."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean of a tensor over all processes."""
        if self.size == 1:
            return value
        value = value.clone()
        dist.all_reduce(value)
        return value / self.size

    def sum(self, values: list[float]) -> list[float]:
        """Return the sum of each number over all processes."""
        if self.size == 1:
            return values
        # Sum on the CPU with gloo, because a GPU would have to finish its queued steps first.
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def any(self, condition: bool) -> bool:
        """Return whether the condition is true in at least one process."""
        return self.sum([float(condition)])[0] > 0 if self.size > 1 else condition

    def wait(self) -> None:
        """Wait until all processes have called this method."""
        if self.size > 1:
            dist.barrier()

    def finish(self) -> None:
        """Wait until all processes have finished and may exit.

        gloo may abort a process that exits while another one is working, or while one of its
        threads, which the caches of FSDP keep alive, has not yet released its last tensor.
        """
        if self.size > 1:
            dist.barrier()
            time.sleep(0.5)  # the threads release tensors within milliseconds

    @contextlib.contextmanager
    def first_process_first(self) -> Iterator[None]:
        """Run the `with` block in the first process, then in the others. It may take days."""
        group: Any = None
        if self.size > 1:
            group = dist.new_group(backend="gloo", timeout=PREPARATION_TIMEOUT)
            if not self.is_first:
                dist.barrier(group)
        yield
        if self.size > 1 and self.is_first:
            dist.barrier(group)

    def share(self, value: Any) -> Any:
        """Return the first process's value in every process."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]


def join_world(device: str) -> World:
    """Join the process group if torchrun started this process.

    Args:
        device: Value of `device` in the configuration. Processes communicate over gloo on CPUs
            and over NCCL on GPUs.

    Raises:
        ValueError: If there are more processes than GPUs on this machine, or a variable of torchrun
            is not a number.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return World()
    world = World(
        rank=_number_in("RANK"), size=_number_in("WORLD_SIZE"), local_rank=_number_in("LOCAL_RANK")
    )
    on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if on_gpu:
        if world.local_rank >= torch.cuda.device_count():
            raise InputError(
                f"the number of processes must be at most the number of GPUs "
                f"({torch.cuda.device_count()}), got at least {world.local_rank + 1}",
                remedy=("start fewer processes, or pass ", Argument("device", "cpu")),
            )
        torch.cuda.set_device(world.local_rank)
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=TIMEOUT)
    return world


def _number_in(variable: str) -> int:
    """Return the number in an environment variable, or 0 if the variable is not set."""
    text = os.environ.get(variable, "0")
    if not (text.isascii() and text.isdigit()):
        raise InputError(
            f"must be a number, got {short_repr(text)}",
            place=f"environment variable {variable}",
            remedy="unset it, or start the processes with torchrun",
        )
    return int(text)


def check_batch_size(config: TrainConfig, world: World) -> None:
    """Check that each process's share of a batch splits into equal micro-batches.

    Raises:
        ValueError: If the share cannot be split equally.
    """
    if config.batch_size % (world.size * config.accumulation) != 0:
        raise InputError(
            f"must be a multiple of the number of processes ({world.size}) times accumulation "
            f"({config.accumulation}), got {config.batch_size}",
            argument="batch_size",
        )


def leave_world() -> None:
    """Leave the process group, if this process joined one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def shard(model: Module, world: World, device: torch.device, compiled: bool = False) -> None:
    """Shard a model's weights over the processes in place (FSDP2).

    If `compiled` is set, each block is compiled separately, because weights are gathered between
    blocks.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (world.size,))
    for layer in model.layers:  # type: ignore[union-attr]
        if compiled:
            layer.compile(dynamic=False)
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    # The loss calls `hidden_states`, not `forward`, so `hidden_states` must also gather weights.
    register_fsdp_forward_method(model, "hidden_states")


def replicate(module: Module, device: torch.device) -> Module:
    """Wrap the module so that its gradients are averaged over the processes (DDP)."""
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(
        module,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
    )
