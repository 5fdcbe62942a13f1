"""Batches: random windows of a long sequence of token ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def get_batch(
    dataset: npt.NDArray[Any],
    batch_size: int,
    context_length: int,
    device: torch.device | str,
    generator: np.random.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Return random windows of the dataset, and the same windows one token later.

    `dataset` is a 1-D array of any integer dtype, or a memory map, of which only the chosen
    windows are read. Each of its `len(dataset) - context_length` windows is equally likely, drawn
    with replacement by `generator` (None: unpredictably).

    Returns (inputs, targets), int64 tensors of shape (batch_size, context_length) on `device`:
    targets[i, j] is the token after inputs[i, j]. The way to a CUDA device is asynchronous.

    Raises ValueError where the dataset is shorter than context_length + 1 tokens or has more than
    one dimension, or a size is not positive; TypeError where it does not hold integers.
    """
    if dataset.ndim != 1:
        raise ValueError(f"dataset must have one dimension, not the shape {dataset.shape}")
    if dataset.dtype.kind not in "iu":
        raise TypeError(f"dataset must hold integer token ids, not {dataset.dtype}")
    if batch_size < 1 or context_length < 1:
        raise ValueError(
            "batch_size and context_length must be at least 1, not "
            f"{batch_size} and {context_length}"
        )
    num_starts = len(dataset) - context_length
    if num_starts < 1:
        raise ValueError(
            f"the dataset has {len(dataset)} tokens, a context length of {context_length} needs "
            f"at least {context_length + 1}: use more text or a shorter context"
        )

    if generator is None:
        generator = np.random.default_rng()
    starts = generator.integers(num_starts, size=batch_size)  # (batch,)
    # One token more than the context: inputs and targets are the two ends of the same window.
    windows = np.stack([dataset[start : start + context_length + 1] for start in starts])
    tokens = torch.from_numpy(windows.astype(np.int64))  # (batch, context_length + 1)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    if torch.device(device).type == "cuda" and torch.cuda.is_available():
        # From page-locked memory the GPU fetches the batch while the host goes on.
        inputs, targets = inputs.pin_memory(), targets.pin_memory()
    return inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
