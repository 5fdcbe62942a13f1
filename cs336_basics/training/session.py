"""Parts of a training session: the handling of stop signals, the clock and the progress display."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from tqdm import tqdm

_SECONDS_BETWEEN_LINES = 10.0  # between progress lines if there is no terminal


class TrainingInterrupted(Exception):  # noqa: N818 -- an interruption is not an error
    """Raised after Ctrl-C, SIGTERM or SIGHUP. The run was saved and can be resumed."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} after step {step}")
        self.signal_number = signal_number
        self.step = step


class StopSignals:
    """Context manager that records the first Ctrl-C, SIGTERM or SIGHUP for the training loop.

    SIGHUP means that the terminal is gone, for example because an SSH session was lost. It stays
    ignored if it was, as under nohup.

    A second Ctrl-C has its usual effect, in case a step takes too long. A second SIGTERM has no
    effect: when a scheduler sends SIGTERM to all processes of a job, torchrun forwards it once more
    to processes that may already be saving a checkpoint.

    Args:
        ignores_late: Whether SIGTERM has no effect after an error, either. When a process is lost,
            torchrun sends SIGTERM to the others, which would end them before they have said why.
    """

    def __init__(self, ignores_late: bool = False) -> None:
        self._ignores_late = ignores_late
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        # Only the main thread can set handlers.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._record)
            hangup = getattr(signal, "SIGHUP", None)  # Windows has none
            if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
                self._before[hangup] = signal.signal(hangup, self._record)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._ignores_late:
            self._before.pop(signal.SIGTERM, None)
        self._restore(*self._before)
        self.signal_number = None

    def _record(self, number: int, _frame: FrameType | None) -> None:
        if self.signal_number is None:
            self.signal_number = number
        self._restore(signal.SIGINT)

    def _restore(self, *numbers: int) -> None:
        for number in numbers:
            before = self._before.pop(number, None)
            if before is not None:
                signal.signal(number, before)


class Clock:
    """Measures the total time of a run, and the time of its steps alone.

    Args:
        seconds_before: Wall-clock time of the run's earlier sessions.
    """

    def __init__(self, seconds_before: float) -> None:
        self._origin = time.perf_counter() - seconds_before
        self._started = self._in_steps = 0.0
        self._steps = 0

    def start_step(self) -> None:
        """Start timing a step."""
        self._started = time.perf_counter()

    def end_step(self) -> None:
        """Stop timing a step."""
        self._in_steps += time.perf_counter() - self._started
        self._steps += 1

    def seconds(self) -> float:
        """Return the wall-clock time of the run, including earlier sessions."""
        return round(time.perf_counter() - self._origin, 3)

    def seconds_per_step(self) -> float:
        """Return the mean time per step since the last call."""
        mean = self._in_steps / self._steps
        self._in_steps, self._steps = 0.0, 0
        return max(mean, 1e-9)


class Progress:
    """Shows a progress bar on a terminal. Without a terminal, reports a line every few seconds.

    Args:
        step: Number of steps taken before this session.
        max_steps: Number of steps in the complete run.
        report: Callback invoked with each line.
        is_first: Whether this process shows progress.
    """

    def __init__(
        self, step: int, max_steps: int, report: Callable[[str], None], is_first: bool
    ) -> None:
        self._report = report
        self._max_steps = max_steps
        self._has_bar = is_first and sys.stderr.isatty()
        self._last_line = time.perf_counter()
        self._bar = tqdm(initial=step, total=max_steps, unit="step", disable=not self._has_bar)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def update(self) -> None:
        """Count a step."""
        self._bar.update()

    def show(self, row: dict[str, Any]) -> None:
        """Show the loss and speed in a row of metrics."""
        loss, speed = f"{row['train_loss']:.3f}", f"{row['tokens_per_second']:,.0f}"
        self._bar.set_postfix_str(f"loss {loss}, {speed} tokens/s", refresh=False)
        now = time.perf_counter()
        if not self._has_bar and now - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = now
            tokens_left = (self._max_steps - row["step"]) * row["tokens"] / row["step"]
            self._report(
                f"step {row['step']}/{self._max_steps}: loss {loss}, {speed} tokens/s, "
                f"{tokens_left / row['tokens_per_second']:,.0f} s left"
            )
