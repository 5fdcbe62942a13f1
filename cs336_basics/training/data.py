"""Batches of token ids: the course's `get_batch`, and batches that can be resumed at any step.

windows = TokenWindows("data/train.npy", context_length=256, stride=1)
batches = StepBatches(len(windows), 32, seed=0, num_steps=1000)
loader = StepLoader(windows, batches, num_workers=2)
for inputs, targets in loader:              # int64, (32, 256) each
    ...
    torch.save(loader.state_dict(), ...)    # and load_state_dict, to continue after this batch

The trainer uses the same three. `TokenDocuments` has one document for each index instead of a
window. Both are map-style datasets: they work with torch's own DataLoader and samplers, too.
"""

from __future__ import annotations

import copy
import mmap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from cs336_basics._support.arguments import MAX_INT64, checked_integer
from cs336_basics.tokenizer.files.joined_tokens import (
    JoinedTokens,
    TokenPaths,
    load_token_files,
    open_token_files,
)

TokenArray = npt.NDArray[np.integer[Any]] | JoinedTokens
"""Token ids, one-dimensional: an array, a memory map, or several of them as one sequence."""


# ----------------------------------------------------------------------------- items


class TokenWindows(Dataset[tuple[Tensor, Tensor]]):
    """Windows of a sequence of ids: inputs, and targets that are the inputs one token later.

    Item i is the window that begins at token `i * stride`: a pair (inputs, targets) of int64
    tensors of shape (context_length,). A file is mapped, not read; a pickled dataset holds the
    names of its files, which are mapped again where it is unpickled.

    Args:
        tokens: an array of ids; or a token file, a glob, or several of both, read one after the
            other.
        context_length: tokens in the inputs.
        stride: tokens between the beginnings of two windows; None: `context_length`, so that each
            token is a target once. With 1 there is every window, as `get_batch` draws them.
        vocab_size: the number of ids that the model knows; None: not checked.
        tokenizer_hash: `Tokenizer.hash()` of the tokenizer that must have made the files; None: not
            checked.
        name: of the tokens, for messages.

    Raises:
        FileNotFoundError, ValueError: see `load_token_files`; an id is outside the vocabulary; or
            there are not context_length + 1 tokens.
        TypeError: the array does not hold integers.
    """

    def __init__(
        self,
        tokens: TokenArray | TokenPaths,
        context_length: int,
        stride: int | None = None,
        vocab_size: int | None = None,
        tokenizer_hash: str | None = None,
        name: str = "dataset",
    ) -> None:
        self._arguments = tokens, context_length, stride, vocab_size, tokenizer_hash, name
        self.context_length = checked_integer("context_length", context_length, 1)
        self.stride = context_length if stride is None else checked_integer("stride", stride, 1)
        if isinstance(tokens, (np.ndarray, JoinedTokens)):
            self.tokens: TokenArray = tokens
            _check_array(name, tokens)
            if vocab_size is not None:
                _check_ids(name, tokens, vocab_size)
        else:
            self.tokens = load_token_files(
                tokens, vocab_size=vocab_size, tokenizer_hash=tokenizer_hash
            )
        if len(self.tokens) <= context_length:
            raise ValueError(
                f"{name} has {len(self.tokens):,} tokens, a context length of {context_length:,} "
                f"needs at least {context_length + 1:,}: use more text or a shorter context"
            )

    def __len__(self) -> int:
        return (len(self.tokens) - self.context_length - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """Return several items at once; a DataLoader calls this for a batch."""
        inputs, targets = self.batch([range(len(self))[index] for index in indices])
        return list(zip(inputs, targets, strict=True))

    def batch(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return items as (inputs, targets), int64 of shape (len(indices), context_length)."""
        # One token more than the context: inputs and targets overlap in the same window.
        windows = np.empty((len(indices), self.context_length + 1), dtype=np.int64)
        for row, index in enumerate(indices):
            start = int(index) * self.stride
            windows[row] = self.tokens[start : start + self.context_length + 1]
            if row % 16 == 15:  # the system may map a megabyte or two around each window
                release_pages(self.tokens)
        release_pages(self.tokens)
        ids = torch.from_numpy(windows)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenWindows, self._arguments


class TokenDocuments(Dataset[Tensor]):
    """The documents of token files that were encoded with document starts.

    Item i is an int64 tensor of shape (length,), with the special token that ends the document, if
    there is one. To batch documents of different lengths, pass `pad_documents` as a DataLoader's
    `collate_fn`.

    Args:
        paths: a token file, a glob, or several of both.
        max_length: tokens of a document that are returned; None: all.
        vocab_size, tokenizer_hash: as for TokenWindows.

    Raises:
        FileNotFoundError, ValueError: see `open_token_files` and `load_document_starts`.
    """

    def __init__(
        self,
        paths: TokenPaths,
        max_length: int | None = None,
        vocab_size: int | None = None,
        tokenizer_hash: str | None = None,
    ) -> None:
        self._arguments = paths, max_length, vocab_size, tokenizer_hash
        if max_length is not None:
            checked_integer("max_length", max_length, 1)
        self.max_length = max_length
        self.files = open_token_files(paths, vocab_size=vocab_size, tokenizer_hash=tokenizer_hash)
        self._starts = [file.document_starts() for file in self.files]
        self._first = np.cumsum([0, *map(len, self._starts)])

    def __len__(self) -> int:
        return int(self._first[-1])

    def __getitem__(self, index: int) -> Tensor:
        index = range(len(self))[index]
        file = int(np.searchsorted(self._first, index, side="right")) - 1
        starts, part = self._starts[file], self.files[file].tokens
        inside = index - int(self._first[file])
        begin = int(starts[inside])
        end = int(starts[inside + 1]) if inside + 1 < len(starts) else len(part)
        if not begin < end <= len(part):
            raise ValueError(
                f"{self.files[file].path}: document {inside:,} extends from token {begin:,} to "
                f"{end:,}: its document starts are damaged; encode the text again"
            )
        if self.max_length is not None:
            end = min(end, begin + self.max_length)
        document = torch.from_numpy(part[begin:end].astype(np.int64))
        release_pages(part)
        return document

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenDocuments, self._arguments


def pad_documents(documents: Sequence[Tensor], pad_id: int = 0) -> tuple[Tensor, Tensor]:
    """Return documents as one tensor, padded at their ends.

    Args:
        documents: at least one tensor of shape (length,).
        pad_id: fills the rest of each row.

    Returns:
        ids: int64 of shape (len(documents), longest).
        mask: bool of the same shape, True where there is a token of the document.
    """
    ids = torch.nn.utils.rnn.pad_sequence(list(documents), batch_first=True, padding_value=pad_id)
    lengths = torch.tensor([len(document) for document in documents])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


# --------------------------------------------------------------------------- batches


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

    Raises as TokenWindows does, and ValueError where batch_size is not positive.
    """
    checked_integer("batch_size", batch_size, 1)
    if not isinstance(dataset, (np.ndarray, JoinedTokens)):
        raise TypeError(f"dataset is of type {type(dataset).__name__}: pass a NumPy array of ids")
    windows = TokenWindows(dataset, context_length, stride=1)
    generator = np.random.default_rng() if generator is None else generator
    inputs, targets = windows.batch(generator.integers(len(windows), size=batch_size))
    if torch.device(device).type == "cuda" and torch.cuda.is_available():
        # The GPU copies from page-locked memory while the host continues.
        inputs, targets = inputs.pin_memory(), targets.pin_memory()
    return inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)


def step_generator(seed: int, step: int) -> np.random.Generator:
    """Return the random generator of a step: its stream depends only on (seed, step).

    Philox is a block cipher run over a counter, so streams with different keys are independent
    and any step can be computed without the steps before it (Salmon et al. 2011, "Parallel Random
    Numbers: As Easy as 1, 2, 3").
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, step], dtype=np.uint64)))


class StepBatches(Sampler[list[int]]):
    """The indices of the batch of each step: a `batch_sampler` for torch's DataLoader.

    The indices of a step depend on the seed and the step alone, so iteration can start at any step.
    With several processes, all draw the same whole batch and each takes its own share.

    Args:
        num_items: items of the dataset.
        batch_size: items of a batch, of all processes together.
        seed: at least 0.
        num_steps: the last step; None: there is none.
        start_step: the first step, counted from 1.
        replacement: draw each item of a batch from all items, independently. Over
            `TokenWindows(..., stride=1)` these are the batches of the trainer with this seed.
            Otherwise, every item is drawn once in an epoch, in an order that depends on the seed
            and the epoch; items that do not fill a last batch are left out of that epoch.
        rank, world_size: which share of each batch this process takes.

    Raises:
        ValueError, TypeError: a number is out of bounds; or batch_size is not a multiple of
            world_size, or, without replacement, is greater than num_items.
    """

    def __init__(
        self,
        num_items: int,
        batch_size: int,
        *,
        seed: int = 0,
        num_steps: int | None = None,
        start_step: int = 1,
        replacement: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.num_items = checked_integer("num_items", num_items, 1)
        self.batch_size = checked_integer("batch_size", batch_size, 1)
        self.seed = checked_integer("seed", seed, 0, MAX_INT64)
        self.num_steps = None if num_steps is None else checked_integer("num_steps", num_steps, 0)
        self.start_step = checked_integer("start_step", start_step, 1)
        self.replacement = replacement
        self.world_size = checked_integer("world_size", world_size, 1)
        self.rank = checked_integer("rank", rank, 0, world_size - 1)
        if batch_size % world_size:
            raise ValueError(
                f"batch_size is {batch_size}: it must be a multiple of world_size, {world_size}"
            )
        if not replacement and batch_size > num_items:
            raise ValueError(
                f"batch_size is {batch_size}: without replacement it must be at most num_items, "
                f"{num_items}"
            )
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        """Return the number of steps; TypeError where there is no last one."""
        if self.num_steps is None:
            raise TypeError("num_steps is None: the batches have no end")
        return max(0, self.num_steps - self.start_step + 1)

    def __iter__(self) -> Iterator[list[int]]:
        step = self.start_step
        while self.num_steps is None or step <= self.num_steps:
            yield self.indices(step)
            step += 1

    def indices(self, step: int) -> list[int]:
        """Return the indices of this process's share of a step (steps count from 1)."""
        share = self.batch_size // self.world_size
        begin = self.rank * share
        if self.replacement:
            items = step_generator(self.seed, step).integers(self.num_items, size=self.batch_size)
        else:
            epoch, batch = divmod(step - 1, self.num_items // self.batch_size)
            items = self._order_of(epoch)
            begin += batch * self.batch_size
        indices: list[int] = items[begin : begin + share].tolist()
        return indices

    def _order_of(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return all items in the order of an epoch, int64 of shape (num_items,)."""
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, step_generator(self.seed, epoch).permutation(self.num_items)
        return self._order[1]

    def settings(self) -> dict[str, Any]:
        """Return what determines the batches, besides the dataset; the share is not included."""
        return {
            name: getattr(self, name) for name in ("num_items", "batch_size", "seed", "replacement")
        }


class StepLoader:
    """A DataLoader over a dataset and StepBatches that knows which batches it has delivered.

    Workers read ahead, so a sampler cannot tell how far training is. This counts what the caller
    has received: `state_dict()` after a batch, and `load_state_dict` in a new loader, continue with
    the next batch, whatever the number of workers.

    Args:
        dataset: TokenWindows, TokenDocuments or another map-style dataset.
        batches: the steps; `start_step` is the first.
        num_workers: processes that read; 0: this one.
        options: further arguments of torch's DataLoader, such as `collate_fn` or `pin_memory`.

    Attributes:
        step: the step of the batch delivered last; before the first, `start_step - 1`.
    """

    def __init__(
        self, dataset: Dataset[Any], batches: StepBatches, *, num_workers: int = 0, **options: Any
    ) -> None:
        self.dataset = dataset
        self.batches = batches
        self.step = batches.start_step - 1
        self._options = {"num_workers": num_workers, **options}

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches after `step`, and count them."""
        for batch in DataLoader(self.dataset, batch_sampler=self._left(), **self._options):
            self.step += 1
            yield batch

    def __len__(self) -> int:
        """Return the number of batches that are left; TypeError where there is no last one."""
        return len(self._left())

    def _left(self) -> StepBatches:
        left = copy.copy(self.batches)
        left.start_step = self.step + 1
        return left

    def state_dict(self) -> dict[str, Any]:
        """Return the step, and what the batches depend on, as plain values."""
        return {"step": self.step, **self.batches.settings()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after the batch at which `state_dict` was called.

        The number of processes and of workers may differ.

        Raises:
            ValueError: the state is of other batches; names the first value that differs.
        """
        for name, value in self.batches.settings().items():
            if state.get(name) != value:
                raise ValueError(
                    f"{name} is {value}, and was {state.get(name)!r} when the state was saved: "
                    "the batches would differ"
                )
        self.step = checked_integer("step", state.get("step"), 0)


# ------------------------------------------------------------------------------- ids


def release_pages(tokens: TokenArray) -> None:
    """Release the pages of a read-only memory map that have been read.

    The pages stay in the system's page cache and the map stays valid. Otherwise they count as
    memory of the process, which after enough batches is as large as the file.
    """
    for part in tokens.parts if isinstance(tokens, JoinedTokens) else (tokens,):
        mapped = getattr(part, "_mmap", None)  # NumPy has no public attribute for it
        # In a copy-on-write map ("c") this would lose what was written.
        if isinstance(mapped, mmap.mmap) and getattr(part, "mode", None) == "r":
            advice = getattr(mmap, "MADV_DONTNEED", None)  # not on Windows
            if advice is not None:
                mapped.madvise(advice)


def _check_array(name: str, tokens: TokenArray) -> None:
    if tokens.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not the shape {tokens.shape}")
    if tokens.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integer token ids, not {tokens.dtype}")


def _check_ids(name: str, tokens: TokenArray, vocab_size: int) -> None:
    """Raise ValueError for an id outside the vocabulary: on a GPU it would end the process."""
    block = 1 << 24  # a memory map may be larger than memory
    for start in range(0, len(tokens), block):
        ids = tokens[start : start + block]
        smallest, largest = int(ids.min()), int(ids.max())
        release_pages(tokens)
        if smallest < 0 or largest >= vocab_size:
            raise ValueError(
                f"{name} holds token id {smallest if smallest < 0 else largest}, outside the "
                f"model's vocabulary [0, {vocab_size}): model.vocab_size must be at least the "
                "tokenizer's"
            )
