"""Loggers that show metrics outside of the run directory: TensorBoard, Weights & Biases, trackio.

Each is an optional package, imported when it is used. A run resumes from metrics.jsonl, which these
only show: an error in one of them is a warning and does not end the run.
"""

from __future__ import annotations

import importlib
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cs336_basics._support.messages import short_reason
from cs336_basics._support.warnings import warn
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.config import LOGGERS

Settings = dict[str, Any]


class Logger(Protocol):
    """Receives rows of metrics."""

    def log(self, row: dict[str, Any]) -> None:
        """Log one row: "step", and numbers by name."""

    def close(self) -> None:
        """Write everything that is not written yet."""


class TensorBoardLogger:
    """Event files in RUN_DIR/tensorboard, for `tensorboard --logdir`."""

    def __init__(self, run: RunDirectory, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # A resumed run writes the rows after `step` again; TensorBoard then hides the old ones.
        self._writer: Any = SummaryWriter(
            str(run.path / "tensorboard"), purge_step=step + 1 if step else None
        )

    def log(self, row: dict[str, Any]) -> None:
        """Log one row."""
        for name, value in row.items():
            if name != "step":
                self._writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        """Write everything that is not written yet."""
        self._writer.close()


class SessionLogger:
    """A session of wandb or trackio, which have the same functions.

    Args:
        module: the package.
        arguments: of its `init`.
    """

    def __init__(self, module: Any, arguments: Settings) -> None:
        self._module = module
        module.init(**arguments)

    def log(self, row: dict[str, Any]) -> None:
        """Log one row."""
        numbers = {name: value for name, value in row.items() if name != "step"}
        self._module.log(numbers, step=row["step"])

    def close(self) -> None:
        """Write everything that is not written yet."""
        self._module.finish()


class GuardedLogger:
    """A logger whose first failure, such as a full disk, is a warning, and which then is silent."""

    def __init__(self, name: str, logger: Logger) -> None:
        self._name = name
        self._logger = logger
        self._failed = False

    def log(self, row: dict[str, Any]) -> None:
        """Log one row."""
        if not self._failed:
            self._attempt(lambda: self._logger.log(row))

    def close(self) -> None:
        """Close the logger, even after a failure: rows logged before it are written."""
        self._attempt(self._logger.close)

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # each package has its own errors
            if not self._failed:
                warn(f"{self._name} gets no more metrics: {_describe(error)}")
            self._failed = True


def check_loggers(names: Sequence[str]) -> None:
    """Check that the packages of these loggers are installed.

    Raises:
        ValueError: one is not; names the command that installs it.
    """
    for name in names:
        try:
            importlib.import_module(LOGGERS[name])
        except ImportError as error:
            raise ValueError(
                f"log_to asks for {name}, which is not installed ({error}): "
                f"pip install 'cs336-basics[{name}]'"
            ) from error


def open_loggers(
    names: Sequence[str], run: RunDirectory, settings: Settings, step: int
) -> list[Logger]:
    """Return the loggers of these names, for a run that continues after `step`.

    Args:
        names: of LOGGERS, checked by `check_loggers`.
        run: the run; some loggers write into its directory.
        settings: the run's configuration as nested dictionaries, which some loggers show.
        step: steps taken so far.

    Raises:
        ValueError: one could not be started.
    """
    loggers: list[Logger] = []
    for name in names:
        try:
            logger: Logger
            if name == "tensorboard":
                logger = TensorBoardLogger(run, step)
            else:
                arguments = _for_wandb(run) if name == "wandb" else _for_trackio(run, step)
                module = importlib.import_module(name)
                logger = SessionLogger(module, {"config": settings, **arguments})
            loggers.append(GuardedLogger(name, logger))
        except Exception as error:  # each package has its own errors
            for opened in loggers:
                opened.close()
            raise ValueError(
                f"log_to asks for {name}, which could not be started: {_describe(error)}"
            ) from error
    return loggers


def _for_trackio(run: RunDirectory, step: int) -> Settings:
    # A new run must not continue an older one of the same name elsewhere.
    return {
        "project": "cs336_basics",
        "name": run.name,
        "resume": "allow" if step else "never",
    }


def _for_wandb(run: RunDirectory) -> Settings:
    """Return the arguments for W&B: offline unless WANDB_MODE says otherwise, in RUN_DIR/wandb.

    W&B prefers an argument to its environment variable, so an argument is omitted where there is
    one. With WANDB_MODE=online a resumed run continues the same run there. Offline, where W&B
    cannot resume (wandb/wandb#3841), each session is a separate run: synced under one id, the last
    one would replace the others.
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
    """Return the id of this run at Weights & Biases, which its directory keeps."""
    file = run.path / "wandb_id.txt"
    if not file.exists():
        file.write_text(uuid.uuid4().hex + "\n", encoding="utf-8")
    return file.read_text(encoding="utf-8").strip()


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {short_reason(error)}"
