"""Count words over a Ray cluster, where one machine is not enough.

The counts are those of `count_words`.

Every piece of the input (see `inputs.py`) is a Ray task that reads its part of a file by itself,
from storage that all machines see: a shared file system, or any URL that fsspec opens. Only counts
travel. They are added up in a tree, eight at a time, on the machines where they lie, so that
neither a machine's memory nor the driver's network sees all of them.

A task whose worker or machine dies is run again by Ray. Ray is imported when it is used.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cs336_basics._progress import byte_bar
from cs336_basics.pretokenization.counting import check_count_request
from cs336_basics.pretokenization.parallel import resolve_num_workers
from cs336_basics.pretokenization.readers import (
    DEFAULT_PIECE_SIZE,
    Piece,
    count_piece,
    cut_into_pieces,
)
from cs336_basics.pretokenization.word_counts import WordCounts, input_files

if TYPE_CHECKING:
    from ray import ObjectRef

_FAN_IN = 8
_RETRIES = 3


def count_words_ray(
    input_path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    special_tokens: Iterable[str] = (),
    *,
    pattern: str = "gpt2",
    num_workers: int | None = None,
    chunk_size: int | None = None,
    errors: str = "replace",
    progress: bool = False,
    field: str | None = None,
    column: str | None = None,
    address: str | None = None,
) -> WordCounts:
    """Count the pre-tokens of files with Ray tasks.

    Args:
        input_path: files, patterns or URLs (`s3://bucket/part-00.txt`), seen alike by all machines.
        special_tokens, pattern, errors, progress, field, column: as for `count_words`.
        num_workers: tasks in flight at a time, None = the number of CPUs of the cluster.
        chunk_size: bytes of a piece, None = 32 MiB.
        address: `"auto"` joins the cluster that runs on this machine, `"local"` starts one here,
            `"ray://HOST:PORT"` is a client's connection; None uses what `ray.init` has been called
            with, else as Ray decides.

    Raises:
        ImportError: Ray is not installed; names the command that installs it.
        ConnectionError: there is no cluster at `address`.
        RuntimeError: a piece failed on every try.
        What `count_words` raises, from the task in which it happened.
    """
    try:
        import ray
    except ImportError:
        raise ImportError(
            "counting over Ray needs Ray: pip install 'cs336-basics[ray]', on every machine"
        ) from None

    chunk_size = DEFAULT_PIECE_SIZE if chunk_size is None else chunk_size
    tokens = check_count_request(special_tokens, pattern, errors, chunk_size)
    if num_workers is not None:
        resolve_num_workers(num_workers)  # for its error
    urls = [path for path in _several(input_path) if "://" in os.fspath(path)]
    files = input_files(path for path in _several(input_path) if path not in urls)
    # Tasks may start in another directory.
    names = [os.fspath(url) for url in urls] + [os.path.abspath(file) for file in files]
    pieces = cut_into_pieces(names, field=field, column=column, piece_size=chunk_size)
    if not pieces:
        raise ValueError(f"input_path {input_path!r} is empty: there is nothing to train on")

    started = not ray.is_initialized()
    if started:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    try:
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        in_flight = num_workers or max(1, int(resources.get("CPU", 1)))
        return _count(ray, pieces, (tokens, pattern, errors, field, column), in_flight, progress)
    finally:
        if started:
            ray.shutdown()


def _count(
    ray: Any, pieces: list[Piece], request: tuple[Any, ...], in_flight: int, progress: bool
) -> WordCounts:
    # Two results: the counts stay where they were made, the size tells the driver of the end.
    count_task = ray.remote(max_retries=_RETRIES, num_returns=2)(_count_piece)
    add_task = ray.remote(max_retries=_RETRIES)(_add)
    waiting = list(reversed(pieces))
    running: dict[ObjectRef[Any], ObjectRef[Any]] = {}  # size -> counts
    # parts[k]: sums of 8^k pieces; eight of a level become one of the next.
    parts: dict[int, list[ObjectRef[Any]]] = {0: []}
    num_bytes = sum(piece.num_bytes for piece in pieces)
    with byte_bar(progress, num_bytes, "counting words over Ray") as bar:
        # After an error, what runs is left to end by itself, a piece for each core: cancelling a
        # task that is just ending makes Ray abort this process (ray-project/ray#54798).
        while waiting or running:
            while waiting and len(running) < in_flight:
                counts, size = count_task.remote(waiting.pop(), *request)
                running[size] = counts
            done, _ = ray.wait(list(running), timeout=0.5)
            for size in done:
                bar.update(_get(ray, size))
                parts[0].append(running.pop(size))
                _add_up(parts, add_task)
        rest = [part for level in parts.values() for part in level]
        while len(rest) > 1:
            rest = [add_task.remote(*rest[:_FAN_IN]), *rest[_FAN_IN:]]
        total: WordCounts = _get(ray, rest[0])
        return total


def _add_up(parts: dict[int, list[ObjectRef[Any]]], add_task: Any) -> None:
    """Replace every eight sums of a level by one of the next."""
    level = 0
    while len(parts[level]) >= _FAN_IN:
        total = add_task.remote(*parts[level][:_FAN_IN])
        del parts[level][:_FAN_IN]
        level += 1
        parts.setdefault(level, []).append(total)


def _get(ray: Any, task: ObjectRef[Any]) -> Any:
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from error
    except ray.exceptions.RayError as error:
        raise RuntimeError(
            f"a task failed on {_RETRIES + 1} tries, its workers died or ran out of memory: {error}"
        ) from error


def _count_piece(piece: Piece, *request: Any) -> tuple[WordCounts, int]:
    counts, num_bytes = count_piece(piece, *request)
    if not isinstance(counts, WordCounts):
        counts = WordCounts.from_mapping(counts, request[1], request[0])
    return counts, num_bytes


def _add(*parts: WordCounts) -> WordCounts:
    return WordCounts.combined(parts)


def _several(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[str | os.PathLike[str]]:
    return [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
