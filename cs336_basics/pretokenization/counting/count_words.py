"""Count the pre-tokens of files. BPE training needs nothing else from a text.

There are five backends, each faster or for more text than the one before
(docs/counting-and-encoding.md compares them):

- `regex` splits with the `regex` module, which runs the pattern as it is written, and counts in a
  `Counter`; with more than one worker, in worker processes;
- `serial` splits with the compiled scanner, in this process;
- `processes` does the same in worker processes;
- `native` splits and counts in threads of compiled code;
- `ray` counts on a cluster of machines.

All give the same counts, for every number of workers and every chunk size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.memory import holding
from cs336_basics._support.messages import short_repr
from cs336_basics._support.progress import HiddenBar, byte_bar
from cs336_basics._support.warnings import warn
from cs336_basics.pretokenization.counting.count_texts import count_chunk
from cs336_basics.pretokenization.counting.parallel import map_ordered, resolve_num_workers
from cs336_basics.pretokenization.counting.word_counts import WordCounts
from cs336_basics.pretokenization.reading.corpus import (
    DEFAULT_CHUNK_SIZE as CHUNK_SIZE,
)
from cs336_basics.pretokenization.reading.corpus import Corpus, PathsLike, check_errors
from cs336_basics.pretokenization.reading.text_changes import TextChanges
from cs336_basics.pretokenization.splitter import Splitter, has_scanner

if TYPE_CHECKING:
    from tqdm import tqdm

BACKENDS = ("regex", "serial", "processes", "native", "ray")
"""The counting backends, from the simplest to the one for the most text."""

DEFAULT_BLOCK_SIZE = 1 << 20
"""Bytes that a thread of the native backend reads at a time: they fit the L2 cache of most CPUs."""

PLAIN_CHUNK_SIZE = 4 << 20
"""Most bytes of plain text that Python counts at a time, which bounds memory."""

SMALLEST_CHUNK_SIZE = 1 << 20
"""Bytes of plain text for which starting a worker process pays."""

CHUNKS_PER_WORKER = 4
"""Chunks of a small text for each worker process, which evens the load."""

_MOST_ADDENDS = 16

_patterns_warned_of: set[str] = set()


def count_words(
    corpus: Corpus | PathsLike,
    splitter: Splitter | None = None,
    *,
    backend: str | None = None,
    num_workers: int | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
) -> Mapping[bytes, int]:
    """Count the pre-tokens of files.

    Text is read as bytes, so that line ends (CRLF too), a byte order mark and NUL characters are
    text like any other. Special tokens are cut out first and are not counted. Every file, and every
    row of a file of rows, is split by itself.

    Args:
        corpus: the text: a Corpus, or what `Corpus` takes as paths.
        splitter: the split pattern and the special tokens; None: `Splitter()`.
        backend: one of BACKENDS. None: `"native"` if it is built and knows the pattern, else
            `"processes"`. Files that are not plain text are counted in processes, or, with
            `"serial"`, in this one.
        num_workers: threads, worker processes or Ray tasks; None: one for each core. No more are
            started than there are chunks, so that a small file is counted in this process.
        chunk_size: bytes counted at a time; None: the default of the backend.
        progress: show a progress bar on a terminal.

    Returns:
        pre-token (UTF-8 bytes) -> number of occurrences: a WordCounts if all files were counted by
        compiled code, else a Counter. In both, the count of an absent word is 0.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a path is a directory; the files are empty, damaged, or (`errors="strict"`)
            hold a byte that is not UTF-8, named with its offset; a row lacks the field, or a file
            the column; a bad backend or number.
        TypeError: `splitter` is not a Splitter.
        ImportError: a library for the format is missing, named with the command that installs it.
        RuntimeError: a worker process died.

    Warns:
        UserWarning: bytes that are not UTF-8 were read as U+FFFD; or the pattern does not match all
            of the text. Both with the share, the first with the offset of the first of them.
    """
    corpus = Corpus.of(corpus)
    check_errors(corpus.errors)
    splitter = Splitter.of(splitter)
    backend = _choose_backend(backend, splitter)
    if chunk_size is not None:
        checked_integer("chunk_size", chunk_size, 1, note=" byte")
    if backend == "ray":
        from cs336_basics.pretokenization.counting.ray_counting import count_words_ray

        return count_words_ray(
            corpus, splitter, num_workers=num_workers, chunk_size=chunk_size, progress=progress
        )
    workers = resolve_num_workers(num_workers)
    if backend == "serial":
        workers = 1
    plain, others = corpus.by_plainness()
    rows_backend = "regex" if backend == "regex" else "native"
    chunks = [(chunk, splitter, rows_backend) for chunk in others.chunks(chunk_size or CHUNK_SIZE)]
    if backend != "native":
        even = plain.num_bytes // (CHUNKS_PER_WORKER * workers)
        size = chunk_size or min(PLAIN_CHUNK_SIZE, max(SMALLEST_CHUNK_SIZE, even))
        chunks += [(chunk, splitter, backend) for chunk in plain.chunks(size)]
    total = _Sum()
    changes = TextChanges()
    num_bytes = sum(chunk.num_bytes for chunk, *_ in chunks)
    num_bytes += plain.num_bytes if backend == "native" else 0
    with (
        holding(lambda: f"the distinct words of {corpus.num_bytes:,} bytes of {corpus.files[0]}"),
        byte_bar(progress, num_bytes, "counting words") as bar,
    ):
        if plain.files and backend == "native":
            size = chunk_size or DEFAULT_BLOCK_SIZE
            total.add(_count_native(plain, splitter, workers, size, bar, changes))
        for counts, num_bytes, found in map_ordered(
            count_chunk, chunks, max(1, min(workers, len(chunks)))
        ):
            total.add(counts)
            changes.add(found)
            bar.update(num_bytes)
    changes.warn(splitter.pattern, "counted")
    return total.result()


class _Sum:
    """A sum of word counts. It adds a few at a time, so that memory holds only a few of them."""

    def __init__(self) -> None:
        self._counted: list[WordCounts] = []
        self._others: Counter[bytes] | None = None  # of the readable counter

    def add(self, counts: Mapping[bytes, int]) -> None:
        if isinstance(counts, WordCounts):
            self._counted.append(counts)
            if len(self._counted) == _MOST_ADDENDS:
                self._counted = [WordCounts.combined(self._counted)]
        else:
            self._others = Counter() if self._others is None else self._others
            self._others.update(counts)

    def result(self) -> Mapping[bytes, int]:
        if self._others is None:
            one = len(self._counted) == 1
            return self._counted[0] if one else WordCounts.combined(self._counted)
        for counts in self._counted:
            self._others.update(counts)
        return self._others


def check_backend(backend: str | None, name: str = "backend") -> None:
    """Raise ValueError if an argument is neither a name in BACKENDS nor None."""
    if backend is not None and backend not in BACKENDS:
        raise ValueError(
            f"{name} must be one of {', '.join(BACKENDS)}, or None, got {short_repr(backend)}"
        )


def _choose_backend(backend: str | None, splitter: Splitter) -> str:
    check_backend(backend)
    if backend is not None:
        return backend
    if splitter.has_scanner:
        return "native"
    pattern = splitter.pattern
    if has_scanner("gpt2") and pattern not in _patterns_warned_of:
        _patterns_warned_of.add(pattern)
        warn(
            f"pattern {short_repr(pattern)} cannot be compiled, or leaves out text: its words are "
            "counted in worker processes, which is many times slower"
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
    """Count files of plain text in threads of compiled code. `changes` grows.

    Peak memory grows with the number of distinct words and of threads, not the size of the files.
    Only text without any safe cut (see `SafeCuts`) is held in memory as a whole. Ctrl-C ends it
    within a fraction of a second. The order of the words does not depend on the threads.
    """
    try:
        from cs336_basics.pretokenization.counting._counting import count_files
    except ImportError as error:
        raise ImportError(
            "counting natively needs compiled code that is not built: with a C++ compiler, run "
            "`python setup.py build_ext --inplace` in the checkout or install the package again; "
            "or choose backend='processes'"
        ) from error
    replaced: list[tuple[int, int, int, int]] = []
    sizes = corpus.sizes
    buffers = count_files(
        corpus.files,
        sizes,
        splitter.special_tokens,
        splitter.pattern,
        num_workers,
        corpus.errors,
        block_size,
        None if bar.disable else lambda done: bar.update(done - bar.n),
        replaced=replaced,
        max_piece_bytes=corpus.max_piece_bytes,
    )
    bar.update(sum(sizes) - bar.n)
    changes.num_bytes += sum(sizes)
    changes.add_files((corpus.files[file], found) for file, *found in replaced)
    return WordCounts.of_buffers(buffers, splitter.pattern, splitter.special_tokens)
