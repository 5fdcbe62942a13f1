"""Count the pre-tokens in files. BPE training needs only these counts.

Two options decide how (docs/counting-and-encoding.md compares them):

- `splitting`: with the `regex` module, or with compiled code.
- `execution`: one piece of the text after another, or several at a time in threads, in processes,
  or on a cluster of machines with Ray.

The counts are always the same, also for any number of workers and any chunk size.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.progress import HiddenBar, byte_bar
from cs336_basics.counting.count_job import Counted, CountJob
from cs336_basics.counting.word_counter import choose_splitting
from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.execution.executors import executor
from cs336_basics.execution.jobs import Reduction
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.corpus import DEFAULT_PIECE_SIZE, Corpus
from cs336_basics.text.paths import PathsLike
from cs336_basics.text.reading_record import ReadingRecord, Replaced
from cs336_basics.text.sources import Piece, Source
from cs336_basics.text.utf8 import check_errors

if TYPE_CHECKING:
    from tqdm import tqdm

KEPT_PIECE_SIZE = 1 << 30
"""Default number of bytes in a piece whose counts are kept (33 MB for web text)."""

REGEX_PIECE_SIZE = 4 << 20
"""Maximum number of bytes in a piece that `regex` splits, which takes half a second."""

SMALLEST_PIECE_SIZE = 1 << 20
"""Minimum number of bytes of text that justifies a worker. Smaller texts are counted here, because
starting two processes takes half a second of CPU time."""

FILE_BLOCK_SIZE = 1 << 18
"""Default number of bytes that compiled code reads from a file at a time. A block fits in the L2
cache, and small files divide evenly among threads."""

PIECES_PER_WORKER = 4
"""Number of pieces per worker for a small text. Several pieces balance the load."""


def count_words(
    corpus: Corpus | PathsLike,
    splitter: Splitter | None = None,
    *,
    splitting: str | None = None,
    execution: str | None = None,
    num_workers: int | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
    ray_address: str | None = None,
    partial_counts: str | os.PathLike[str] | None = None,
) -> WordCounts:
    """Count the pre-tokens in files.

    Text is read as bytes, so line endings (including CRLF), byte order marks and NUL characters are
    preserved. Special tokens are cut out first and are not counted. Each file, and each row of a
    file with rows, is split separately.

    Args:
        corpus: Corpus, or paths in any form that `Corpus` accepts. With Ray, the files must have
            the same paths on all machines, or be URLs.
        splitter: How to split the text: pattern, special tokens and normalizer. Defaults to
            `Splitter()`.
        splitting: Name in SPLITTINGS. Defaults to `"compiled"` if compiled code is built and
            supports the pattern, and to `"regex"` otherwise.
        execution: Name in EXECUTORS. By default, plain text is counted in threads if the splitting
            is compiled, and other text in processes if it has more than a megabyte.
        num_workers: Number of threads, worker processes or Ray tasks. Defaults to the number of
            cores of this machine or of the cluster.
        chunk_size: Approximate number of bytes counted at a time. The default depends on the other
            options.
        progress: Whether to show a progress bar on a terminal.
        ray_address: Ray cluster to connect to; see `ray_cluster`.
        partial_counts: Directory for the counts of each piece of the text, or the URL of a folder
            in an object store; the directory is created if it is missing. A later run with the same
            files, chunk size and splitter does not count these pieces again. With Ray, all machines
            must share it. Nothing is kept by default.

    Returns:
        Mapping from pre-tokens (UTF-8 bytes) to counts.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If a directory has no text files, the files are empty or damaged, text is not
            valid UTF-8 (`errors="strict"`), a field or column is missing, or an argument is out of
            range.
        TypeError: If `splitter` is not a Splitter.
        ImportError: If a library for the file format, compiled code or Ray is missing.
        RuntimeError: If a worker process dies, all attempts to count a piece with Ray failed, or
            the cluster is lost.
        ConnectionError: If there is no Ray cluster at `ray_address`.
        OSError: If a file cannot be read, or partial counts cannot be written.

    Warns:
        UserWarning: If invalid UTF-8 was read as U+FFFD. The message includes the affected share of
            the text.

    Example:
        >>> from cs336_basics.counting import count_words
        >>> from cs336_basics.splitting import Splitter
        >>> counts = count_words("stories.txt", Splitter("gpt2", ["<|endoftext|>"]))
        >>> counts[b" the"] > 10
        True
    """
    corpus = Corpus.of(corpus)
    check_errors(corpus.errors)
    splitter = Splitter.of(splitter)
    splitting = choose_splitting(splitting, splitter)
    if chunk_size is not None:
        chunk_size = checked_integer("chunk_size", chunk_size, 1, note=" byte")
    is_fast = splitting == "compiled" and execution in (None, "threads")
    job: Reduction[Piece, Counted] = CountJob(splitter, splitting)
    sources: Sequence[Source] = corpus.sources
    files: list[Source] = []  # that compiled code reads itself
    if partial_counts is not None:
        from cs336_basics.counting.partial_counts import KeptCountJob, opened_folder

        job = KeptCountJob(CountJob(splitter, splitting), opened_folder(partial_counts))
    elif is_fast and splitter.normalizer is None:
        files = [source for source in sources if source.local_path is not None]
        sources = [source for source in sources if source.local_path is None]
    elif is_fast and all(source.local_path is not None for source in sources):
        execution = "threads"  # which start faster than processes
    if execution is None and chunk_size is None:
        is_small = sum(source.num_bytes for source in sources) <= SMALLEST_PIECE_SIZE
        execution = "serial" if is_small else "processes"
    if partial_counts is not None or execution == "ray":
        sources = [source.absolute() for source in sources]
    runner = executor(execution or "processes", num_workers, ray_address=ray_address)
    if partial_counts is not None:
        piece_size = KEPT_PIECE_SIZE
    elif execution == "ray":
        piece_size = DEFAULT_PIECE_SIZE
    else:
        piece_size = _balanced_piece_size(corpus, splitter, splitting, num_workers)
    pieces = [piece for source in sources for piece in source.pieces(chunk_size or piece_size)]
    counted: list[Counted] = []
    with byte_bar(progress, corpus.num_bytes, "counting words") as bar:
        if files:
            block_size = chunk_size or FILE_BLOCK_SIZE
            counted.append(_count_files(files, splitter, num_workers, block_size, bar))
        if pieces:
            counted.append(runner.reduce(job, pieces, lambda piece: bar.update(piece.num_bytes)))
    counts, reading = job.combine(counted)
    reading.warn()
    return counts


def _balanced_piece_size(
    corpus: Corpus, splitter: Splitter, splitting: str, num_workers: int | None
) -> int:
    """Return the size of pieces that keep all workers of this machine busy."""
    if splitting == "compiled" and splitter.normalizer is None:
        return DEFAULT_PIECE_SIZE
    largest = REGEX_PIECE_SIZE if splitting == "regex" else DEFAULT_PIECE_SIZE
    even = corpus.num_bytes // (PIECES_PER_WORKER * resolve_num_workers(num_workers))
    return min(largest, max(SMALLEST_PIECE_SIZE, even))


def _count_files(
    files: Sequence[Source],
    splitter: Splitter,
    num_workers: int | None,
    block_size: int,
    bar: tqdm[Any] | HiddenBar,
) -> Counted:
    """Return the counts of local plain text files, which compiled code reads in threads.

    Peak memory grows with the number of distinct words and threads, not with the size of the files.
    Only text without safe cuts (see `SafeCuts`) is read into memory all at once. Ctrl-C stops the
    threads within a fraction of a second. The order of the words does not depend on the number or
    timing of the threads.
    """
    from cs336_basics.counting._counting import count_files

    sizes = [source.num_bytes for source in files]
    buffers, replaced = count_files(
        [source.path for source in files],
        sizes,
        splitter.special_tokens,
        splitter.pattern,
        resolve_num_workers(num_workers),
        files[0].errors,
        block_size,
        None if bar.disable else lambda done: bar.update(done - bar.n),
        max_piece_bytes=files[0].max_piece_bytes,
    )
    bar.update(sum(sizes) - bar.n)
    reading = ReadingRecord(sum(sizes))
    for index, found in replaced.items():
        reading.add_replaced(files[index].path, Replaced(*found))
    return WordCounts.of_buffers(buffers, splitter.pattern, splitter.special_tokens), reading
