"""Compare tokenizers by bytes per token, by speed and by their longest tokens.

Bytes per token are measured on documents sampled evenly from the corpus. The ids are also
decoded and compared with the text. Speed is measured on the first megabyte of these documents. Each
tokenizer encodes them one by one, in one thread, with empty caches, in several rounds and in
alternating order. The result is the median CPU time, which other running programs hardly affect.
"""

from __future__ import annotations

import contextlib
import heapq
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cs336_basics._support.errors import InputError
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data.documents import sample_documents
from cs336_basics.formats.compared_tokenizers import ComparedTokenizer
from cs336_basics.formats.library_errors import library_errors
from cs336_basics.text import Corpus

PILE_GIGABYTES = 825.0
"""Size of the Pile (Gao et al. 2020). The course asks how long encoding the Pile would take."""

TIMED_BYTES = 1_000_000
ROUNDS = 3
NUM_LONGEST = 10


@dataclass(frozen=True)
class Result:
    """The result for one tokenizer on one corpus.

    Attributes:
        tokenizer, corpus: Names of the tokenizer and the corpus.
        num_documents: Number of sampled documents.
        all_documents: Number of documents in the corpus.
        num_bytes, num_tokens: Numbers of UTF-8 bytes and of tokens in the sampled documents.
        bytes_per_token: num_bytes / num_tokens.
        changed_documents: Number of sampled documents that decoding does not reproduce.
        timed_bytes: Number of UTF-8 bytes in the text on which the speed was measured.
        megabytes_per_second: Speed of one thread, in 10^6 bytes per second of CPU time.
        hours: CPU hours to encode `gigabytes` of text at this speed.
    """

    tokenizer: str
    corpus: str
    num_documents: int
    all_documents: int
    num_bytes: int
    num_tokens: int
    bytes_per_token: float
    changed_documents: int
    timed_bytes: int
    megabytes_per_second: float
    hours: float


@dataclass(frozen=True)
class Measured:
    """A result, with the sampled documents and their ids."""

    tokenizer: ComparedTokenizer
    result: Result
    documents: list[str]
    ids: list[list[int]]


def measure(
    tokenizers: Sequence[ComparedTokenizer],
    corpora: Sequence[tuple[str, Corpus]],
    *,
    documents: int = 10,
    gigabytes: float = PILE_GIGABYTES,
    separator: str = END_OF_TEXT,
) -> Iterator[Measured]:
    """Compare tokenizers on corpora. Each corpus is read twice.

    Args:
        tokenizers: Tokenizers from `open_tokenizer`.
        corpora: Pairs of a name and a corpus.
        documents: Number of evenly spaced documents to sample from each corpus. At least 1.
        gigabytes: Amount of text for `Result.hours`, in units of 10^9 bytes.
        separator: String that separates documents in plain text.

    Yields:
        One result for each corpus and tokenizer, ordered by corpus.

    Raises:
        ValueError: If a tokenizer cannot encode a document. Also see `sample_documents`.
        FileNotFoundError, OSError, ImportError: See `sample_documents`.
    """
    for name, corpus in corpora:
        sample = sample_documents(
            corpus, documents, beginning_bytes=TIMED_BYTES, separator=separator
        )
        num_bytes = _size(sample.spaced)
        encoded = [_encode(tokenizer, name, sample.spaced) for tokenizer in tokenizers]
        seconds = _time(tokenizers, sample.beginning)
        timed_bytes = _size(sample.beginning)
        for tokenizer, (ids, changed), duration in zip(tokenizers, encoded, seconds, strict=True):
            num_tokens = sum(map(len, ids))
            rate = timed_bytes / max(duration, 1e-9)
            result = Result(
                tokenizer=tokenizer.name,
                corpus=name,
                num_documents=len(sample.spaced),
                all_documents=sample.num_documents,
                num_bytes=num_bytes,
                num_tokens=num_tokens,
                bytes_per_token=num_bytes / num_tokens,
                changed_documents=changed,
                timed_bytes=timed_bytes,
                megabytes_per_second=rate / 1e6,
                hours=gigabytes * 1e9 / rate / 3600,
            )
            yield Measured(tokenizer, result, sample.spaced, ids)


def longest_tokens(tokenizer: ComparedTokenizer, number: int = NUM_LONGEST) -> list[bytes]:
    """Return the tokens with the most bytes, longest first, without special tokens.

    Tokens of equal length are ordered by id.
    """
    return heapq.nsmallest(number, tokenizer.tokens, key=lambda token: -len(token))


def _encode(
    tokenizer: ComparedTokenizer, corpus: str, texts: Sequence[str]
) -> tuple[list[list[int]], int]:
    """Return the ids of each text, and the number of texts that decoding does not reproduce."""
    coder = tokenizer.make()
    all_ids = []
    changed = 0
    others = library_errors("cannot be encoded", InputError)
    try:
        with contextlib.nullcontext() if tokenizer.is_ours else others:
            for text in texts:
                ids = coder.encode(text)
                all_ids.append(ids)
                changed += coder.decode(ids) != text
    except InputError as error:
        raise error.at(f"{tokenizer.name}: a document of {corpus}") from error
    if not any(all_ids):
        raise InputError(f"{tokenizer.name}: the documents of {corpus} have no tokens")
    return all_ids, changed


def _time(tokenizers: Sequence[ComparedTokenizer], texts: Sequence[str]) -> list[float]:
    """Return the median CPU seconds that each tokenizer takes to encode the texts."""
    seconds: list[list[float]] = [[] for _ in tokenizers]
    for number in range(ROUNDS):
        order = list(zip(tokenizers, seconds, strict=True))
        for tokenizer, found in order if number % 2 == 0 else reversed(order):
            encode = tokenizer.make().encode
            start = time.process_time()
            for text in texts:
                encode(text)
            found.append(time.process_time() - start)
    return [statistics.median(found) for found in seconds]


def _size(texts: Sequence[str]) -> int:
    return sum(len(text.encode()) for text in texts)
