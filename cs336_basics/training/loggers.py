"""Loggers that send metrics to TensorBoard, Weights & Biases or trackio.

These packages are optional and are imported when used. A run also keeps its metrics in
metrics.jsonl, so an error in a logger only causes a warning.
"""

from __future__ import annotations

import importlib
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_reason
from cs336_basics._support.warnings import warn
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.config import LOGGERS

Settings = dict[str, Any]


class Logger:
    """Sends rows of metrics to a package until the first error, which it reports as a warning.

    Args:
        name: Key of LOGGERS.
        send: Callback invoked with a row's numbers, by name, and the row's step.
        finish: Callback invoked at the end to write any remaining rows.
    """

    def __init__(
        self, name: str, send: Callable[[dict[str, Any], int], Any], finish: Callable[[], Any]
    ) -> None:
        self._name, self._send, self._finish = name, send, finish
        self._failed = False

    def log(self, row: dict[str, Any]) -> None:
        """Log one row, which has a "step" and numbers by name."""
        numbers = {name: value for name, value in row.items() if name != "step"}
        if not self._failed:
            self._attempt(lambda: self._send(numbers, row["step"]))

    def close(self) -> None:
        """Write all rows that were logged before the first error, and close the logger."""
        self._attempt(self._finish)

    def _attempt(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:  # each package raises its own types
            if not self._failed:
                warn(f"{self._name} receives no more metrics: {_describe(error)}")
            self._failed = True


def check_loggers(names: Sequence[str]) -> None:
    """Check that the packages of these loggers are installed.

    Raises:
        ValueError: If a package is missing. The message includes the command to install it.
    """
    for name in names:
        try:
            importlib.import_module(LOGGERS[name])
        except ImportError as error:
            raise InputError(
                f"needs {name}, which is not installed ({error})",
                argument="log_to",
                remedy=f"run pip install 'cs336-basics[{name}]'",
            ) from error


def open_loggers(
    names: Sequence[str], run: RunDirectory, settings: Settings, step: int
) -> list[Logger]:
    """Open loggers for a run. A logger that cannot be started is left out, with a warning.

    Args:
        names: Keys of LOGGERS.
        run: The run directory.
        settings: The configuration as nested dictionaries, which some loggers show.
        step: Number of steps that the run has already taken.
    """
    loggers: list[Logger] = []
    for name in names:
        try:
            loggers.append(_open(name, run, settings, step))
        except Exception as error:  # each package raises its own types
            warn(f"{name} could not be started and receives no metrics: {_describe(error)}")
    return loggers


def _open(name: str, run: RunDirectory, settings: Settings, step: int) -> Logger:
    if name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        # A resumed run writes the rows after `step` again, so `purge_step` hides the old ones.
        writer: Any = SummaryWriter(
            str(run.path / "tensorboard"), purge_step=step + 1 if step else None
        )

        def add_scalars(numbers: dict[str, Any], step: int) -> None:
            for key, value in numbers.items():
                writer.add_scalar(key, value, step)

        return Logger(name, add_scalars, writer.close)
    module: Any = importlib.import_module(name)
    if name == "wandb":
        arguments = _for_wandb(run)
    else:  # a new run must not continue an older run with the same name in another directory
        resume = "allow" if step else "never"
        arguments = {"project": "cs336_basics", "name": run.name, "resume": resume}
    module.init(config=settings, **arguments)
    return Logger(
        name, lambda numbers, step: module.log(numbers, step=step), lambda: module.finish()
    )


def _for_wandb(run: RunDirectory) -> Settings:
    """Return the arguments of `wandb.init`, which writes offline to RUN_DIR/wandb by default.

    An argument overrides its environment variable, so it is omitted if the variable is set. With
    WANDB_MODE=online, a resumed run continues the same run at W&B. W&B cannot resume an offline run
    (wandb/wandb#3841), so each offline session becomes a separate run at W&B. If all sessions had
    the same id, the last one would replace all earlier ones.
    """
    arguments = {
        "WANDB_PROJECT": "cs336_basics",
        "WANDB_NAME": run.name,
        "WANDB_DIR": str(run.path),
        "WANDB_MODE": "offline",
    }
    if os.environ.get("WANDB_MODE") == "online":
        if not os.environ.get("WANDB_RUN_ID"):
            arguments["WANDB_RUN_ID"] = _wandb_id(run)
        arguments["WANDB_RESUME"] = "allow"
    return {
        variable.removeprefix("WANDB_").removeprefix("RUN_").lower(): value
        for variable, value in arguments.items()
        if not os.environ.get(variable)
    }


def _wandb_id(run: RunDirectory) -> str:
    """Return the id of this run at Weights & Biases, stored in the run directory."""
    file = run.path / "wandb_id.txt"
    if not file.exists():
        file.write_text(uuid.uuid4().hex + "\n", encoding="utf-8")
    return file.read_text(encoding="utf-8").strip()


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {short_reason(error)}"
