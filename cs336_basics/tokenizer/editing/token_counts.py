"""count_tokens: how often each token of a vocabulary occurs in a corpus or a token file.

The text is encoded as `encode_file` does it, by threads and in constant memory, but the ids are
counted instead of written.
"""

from __future__ import annotations

import contextlib
import os

import numpy as np
import numpy.typing as npt

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.progress import byte_bar, title_of
from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.reading.corpus import Corpus, PathsLike
from cs336_basics.pretokenization.reading.text_changes import TextChanges
from cs336_basics.tokenizer.files.encoded_blocks import (
    DEFAULT_CHUNK_SIZE,
    EncodingTask,
    encoded_blocks,
)
from cs336_basics.tokenizer.files.token_files import load_token_file
from cs336_basics.tokenizer.ids import TokenArray, token_dtype
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer
from cs336_basics.tokenizer.vocabulary import check_gaps

TokenCounts = npt.NDArray[np.int64]
"""How often each id occurs, of shape (vocab_size,), dtype int64."""

_IDS_AT_A_TIME = 1 << 20


def count_tokens(
    tokenizer: Tokenizer,
    source: Corpus | PathsLike,
    *,
    num_workers: int | None = None,
    progress: bool = False,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> TokenCounts:
    """Return how often each token occurs in the encoded text of a corpus.

    No file of ids is written; memory does not grow with the corpus. The counts are those of the ids
    that `encode_file` writes: special tokens in the text count, and no token spans two files or
    rows.

    Args:
        tokenizer: encodes the text.
        source: a Corpus; or a file, a glob, or several of both, for `Corpus(source)`.
        num_workers: threads, or worker processes where the encoder does not release the GIL; None =
            one for each core.
        progress: show a progress bar on a terminal.
        chunk_size: bytes of text encoded at a time.

    Returns:
        counts of shape (vocab_size,), int64: the element `token_id` is the count of this id. An id
        without a token, in a vocabulary with gaps, has the count 0.

    Raises:
        TypeError: `tokenizer` is not a Tokenizer.
        FileNotFoundError, ValueError, OSError, ImportError, RuntimeError: as `encode_file`; or
            (ValueError) the greatest id is far above the number of tokens.

    Warns:
        UserWarning: as `encode_file`.
    """
    check_is_tokenizer(tokenizer)
    check_gaps(tokenizer.vocab)
    token_dtype(tokenizer.vocab_size)  # raises for ids of more than 32 bits
    corpus = Corpus.of(source)
    corpus.by_plainness()[1].chunks()  # raises errors of Parquet files before the work begins
    chunk_size = checked_integer("chunk_size", chunk_size, 1, note=" byte")
    task = EncodingTask.of(
        tokenizer, corpus.errors, chunk_size, document_starts=False, end_of_document=None
    )
    num_workers = resolve_num_workers(num_workers)
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    changes = TextChanges()
    title = f"counting tokens of {title_of(corpus.files)}"
    with (
        byte_bar(progress, corpus.num_bytes, title) as bar,
        contextlib.closing(encoded_blocks(tokenizer, corpus, task, num_workers, changes)) as blocks,
    ):
        for block in blocks:
            _add_ids(counts, block.ids)
            changes.num_bytes += block.num_bytes
            if block.changes is not None:
                changes.add(block.changes)
            bar.update(block.bytes_read - bar.n)
    changes.warn(tokenizer.pattern, "encoded")
    return counts


def count_token_file(tokenizer: Tokenizer, path: str | os.PathLike[str]) -> TokenCounts:
    """Return how often each id occurs in a token file, which is read in chunks.

    Args:
        tokenizer: the one that made the file.
        path: FILE.npy, as `encode_file` writes it.

    Returns:
        counts of shape (vocab_size,), int64.

    Raises:
        TypeError: `tokenizer` is not a Tokenizer.
        FileNotFoundError, ValueError: as `load_token_file`; or the file holds an id that is not
            below `vocab_size`; or the greatest id is far above the number of tokens.
    """
    check_is_tokenizer(tokenizer)
    check_gaps(tokenizer.vocab)
    ids = load_token_file(path, tokenizer_hash=tokenizer.hash())
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    for start in range(0, len(ids), _IDS_AT_A_TIME):
        _add_ids(counts, checked_ids(ids[start : start + _IDS_AT_A_TIME], len(counts), path))
    return counts


def never_used(tokenizer: Tokenizer, counts: TokenCounts) -> list[int]:
    """Return the ids of the tokens that do not occur, in ascending order.

    A model learns nothing for them: their rows stay as they were initialized ("glitch tokens").
    Special tokens and single bytes are left out: they are for text that is yet to come.

    Raises:
        TypeError: `tokenizer` is not a Tokenizer, or `counts` does not hold integers.
        ValueError: `counts` does not have the shape (vocab_size,).
    """
    check_is_tokenizer(tokenizer)
    if np.shape(counts) != (tokenizer.vocab_size,):
        raise ValueError(
            f"counts have the shape {np.shape(counts)}: it must be ({tokenizer.vocab_size},), as "
            "count_tokens returns them for this tokenizer"
        )
    if np.asarray(counts).dtype.kind not in "iu":
        raise TypeError(f"counts are of dtype {np.asarray(counts).dtype}, not integers")
    special = {token.encode() for token in tokenizer.special_tokens}
    return [
        token_id
        for token_id, token in sorted(tokenizer.vocab.items())
        if not counts[token_id] and len(token) > 1 and token not in special
    ]


def checked_ids(ids: TokenArray, vocab_size: int, path: str | os.PathLike[str]) -> TokenArray:
    """Return a copy of some ids of a token file.

    Raises:
        ValueError: an id is not below `vocab_size`.
    """
    copy: TokenArray = np.array(ids)  # what is checked does not change with the file
    greatest = int(copy.max(initial=0))
    if greatest >= vocab_size:
        raise ValueError(
            f"{os.fspath(path)} holds the id {greatest}, beyond a vocabulary of {vocab_size:,}: it "
            "is damaged; encode the text again"
        )
    return copy


def _add_ids(counts: TokenCounts, ids: TokenArray) -> None:
    """Add the number of occurrences of each id, all of them below `len(counts)`."""
    found = np.bincount(ids)
    counts[: len(found)] += found
