"""Several processes that train one model: `torchrun --nproc-per-node N -m cs336_basics.train ...`.

DDP: every process holds the whole model and computes its share of each batch; the gradients are
averaged while they are computed (Li et al. 2020). FSDP: every process holds a shard of the weights,
gradients and moments, and gathers the weights of a block when it computes it (Zhao et al. 2023),
for models that do not fit otherwise. The batch of a step is the same as with one process, and so
are the losses.
"""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Module

if TYPE_CHECKING:
    from cs336_basics.training.config import TrainConfig

# How long a process waits for one that does not answer. One that dies is detected at once.
TIMEOUT = datetime.timedelta(minutes=30)


@dataclass(frozen=True)
class World:
    """The processes of a job, and which of them this is. The default is one process alone."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean of a tensor over the processes."""
        if self.size == 1:
            return value
        value = value.clone()
        dist.all_reduce(value)
        return value / self.size

    def sum(self, values: list[float]) -> list[float]:
        """Return the sums of these numbers over the processes."""
        if self.size == 1:
            return values
        # On the CPU, over gloo, even if the model is on a GPU, which would have to finish its
        # queued steps first.
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def any(self, condition: bool) -> bool:
        """Return whether the condition holds in at least one process."""
        return self.sum([float(condition)])[0] > 0 if self.size > 1 else condition

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.size > 1:
            dist.barrier()

    def share(self, value: Any) -> Any:
        """Return the first process's value in all of them."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]


def join_world(device: str) -> World:
    """Join the job that torchrun started this process for, if it did so.

    Args:
        device: the `device` of the configuration. Processes communicate over gloo on CPUs, over
            NCCL on GPUs.

    Raises:
        ValueError: there are more processes on this machine than GPUs.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return World()
    world = World(
        rank=int(os.environ["RANK"]),
        size=int(os.environ["WORLD_SIZE"]),
        local_rank=int(os.environ.get("LOCAL_RANK", 0)),
    )
    on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if on_gpu:
        if world.local_rank >= torch.cuda.device_count():
            raise ValueError(
                f"process {world.local_rank + 1} on this machine finds {torch.cuda.device_count()} "
                "GPUs: each process needs its own; use a smaller --nproc-per-node, or --device cpu"
            )
        torch.cuda.set_device(world.local_rank)
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=TIMEOUT)
    return world


def check_batch_size(config: TrainConfig, world: World) -> None:
    """Check that each process's share of a batch can be cut into equal micro-batches.

    Raises:
        ValueError: naming the values.
    """
    if config.batch_size % (world.size * config.accumulation) != 0:
        raise ValueError(
            f"batch_size is {config.batch_size}: it must be a multiple of {world.size} "
            f"processes times accumulation {config.accumulation}"
        )


def leave_world() -> None:
    """Leave the job, if this process joined one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def shard(model: Module, world: World, device: torch.device, compiled: bool = False) -> None:
    """Shard the weights over the processes, in place (FSDP2): block by block, then the rest.

    `compiled`: compile each block by itself, since weights are gathered between blocks.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (world.size,))
    for layer in model.layers:  # type: ignore[union-attr]
        if compiled:
            layer.compile(dynamic=False)
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    # The loss calls this method instead of `forward`: it too must gather weights.
    register_fsdp_forward_method(model, "hidden_states")


def replicate(module: Module, device: torch.device) -> Module:
    """Return the module with gradients that are averaged over the processes (DDP)."""
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(
        module,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
    )
