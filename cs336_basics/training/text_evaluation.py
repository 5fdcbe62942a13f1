"""Evaluating a model on texts: loss, perplexity and bits per byte.

A sequence of ids is read in windows of `context_length` ids. The first window predicts the id after
each of its ids. Each later window starts `stride` ids after the previous one, and only its
predictions of ids that no earlier window has predicted count. So every id of a sequence but the
first is predicted once. With a stride equal to the context length, windows do not overlap, as in
training. A smaller stride gives the ids longer contexts, and takes more time.

A corpus is read as in training: one sequence of documents, separated by a special token. If its
documents are evaluated on their own, each is a sequence that starts with this token. Two options of
training data also exist here: attention within documents, and counting only answers; see `Reading`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data.checked_tokens import check_ids, release_pages
from cs336_basics.data.sources import Text, TextOrTokens
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.files.encode_files import encode_file
from cs336_basics.tokenizer.files.joined_tokens import JoinedTokens, open_token_files
from cs336_basics.training.data import UNCOUNTED, AnswerRule
from cs336_basics.training.evaluation import (
    Score,
    TotalFigures,
    evaluation_mode,
    text_lengths,
    window_sums,
)
from cs336_basics.training.load_run import LoadedRun
from cs336_basics.training.loss import LanguageModelLoss

Ids = npt.NDArray[np.int64]

_BATCH_TOKENS = 8192
_WINDOWS_SORTED = 1024  # windows of similar length share a batch, which then has little padding
_MOST_LOGITS = 1 << 24  # at a time
_CHUNK = 1 << 20


# ------------------------------------------------------------------------------- texts


@dataclass(frozen=True)
class TextScores(TotalFigures):
    """The result of evaluating a model on texts."""

    texts: tuple[Score, ...]
    """Score of each text."""

    @property
    def total(self) -> Score:
        """Score of all texts together."""
        return total_score(self.texts)


def evaluate(
    run: LoadedRun,
    texts: str | Iterable[str],
    *,
    context_length: int | None = None,
    stride: int | None = None,
) -> TextScores:
    """Return the loss, perplexity and bits per byte of a model on texts.

    Each text is evaluated on its own, as a document. Its first token is predicted from the special
    token before a document; see `DocumentMarks`. If the tokenizer has no such token, the first
    token is not predicted.

    Args:
        run: A model and its tokenizer, such as the result of `load_run`.
        texts: One or more texts.
        context_length, stride: See `Reading`.

    Raises:
        TypeError: If `run` is not a LoadedRun, or a text is not a str.
        ValueError: If there are no texts, or `context_length` or `stride` is out of range.

    Example:
        >>> from cs336_basics import evaluate, load_run
        >>> scores = evaluate(load_run("runs/stories"), ["Once upon a time, there was a cat."])
        >>> scores.loss > 0
        True
    """
    if not isinstance(run, LoadedRun):
        raise InputTypeError(
            f"must be a LoadedRun, got {type(run).__name__}",
            argument="run",
            remedy="load one with load_run(DIRECTORY), or pass LoadedRun(model, tokenizer)",
        )
    found = run.tokenizer.encode_batch([texts] if isinstance(texts, str) else texts)
    if not found:
        raise InputError("must contain at least one text", argument="texts")
    start = DocumentMarks.of(run.tokenizer).start
    documents = (np.array([*start, *ids], dtype=np.int64) for ids in found)
    reading = Reading.of(run, context_length, stride)
    return TextScores(tuple(score_sequences(run, ([ids] for ids in documents), reading)))


def total_score(scores: Iterable[Score]) -> Score:
    """Return the score of several texts together."""
    return Score(*map(math.fsum, zip(*scores, strict=True)))


class DocumentMarks(NamedTuple):
    """The ids that a model has seen around documents."""

    before_text: list[int]
    """Ids that the tokenizer puts before every text for a model, often one called BOS."""
    separator: int | None
    """Id between documents: `<|endoftext|>` if the tokenizer has it, else the first of these."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> DocumentMarks:
        """Return the marks of a tokenizer."""
        processor = tokenizer.definition.post_processor
        template = () if processor is None else processor.single
        before: list[int] = []
        for item in template:
            if isinstance(item, str):  # the text
                break
            before.append(item)
        if END_OF_TEXT in tokenizer.special_tokens:
            return cls(before, tokenizer.special_token_id(END_OF_TEXT))
        return cls(before, before[0] if before else None)

    @property
    def start(self) -> list[int]:
        """Ids before a document that is read on its own, from which its first id is predicted."""
        return self.before_text or ([] if self.separator is None else [self.separator])


