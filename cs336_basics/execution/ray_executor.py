"""RayExecutor: run a job in the tasks of a Ray cluster. Ray is imported on first use.

A task runs the job on one piece, which it reads from storage that all machines can access. Only
partial results are sent over the network.

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
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from cs336_basics._support.errors import InputError, RunError
from cs336_basics._support.lazy import needed_for
from cs336_basics._support.messages import short_repr
from cs336_basics.execution.base import Executor, ignore
from cs336_basics.execution.jobs import Job, Partial, Piece, Reduction, unpickled
from cs336_basics.execution.workers import resolve_num_workers

if TYPE_CHECKING:
    from ray import ObjectRef

RETRIES = 3
"""Number of times that Ray restarts a task if its worker or machine dies."""

LONGEST_SILENCE = 3.0
"""Seconds to wait for an answer from the head node, or for a CPU, before raising an error.

Disconnecting from a lost head node takes another five seconds.
"""

_POLL = 0.5
_FAN_IN = 8
"""Number of partial results that a task combines."""

Item = TypeVar("Item")
Kept = TypeVar("Kept")


class RayExecutor(Executor):
    """Runs jobs in Ray tasks, a limited number at a time.

    Unlike other executors, this one calls `done` as soon as a task ends, in any order, and does not
    wait for a slow piece before it starts others: results stay on the machines until it is their
    turn.

    Args:
        num_workers: Number of tasks that run at the same time. Defaults to the number of CPUs in
            the cluster.
        address: See `ray_cluster`.
    """

    def __init__(self, num_workers: int | None = None, address: str | None = None) -> None:
        if num_workers is not None:
            resolve_num_workers(num_workers)  # checks the argument
        self._num_workers = num_workers
        self._address = address

    def _run(
        self, job: Job[Piece, Partial], pieces: Iterable[Piece], done: Callable[[Piece], object]
    ) -> Generator[Partial, None, None]:
        pieces = list(pieces)
        if not pieces:
            return
        with ray_cluster(self._address) as ray:
            tasks = _Tasks(ray, job)
            ended: dict[int, ObjectRef[Any]] = {}
            number = 0
            for ended_number, partial in tasks.run(pieces, self._num_workers, done):
                ended[ended_number] = partial
                while number in ended:
                    yield tasks.fetch(ended.pop(number))
                    number += 1

    def reduce(
        self,
        job: Reduction[Piece, Partial],
        pieces: Iterable[Piece],
        done: Callable[[Piece], object] = ignore,
    ) -> Partial:
        """Return the combined result of all pieces.

        Results are combined in a tree, eight at a time, on the machines that store them, so this
        process receives only the last one.
        """
        pieces = list(pieces)
        if not pieces:
            return job.combine(())
        with ray_cluster(self._address) as ray:
            tasks = _Tasks(ray, job)
            # Results by level and index. Result i of one level combines the results 8 i to 8 i + 7
            # of the level below; the results of pieces are level 0.
            results: dict[tuple[int, int], ObjectRef[Any]] = {}
            for number, partial in tasks.run(pieces, self._num_workers, done):
                level, index = 0, number
                results[level, index] = partial
                while True:
                    start = index - index % _FAN_IN
                    group = [(level, i) for i in range(start, start + _FAN_IN)]
                    if not all(map(results.__contains__, group)):
                        break
                    level, index = level + 1, index // _FAN_IN
                    results[level, index] = tasks.combine(*map(results.pop, group))
            in_order = sorted(results, key=lambda place: place[1] * _FAN_IN ** place[0])
            rest = [results[place] for place in in_order]
            del results
            while len(rest) > 1:
                rest = [tasks.combine(*rest[:_FAN_IN]), *rest[_FAN_IN:]]
            result: Partial = tasks.fetch(rest[0])
            return result


class _Tasks:
    """The tasks of a job on a cluster."""

    def __init__(self, ray: Any, job: object) -> None:
        self._ray = ray
        self._name = type(job).__name__
        self._call = ray.remote(max_retries=RETRIES)(_call)
        self._job = ray.put(ray.cloudpickle.dumps(job))

    def run(
        self, pieces: list[Piece], num_workers: int | None, done: Callable[[Piece], object]
    ) -> Iterator[tuple[int, ObjectRef[Any]]]:
        """Run the job on each piece. As tasks end, yield their pieces' indices and results."""
        # Each task has two results. The partial result stays on the task's machine; this process
        # receives only the second one, an empty one, when the task ends.
        task = self._call.options(num_returns=2, name=self._name)

        def start(number: int) -> tuple[ObjectRef[Any], tuple[int, ObjectRef[Any]]]:
            partial, end = task.remote(_run, self._job, pieces[number])
            return end, (number, partial)

        for (number, partial), _ in run_tasks(self._ray, range(len(pieces)), start, num_workers):
            done(pieces[number])
            yield number, partial

    def combine(self, *partials: ObjectRef[Any]) -> ObjectRef[Any]:
        """Start a task that combines partial results."""
        combined: ObjectRef[Any] = self._call.remote(_combine, self._job, *partials)
        return combined

    def fetch(self, result: ObjectRef[Any]) -> Any:
        """Return a result. RunError is raised if the cluster is lost in the meantime."""
        return next(run_tasks(self._ray, [result], lambda task: (task, None), 1))[1]


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function. All Ray tasks run `_call`.

    Ray sends a function to the head node before its first task. If the head node is lost, sending
    blocks for a minute, so no other function may be sent later.
    """
    return function(*arguments)


def _run(pickled: bytes, piece: Any) -> tuple[Any, None]:
    return unpickled(pickled).run(piece), None


def _combine(pickled: bytes, *partials: Any) -> Any:
    return unpickled(pickled).combine(partials)


@contextlib.contextmanager
def ray_cluster(address: str | None) -> Iterator[Any]:
    """Connect to a Ray cluster, and yield the `ray` module. Afterwards, disconnect.

    Args:
        address: `"auto"` joins the cluster on this machine, `"local"` starts one here, and
            `"ray://HOST:PORT"` connects as a client. By default, Ray chooses the cluster. If Ray is
            already initialized, the address is ignored and the connection stays open.

    Raises:
        ImportError: If Ray is not installed.
        InputError: If `address` is not an address.
        ConnectionError: If there is no cluster at `address`.
    """
    with needed_for("a cluster", "'cs336-basics[ray]' on every machine"):
        import ray
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        except ValueError as error:  # not an address
            raise InputError(
                f"must be an address, auto or local, got {short_repr(address)}",
                argument="ray_address",
            ) from error
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
        RunError: If all attempts to run a task fail, or the cluster is gone.
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
        RunError: If all attempts to run the task fail.
    """
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        # Not as_instanceof_cause(): its message is the traceback, and errno and filename are lost.
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise RunError(
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
        """Raise RunError if the head node does not answer or all CPUs are gone.

        Calls that follow a check within half a second do nothing.
        """
        if time.monotonic() - self._last_check < _POLL:
            return
        has_cpus = self._ask() > 0
        now = self._last_check = time.monotonic()
        if has_cpus:
            self._last_cpus = now
        elif self._last_cpus is not None and now - self._last_cpus >= LONGEST_SILENCE:
            raise RunError(
                "no machine in the Ray cluster has a CPU any more",
                remedy="start machines with `ray start --address ...`, then run the command again",
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
            raise RunError(
                f"the head node of the Ray cluster has not answered for {LONGEST_SILENCE:.0f} s",
                remedy="start it again, then run the command again",
            )
        return answers[0]
