"""The Ray backend, which counts words on a cluster and returns the same counts as other backends.

Each Ray task counts one chunk of the corpus. It reads the chunk from storage that all machines can
access: a shared file system or any URL that fsspec can open. Only counts are sent over the network.
Counts are added in a tree, eight at a time, on the machines that store them, so the driver never
receives the counts of all chunks.

Ray repeats a task if its worker or machine dies. Ray is imported on first use.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.progress import byte_bar
from cs336_basics.pretokenization.counting.count_texts import count_chunk
from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.counting.word_counts import WordCounts
from cs336_basics.pretokenization.reading.corpus import (
    DEFAULT_CHUNK_SIZE,
    Chunk,
    Corpus,
    PathsLike,
    check_errors,
)
from cs336_basics.pretokenization.reading.storage import is_url
from cs336_basics.pretokenization.reading.text_changes import TextChanges
from cs336_basics.pretokenization.splitter import Splitter

if TYPE_CHECKING:
    from ray import ObjectRef

_FAN_IN = 8
_RETRIES = 3


def count_words_ray(
    corpus: Corpus | PathsLike,
    splitter: Splitter | None = None,
    *,
    num_workers: int | None = None,
    chunk_size: int | None = None,
    progress: bool = False,
    address: str | None = None,
) -> WordCounts:
    """Count the pre-tokens of files with Ray tasks.

    Args:
        corpus, splitter, progress: See `count_words`. The files must have the same paths on all
            machines.
        num_workers: Number of tasks that run at the same time. Defaults to the number of CPUs in
            the cluster.
        chunk_size: Number of bytes in a chunk. Defaults to 32 MiB.
        address: `"auto"` joins the cluster on this machine, `"local"` starts one here, and
            `"ray://HOST:PORT"` connects as a client. By default, Ray chooses the cluster. The
            address is ignored if Ray is already initialized.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If there is no cluster at `address`.
        RuntimeError: If all attempts to count a chunk failed.
        Exception: Any exception that a task raises; see `count_words`.
    """
    try:
        import ray
    except ImportError:
        raise ImportError(
            "backend 'ray' needs Ray; run pip install 'cs336-basics[ray]' on every machine"
        ) from None

    corpus = Corpus.of(corpus)
    check_errors(corpus.errors)
    splitter = Splitter.of(splitter)
    chunk_size = DEFAULT_CHUNK_SIZE if chunk_size is None else chunk_size
    checked_integer("chunk_size", chunk_size, 1, note=" byte")
    if num_workers is not None:
        resolve_num_workers(num_workers)  # checks the argument
    chunks = [_with_absolute_path(chunk) for chunk in corpus.chunks(chunk_size)]
    if not chunks:
        raise ValueError(f"{', '.join(corpus.files[:3])}: no text; pass a file that contains text")

    started = not ray.is_initialized()
    if started:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    try:
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        in_flight = num_workers or max(1, int(resources.get("CPU", 1)))
        return _count(ray, chunks, splitter, in_flight, progress)
    finally:
        if started:
            ray.shutdown()


def _count(
    ray: Any, chunks: list[Chunk], splitter: Splitter, in_flight: int, progress: bool
) -> WordCounts:
    # Each task has two results. The counts stay on the task's machine; the driver receives the size
    # and the changes when the task ends.
    count_task = ray.remote(max_retries=_RETRIES, num_returns=2)(_count_chunk)
    add_task = ray.remote(max_retries=_RETRIES)(_add)
    waiting = list(reversed(chunks))
    running: dict[ObjectRef[Any], ObjectRef[Any]] = {}  # (size, changes) -> counts
    changes = TextChanges()
    # sums[k] contains sums of 8^k chunks. Eight sums of one level become one sum of the next level.
    sums: dict[int, list[ObjectRef[Any]]] = {0: []}
    num_bytes = sum(chunk.num_bytes for chunk in chunks)
    with byte_bar(progress, num_bytes, "counting words over Ray") as bar:
        # After an error, running tasks are left to finish their chunks. Cancelling a task that is
        # about to end would make Ray abort this process (ray-project/ray#54798).
        while waiting or running:
            while waiting and len(running) < in_flight:
                counts, size = count_task.remote(waiting.pop(), splitter)
                running[size] = counts
            done, _ = ray.wait(list(running), timeout=0.5)
            for size in done:
                num_counted, found = _get(ray, size)
                bar.update(num_counted)
                changes.add(found)
                sums[0].append(running.pop(size))
                _add_up(sums, add_task)
        rest = [counts for level in sums.values() for counts in level]
        while len(rest) > 1:
            rest = [add_task.remote(*rest[:_FAN_IN]), *rest[_FAN_IN:]]
        total: WordCounts = _get(ray, rest[0])
    changes.warn(splitter.pattern, "counted")
    return total


def _add_up(sums: dict[int, list[ObjectRef[Any]]], add_task: Any) -> None:
    """Replace eight sums of one level with one sum of the next level, as often as possible."""
    level = 0
    while len(sums[level]) >= _FAN_IN:
        total = add_task.remote(*sums[level][:_FAN_IN])
        del sums[level][:_FAN_IN]
        level += 1
        sums.setdefault(level, []).append(total)


def _get(ray: Any, task: ObjectRef[Any]) -> Any:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from error
    except ray.exceptions.RayError as error:
        raise RuntimeError(
            f"a task failed {_RETRIES + 1} times because its workers died or ran out of memory: "
            f"{error}"
        ) from error


def _count_chunk(chunk: Chunk, splitter: Splitter) -> tuple[WordCounts, tuple[int, TextChanges]]:
    counts, num_bytes, changes = count_chunk(chunk, splitter)
    if not isinstance(counts, WordCounts):
        counts = WordCounts.from_mapping(counts, splitter.pattern, splitter.special_tokens)
    return counts, (num_bytes, changes)


def _add(*addends: WordCounts) -> WordCounts:
    return WordCounts.combined(addends)


def _with_absolute_path(chunk: Chunk) -> Chunk:
    """Return a chunk with an absolute path, because tasks may run in another directory."""
    if is_url(chunk.path):
        return chunk
    return dataclasses.replace(chunk, path=os.path.abspath(chunk.path))
