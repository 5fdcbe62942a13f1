"""Run the cases of a row in another process, which may crash or hang."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import signal
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.campaign.row import Row, all_rows

LoadRows = Callable[[], dict[str, Row]]

MOST_FAILURES = 5
"""A row ends after this number of failures."""

STARTING = 60.0
"""Maximum number of seconds for a process to start and import the rows, before its first case."""

OVERTIME = 60.0
"""Seconds that a case may continue after the time of its row. Then it is ended, unfinished."""


@dataclasses.dataclass
class Result:
    """What a campaign found in a row.

    Attributes:
        row: Name of the row.
        seed: Seed of the campaign.
        cases: Number of cases that were checked without a failure.
        planned: Number of all cases of a finite row.
        checked: Number of things that these cases have checked.
        seconds: Wall-clock time.
        notes: Counts of things that are not failures.
        skipped: Reasons why cases did not run, with their numbers.
        unfinished: Number of cases that the end of the time has ended.
        failures: Numbers and messages of the cases that failed.
    """

    row: str
    seed: int
    cases: int = 0
    planned: int | None = None
    checked: int = 0
    seconds: float = 0.0
    notes: Counter[str] = dataclasses.field(default_factory=Counter)
    skipped: Counter[str] = dataclasses.field(default_factory=Counter)
    unfinished: int = 0
    failures: list[tuple[int, str]] = dataclasses.field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether all cases of a finite row were checked or skipped."""
        return self.planned == self.cases + self.skipped.total()


def repeat_command(row: str, seed: int, case: int) -> str:
    return f"python -m tests.campaign {row} --seed {seed} --case {case}"


def run_row(
    row: Row,
    seed: int,
    seconds: float,
    load: LoadRows = all_rows,
    stop: threading.Event | None = None,
) -> Result:
    """Check cases of a row, each once, for `seconds`, but at least one.

    Args:
        row: The row.
        seed: Seed of the campaign.
        seconds: Time for the row.
        load: Function that returns the rows by name in the other process.
        stop: Event that ends the row, within a second.
    """
    stop = stop or threading.Event()
    result = Result(row.name, seed, planned=row.num_cases())
    start = time.monotonic()
    first: int | None = 0
    try:
        while first is not None and len(result.failures) < MOST_FAILURES:
            left = seconds - (time.monotonic() - start)
            first = _run_process(row, result, first, left, load, stop)
    finally:
        result.seconds = time.monotonic() - start
    return result


def _run_process(
    row: Row, result: Result, first: int, seconds: float, load: LoadRows, stop: threading.Event
) -> int | None:
    """Check cases from `first` in a new process. Return the first case of the next process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.NamedTemporaryFile(prefix="campaign-", delete=False) as output:
        pass
    process = context.Process(
        target=_work, args=(sender, output.name, row.name, result.seed, first, seconds, load)
    )
    end = time.monotonic() + seconds + OVERTIME
    process.start()
    sender.close()
    number, started = first, time.monotonic() + STARTING
    try:
        while True:
            left = min(end, started + row.seconds) - time.monotonic()
            waiting = min(1, max(0, left))
            ready = multiprocessing.connection.wait([receiver, process.sentinel], waiting)
            message = None
            if stop.is_set():
                return None
            if not ready and waiting < left:
                continue
            if not ready:
                if time.monotonic() < started + row.seconds:
                    result.unfinished += 1
                    return None
                message = f"the case takes longer than {row.seconds:.0f} s"
            else:
                try:
                    # Its children may keep the pipe open after the process has ended.
                    kind, *fields = receiver.recv() if receiver.poll() else ("died",)
                except EOFError:
                    kind = "died"
                started = time.monotonic()
                if kind == "died":
                    process.join()
                    message = f"the process ended with exit status {process.exitcode}"
                    message = f"{_end_of(output.name)}{message}"
                elif kind == "end":
                    return None
                else:
                    number = _note(result, kind, fields)
                    if kind == "skipped" and row.cases is None:
                        return None  # the next random case would be skipped, too
            if message is not None:
                result.failures.append((number, message))
                is_last = number + 1 == result.planned or time.monotonic() + OVERTIME >= end
                return None if is_last else number + 1
    finally:
        _end(process)
        receiver.close()
        os.unlink(output.name)


def _note(result: Result, kind: str, fields: list[Any]) -> int:
    """Add a message of the process to the result. Return the number of the current case."""
    number = fields[0]
    if kind == "done":
        result.cases += 1
        result.checked += fields[1]
        result.notes += fields[2]  # drops zeros
    elif kind == "skipped":
        result.skipped[fields[1]] += 1
    elif kind == "failed":
        result.failures.append((number, fields[1]))
    return number if kind == "started" else number + 1


def _end_of(file: str) -> str:
    """Return the last lines that a process has printed."""
    with open(file, encoding="utf-8", errors="replace") as lines:
        return "".join(line.rstrip() + "\n" for line in lines.read()[-4000:].splitlines())


def _end(process: Any) -> None:
    """End a process and the processes that it has started."""
    process.join(0 if process.is_alive() else None)
    if hasattr(os, "killpg"):
        # The worker is the leader of its group as soon as it has called `setsid`.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _work(
    sender: Any,
    output: str,
    name: str,
    seed: int,
    first: int,
    seconds: float,
    load: Callable[[], dict[str, Row]],
) -> None:
    """Check cases and send what they find."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches only the campaign, which ends this process
    # Libraries print, such as the panics of tokenizers. What a case prints matters if it crashes.
    printed = os.open(output, os.O_WRONLY | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(printed, standard)
    os.close(printed)
    end = time.monotonic() + seconds
    row = load()[name]
    planned, number, failures = row.num_cases(), first, 0
    while planned is None or number < planned:
        sender.send(("started", number))
        try:
            checked, notes = row.run(seed, number)
        except pytest.skip.Exception as skipped:
            sender.send(("skipped", number, str(skipped)))
        except BaseException as error:
            text = "".join(traceback.format_exception(error))
            sender.send(("failed", number, text))
            failures += 1
        else:
            sender.send(("done", number, checked, notes))
        number += 1
        if time.monotonic() >= end or failures == MOST_FAILURES:
            break
    sender.send(("end",))
