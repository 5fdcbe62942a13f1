"""The Ray backend, which counts words on a cluster and returns the same counts as other backends.

Each Ray task counts one chunk of the corpus. It reads the chunk from storage that all machines can
access: a shared file system or any URL that fsspec can open. Only counts are sent over the network.
Counts are added in a tree, eight at a time, on the machines that store them, so the driver never
receives the counts of all chunks.

A directory of partial counts has two files for each chunk that was counted: its counts, and the
changes that reading made to its text. Both files are named after a hash of everything that
determines the counts. A later run loads the files instead of counting the chunk again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import write_json
from cs336_basics._support.progress import byte_bar
from cs336_basics._support.reading import parse_json
from cs336_basics._support.urls import downloaded, is_url, names_in, uploaded
from cs336_basics.counting.count_texts import count_chunk
from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.execution.ray_executor import RETRIES, ray_cluster, run_tasks
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.splitting.reference import unicode_version
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.corpus import (
    DEFAULT_CHUNK_SIZE,
    Chunk,
    Corpus,
    PathsLike,
    check_errors,
)
from cs336_basics.text.storage import state_of
from cs336_basics.text.text_changes import TextChanges

if TYPE_CHECKING:
    from ray import ObjectRef

LARGE_CHUNK_SIZE = 1 << 30
"""Default number of bytes in a chunk if its counts are kept (33 MB per chunk of web text)."""

_FAN_IN = 8


def count_words_ray(
    corpus: Corpus | PathsLike,
    splitter: Splitter | None = None,
    *,
    num_workers: int | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
    address: str | None = None,
    partial_counts: str | os.PathLike[str] | None = None,
) -> WordCounts:
    """Count the pre-tokens of files with Ray tasks.

    Args:
        corpus, splitter, progress: See `count_words`. The files must have the same paths on all
            machines.
        num_workers: Number of tasks that run at the same time. Defaults to the number of CPUs in
            the cluster.
        chunk_size: Number of bytes in a chunk. Defaults to 32 MiB, or to 1 GiB with
            `partial_counts`.
        address: See `ray_cluster`.
        partial_counts: Directory that all machines share, created if it is missing, or the URL of a
            folder in an object store. The counts of each chunk are kept there, and a later run with
            the same files, chunk size, pattern and special tokens does not count these chunks
            again. Nothing is kept by default.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If there is no cluster at `address`.
        RuntimeError: If all attempts to count a chunk failed, the head node does not answer, or no
            CPU is left.
        OSError: If the counts of a chunk cannot be written.
        Exception: Any exception that a task raises; see `count_words`.
    """
    corpus = Corpus.of(corpus)
    check_errors(corpus.errors)
    splitter = Splitter.of(splitter)
    if chunk_size is None:
        chunk_size = DEFAULT_CHUNK_SIZE if partial_counts is None else LARGE_CHUNK_SIZE
    if num_workers is not None:
        resolve_num_workers(num_workers)  # checks the argument
    chunks = corpus.absolute().chunks(chunk_size)
    if not chunks:
        raise InputError(f"{', '.join(corpus.files[:3])}: no text; pass a file that contains text")
    folder = None
    if partial_counts is not None:
        folder = os.fspath(partial_counts).rstrip("/") or "/"
        if is_url(folder):
            names_in(folder)  # reports errors before the work starts
        else:
            folder = os.path.abspath(folder)
            os.makedirs(folder, exist_ok=True)
    with ray_cluster(address) as ray:
        return _count(ray, chunks, splitter, num_workers, progress, folder)


def _count(
    ray: Any,
    chunks: list[Chunk],
    splitter: Splitter,
    num_workers: int | None,
    progress: bool,
    folder: str | None,
) -> WordCounts:
    # Each task has two results. The counts stay on the task's machine; the driver receives the size
    # and the changes when the task ends.
    task = ray.remote(max_retries=RETRIES)(_call)

    def start(
        numbered: tuple[int, Chunk],
    ) -> tuple[ObjectRef[Any], tuple[int, ObjectRef[Any]]]:
        number, chunk = numbered
        counts, size = task.options(num_returns=2, name="_count_chunk").remote(
            _count_chunk, chunk, splitter, folder
        )
        return size, (number, counts)

    changes: dict[int, TextChanges] = {}
    # sums[k] contains sums of 8^k chunks. Eight sums of one level become one sum of the next level.
    sums: dict[int, list[ObjectRef[Any]]] = {0: []}
    num_bytes = sum(chunk.num_bytes for chunk in chunks)
    with byte_bar(progress, num_bytes, "counting words over Ray") as bar:
        for (number, counts), (num_counted, found) in run_tasks(
            ray, enumerate(chunks), start, num_workers
        ):
            bar.update(num_counted)
            changes[number] = found
            sums[0].append(counts)
            _add_up(sums, task)
    rest = [counts for level in sums.values() for counts in level]
    while len(rest) > 1:
        rest = [task.remote(_add, *rest[:_FAN_IN]), *rest[_FAN_IN:]]
    # `run_tasks` also watches this last task, and raises an error if the cluster is lost.
    total: WordCounts = next(run_tasks(ray, rest, lambda last: (last, None), 1))[1]
    all_changes = TextChanges()
    for number in range(len(chunks)):  # in the order of the corpus, as on one machine
        all_changes.add(changes[number])
    all_changes.warn(splitter.pattern, "counted")
    return total


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function. All Ray tasks run `_call`.

    Ray sends a function to the head node before its first task. If the head node is lost, sending
    blocks for a minute, so no other function may be sent later.
    """
    return function(*arguments)


def _add_up(sums: dict[int, list[ObjectRef[Any]]], task: Any) -> None:
    """Replace eight sums of one level with one sum of the next level, as often as possible."""
    level = 0
    while len(sums[level]) >= _FAN_IN:
        total = task.remote(_add, *sums[level][:_FAN_IN])
        del sums[level][:_FAN_IN]
        level += 1
        sums.setdefault(level, []).append(total)


def _count_chunk(
    chunk: Chunk, splitter: Splitter, folder: str | None
) -> tuple[WordCounts, tuple[int, TextChanges]]:
    path = None if folder is None else f"{folder}/{_key(chunk, splitter)}"
    if path is not None and (kept := _load(path)) is not None:
        return kept[0], (chunk.num_bytes, kept[1])
    counts, num_bytes, changes = count_chunk(chunk, splitter)
    if path is not None:
        # The counts are written last. If their file exists, the changes are therefore complete.
        with uploaded(f"{path}.json") as file:
            write_json(file, changes.as_json())
        with uploaded(f"{path}.npz") as file:
            counts.save(file)
    return counts, (num_bytes, changes)


def _load(path: str) -> tuple[WordCounts, TextChanges] | None:
    """Return the kept counts and changes of a chunk, or None if they are missing or damaged."""
    try:
        with downloaded(f"{path}.npz") as file:
            counts = WordCounts.load(file)
        with downloaded(f"{path}.json") as file:
            return counts, TextChanges.from_json(parse_json(file.read_bytes(), file))
    except (FileNotFoundError, ValueError):
        return None


def _key(chunk: Chunk, splitter: Splitter) -> str:
    """Return a hash of everything that determines the counts of a chunk."""
    text = [*vars(chunk).values(), *state_of(chunk.path)]
    rules = [splitter.expression, sorted(splitter.special_tokens), unicode_version()]
    return hashlib.sha256(json.dumps([text, rules]).encode()).hexdigest()[:32]


def _add(*addends: WordCounts) -> WordCounts:
    return WordCounts.combined(addends)
