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

from cs336_basics._support.files import atomic_writer
from cs336_basics._support.warnings import warn
from cs336_basics.checkpoints.run_dir import RunDirectory

Settings = dict[str, Any]


class Logger(Protocol):
    """Receives rows of metrics."""

    def log(self, row: dict[str, Any]) -> None:
        """Log one row: "step", and numbers by name."""

    def close(self) -> None:
        """Write everything that is not written yet."""


class TensorBoardLogger:
    """Event files in RUN_DIR/tensorboard, for `tensorboard --logdir`."""

    def __init__(self, run: RunDirectory, settings: Settings, step: int) -> None:
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


class WandbLogger:
    """A Weights & Biases run, offline unless WANDB_MODE says otherwise, in RUN_DIR/wandb.

    Environment variables of W&B (WANDB_PROJECT, WANDB_NAME, WANDB_DIR, WANDB_RUN_ID, WANDB_RESUME)
    take precedence; the values here are for those that are not set.

    With WANDB_MODE=online a resumed run continues the same run there. Offline, where W&B cannot
    resume (wandb/wandb#3841), each session is a separate run: synced under one id, the last one
    would replace the others.
    """

    def __init__(self, run: RunDirectory, settings: Settings, step: int) -> None:
        import wandb

        # W&B prefers an argument to the variable, so an argument is omitted where there is one.
        values = {
            "WANDB_PROJECT": ("project", "cs336_basics"),
            "WANDB_NAME": ("name", run.name),
            "WANDB_DIR": ("dir", str(run.path)),
            "WANDB_MODE": ("mode", "offline"),
        }
        if os.environ.get("WANDB_MODE") == "online":
            if not os.environ.get("WANDB_RUN_ID"):
                values["WANDB_RUN_ID"] = ("id", _wandb_id(run))
            values["WANDB_RESUME"] = ("resume", "allow")
        arguments = dict(
            argument for variable, argument in values.items() if not os.environ.get(variable)
        )
        self._run: Any = wandb.init(config=settings, **arguments)

    def log(self, row: dict[str, Any]) -> None:
        """Log one row."""
        self._run.log({name: row[name] for name in row if name != "step"}, step=row["step"])

    def close(self) -> None:
        """Write everything that is not written yet."""
        self._run.finish()


def _wandb_id(run: RunDirectory) -> str:
    """Return the id of this run at Weights & Biases, which its directory keeps."""
    file = run.path / "wandb" / "run_id.txt"
    if file.exists():
        return file.read_text(encoding="utf-8").strip()
    run_id = uuid.uuid4().hex
    file.parent.mkdir(exist_ok=True)
    with atomic_writer(file, "w") as out:
        out.write(run_id + "\n")
    return run_id


class TrackioLogger:
    """A trackio run, stored on this machine; `trackio show` draws it."""

    def __init__(self, run: RunDirectory, settings: Settings, step: int) -> None:
        import trackio

        self._trackio: Any = trackio
        trackio.init(
            project="cs336_basics",
            name=run.name,
            config=settings,
            # A new run must not continue an older one of the same name elsewhere.
            resume="allow" if step else "never",
        )

    def log(self, row: dict[str, Any]) -> None:
        """Log one row."""
        numbers = {name: row[name] for name in row if name != "step"}
        self._trackio.log(numbers, step=row["step"])

    def close(self) -> None:
        """Write everything that is not written yet."""
        self._trackio.finish()


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
        except Exception as error:
            if not self._failed:
                warn(f"{self._name} gets no more metrics: {_describe(error)}")
            self._failed = True


LOGGERS: dict[str, Callable[[RunDirectory, Settings, int], Logger]] = {
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
    "trackio": TrackioLogger,
}
"""name -> the class that is made from a run, its configuration and the step it continues from."""


def check_loggers(names: Sequence[str]) -> None:
    """Check that the packages of these loggers are installed.

    Raises:
        ValueError: one is not; names the command that installs it.
    """
    for name in names:
        try:
            importlib.import_module("torch.utils.tensorboard" if name == "tensorboard" else name)
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
        names: of LOGGERS.
        run: the run; some loggers write into its directory.
        settings: the run's configuration as nested dictionaries, which some loggers show.
        step: steps taken so far.

    Raises:
        ValueError: the package of one is not installed, with the command for it; or it could not
            be started.
    """
    check_loggers(names)
    loggers: list[Logger] = []
    for name in names:
        try:
            loggers.append(GuardedLogger(name, LOGGERS[name](run, settings, step)))
        except Exception as error:  # each package has its own errors
            _close_all(loggers)
            raise ValueError(
                f"log_to asks for {name}, which could not be started: {_describe(error)}"
            ) from error
    return loggers


def _close_all(loggers: list[Logger]) -> None:
    for logger in loggers:
        logger.close()


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
