"""Executors: run a job in this process, in threads, in worker processes, or on Ray."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import check_choice
from cs336_basics._support.errors import Argument, RunError
from cs336_basics._support.processes import end_with_parent
from cs336_basics.execution.base import Executor
from cs336_basics.execution.jobs import Job, Partial, Piece, unpickled
from cs336_basics.execution.workers import resolve_num_workers

if TYPE_CHECKING:
    from concurrent.futures import Future

EXECUTORS = ("serial", "threads", "processes", "ray")
"""Names of the executors."""


def executor(
    name: str, num_workers: int | None = None, *, ray_address: str | None = None
) -> Executor:
    """Return an executor.

    Args:
        name: Name in EXECUTORS.
        num_workers: Number of threads, processes or Ray tasks that run at the same time. Defaults
            to all cores of this machine or cluster. `"serial"` uses one.
        ray_address: Ray cluster to connect to; see `ray_cluster`.

    Raises:
        ValueError: If the name is unknown, or `num_workers` is out of range.
        TypeError: If `num_workers` is not an int.
    """
    check_choice("execution", name, EXECUTORS)
    if name == "serial":
        return SerialExecutor()
    if name == "threads":
        return ThreadExecutor(resolve_num_workers(num_workers))
    if name == "processes":
        return ProcessExecutor(resolve_num_workers(num_workers))
    from cs336_basics.execution.ray_executor import RayExecutor

    return RayExecutor(num_workers, ray_address)


class SerialExecutor(Executor):
    """Runs jobs in the calling thread."""

    def _run(
        self, job: Job[Piece, Partial], pieces: Iterable[Piece], done: Callable[[Piece], object]
    ) -> Generator[Partial, None, None]:
        for piece in pieces:
            partial = job.run(piece)
            done(piece)
            yield partial


class ThreadExecutor(Executor):
    """Runs jobs that release the GIL, in threads.

    Even a single worker is a separate thread, so that the calling thread can handle Ctrl-C and
    consume results.
    """

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers

    def _run(
        self, job: Job[Piece, Partial], pieces: Iterable[Piece], done: Callable[[Piece], object]
    ) -> Generator[Partial, None, None]:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(self._num_workers)
        try:
            yield from _in_order(
                lambda piece: pool.submit(job.run, piece), pieces, self._num_workers, done
            )
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class ProcessExecutor(Executor):
    """Runs jobs in worker processes. With one worker or one piece, in this process.

    loky starts the processes. It does not fork, because forking a process with threads is unsafe.
    Unlike `multiprocessing`, it does not need `if __name__ == "__main__"` in the caller's script.
    If a worker is killed or runs out of memory, RunError is raised immediately.
    """

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers

    def _run(
        self, job: Job[Piece, Partial], pieces: Iterable[Piece], done: Callable[[Piece], object]
    ) -> Generator[Partial, None, None]:
        pieces = iter(pieces)
        first = list(itertools.islice(pieces, self._num_workers))
        num_workers = len(first)  # more would be idle
        pieces = itertools.chain(first, pieces)
        del first
        if num_workers <= 1:
            yield from SerialExecutor().map_ordered(job, pieces, done)
            return

        import pickle

        from loky import ProcessPoolExecutor
        from loky.process_executor import TerminatedWorkerError

        pool = ProcessPoolExecutor(
            num_workers, initializer=_start_worker, initargs=(pickle.dumps(job),)
        )
        finished = False
        try:
            yield from _in_order(
                lambda piece: pool.submit(_run_in_worker, piece), pieces, num_workers, done
            )
            finished = True
        except TerminatedWorkerError as error:
            raise RunError(
                f"one of {num_workers} worker processes was killed or ran out of memory ({error})",
                remedy=("try ", Argument("num_workers", max(1, num_workers // 2))),
            ) from error
        finally:
            # After an error, or if the caller stops early, kill the workers instead of waiting.
            pool.shutdown(wait=True, kill_workers=not finished)


def _in_order(
    submit: Callable[[Piece], Future[Partial]],
    pieces: Iterable[Piece],
    num_workers: int,
    done: Callable[[Piece], object],
) -> Generator[Partial, None, None]:
    """Submit the pieces, a few ahead of the results, and yield the results in order."""
    pending: collections.deque[tuple[Piece, Future[Partial]]] = collections.deque()

    def next_partial() -> Partial:
        piece, future = pending.popleft()
        partial = future.result()
        done(piece)
        return partial

    for piece in pieces:
        pending.append((piece, submit(piece)))
        if len(pending) > 2 * num_workers:
            yield next_partial()
    while pending:
        yield next_partial()


# ---------------------------------------------------------------- in a worker process

_pickled_job: bytes


def _start_worker(pickled: bytes) -> None:
    global _pickled_job
    end_with_parent()
    _pickled_job = pickled


def _run_in_worker(piece: Any) -> Any:
    return unpickled(_pickled_job).run(piece)
