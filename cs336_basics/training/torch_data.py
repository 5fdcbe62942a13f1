"""PyTorch datasets over token files, and batches of them that can be resumed at any step.

windows = TokenWindows("data/train.npy", context_length=256, stride=1)
batches = StepBatches(len(windows), 32, seed=0, num_steps=1000)
loader = StepLoader(windows, batches, num_workers=2)
for inputs, targets in loader:              # int64, (32, 256) each
    ...
    torch.save(loader.state_dict(), ...)    # and load_state_dict, to continue after this batch

`TokenDocuments` has one document for each index instead. Both are map-style datasets: they work
with torch's own DataLoader and samplers, too. A file is mapped into memory by each process that
reads from it, when it does; a pickled dataset holds the names of its files.
"""

from __future__ import annotations

import copy
import functools
import operator
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from cs336_basics._support.arguments import MAX_INT64, checked_integer
from cs336_basics._support.messages import short_repr
from cs336_basics.tokenizer.files.joined_tokens import (
    TokenPaths,
    load_token_files,
    open_token_files,
)
from cs336_basics.tokenizer.files.token_files import load_document_starts
from cs336_basics.training.data import (
    TokenArray,
    read_windows,
    release_pages,
    step_generator,
)


class _TokenFiles:
    """Token files as one sequence of ids, mapped by each process that reads it.

    Raises:
        FileNotFoundError, ValueError: see `load_token_files`.
    """

    def __init__(
        self, paths: TokenPaths, vocab_size: int | None, tokenizer_hash: str | None
    ) -> None:
        self.files = [str(file.path) for file in open_token_files(paths)]
        self._load = functools.partial(
            load_token_files, self.files, vocab_size=vocab_size, tokenizer_hash=tokenizer_hash
        )
        self._opened: tuple[int, TokenArray] | None = None
        self.length = len(self.tokens())

    def tokens(self) -> TokenArray:
        """Return the ids, of shape (length,).

        Raises:
            ValueError: the files have changed since this object was made.
        """
        if self._opened is None or self._opened[0] != os.getpid():
            tokens = self._load()
            if len(tokens) != getattr(self, "length", len(tokens)):
                raise ValueError(
                    f"{self.files[0]} and the files after it have {len(tokens):,} tokens, and had "
                    f"{self.length:,}: they must not change while they are read"
                )
            self._opened = os.getpid(), tokens
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


