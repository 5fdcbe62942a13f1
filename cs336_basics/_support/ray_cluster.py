"""Run tasks on a Ray cluster, a limited number at a time. Ray is imported on first use.

Ray restarts a task if its worker or machine dies. If the head node or all CPUs are gone, Ray
itself would wait or end this process. Instead, this module raises an error after LONGEST_SILENCE
seconds.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from cs336_basics._support.lazy import needed_for

RETRIES = 3
"""Number of times that Ray restarts a task if its worker or machine dies."""

LONGEST_SILENCE = 3.0
"""Seconds to wait for an answer from the head node, or for a CPU, before raising an error.

Disconnecting from a lost head node takes another five seconds.
"""

_POLL = 0.5

Item = TypeVar("Item")
Kept = TypeVar("Kept")


@contextlib.contextmanager
def ray_cluster(address: str | None) -> Iterator[Any]:
    """Connect to a Ray cluster, and yield the `ray` module. Afterwards, disconnect.

    Args:
        address: `"auto"` joins the cluster on this machine, `"local"` starts one here, and
            `"ray://HOST:PORT"` connects as a client. By default, Ray chooses the cluster. If Ray is
            already initialized, the address is ignored and the connection stays open.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If there is no cluster at `address`.
    """
    with needed_for("a cluster", "'cs336-basics[ray]' on every machine"):
        import ray
    started = not ray.is_initialized()
    if started:
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()


def run_tasks(
    ray: Any,
    items: Iterable[Item],
    start: Callable[[Item], tuple[Any, Kept]],
    num_workers: int | None,
) -> Iterator[tuple[Kept, Any]]:
    """Start a task for each item. As each task ends, yield its kept value and its result.

    After an error, running tasks are left to finish. Cancelling a task that is about to end would
    make Ray abort this process (ray-project/ray#54798).

    Args:
        ray: The `ray` module, connected to a cluster.
        items: Arguments of `start`, read as tasks are started.
        start: Function that starts a task. It returns the task's ObjectRef and a value to keep
            until the task ends.
        num_workers: Number of tasks to run at a time. Defaults to the number of CPUs in the
            cluster.

    Raises:
        Exception: Any exception that a task raises.
        RuntimeError: If all attempts to run a task fail, or the cluster is gone.
    """
    watch = _Watch(ray)
    most = num_workers or max(1, int(watch.num_cpus))
    waiting = iter(items)
    running: dict[Any, Kept] = {}
    while True:
        for item in itertools.islice(waiting, most - len(running)):
            task, kept = start(item)
            running[task] = kept
        if not running:
            return
        done, _ = ray.wait(list(running), timeout=_POLL)
        watch.check()
        for task in done:
            yield running.pop(task), result_of(ray, task)


def result_of(ray: Any, task: Any) -> Any:
    """Return the result of a task.

    Raises:
        Exception: The exception that the task raised.
        RuntimeError: If all attempts to run the task fail.
    """
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        # Not as_instanceof_cause(): its message is the traceback, and errno and filename are lost.
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise RuntimeError(
            f"a task failed {RETRIES + 1} times because its workers died or ran out of memory: "
            f"{error}"
        ) from error


class _Watch:
    """A check that the head node answers and that the cluster has a CPU.

    A cluster that never had a CPU is accepted, because it may be about to start its first machine.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.num_cpus = self._ask()
        self._last_check = time.monotonic()
        self._last_cpus = self._last_check if self.num_cpus else None

    def check(self) -> None:
        """Raise RuntimeError if the head node does not answer or all CPUs are gone.

        Calls that follow a check within half a second do nothing.
        """
        if time.monotonic() - self._last_check < _POLL:
            return
        has_cpus = self._ask() > 0
        now = self._last_check = time.monotonic()
        if has_cpus:
            self._last_cpus = now
        elif self._last_cpus is not None and now - self._last_cpus >= LONGEST_SILENCE:
            raise RuntimeError(
                "no machine in the Ray cluster has a CPU any more; start machines with "
                "`ray start --address ...`, then run the command again"
            )

    def _ask(self) -> float:
        """Return the number of CPUs in the cluster."""
        # Without its head node, Ray answers late or not at all, so ask in another thread.
        answers: list[float] = []

        def ask() -> None:
            with contextlib.suppress(Exception):  # treated as no answer
                answers.append(self._ray.cluster_resources().get("CPU", 0))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(LONGEST_SILENCE)
        if not answers:
            raise RuntimeError(
                f"the head node of the Ray cluster has not answered for {LONGEST_SILENCE:.0f} s; "
                "start it again, then run the command again"
            )
        return answers[0]
