"""The memory of a training step, computed with tensors that have no data.

The real model, loss and optimizer take a step on PyTorch's fake tensors, which have shapes but no
memory, and the bytes of all live tensors are counted. The result always matches the code, even for
models that do not fit into memory.

PyTorch has no public names for fake tensors, dispatch modes and trees. PyTorch's own memory tools
import them from the same private modules as this file.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from cs336_basics.model import TransformerLM
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.loss import LanguageModelLoss


@dataclass
class StepMemory:
    """Memory used by the tensors in a training step, in bytes."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    """All other tensors at the peak."""

    @property
    def total(self) -> int:
        """Bytes at the peak."""
        return self.weights + self.gradients + self.optimizer + self.activations


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Context manager that counts the bytes of live tensors and records the peak."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive = self.peak = 0
        self._known: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        # A storage and its Python object have the same lifetime, so the id is unique.
        key = id(storage)
        if key in self._known or storage.nbytes() == 0:
            return
        self._known[key] = storage.nbytes()
        self.alive += storage.nbytes()
        self.peak = max(self.peak, self.alive)
        weakref.finalize(storage, self._remove, key)

    def _remove(self, key: int) -> None:
        self.alive -= self._known.pop(key, 0)


def step_memory(config: TrainConfig) -> StepMemory:
    """Return the memory that a step needs without `torch.compile`.

    Memory for the program and the device's libraries is not included.
    """
    micro_batch = config.batch_size // config.accumulation
    length = config.model.context_length
    with FakeTensorMode(), LiveBytes() as live:
        model = TransformerLM(
            config.model, dropout=config.dropout, recompute=config.checkpoint_activations
        )
        weights = live.alive
        optimizer = config.optimizer.build(model, precision=config.precision)
        loss_of = LanguageModelLoss(
            model,
            config.loss_chunks,
            config.precision,
            document_start=None if config.data.document_start is None else 0,
        )

        def micro_step() -> None:
            ids = torch.zeros(micro_batch, length, dtype=torch.int64)
            torch.autograd.backward(loss_of(ids, ids))

        micro_step()
        gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
        before = live.alive
        optimizer.step()
        state = live.alive - before
        # Each later step starts with the moments but without gradients.
        optimizer.zero_grad()
        live.peak = live.alive
        for _ in range(min(2, config.accumulation)):
            micro_step()
        optimizer.step()
        return StepMemory(
            weights=weights,
            gradients=gradients,
            optimizer=state,
            activations=live.peak - weights - gradients - state,
        )
