"""Batches: random windows of a long sequence of token ids."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens

TokenArray = npt.NDArray[np.integer[Any]] | JoinedTokens
"""Token ids, one-dimensional: an array, a memory map, or several of them as one sequence."""


def get_batch(
    dataset: npt.NDArray[Any] | JoinedTokens,
    batch_size: int,
    context_length: int,
    device: torch.device | str,
    generator: np.random.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Return random windows of the dataset, and the same windows one token later.

    `dataset` is a 1-D array of any integer dtype, or a memory map, of which only these windows are
    read, or several of them as JoinedTokens. Each of its `len(dataset) - context_length` windows is
    equally likely, drawn with replacement by `generator` (None: unpredictably).

    Returns (inputs, targets), int64 tensors of shape (batch_size, context_length) on `device`:
    targets[i, j] is the token after inputs[i, j]. The copy to a CUDA device is asynchronous.

    Raises ValueError where the dataset is shorter than context_length + 1 tokens or has more than
    one dimension, or a size is not positive; TypeError where it does not hold integers.
    """
    generator = np.random.default_rng() if generator is None else generator
    starts = draw_starts(dataset, batch_size, context_length, generator)
    # One token more than the context: inputs and targets overlap in the same window.
    tokens = read_windows(dataset, starts, context_length + 1)  # (batch, context_length + 1)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    if torch.device(device).type == "cuda" and torch.cuda.is_available():
        # The GPU copies from page-locked memory while the host continues.
        inputs, targets = inputs.pin_memory(), targets.pin_memory()
    return inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)


def draw_starts(
    dataset: npt.NDArray[Any] | JoinedTokens,
    batch_size: int,
    context_length: int,
    generator: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Return the start offsets of the windows of a batch, int64 (batch_size,); see `get_batch`."""
    _check_array("dataset", dataset)
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

    return generator.integers(num_starts, size=batch_size)


def _check_array(name: str, tokens: Any) -> None:
    """Raise TypeError or ValueError unless tokens are a one-dimensional array of integers."""
    if not isinstance(tokens, (np.ndarray, JoinedTokens)):
        raise TypeError(
            f"{name} is of type {type(tokens).__name__}: pass a NumPy array of token ids"
        )
    if tokens.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not the shape {tokens.shape}")
    if tokens.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integer token ids, not {tokens.dtype}")


def read_windows(
    dataset: npt.NDArray[Any] | JoinedTokens, starts: npt.NDArray[Any], length: int
) -> Tensor:
    """Return the windows of that length that begin at `starts`: int64, (len(starts), length)."""
    windows = np.empty((len(starts), length), dtype=np.int64)
    for row, start in enumerate(starts):
        windows[row] = dataset[start : start + length]
        if row % 16 == 15:  # the system may map a megabyte or two around each window
            release_pages(dataset)
    release_pages(dataset)
    return torch.from_numpy(windows)


def release_pages(dataset: npt.NDArray[Any] | JoinedTokens) -> None:
    """Release the pages of a read-only memory map that have been read.

    The pages stay in the system's page cache and the map stays valid. Otherwise they count as
    memory of the process, which after enough batches is as large as the file.
    """
    if isinstance(dataset, JoinedTokens):
        for part in dataset.parts:
            release_pages(part)
        return
    mapped = getattr(dataset, "_mmap", None)  # NumPy has no public attribute for it
    # In a copy-on-write map ("c") this would lose what was written.
    if isinstance(mapped, mmap.mmap) and getattr(dataset, "mode", None) == "r":
        advice = getattr(mmap, "MADV_DONTNEED", None)  # not on Windows
        if advice is not None:
            mapped.madvise(advice)


def step_generator(seed: int, step: int) -> np.random.Generator:
    """Return the random generator of a step: its stream depends only on (seed, step).

    Philox is a block cipher run over a counter, so streams with different keys are independent
    and any step can be computed without the steps before it (Salmon et al. 2011, "Parallel Random
    Numbers: As Easy as 1, 2, 3").
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, step], dtype=np.uint64)))


def check_tokens(name: str, tokens: TokenArray, context_length: int, vocab_size: int) -> None:
    """Check that tokens can be trained on: enough of them, and all within the vocabulary.

    Args:
        name: "training" or "validation", for the message.
        tokens: token ids, one-dimensional.
        context_length: tokens in a window; there must be one token more.
        vocab_size: the model's; ids must be in [0, vocab_size).

    Raises:
        TypeError: the tokens are not an array of integers.
        ValueError: naming the values.
    """
    _check_array(f"the {name} data", tokens)
    needed = context_length + 1
    if len(tokens) < needed:
        raise ValueError(
            f"the {name} data holds {len(tokens):,} tokens; a context of {context_length:,} needs "
            f"at least {needed:,}: use more text or a smaller model.context_length"
        )
    block = 1 << 24  # a memory map may be larger than memory
    for start in range(0, len(tokens), block):
        ids = tokens[start : start + block]
        smallest, largest = int(ids.min()), int(ids.max())
        release_pages(tokens)
        if smallest < 0 or largest >= vocab_size:
            raise ValueError(
                f"the {name} data holds token id {smallest if smallest < 0 else largest}, outside "
                f"the model's vocabulary [0, {vocab_size}): model.vocab_size must be at least the "
                "tokenizer's"
            )


class BatchLoader:
    """The batches of a run, one for each step, as `get_batch` draws them.

    On a GPU a thread draws the next batch into page-locked memory during the current step. A batch
    depends only on its step, so it is the same when it is drawn early.

    Args:
        dataset, batch_size, context_length, device: as for `get_batch`.
        generator_of: returns the random generator of a step.
        share: (rank, size): all processes draw the whole batch, and each keeps its share.
    """

    def __init__(
        self,
        dataset: npt.NDArray[Any] | JoinedTokens,
        batch_size: int,
        context_length: int,
        device: torch.device,
        generator_of: Callable[[int], np.random.Generator],
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self._dataset = dataset
        self._batch_size = batch_size
        self._context_length = context_length
        self._device = device
        self._generator_of = generator_of
        self._share = share
        self._thread: ThreadPoolExecutor | None = None
        if device.type == "cuda":
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._next: tuple[int, Future[tuple[Tensor, Tensor]]] | None = None

    def batch(self, step: int, ahead: bool = False) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of a step; with `ahead`, start to draw the next batch."""
        expected, self._next = self._next, None
        if expected is not None and expected[0] == step:
            drawn = expected[1].result()
        else:
            drawn = self._draw(step)
        if ahead and self._thread is not None:
            self._next = step + 1, self._thread.submit(self._draw, step + 1)
        x, y = (tensor.to(self._device, non_blocking=True) for tensor in drawn)
        return x, y

    def _draw(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the batch of a step on the host."""
        rank, size = self._share
        generator = self._generator_of(step)
        starts = draw_starts(self._dataset, self._batch_size, self._context_length, generator)
        mine = starts[rank * len(starts) // size : (rank + 1) * len(starts) // size]
        tokens = read_windows(self._dataset, mine, self._context_length + 1)
        x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        if self._device.type == "cuda":
            with torch.cuda.device(self._device):  # a new thread starts with the first GPU
                x, y = x.pin_memory(), y.pin_memory()
        return x, y
