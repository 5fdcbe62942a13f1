"""count_tokens: count how often each token occurs in a corpus or a token file.

As in `encode_file`, text is encoded in threads and in constant memory, but the ids are counted
instead of written.
"""

from __future__ import annotations

import contextlib
import os
from typing import TypeAlias

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.progress import byte_bar, title_of
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.text.corpus import Corpus
from cs336_basics.text.paths import PathsLike
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.tokenizer.files.encode_job import (
    DEFAULT_CHUNK_SIZE,
    EncodeJob,
    encoded_blocks,
)
from cs336_basics.tokenizer.files.token_files import load_token_file
from cs336_basics.tokenizer.id_gaps import check_gaps
from cs336_basics.tokenizer.ids import TokenArray
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer

TokenCounts: TypeAlias = "npt.NDArray[np.int64]"
"""Number of occurrences of each id: shape (vocab_size,), dtype int64."""

_IDS_AT_A_TIME = 1 << 20


def count_tokens(
    tokenizer: Tokenizer,
    source: Corpus | PathsLike,
    *,
    num_workers: int | None = None,
    progress: bool = False,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
) -> TokenCounts:
    """Return the number of occurrences of each token in a corpus.

    The ids counted are the ids that `encode_file` would write: special tokens in the text are
    counted, and no token spans two files or rows. Memory use does not grow with the corpus.

    Args:
        tokenizer: Tokenizer that encodes the text.
        source: A Corpus, or a file, a glob, or a list of files and globs for `Corpus(source)`.
        num_workers: Number of threads, or of worker processes if the encoder does not release the
            GIL. Defaults to all cores.
        progress: Whether to show a progress bar on a terminal.
        chunk_size: Number of bytes of text to encode at a time.

    Returns:
        Counts of shape (vocab_size,), int64. Ids without a token have a count of 0.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer.
        ValueError: If the highest id is far above the number of tokens.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import count_tokens
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> counts = count_tokens(tokenizer, "stories.txt")
        >>> int(counts[tokenizer.special_token_id("<|endoftext|>")])
        2
    """
    check_is_tokenizer(tokenizer)
    check_gaps(tokenizer.vocab)
    corpus = Corpus.of(source)
    chunk_size = checked_integer("chunk_size", chunk_size, 1, note=" byte")
    job = EncodeJob(tokenizer, corpus.errors, chunk_size)
    num_workers = resolve_num_workers(num_workers)
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    reading = ReadingRecord()
    title = f"counting tokens in {title_of(corpus.files)}"
    with byte_bar(progress, corpus.num_bytes, title) as bar:
        blocks = encoded_blocks(
            job, corpus.sources, num_workers, lambda bytes_read: bar.update(bytes_read - bar.n)
        )
        with contextlib.closing(blocks):
            for block in blocks:
                _add_ids(counts, block.ids)
                reading.add(block.reading)
    reading.warn()
    return counts


def count_token_file(tokenizer: Tokenizer, path: str | os.PathLike[str]) -> TokenCounts:
    """Return the number of occurrences of each id in a token file, which is read in chunks.

    Args:
        tokenizer: Tokenizer that the file was encoded with.
        path: FILE.npy, written by `encode_file`.

    Returns:
        Counts of shape (vocab_size,), int64.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer.
        ValueError: If an id is not below `vocab_size`, or the highest id in the vocabulary is far
            above the number of tokens.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import count_token_file, encode_file
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> metadata = encode_file(tokenizer, "stories.txt", "counted.npy")
        >>> int(count_token_file(tokenizer, "counted.npy").sum()) == metadata["num_tokens"]
        True
    """
    check_is_tokenizer(tokenizer)
    check_gaps(tokenizer.vocab)
    ids = load_token_file(path, tokenizer_hash=tokenizer.hash())
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    for start in range(0, len(ids), _IDS_AT_A_TIME):
        _add_ids(counts, checked_ids(ids[start : start + _IDS_AT_A_TIME], len(counts), path))
    return counts


def never_used(tokenizer: Tokenizer, counts: TokenCounts) -> list[int]:
    """Return the ids of the tokens with a count of 0, in ascending order.

    A model cannot learn the embeddings of these "glitch tokens". Special tokens and single bytes
    are left out because later texts may need them.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer, or `counts` does not contain integers.
        ValueError: If `counts` does not have the shape (vocab_size,).

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import count_tokens, never_used
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> never_used(tokenizer, count_tokens(tokenizer, "stories.txt"))
        []
    """
    check_is_tokenizer(tokenizer)
    if np.shape(counts) != (tokenizer.vocab_size,):
        raise InputError(
            f"must have the shape ({tokenizer.vocab_size},), got {np.shape(counts)}",
            argument="counts",
            remedy="pass the result of count_tokens for this tokenizer",
        )
    if np.asarray(counts).dtype.kind not in "iu":
        raise InputTypeError(f"must be integers, got {np.asarray(counts).dtype}", argument="counts")
    added = tokenizer.definition.ids_of_added
    return [
        token_id
        for token_id, token in sorted(tokenizer.vocab.items())
        if not counts[token_id] and len(token) > 1 and token_id not in added
    ]


def checked_ids(ids: TokenArray, vocab_size: int, path: str | os.PathLike[str]) -> TokenArray:
    """Return a checked copy of a token file's ids.

    Raises:
        ValueError: If an id is not below `vocab_size`.
    """
    copy: TokenArray = np.array(ids)  # unaffected by later changes to the file
    highest = int(copy.max(initial=0))
    if highest >= vocab_size:
        raise InputError(
            f"damaged file; ids must be below {vocab_size:,}, got {highest}",
            place=os.fspath(path),
            remedy="encode the text again",
        )
    return copy


def _add_ids(counts: TokenCounts, ids: TokenArray) -> None:
    """Add the number of occurrences of each id to `counts`. Ids must be below `len(counts)`."""
    found = np.bincount(ids.astype(np.intp))
    counts[: len(found)] += found