class TokenWindows(Dataset[tuple[Tensor, Tensor]]):
    """Windows of token files: inputs, and targets that are the inputs one token later.

    Item i is the window that begins at token `i * stride`: a pair (inputs, targets) of int64
    tensors of shape (context_length,).

    Args:
        paths: a token file, a glob, or several of both, which are read one after the other.
        context_length: tokens in the inputs.
        stride: tokens between the beginnings of two windows; None: `context_length`, so that each
            token is a target once. With 1 there is every window, as `get_batch` draws them.
        vocab_size: the number of ids that the model knows; None: not checked.
        tokenizer_hash: `Tokenizer.hash()` of the tokenizer that must have made the files; None: not
            checked.

    Raises:
        FileNotFoundError, ValueError: see `load_token_files`; or there are not context_length + 1
            tokens.
    """

    def __init__(
        self,
        paths: TokenPaths,
        context_length: int,
        *,
        stride: int | None = None,
        vocab_size: int | None = None,
        tokenizer_hash: str | None = None,
    ) -> None:
        self.context_length = checked_integer("context_length", context_length, 1)
        given = self.context_length if stride is None else stride
        self.stride = checked_integer("stride", given, 1)
        self._files = _TokenFiles(paths, vocab_size, tokenizer_hash)
        if self._files.length <= self.context_length:
            raise ValueError(
                f"{self._files.files[0]} has {self._files.length:,} tokens, a context length of "
                f"{self.context_length} needs at least {self.context_length + 1}: use more text or "
                "a shorter context"
            )

    def __len__(self) -> int:
        return (self._files.length - self.context_length - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """Return several items at once; a DataLoader calls this for a batch."""
        chosen = np.array([_checked_index(index, len(self)) for index in indices], dtype=np.int64)
        tokens = self._files.tokens()
        windows = read_windows(tokens, chosen * self.stride, self.context_length + 1)
        return [(window[:-1], window[1:]) for window in windows]


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
        FileNotFoundError, ValueError: see `load_token_files` and `load_document_starts`.
    """

    def __init__(
        self,
        paths: TokenPaths,
        *,
        max_length: int | None = None,
        vocab_size: int | None = None,
        tokenizer_hash: str | None = None,
    ) -> None:
        if max_length is not None:
            checked_integer("max_length", max_length, 1)
        self.max_length = max_length
        self._files = _TokenFiles(paths, vocab_size, tokenizer_hash)
        self._opened: tuple[int, list[npt.NDArray[np.int64]]] | None = None
        self._first = np.cumsum([0, *(len(starts) for starts in self._starts())])

    def __len__(self) -> int:
        return int(self._first[-1])

    def __getitem__(self, index: int) -> Tensor:
        index = _checked_index(index, len(self))
        file = int(np.searchsorted(self._first, index, side="right")) - 1
        starts, inside = self._starts()[file], index - int(self._first[file])
        tokens = self._files.tokens()
        part = getattr(tokens, "parts", (tokens,))[file]
        begin = int(starts[inside])
        end = int(starts[inside + 1]) if inside + 1 < len(starts) else len(part)
        if not begin < end <= len(part):
            raise ValueError(
                f"{self._files.files[file]}: document {inside:,} extends from token {begin:,} to "
                f"{end:,}: its document starts are damaged; encode the text again"
            )
        if self.max_length is not None:
            end = min(end, begin + self.max_length)
        document = torch.from_numpy(np.asarray(part[begin:end], dtype=np.int64).copy())
        release_pages(part)
        return document

    def _starts(self) -> list[npt.NDArray[np.int64]]:
        """Return the document starts of each file, mapped by this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            starts = [load_document_starts(file) for file in self._files.files]
            self._opened = os.getpid(), starts
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def pad_documents(documents: Sequence[Tensor], pad_id: int = 0) -> tuple[Tensor, Tensor]:
    """Return documents as one tensor, padded at their ends.

    Args:
        documents: at least one tensor of shape (length,).
        pad_id: fills the rest of each row.

    Returns:
        ids: int64 of shape (len(documents), longest).
        mask: bool of the same shape, True where there is a token of the document.
    """
    lengths = torch.tensor([len(document) for document in documents])
    longest = int(lengths.max())
    ids = torch.full((len(documents), longest), pad_id, dtype=torch.int64)
    for row, document in enumerate(documents):
        ids[row, : len(document)] = document
    return ids, torch.arange(longest) < lengths[:, None]


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
        self.num_steps = num_steps
        if num_steps is not None:
            checked_integer("num_steps", num_steps, 0)
        self.start_step = checked_integer("start_step", start_step, 1)
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement is {short_repr(replacement)}: it must be True or False")
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
        checked_integer("step", step, 1)
        share = self.batch_size // self.world_size
        begin = self.rank * share
        if self.replacement:
            # As `draw_starts` of data.py draws the windows of the trainer's batches.
            drawn = step_generator(self.seed, step).integers(self.num_items, size=self.batch_size)
            return [int(index) for index in drawn[begin : begin + share]]
        epoch, batch = divmod(step - 1, self.num_items // self.batch_size)
        begin += batch * self.batch_size
        return [int(index) for index in self._order_of(epoch)[begin : begin + share]]

    def _order_of(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return all items in the order of an epoch, int64 of shape (num_items,)."""
        if self._order is None or self._order[0] != epoch:
            order = step_generator(self.seed, epoch).permutation(self.num_items)
            self._order = epoch, order
        return self._order[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_order": None}

    def settings(self) -> dict[str, Any]:
        """Return what determines the batches, besides the dataset; the share is not included."""
        names = ("num_items", "batch_size", "seed", "replacement")
        return {name: getattr(self, name) for name in names}


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
            TypeError: the state is not a dict, or its step not an int.
            ValueError: the state is of other batches; names the first value that differs.
        """
        if not isinstance(state, dict):
            raise TypeError(f"state is {short_repr(state)}: it must be what state_dict() returned")
        for name, value in self.batches.settings().items():
            if state.get(name) != value:
                raise ValueError(
                    f"{name} is {value}, and was {state.get(name)!r} when the state was saved: "
                    "the batches would differ"
                )
        self.step = checked_integer("step", state.get("step"), 0)


def _checked_index(index: int, length: int) -> int:
    """Return an index, counted from the end if it is negative.

    Raises:
        IndexError: there is no such item.
    """
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range: there are {length:,} items")
    return number % length