# ----------------------------------------------------------------------------- windows


class Reading(NamedTuple):
    """How sequences of ids are read in windows."""

    context_length: int
    """Maximum number of ids in a window."""
    stride: int
    """Number of ids from the start of one window to the start of the next."""
    document_start: int | None = None
    """Id with which each document starts, if ids attend only to their own document."""
    answers: AnswerRule | None = None
    """Rule for instruction data, if only answers count."""

    @classmethod
    def of(
        cls,
        run: LoadedRun,
        context_length: int | None = None,
        stride: int | None = None,
        document_start: int | None = None,
        answers: AnswerRule | None = None,
    ) -> Reading:
        """Return a reading for a model.

        Args:
            run: The model.
            context_length: Maximum number of ids in a window. Defaults to the model's context
                length, which is also the maximum.
            stride: Number of ids from the start of one window to the start of the next. Defaults
                to `context_length`, which is also the maximum.
            document_start, answers: The fields of these names.

        Raises:
            TypeError, ValueError: If a number is not an integer or out of range.
        """
        most = run.model.config.context_length
        if context_length is None:
            context_length = most
        checked_integer("context_length", context_length, 1, most)
        if stride is None:
            stride = context_length
        checked_integer("stride", stride, 1, context_length)
        return cls(context_length, stride, document_start, answers)


class Window(NamedTuple):
    """A window of a sequence."""

    sequence: int
    """Index of the sequence."""
    ids: Ids
    """At most context_length ids, and the id after them."""
    num_seen: int
    """Number of ids at the start that are not predicted, at least 1."""
    begins_in_answer: bool = False
    """Whether the first id is part of an answer, for instruction data."""


def windows_of(sequence: int, chunks: Iterable[Ids], reading: Reading) -> Iterator[Window]:
    """Yield the windows of a sequence of ids, which is given in chunks.

    A sequence of a single id has no window, because nothing is predicted.
    """
    length, stride, answers = reading.context_length, reading.stride, reading.answers
    ids = np.empty(0, dtype=np.int64)
    num_seen = 1
    in_answer = False
    for chunk in chunks:
        ids = np.concatenate([ids, chunk])
        start = 0
        while start + length < len(ids):
            yield Window(sequence, ids[start : start + length + 1], num_seen, in_answer)
            num_seen = length + 1 - stride
            if answers is not None:
                in_answer = answers.is_answer_after(ids[start : start + stride], in_answer)
            start += stride
        ids = ids[start:]
    if len(ids) > num_seen:
        yield Window(sequence, ids, num_seen, in_answer)


def score_sequences(
    run: LoadedRun,
    sequences: Iterable[Iterable[Ids]],
    reading: Reading,
    advance: Callable[[int], object] = lambda num_tokens: None,
) -> list[Score]:
    """Return the score of a model on each sequence of ids.

    Args:
        run: A model and its tokenizer.
        sequences: The sequences, each in chunks.
        reading: How the sequences are read.
        advance: Callback invoked with the number of ids that a batch has predicted.
    """
    model, tokenizer = run
    vocab_size = model.config.vocab_size
    lengths = text_lengths(tokenizer, vocab_size)
    loss_of = LanguageModelLoss(
        model,
        math.ceil(_BATCH_TOKENS * vocab_size / _MOST_LOGITS),
        document_start=reading.document_start,
    )
    device = next(model.parameters()).device
    sums: list[Tensor] = []

    def windows() -> Iterator[Window]:
        for number, chunks in enumerate(sequences):
            sums.append(torch.zeros(len(Score._fields), dtype=torch.float64))
            yield from windows_of(number, chunks, reading)

    with evaluation_mode(model), torch.inference_mode():
        for batch in _batches(windows()):
            inputs, targets = _padded(batch, reading.answers)
            losses = loss_of(inputs.to(device), targets.clamp(min=0).to(device), reduction="none")
            for window, found in zip(batch, window_sums(losses, targets, lengths), strict=True):
                sums[window.sequence] += found
            advance(sum(len(window.ids) - window.num_seen for window in batch))
    return [Score(*found.tolist()) for found in sums]


