"""Worker processes that return results in order, using bounded memory."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from cs336_basics._support.errors import Argument, RunError
from cs336_basics._support.processes import end_with_parent

if TYPE_CHECKING:
    from concurrent.futures import Future

Result = TypeVar("Result")


def map_ordered(
    function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], num_workers: int
) -> Iterator[Result]:
    """Yield `function(*args)` for each item of `arguments`, in order.

    With one worker, the function runs in this process. With more, loky starts worker processes.
    loky does not fork, because forking a process with threads is unsafe. Unlike
    `multiprocessing`, loky does not need `if __name__ == "__main__"` in the caller's script.
    `arguments` is read only a few items ahead of the results, which limits memory use.

    Args:
        function: Function defined at the top level of a module.
        arguments: Tuples of positional arguments. Arguments and results are pickled.
        num_workers: Number of processes.

    Raises:
        RunError: If a worker process was killed or ran out of memory. The error is raised
            immediately.
        Exception: Any exception that `function` raises.
    """
    if num_workers == 1:
        for args in arguments:
            yield function(*args)
        return

    from loky import ProcessPoolExecutor
    from loky.process_executor import TerminatedWorkerError

    executor = ProcessPoolExecutor(max_workers=num_workers, initializer=end_with_parent)
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
        raise RunError(
            f"one of {num_workers} worker processes was killed or ran out of memory ({error})",
            remedy=("try ", Argument("num_workers", max(1, num_workers // 2))),
        ) from error
    finally:
        # After an error, or if the caller stops early, kill the workers instead of waiting.
        executor.shutdown(wait=True, kill_workers=not finished)
