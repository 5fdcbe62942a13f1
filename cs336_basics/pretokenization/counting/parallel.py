"""Run a function over many arguments in worker processes, in order and with bounded memory."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from cs336_basics._support.arguments import checked_integer

if TYPE_CHECKING:
    from concurrent.futures import Future

Result = TypeVar("Result")

MAX_WORKERS = 1 << 16
"""More threads or processes than any machine runs."""


def resolve_num_workers(num_workers: int | None) -> int:
    """Return the number of workers to use; None: one for each core that this process may use.

    Raises:
        ValueError: `num_workers` is smaller than one or greater than MAX_WORKERS.
        TypeError: `num_workers` is not an int.
    """
    if num_workers is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    return checked_integer("num_workers", num_workers, 1, MAX_WORKERS, ", or None (all cores)")


def map_ordered(
    function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], num_workers: int
) -> Iterator[Result]:
    """Yield `function(*args)` for each of `arguments`, in their order.

    With one worker, everything runs in this process. With more, loky starts new worker processes
    (it never forks a process that may have threads); unlike `multiprocessing`, it works without
    `if __name__ == "__main__"` in the caller's script. `arguments` is read only a few items ahead
    of the results, so memory holds only a few of either.

    Args:
        function: a function defined at the top level of a module.
        arguments: tuples of positional arguments. They and the results are pickled.
        num_workers: number of processes.

    Raises:
        RuntimeError: a worker process died (killed, or out of memory). It is raised at once, not
            after a time-out.
        Exception: what `function` raises.
    """
    if num_workers == 1:
        for args in arguments:
            yield function(*args)
        return

    from loky import ProcessPoolExecutor
    from loky.process_executor import TerminatedWorkerError

    executor = ProcessPoolExecutor(max_workers=num_workers)
    pending: collections.deque[Future[Result]] = collections.deque()
    finished = False
    try:
        for args in arguments:
            pending.append(executor.submit(function, *args))
            if len(pending) > 2 * num_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        finished = True
    except TerminatedWorkerError as error:
        raise RuntimeError(
            f"one of {num_workers} worker processes died (killed, or out of memory), and no result "
            f"was kept: try fewer workers (num_workers={max(1, num_workers // 2)}). {error}"
        ) from error
    finally:
        # After an error, or if the caller stops early, running tasks are killed, not awaited.
        executor.shutdown(wait=True, kill_workers=not finished)
