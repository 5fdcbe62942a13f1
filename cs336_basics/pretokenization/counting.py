"""Count the pre-tokens of files: all that BPE training needs to know of a text.

The counting ladder: `count_serial`, one range after the other in this process; `count_processes`,
the same ranges in worker processes; `word_counts.count_words_native`, threads of compiled code.
`count_words` picks between them. All give the same counts for every number of workers and every
chunk size.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cs336_basics._progress import byte_bar
from cs336_basics.pretokenization.chunking import (
    DEFAULT_CHUNK_SIZE,
    check_chunk_size,
    chunk_ranges,
    read_text_range,
)
from cs336_basics.pretokenization.parallel import map_ordered, resolve_num_workers
from cs336_basics.pretokenization.patterns import resolve_pattern
from cs336_basics.pretokenization.readers import count_piece, cut_into_pieces, is_plain_text
from cs336_basics.pretokenization.splitter import (
    check_special_tokens,
    has_scanner,
    pretokenize,
    split_special_tokens,
)
from cs336_basics.pretokenization.word_counts import (
    DEFAULT_BLOCK_SIZE,
    WordCounts,
    count_words_native,
    input_files,
)

ERRORS = ("replace", "strict")

METHODS = ("serial", "processes", "native")
"""The rungs of the counting ladder, the slowest first."""

_PARTS_AT_A_TIME = 16

_said: set[str] = set()


def count_words(
    input_path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    special_tokens: Iterable[str] = (),
    *,
    pattern: str = "gpt2",
    num_workers: int | None = None,
    chunk_size: int | None = None,
    errors: str = "replace",
    progress: bool = False,
    method: str | None = None,
    field: str | None = None,
    column: str | None = None,
) -> Mapping[bytes, int]:
    """Count the pre-tokens of files.

    Text is read as bytes, so that line ends (CRLF too), a byte order mark and NUL characters are
    text like any other. Special tokens are cut out first and count nothing. Every file, and every
    row of a file of rows, is split by itself.

    Args:
        input_path: a file, a pattern such as `"data/*.txt"`, or several of both. UTF-8 text, JSON
            lines (`.jsonl`), either of them compressed (`.gz`, `.zst`), or Parquet; see `inputs`.
        special_tokens: texts that no pre-token may touch; the longest wins where they overlap.
        pattern: a name in PATTERNS or a regular expression of the `regex` module.
        num_workers: threads or worker processes, None = one for each core. No more are started than
            there are chunks, so that a small file is counted in this process.
        chunk_size: bytes handled at a time; None = what suits the method.
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD, as `bytes.decode` does;
            `"strict"` refuses them.
        progress: show a progress bar on a terminal.
        method: one of METHODS. None = `"native"` if it is built and knows the pattern, else
            `"processes"`. Files that are not plain text are counted in processes, or, with
            `"serial"`, in this one.
        field: of JSON lines, the field that has the text.
        column: of Parquet, the column that has the text.

    Returns:
        pre-token (UTF-8 bytes) -> number of occurrences: a WordCounts of `"native"`, a Counter of
        the others. In both, a word that is not there counts 0.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the path is a directory, the file is empty, damaged, or (`"strict"`) it holds a
            byte that is not UTF-8, named with its place; a row without the field, a file without
            the column; a bad pattern, special token, method or number.
        ImportError: a library for the format is missing, named with the command that installs it.
        RuntimeError: a worker process died.
    """
    files = input_files(input_path)
    size = sum(file.stat().st_size for file in files)
    if size == 0:
        names = ", ".join(repr(str(file)) for file in files[:3]) or "(no file)"
        raise ValueError(f"input_path {names} is empty: there is nothing to train on")
    method = _resolve_method(method, pattern)
    if chunk_size is None:
        chunk_size = DEFAULT_BLOCK_SIZE if method == "native" else DEFAULT_CHUNK_SIZE
    tokens = check_count_request(special_tokens, pattern, errors, chunk_size)
    workers = 1 if method == "serial" else resolve_num_workers(num_workers)
    plain = [file for file in files if is_plain_text(file)]
    pieces = cut_into_pieces(
        (file for file in files if not is_plain_text(file)), field=field, column=column
    )
    size = sum(file.stat().st_size for file in plain) + sum(piece.num_bytes for piece in pieces)
    parts: list[Mapping[bytes, int]] = []
    with byte_bar(progress, size, "counting words") as bar:
        if plain and method == "native":
            done_before = bar.n
            parts.append(
                count_words_native(
                    plain,
                    tokens,
                    pattern,
                    workers,
                    errors,
                    None if bar.disable else lambda done: bar.update(done_before + done - bar.n),
                    chunk_size,
                )
            )
            bar.update(sum(file.stat().st_size for file in plain) - bar.n)
        elif plain:
            for file in plain:
                ranges = chunk_ranges(file, chunk_size, tokens, pattern)
                processes = min(workers, -(-file.stat().st_size // chunk_size))
                count = count_serial if processes <= 1 else count_processes
                for chunk, num_bytes in count(file, ranges, tokens, pattern, errors, processes):
                    parts = [add_counts([*parts, chunk])]
                    bar.update(num_bytes)
        arguments = ((piece, tokens, pattern, errors, field, column) for piece in pieces)
        for part, num_bytes in map_ordered(
            count_piece, arguments, max(1, min(workers, len(pieces)))
        ):
            parts.append(part)
            bar.update(num_bytes)
            if len(parts) == _PARTS_AT_A_TIME:
                parts = [add_counts(parts)]
    return add_counts(parts)


def check_count_request(
    special_tokens: Iterable[str], pattern: str, errors: str, chunk_size: int
) -> list[str]:
    """Return the special tokens as a list, after checking what every way of counting is given.

    Raises:
        TypeError, ValueError: what is wrong with the special tokens, the pattern, or a number.
    """
    tokens = check_special_tokens(special_tokens)
    resolve_pattern(pattern)
    if errors not in ERRORS:
        raise ValueError(f"errors is {errors!r}: it must be one of {', '.join(ERRORS)}")
    check_chunk_size(chunk_size)
    return tokens


def add_counts(parts: list[Mapping[bytes, int]]) -> Mapping[bytes, int]:
    """Return the sum of word counts: a WordCounts of several such, else a Counter."""
    if len(parts) == 1:
        return parts[0]
    if parts and all(isinstance(part, WordCounts) for part in parts):
        return WordCounts.combined(part for part in parts if isinstance(part, WordCounts))
    # A first part that is a Counter grows: copying it for every chunk would take n^2 time.
    first = parts[0] if parts else None
    total: Counter[bytes] = first if isinstance(first, Counter) else Counter()
    for part in parts:
        if part is not total:
            total.update(part)
    return total


def _resolve_method(method: str | None, pattern: str) -> str:
    if method is not None and method not in METHODS:
        raise ValueError(f"method is {method!r}: it must be one of {', '.join(METHODS)}, or None")
    if method is not None:
        return method
    if has_scanner(pattern):
        return "native"
    if has_scanner("gpt2") and pattern not in _said:
        _said.add(pattern)
        warnings.warn(
            f"pattern {pattern!r} has no compiled scanner: its words are counted by the `regex` "
            "module in worker processes, which is many times slower",
            stacklevel=3,
        )
    return "processes"


def count_serial(
    path: Path,
    ranges: Iterable[tuple[int, int]],
    special_tokens: list[str],
    pattern: str,
    errors: str,
    num_workers: int = 1,
) -> Iterator[tuple[Counter[bytes], int]]:
    """Yield the counts and the number of bytes of each range, one after the other."""
    for start, end in ranges:
        yield count_range(path, start, end, special_tokens, pattern, errors)


def count_processes(
    path: Path,
    ranges: Iterable[tuple[int, int]],
    special_tokens: list[str],
    pattern: str,
    errors: str,
    num_workers: int,
) -> Iterator[tuple[Counter[bytes], int]]:
    """Yield the same as `count_serial`, counted in processes that receive byte ranges, not text."""
    arguments = ((path, start, end, special_tokens, pattern, errors) for start, end in ranges)
    yield from map_ordered(count_range, arguments, num_workers)


def count_range(
    path: Path, start: int, end: int, special_tokens: list[str], pattern: str, errors: str
) -> tuple[Counter[bytes], int]:
    """Return the counts of one byte range of a file, and its length in bytes."""
    text = read_text_range(path, start, end, errors)
    return count_text(text, special_tokens, pattern), end - start


def count_text(
    text: str, special_tokens: Iterable[str] = (), pattern: str = "gpt2"
) -> Counter[bytes]:
    """Count the pre-tokens of a text in memory; see `count_words`."""
    counts: Counter[str] = Counter()
    for piece, is_special in split_special_tokens(text, special_tokens):
        if not is_special:
            counts.update(pretokenize(piece, pattern))
    return Counter({word.encode(): count for word, count in counts.items() if word})
