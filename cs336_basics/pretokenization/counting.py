"""Count the pre-tokens of a file: all that BPE training needs to know of a text.

The counting ladder: `count_serial`, one range after the other in this process; `count_processes`,
the same ranges in worker processes. `count_words` picks between them. All give the same counts for
every number of workers and every chunk size.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from cs336_basics.pretokenization.chunking import (
    DEFAULT_CHUNK_SIZE,
    check_chunk_size,
    chunk_ranges,
    read_range,
)
from cs336_basics.pretokenization.parallel import map_ordered, resolve_num_workers
from cs336_basics.pretokenization.patterns import resolve_pattern
from cs336_basics.pretokenization.splitting import (
    check_special_tokens,
    pretokenize,
    split_special_tokens,
)

ERRORS = ("replace", "strict")


def count_words(
    input_path: str | os.PathLike[str],
    special_tokens: Iterable[str] = (),
    *,
    pattern: str = "gpt2",
    num_workers: int | None = None,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    errors: str = "replace",
    progress: bool = False,
) -> Counter[bytes]:
    """Count the pre-tokens of a text file.

    The file is read as bytes, so that line ends (CRLF too), a byte order mark and NUL characters
    are text like any other. Special tokens are cut out first and count nothing.

    Args:
        input_path: a file of UTF-8 text.
        special_tokens: texts that no pre-token may touch; the longest wins where they overlap.
        pattern: a name in PATTERNS or a regular expression of the `regex` module.
        num_workers: worker processes, None = one for each core. No more are started than there
            are chunks, so that a small file is counted in this process.
        chunk_size: bytes handled at a time.
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD, as `bytes.decode` does;
            `"strict"` refuses them.
        progress: show a progress bar on a terminal.

    Returns:
        pre-token (UTF-8 bytes) -> number of occurrences, in order of first occurrence.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the path is a directory, the file is empty, or (`"strict"`) it holds a byte
            that is not UTF-8, named with its place; a bad pattern, special token or number.
        RuntimeError: a worker process died.
    """
    path = check_input_file(input_path)
    tokens = check_special_tokens(special_tokens)
    resolve_pattern(pattern)
    if errors not in ERRORS:
        raise ValueError(f"errors is {errors!r}: it must be one of {', '.join(ERRORS)}")
    check_chunk_size(chunk_size)
    workers = resolve_num_workers(num_workers)
    workers = min(workers, -(-path.stat().st_size // chunk_size))
    ranges = chunk_ranges(path, chunk_size, tokens, pattern)
    with tqdm(
        total=path.stat().st_size,
        unit="B",
        unit_scale=True,
        desc="counting words",
        disable=None if progress else True,
    ) as bar:
        count = count_serial if workers == 1 else count_processes
        total: Counter[bytes] = Counter()
        for part, num_bytes in count(path, ranges, tokens, pattern, errors, workers):
            total.update(part)
            bar.update(num_bytes)
    return total


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
    data = read_range(path, start, end)
    try:
        text = data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: byte {data[error.start]:#04x} at offset {start + error.start:,} is not "
            'valid UTF-8; pass errors="replace" to read such bytes as U+FFFD'
        ) from None
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


def check_input_file(input_path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that holds something.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a directory, or it is empty.
    """
    path = Path(input_path)
    if path.is_dir():
        raise ValueError(f"input_path {str(path)!r} is a directory: name a text file")
    if not path.exists():
        raise FileNotFoundError(f"input_path {str(path)!r} does not exist")
    if path.stat().st_size == 0:
        raise ValueError(f"input_path {str(path)!r} is empty: there is nothing to train on")
    return path