def _batches(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Yield windows in batches with little padding."""
    left = iter(windows)
    while some := list(itertools.islice(left, _WINDOWS_SORTED)):
        waiting = sorted(some, key=lambda window: len(window.ids), reverse=True)
        while waiting:
            size = max(1, _BATCH_TOKENS // len(waiting[0].ids))
            yield waiting[:size]
            waiting = waiting[size:]


def _padded(batch: Sequence[Window], answers: AnswerRule | None) -> tuple[Tensor, Tensor]:
    """Return the inputs and targets of windows, int64 of shape (windows, longest).

    Targets that do not count are UNCOUNTED. Inputs are padded at their ends, where they change
    nothing, because a model only looks back.
    """
    ids = np.zeros((len(batch), max(len(window.ids) for window in batch)), dtype=np.int64)
    is_target = np.zeros(ids.shape, dtype=bool)
    for row, window in enumerate(batch):
        ids[row, : len(window.ids)] = window.ids
        is_target[row, window.num_seen : len(window.ids)] = True
    targets = np.where(is_target, ids, UNCOUNTED)[:, 1:]
    if answers is not None:
        counted = answers.targets_of(ids, [window.begins_in_answer for window in batch])
        targets = np.where(counted == UNCOUNTED, UNCOUNTED, targets)
    return torch.from_numpy(ids[:, :-1].copy()), torch.from_numpy(targets.copy())


# ----------------------------------------------------------------------------- corpora


@dataclass(frozen=True)
class EncodedText:
    """The ids of a corpus for a model."""

    tokens: npt.NDArray[np.integer[Any]] | JoinedTokens
    marks: DocumentMarks
    stand_in: int | None = None
    """Id in `tokens` that stands for the separator, if it is not the separator's own."""

    def whole(self) -> Iterator[Ids]:
        """Yield all ids as one sequence, chunk by chunk."""
        for first in range(0, len(self.tokens), _CHUNK):
            ids = self.tokens[first : first + _CHUNK].astype(np.int64)
            release_pages(self.tokens)
            if self.stand_in is not None and self.marks.separator is not None:
                ids[ids == self.stand_in] = self.marks.separator
            yield ids

    def documents(self) -> Iterator[Ids]:
        """Yield the ids of each document that has any, without separators."""
        parts: list[Ids] = []
        for chunk in self.whole():
            for part in np.split(chunk, np.flatnonzero(chunk == self.marks.separator) + 1):
                parts.append(part)
                if len(part) and part[-1] == self.marks.separator:
                    document = np.concatenate(parts)[:-1]
                    parts = []
                    if len(document):
                        yield document
        if parts and len(rest := np.concatenate(parts)):
            yield rest

    def sequences(self, per_document: bool) -> Iterator[Iterable[Ids]]:
        """Yield the corpus as one sequence, or each document as one, after its marks."""
        if per_document:
            start = np.array(self.marks.start, dtype=np.int64)
            yield from ((start, ids) for ids in self.documents())
        else:
            yield itertools.chain([np.array(self.marks.before_text, np.int64)], self.whole())


def encode_text(
    tokenizer: Tokenizer,
    source: TextOrTokens,
    file: Path,
    *,
    dtype: str | None = None,
    progress: bool = False,
) -> EncodedText:
    """Return the ids of a corpus, read as `train` does.

    Each row, and each text file if there are several, ends with the separator of the tokenizer's
    documents. `<|endoftext|>` in a text separates documents, too, for every tokenizer.

    Args:
        tokenizer: The model's tokenizer.
        source: Text, or token files that were encoded with this tokenizer.
        file: Token file to write, FILE.npy, if the source is text. It must not exist.
        dtype: Type of the ids in .bin token files; see `load_token_file`.
        progress: Whether to show a progress bar on a terminal.

    Raises:
        OSError, ValueError: If the text cannot be read or encoded, if token files were encoded with
            another tokenizer, or if there are several documents and the tokenizer has no special
            token to separate them.
    """
    marks = DocumentMarks.of(tokenizer)
    if not isinstance(source, Text):
        files = open_token_files(
            source.files,
            vocab_size=tokenizer.vocab_size,
            tokenizer_hash=tokenizer.hash(),
            dtype=dtype,
        )
        check_ids(files, tokenizer.vocab_size)
        return EncodedText(JoinedTokens([file.tokens for file in files]), marks)
    stand_in = None
    encoding = tokenizer
    if END_OF_TEXT not in tokenizer.special_tokens:
        encoding = Tokenizer.of(tokenizer.definition)
        (stand_in,) = encoding.add_special_tokens([END_OF_TEXT])
    encode_file(
        encoding, source.corpus, file, progress=progress, end_of_document=source.end_of_document
    )
    tokens = open_token_files(file)[0].tokens
    if marks.separator is None and (tokens == stand_in).any():
        raise InputError(
            "the tokenizer has no special token to separate documents",
            place=source.files[0],
            remedy=f"add {END_OF_TEXT} to the tokenizer, or pass one document without a separator",
        )
    return EncodedText(tokens, marks, stand_in)
