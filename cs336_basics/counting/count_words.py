"""Count the pre-tokens in files. BPE training needs only these counts.

There are five backends (docs/counting-and-encoding.md compares them):

- `regex` splits with the `regex` module and counts in a `Counter`. It uses worker processes if
  there is more than one worker.
- `serial` splits with the compiled scanner in this process.
- `processes` does the same in worker processes.
- `native` splits and counts with compiled code in threads.
- `ray` counts on a cluster of machines.

All backends return the same counts, for any number of workers and any chunk size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cs336_basics._support.errors import BUILD, Argument, InputError, UnavailableError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.progress import HiddenBar, byte_bar
from cs336_basics._support.warnings import warn
from cs336_basics.counting.count_texts import count_chunk
from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.execution.parallel import map_ordered
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.splitting.splitter import Splitter, has_scanner
from cs336_basics.text.corpus import (
    DEFAULT_CHUNK_SIZE as CHUNK_SIZE,
)
from cs336_basics.text.corpus import Corpus, PathsLike, check_errors
from cs336_basics.text.text_changes import Replaced, TextChanges

if TYPE_CHECKING:
    from tqdm import tqdm

BACKENDS = ("regex", "serial", "processes", "native", "ray")
"""Names of the counting backends, from the simplest to the one suited to the largest corpora."""

DEFAULT_BLOCK_SIZE = 1 << 20
"""Number of bytes in a block that a native thread reads. A block fits in the L2 cache of most
CPUs."""

PLAIN_CHUNK_SIZE = 4 << 20
"""Maximum number of bytes of plain text that Python counts at a time, to limit memory use."""

SMALLEST_CHUNK_SIZE = 1 << 20
"""Minimum number of bytes of plain text that justifies a worker process."""

CHUNKS_PER_WORKER = 4
"""Number of chunks per worker process for a small text. Several chunks balance the load."""

_MOST_ADDENDS = 16
"""Number of partial counts that are kept in memory before they are added up."""


def count_words(
    corpus: Corpus | PathsLike,
    splitter: Splitter | None = None,
    *,
    backend: str | None = None,
    num_workers: int | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> WordCounts:
    """Count the pre-tokens in files.

    Text is read as bytes, so line endings (including CRLF), byte order marks and NUL characters are
    preserved. Special tokens are cut out first and are not counted. Each file, and each row of a
    file with rows, is split separately.

    Args:
        corpus: Corpus, or paths in any form that `Corpus` accepts.
        splitter: Split pattern and special tokens. Defaults to `Splitter()`.
        backend: Name in BACKENDS. Defaults to `"native"` if it is built and supports the pattern,
            and to `"processes"` otherwise. Files that are not plain text are counted in worker
            processes, or in this process with `"serial"`.
        num_workers: Number of threads, worker processes or Ray tasks. Defaults to the number of
            cores. At most one worker process is started per chunk.
        chunk_size: Number of bytes counted at a time. The default depends on the backend.
        progress: Whether to show a progress bar on a terminal.

    Returns:
        Mapping from pre-tokens (UTF-8 bytes) to counts.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If a directory has no text files, the files are empty or damaged, text is not
            valid UTF-8 (`errors="strict"`), a field or column is missing, or an argument is out of
            range.
        TypeError: If `splitter` is not a Splitter.
        ImportError: If a library for the file format is not installed.
        RuntimeError: If a worker process dies.

    Warns:
        UserWarning: If invalid UTF-8 was read as U+FFFD, or the pattern does not match all text.
            The message includes the affected share of the text.
    """
    corpus = Corpus.of(corpus)
    check_errors(corpus.errors)
    splitter = Splitter.of(splitter)
    backend = _choose_backend(backend, splitter)
    if backend == "ray":
        from cs336_basics.counting.ray_counting import count_words_ray

        return count_words_ray(
            corpus, splitter, num_workers=num_workers, chunk_size=chunk_size, progress=progress
        )
    workers = resolve_num_workers(num_workers)
    if backend == "serial":
        workers = 1
    plain, others = corpus.by_plainness()
    rows_backend = "regex" if backend == "regex" else "native"
    size = CHUNK_SIZE if chunk_size is None else chunk_size  # `chunks` checks it
    chunks = [(chunk, splitter, rows_backend) for chunk in others.chunks(size)]
    if backend != "native":
        even = plain.num_bytes // (CHUNKS_PER_WORKER * workers)
        size = chunk_size or min(PLAIN_CHUNK_SIZE, max(SMALLEST_CHUNK_SIZE, even))
        chunks += [(chunk, splitter, backend) for chunk in plain.chunks(size)]
    counted: list[WordCounts] = []
    changes = TextChanges()
    num_bytes = sum(chunk.num_bytes for chunk, *_ in chunks)
    num_bytes += plain.num_bytes if backend == "native" else 0
    with byte_bar(progress, num_bytes, "counting words") as bar:
        if plain.files and backend == "native":
            size = chunk_size or DEFAULT_BLOCK_SIZE
            counted.append(_count_native(plain, splitter, workers, size, bar, changes))
        for counts, num_bytes, found in map_ordered(
            count_chunk, chunks, max(1, min(workers, len(chunks)))
        ):
            counted.append(counts)
            if len(counted) == _MOST_ADDENDS:
                counted = [WordCounts.combined(counted)]
            changes.add(found)
            bar.update(num_bytes)
    changes.warn(splitter.pattern, "counted")
    return WordCounts.combined(counted)


def check_backend(backend: str | None, name: str = "backend") -> None:
    """Raise ValueError if `backend` is neither a name in BACKENDS nor None."""
    if backend is not None and backend not in BACKENDS:
        raise InputError(
            f"{name} must be one of {', '.join(BACKENDS)}, or None, got {short_repr(backend)}"
        )


def _choose_backend(backend: str | None, splitter: Splitter) -> str:
    check_backend(backend)
    if backend is not None:
        return backend
    if splitter.has_scanner:
        return "native"
    if has_scanner("gpt2"):  # the extensions are built
        warn(
            f"pattern {short_repr(splitter.pattern)} cannot be compiled or does not match all "
            "text; words are counted in worker processes, which is many times slower"
        )
    return "processes"


def _count_native(
    corpus: Corpus,
    splitter: Splitter,
    num_workers: int,
    block_size: int,
    bar: tqdm[Any] | HiddenBar,
    changes: TextChanges,
) -> WordCounts:
    """Count the words in plain text files with compiled code in threads.

    Changes made to the text are added to `changes`.

    Peak memory grows with the number of distinct words and threads, not with the size of the files.
    Only text without safe cuts (see `SafeCuts`) is read into memory all at once. Ctrl-C stops the
    threads within a fraction of a second. The order of the words does not depend on the number or
    timing of the threads.
    """
    try:
        from cs336_basics.counting._counting import count_files
    except ImportError as error:
        raise UnavailableError(
            "backend 'native' needs compiled code, which is not built",
            remedy=(BUILD, ", or pass ", Argument("backend", "processes")),
        ) from error
    sizes = corpus.sizes
    buffers, replaced = count_files(
        corpus.files,
        sizes,
        splitter.special_tokens,
        splitter.pattern,
        num_workers,
        corpus.errors,
        block_size,
        None if bar.disable else lambda done: bar.update(done - bar.n),
        max_piece_bytes=corpus.max_piece_bytes,
    )
    bar.update(sum(sizes) - bar.n)
    changes.num_bytes += sum(sizes)
    for file, found in replaced.items():
        changes.add_replaced(corpus.files[file], Replaced(*found))
    return WordCounts.of_buffers(buffers, splitter.pattern, splitter.special_tokens)
