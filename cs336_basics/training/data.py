"""Batches of token ids: the course's `get_batch`, and a loader that can resume at any step.

windows = TokenWindows("data/train.npy", context_length=256, stride=1)
batches = StepBatches(len(windows), 32, seed=0, num_steps=1000)
loader = StepLoader(windows, batches, num_workers=2)
for inputs, targets in loader:              # int64, (32, 256) each
    ...
    torch.save(loader.state_dict(), ...)    # load_state_dict continues after this batch

The trainer uses the same three classes. `TokenDocuments` is a dataset of documents instead of
windows. Both datasets are map-style, so they also work with torch's own DataLoader and samplers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from cs336_basics._support.arguments import MAX_INT64, checked_integer
from cs336_basics._support.errors import Argument, InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.text import ASSISTANT, END_OF_TEXT, USER
from cs336_basics.data.checked_tokens import (
    CheckedTokens,
    check_is_whole,
    contains,
    id_range,
    release_pages,
)
from cs336_basics.tokenizer.files.joined_tokens import (
    JoinedTokens,
    TokenPaths,
    load_token_files,
    open_token_files,
)

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer

_LOOK_BACK = 256
"""Number of tokens to read first when looking back. Each further read takes twice as many."""

UNCOUNTED = -1
"""Id of a target that the loss does not count."""

TokenArray = npt.NDArray[np.integer[Any]] | JoinedTokens
"""One-dimensional token ids: an array, a memory map, or several of these joined into one."""


# ----------------------------------------------------------------------------- items


@dataclass(frozen=True)
class AnswerRule:
    """The rule that decides which targets are counted in instruction data.

    A target is counted if the last of the three special tokens before it is the one that begins an
    answer. These are the tokens of each answer, and the token that ends it.
    """

    begin: int
    """Id of the special token before an answer."""
    end: int
    """Id of the special token after an answer."""
    prompt: int
    """Id of the special token before a prompt."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> AnswerRule:
        """Return the rule for texts encoded with a tokenizer.

        Raises:
            ValueError: If the tokenizer does not have a special token.
        """
        for token in (USER, ASSISTANT):
            if token not in tokenizer.special_tokens:
                raise InputError(
                    f"the tokenizer has no special token {token}, so it is not one of a run on "
                    "prompts and answers",
                    remedy=(
                        "train with ",
                        Argument("data.prompt_field"),
                        " and ",
                        Argument("data.answer_field"),
                    ),
                )
        return cls(*map(tokenizer.special_token_id, (ASSISTANT, END_OF_TEXT, USER)))

    def targets_of(
        self, windows: npt.NDArray[np.int64], begin_in_answers: Sequence[bool]
    ) -> npt.NDArray[np.int64]:
        """Return the targets of windows, with UNCOUNTED in place of those that are not counted.

        Args:
            windows: Ids, shape (windows, length + 1).
            begin_in_answers: Whether each window begins within an answer; see `is_answer_at`.

        Returns:
            Ids of shape (windows, length).
        """
        inputs = windows[:, :-1]
        places = np.where(self._is_special(inputs), np.arange(inputs.shape[1]), -1)
        last = np.maximum.accumulate(places, axis=1)  # the last special token, or -1
        last_ids = np.take_along_axis(inputs, last.clip(min=0), axis=1)
        before = np.asarray(begin_in_answers, dtype=bool)[:, None]
        is_counted = np.where(last < 0, before, last_ids == self.begin)
        return np.where(is_counted, windows[:, 1:], UNCOUNTED)

    def is_answer_after(self, ids: npt.NDArray[Any], is_answer: bool) -> bool:
        """Return whether the rule counts the token after some ids.

        Args:
            ids: Ids of shape (length,).
            is_answer: Whether it counts the first of them.
        """
        last = self._last_special(ids)
        return is_answer if last is None else last == self.begin

    def is_answer_at(self, tokens: TokenArray, start: int) -> bool:
        """Return whether the rule counts the token at `start`, looking back as far as needed."""
        size, stop = _LOOK_BACK, start
        while stop > 0:
            last = self._last_special(np.asarray(tokens[max(0, stop - size) : stop]))
            if last is not None:
                return last == self.begin
            stop -= size
            size *= 2
        return False

    def _last_special(self, ids: npt.NDArray[Any]) -> int | None:
        """Return the last of some ids that is one of the three special tokens, or None."""
        found = np.flatnonzero(self._is_special(ids))
        return int(ids[found[-1]]) if len(found) else None

    def _is_special(self, ids: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        is_special: npt.NDArray[np.bool_] = np.isin(ids, (self.begin, self.end, self.prompt))
        return is_special


class TokenWindows(Dataset[tuple[Tensor, Tensor]]):
    """Dataset of windows from a token sequence, as inputs and targets.

    To mix several sequences, pass a ConcatDataset of their windows and `StepBatches` with weights
    to `StepLoader`.

    Item i is the window that starts at token `i * stride`: a pair (inputs, targets) of int64
    tensors of shape (context_length,), where the targets are the inputs shifted by one token. Files
    are memory-mapped. A pickled dataset stores only their names and maps them again when unpickled.

    Args:
        tokens: An array of ids, token files and globs whose ids are joined in order, or the result
            of `prepare_data`.
        context_length: Number of input tokens.
        stride: Number of tokens from the start of one window to the start of the next. Defaults to
            `context_length`, so each token is a target once. A stride of 1 gives every possible
            window, as in `get_batch`.
        vocab_size: Vocabulary size of the model. If given, it is compared with all ids of an array,
            or with the vocabulary size of token files.
        tokenizer_hash: Expected `Tokenizer.hash()` of the tokenizer that encoded the files.
            Defaults to accepting any tokenizer.
        name: Argument of the caller that errors name.
        answers: Rule for instruction data. The targets that it does not count are UNCOUNTED.
            Defaults to counting all targets.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If a file cannot be used (see `load_token_files`), an id is outside the
            vocabulary, or there are fewer than context_length + 1 tokens.
        TypeError: If the array does not have an integer dtype.
    """

    def __init__(
        self,
        tokens: TokenArray | CheckedTokens | TokenPaths,
        context_length: int,
        stride: int | None = None,
        vocab_size: int | None = None,
        tokenizer_hash: str | None = None,
        name: str = "dataset",
        answers: AnswerRule | None = None,
    ) -> None:
        self._arguments = tokens, context_length, stride, vocab_size, tokenizer_hash, name, answers
        self.answers = answers
        self.context_length = checked_integer("context_length", context_length, 1)
        self.stride = context_length if stride is None else checked_integer("stride", stride, 1)
        if isinstance(tokens, (np.ndarray, JoinedTokens)):
            self.tokens: TokenArray = tokens
            if tokens.ndim != 1:
                raise InputError(
                    f"must have one dimension, got shape {tokens.shape}", argument=name
                )
            if tokens.dtype.kind not in "iu":
                raise InputTypeError(
                    f"must have an integer dtype, got {tokens.dtype}", argument=name
                )
            if vocab_size is not None:
                _check_ids(name, tokens, vocab_size)
        elif isinstance(tokens, CheckedTokens):
            self.tokens = tokens.open()
            if vocab_size is not None and tokens.vocab_size > vocab_size:
                was = f"but was encoded with {tokens.vocab_size} tokens"
                raise _outside_vocabulary(name, vocab_size, was)
        else:
            self.tokens = load_token_files(
                tokens, vocab_size=vocab_size, tokenizer_hash=tokenizer_hash
            )
        if len(self.tokens) <= context_length:
            raise InputError(
                f"must have more tokens than context_length ({context_length:,}), got "
                f"{len(self.tokens):,} tokens",
                argument=name,
                remedy="use more text or a shorter context",
            )
        if answers is not None and not contains(self.tokens, answers.begin):
            raise InputError(
                f"must contain answers, but the token before an answer, {answers.begin}, does not "
                f"occur in {len(self.tokens):,} tokens",
                argument=name,
                remedy="check the fields of the prompts and answers",
            )

    def __len__(self) -> int:
        return (len(self.tokens) - self.context_length - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """Return several items. A DataLoader calls this once per batch."""
        inputs, targets = self.batch([range(len(self))[index] for index in indices])
        return list(zip(inputs, targets, strict=True))

    def batch(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return items as (inputs, targets), int64 of shape (len(indices), context_length).

        Raises:
            RuntimeError: If a file has been truncated since it was mapped. The message includes its
                path.
        """
        # A window has one token more than the context, because the targets are shifted by one.
        windows = np.empty((len(indices), self.context_length + 1), dtype=np.int64)
        if not isinstance(self.tokens, JoinedTokens):
            check_is_whole(self.tokens)
        for row, index in enumerate(indices):
            start = int(index) * self.stride
            stop = start + self.context_length + 1
            if isinstance(self.tokens, JoinedTokens):  # there may be thousands of files
                check_is_whole(self.tokens.between(start, stop))
            windows[row] = self.tokens[start:stop]
            if row % 16 == 15:  # each read may map one or two megabytes around the window
                release_pages(self.tokens)
        ids = torch.from_numpy(windows)
        if self.answers is not None:
            starts = (int(index) * self.stride for index in indices)
            within = [self.answers.is_answer_at(self.tokens, start) for start in starts]
            release_pages(self.tokens)
            targets = torch.from_numpy(self.answers.targets_of(windows, within))
            return ids[:, :-1].contiguous(), targets
        release_pages(self.tokens)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "tokens"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        TokenWindows.__init__(self, *state["_arguments"])
        vars(self).update(state)  # includes attributes of subclasses


class TokenDocuments(Dataset[Tensor]):
    """Dataset of the documents in token files that were encoded with document starts.

    Item i is an int64 tensor of shape (length,), including the special token at the end of the
    document, if any. To batch documents of different lengths, pass `pad_documents` as the
    DataLoader's `collate_fn`.

    Args:
        paths: Token files and globs.
        max_length: Maximum number of tokens per document; longer documents are truncated. Defaults
            to no limit.
        vocab_size, tokenizer_hash: See `TokenWindows`.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If a file cannot be used or has no document starts.
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
        if self.max_length is not None:
            end = min(end, begin + self.max_length)
        document = torch.from_numpy(part[begin:end].astype(np.int64))
        release_pages(part)
        return document

    def __getstate__(self) -> dict[str, Any]:
        opened = {"files", "_starts", "_first"}
        return {name: value for name, value in vars(self).items() if name not in opened}

    def __setstate__(self, state: dict[str, Any]) -> None:
        TokenDocuments.__init__(self, *state["_arguments"])
        vars(self).update(state)  # includes attributes of subclasses


def pad_documents(documents: Sequence[Tensor], pad_id: int = 0) -> tuple[Tensor, Tensor]:
    """Stack documents into one tensor, padded at their ends.

    Args:
        documents: At least one tensor of shape (length,).
        pad_id: Id to pad with.

    Returns:
        The ids, int64 of shape (len(documents), longest), and a boolean mask of the same shape,
        True for tokens and False for padding.
    """
    ids = torch.nn.utils.rnn.pad_sequence(list(documents), batch_first=True, padding_value=pad_id)
    lengths = torch.tensor([len(document) for document in documents])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


def _check_ids(name: str, tokens: TokenArray, vocab_size: int) -> None:
    """Check that all ids of an array are in the vocabulary of a model.

    Raises:
        ValueError: If an id is not. It would abort the process on a GPU.
    """
    smallest, largest = id_range(tokens)
    if smallest < 0 or largest >= vocab_size:
        found = smallest if smallest < 0 else largest
        raise _outside_vocabulary(name, vocab_size, f"got {found}")


def _outside_vocabulary(name: str, vocab_size: int, found: str) -> InputError:
    return InputError(
        f"must have token ids in the model's vocabulary, 0 to {vocab_size - 1}, {found}",
        argument=name,
        remedy="increase model.vocab_size to match the tokenizer",
    )


# --------------------------------------------------------------------------- batches


def get_batch(
    dataset: npt.NDArray[Any] | JoinedTokens,
    batch_size: int,
    context_length: int,
    device: torch.device | str,
    generator: np.random.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a batch of random windows from the dataset as inputs and targets.

    All `len(dataset) - context_length` windows are equally likely and drawn with replacement. From
    a memory map, only the drawn windows are read. The copy to a CUDA device is asynchronous.

    Args:
        dataset: One-dimensional array or memory map of any integer dtype, or several of them as
            JoinedTokens.
        batch_size: Number of windows.
        context_length: Number of input tokens in each window.
        device: Device for the returned tensors.
        generator: Random generator. Defaults to a new generator with an unpredictable seed.

    Returns:
        Inputs and targets, int64 tensors of shape (batch_size, context_length) on `device`, where
        targets[i, j] is the token after inputs[i, j].

    Raises:
        ValueError: If `batch_size` is not positive or the dataset is too short.
        TypeError: If the dataset is not an array of integers.

    Example:
        >>> import numpy as np
        >>> from cs336_basics.training import get_batch
        >>> inputs, targets = get_batch(np.arange(100), 4, 8, "cpu")
        >>> inputs.shape, bool((targets == inputs + 1).all())
        (torch.Size([4, 8]), True)
    """
    checked_integer("batch_size", batch_size, 1)
    if not isinstance(dataset, (np.ndarray, JoinedTokens)):
        raise InputTypeError(
            f"must be a NumPy array or JoinedTokens, got {type(dataset).__name__}",
            argument="dataset",
        )
    windows = TokenWindows(dataset, context_length, stride=1)
    generator = np.random.default_rng() if generator is None else generator
    inputs, targets = windows.batch(generator.integers(len(windows), size=batch_size))
    if torch.device(device).type == "cuda" and torch.cuda.is_available():
        # Copies from page-locked memory run asynchronously.
        inputs, targets = inputs.pin_memory(), targets.pin_memory()
    return inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)


def step_generator(seed: int, step: int) -> np.random.Generator:
    """Return a step's random generator, which depends only on the seed and the step.

    The generator is Philox, which encrypts a counter. Streams with different keys are independent,
    so any step can be computed without the earlier steps (Salmon et al. 2011, "Parallel Random
    Numbers: As Easy as 1, 2, 3").
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, step], dtype=np.uint64)))


def step_seed(seed: int, step: int, rank: int = 0) -> int:
    """Return a seed for torch that depends only on a run's seed, the step and the process."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0])


class StepBatches(Sampler[list[int]]):
    """Batch sampler for torch's DataLoader that yields the indices of each step's batch.

    The indices depend only on the seed and the step. With several processes, each draws the same
    batch and takes its share.

    Args:
        num_items: Number of items in the dataset, or in each dataset of a ConcatDataset.
        batch_size: Items per batch, over all processes.
        seed: Seed for the order, at least 0.
        num_steps: The last step, counting from 1. Defaults to no limit.
        replacement: Whether to draw each item of a batch independently from all items. With
            `TokenWindows(..., stride=1)`, this gives the same batches as the trainer with the same
            seed. If False, each epoch draws every item at most once, in an order that depends on
            the seed and the epoch, and drops a trailing partial batch.
        weights: Weight of each dataset, positive. An item is drawn from a dataset with a
            probability of its weight divided by the sum. Defaults to drawing all items with the
            same probability.
        rank: Rank of this process, starting at 0.
        world_size: Number of processes.

    Raises:
        ValueError: If a number is out of range, `batch_size` is not a multiple of `world_size`,
            `batch_size` exceeds the number of items without replacement, or `weights` are given
            without replacement or for another number of datasets.
        TypeError: If a number is not an integer.
    """

    def __init__(
        self,
        num_items: int | Sequence[int],
        batch_size: int,
        *,
        seed: int = 0,
        num_steps: int | None = None,
        replacement: bool = True,
        weights: Sequence[float] | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        sizes = num_items if isinstance(num_items, Sequence) else [num_items]
        self._sizes = np.array([checked_integer("num_items", n, 1) for n in sizes], np.int64)
        self.num_items = checked_integer("num_items", sum(sizes), 1)
        self.batch_size = checked_integer("batch_size", batch_size, 1)
        self.seed = checked_integer("seed", seed, 0, MAX_INT64)
        self.num_steps = None if num_steps is None else checked_integer("num_steps", num_steps, 0)
        self.replacement = replacement
        self.world_size = checked_integer("world_size", world_size, 1)
        self.rank = checked_integer("rank", rank, 0, world_size - 1)
        if batch_size % world_size:
            raise InputError(
                f"must be a multiple of world_size ({world_size}), got {batch_size}",
                argument="batch_size",
            )
        if not replacement and batch_size > self.num_items:
            raise InputError(
                f"must be at most num_items ({self.num_items}) without replacement, got "
                f"{batch_size}",
                argument="batch_size",
            )
        self.weights = None if weights is None else [float(weight) for weight in weights]
        if self.weights is not None:
            self._check_weights(self.weights)
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None

    def _check_weights(self, weights: list[float]) -> None:
        if not self.replacement:
            raise InputError("cannot be given without replacement", argument="weights")
        if len(weights) != len(self._sizes) or not all(0 < w < math.inf for w in weights):
            raise InputError(
                f"must be {len(self._sizes)} positive and finite numbers, one for each dataset, "
                f"got {short_repr(weights)}",
                argument="weights",
            )

    def __len__(self) -> int:
        """Return the number of steps. Raise TypeError if `num_steps` is None."""
        if self.num_steps is None:
            raise InputTypeError("the number of batches is unlimited because num_steps is None")
        return self.num_steps

    def __iter__(self) -> Iterator[list[int]]:
        return self.after(0)

    def after(self, step: int) -> Iterator[list[int]]:
        """Return an iterator over the batches after a step."""
        last = self.num_steps
        steps = itertools.count(step + 1) if last is None else range(step + 1, last + 1)
        return map(self.indices, steps)

    def indices(self, step: int) -> list[int]:
        """Return the indices in this process's share of a step's batch."""
        share = self.batch_size // self.world_size
        begin = self.rank * share
        if self.weights is not None:
            items = self._drawn_by_weight(step_generator(self.seed, step), self.weights)
        elif self.replacement:
            items = step_generator(self.seed, step).integers(self.num_items, size=self.batch_size)
        else:
            epoch, batch = divmod(step - 1, self.num_items // self.batch_size)
            items = self._order_of(epoch)
            begin += batch * self.batch_size
        indices: list[int] = items[begin : begin + share].tolist()
        return indices

    def _drawn_by_weight(
        self, generator: np.random.Generator, weights: Sequence[float]
    ) -> npt.NDArray[np.int64]:
        """Draw the dataset of each item of a batch, and then an item of this dataset."""
        limits = np.cumsum(weights) / np.sum(weights)
        # The last limit may be below 1, because it is rounded.
        drawn = np.searchsorted(limits[:-1], generator.random(self.batch_size), side="right")
        starts = np.cumsum(self._sizes) - self._sizes
        items: npt.NDArray[np.int64] = starts[drawn] + generator.integers(self._sizes[drawn])
        return items

    def _order_of(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the order of all items in an epoch, int64 of shape (num_items,)."""
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, step_generator(self.seed, epoch).permutation(self.num_items)
        return self._order[1]

    def settings(self) -> dict[str, Any]:
        """Return the arguments that determine the batches, but not this process's share of them."""
        names = ("num_items", "batch_size", "seed", "replacement", "weights")
        settings = {name: getattr(self, name) for name in names}
        if self.weights is not None:
            settings["sizes"] = self._sizes.tolist()
        return settings


class StepLoader:
    """A DataLoader over StepBatches that counts the batches it has delivered.

    Workers read ahead, so a sampler does not know which batch the caller has received. To resume,
    save `state_dict()` after a batch and pass it to the `load_state_dict` method of a new loader,
    which then continues with the next batch. The number of workers may differ.

    Args:
        dataset: TokenWindows, TokenDocuments or another map-style dataset.
        batches: Sampler of the indices in each batch.
        num_workers: Number of worker processes. With 0, this process reads the data.
        options: Other arguments for torch's DataLoader, such as `collate_fn` or `pin_memory`.

    Attributes:
        step: Step of the last batch delivered, initially 0.
    """

    def __init__(
        self, dataset: Dataset[Any], batches: StepBatches, *, num_workers: int = 0, **options: Any
    ) -> None:
        self.dataset = dataset
        self.batches = batches
        self.step = 0
        self._options = {"num_workers": num_workers, **options}

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches after `step`, and advance `step`."""
        left = self.batches.after(self.step)
        for batch in DataLoader(self.dataset, batch_sampler=left, **self._options):
            self.step += 1
            yield batch

    def __len__(self) -> int:
        """Return the number of remaining batches. Raise TypeError if the number is unlimited."""
        return max(0, len(self.batches) - self.step)

    def state_dict(self) -> dict[str, Any]:
        """Return the step and the batch settings as plain values."""
        return {"step": self.step, **self.batches.settings()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the last batch delivered before `state_dict` was called.

        The numbers of processes and workers may differ.

        Raises:
            ValueError: If the state was saved for different batches.
        """
        for name, value in self.batches.settings().items():
            if state.get(name) != value:
                raise InputError(
                    f"must be {state.get(name)!r}, as in the saved state, got {value}; otherwise, "
                    "the batches would differ",
                    argument=name,
                )
        self.step = checked_integer("step", state.get("step"), 0)
