"""Where metrics go on request, beside the run directory: TensorBoard, Weights & Biases, trackio.

Each is an optional package, imported here when it is asked for. metrics.jsonl is what a run resumes
from; these only show it, so what goes wrong in them on the way is said and ends no run.
"""

from __future__ import annotations

import importlib
import os
import uuid
import warnings
from collections.abc import Callable
from typing import Any, Protocol

from cs336_basics._files import atomic_writer
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import config_to_dict


class Logger(Protocol):
    """Takes rows of metrics."""

    def log(self, row: dict[str, Any]) -> None:
        """Take one row: "step", and numbers by name."""

    def close(self) -> None:
        """Write what is left."""


class TensorBoardLogger:
    """Event files in RUN_DIR/tensorboard, for `tensorboard --logdir`."""

    def __init__(self, config: TrainConfig, run: RunDirectory, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # A resumed run writes the rows after `step` again; TensorBoard then hides the old ones.
        self._writer: Any = SummaryWriter(
            str(run.path / "tensorboard"), purge_step=step + 1 if step else None
        )

    def log(self, row: dict[str, Any]) -> None:
        """Take one row."""
        for name, value in row.items():
            if name != "step":
                self._writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class WandbLogger:
    """A Weights & Biases run, offline unless WANDB_MODE says otherwise, in RUN_DIR/wandb.

    With WANDB_MODE=online a resumed run goes on in the same one there. Offline, where W&B cannot
    resume (wandb/wandb#3841), each session is a run of its own: synced under one id, the last one
    would replace the others.
    """

    def __init__(self, config: TrainConfig, run: RunDirectory, step: int) -> None:
        import wandb

        mode = os.environ.get("WANDB_MODE", "offline")
        resumable: dict[str, Any] = {}
        if mode == "online":
            resumable = {"id": _wandb_id(run), "resume": "allow"}
        self._run: Any = wandb.init(
            project="cs336_basics",
            name=run.name,
            dir=str(run.path),
            config=config_to_dict(config),
            mode=mode,
            **resumable,
        )

    def log(self, row: dict[str, Any]) -> None:
        """Take one row."""
        self._run.log({name: row[name] for name in row if name != "step"}, step=row["step"])

    def close(self) -> None:
        """Write what is left."""
        self._run.finish()


def _wandb_id(run: RunDirectory) -> str:
    """Return the id of this run at Weights & Biases: made once, and kept in its directory."""
    file = run.path / "wandb" / "run_id.txt"
    if file.exists():
        return file.read_text(encoding="utf-8").strip()
    run_id = uuid.uuid4().hex
    file.parent.mkdir(exist_ok=True)
    with atomic_writer(file, "w") as out:
        out.write(run_id + "\n")
    return run_id


class TrackioLogger:
    """A trackio run, kept on this machine; `trackio show` draws it."""

    def __init__(self, config: TrainConfig, run: RunDirectory, step: int) -> None:
        import trackio

        self._trackio: Any = trackio
        trackio.init(
            project="cs336_basics",
            name=run.name,
            config=config_to_dict(config),
            # A new run does not go on with an older one of the same name in another place.
            resume="allow" if step else "never",
        )

    def log(self, row: dict[str, Any]) -> None:
        """Take one row."""
        numbers = {name: row[name] for name in row if name != "step"}
        self._trackio.log(numbers, step=row["step"])

    def close(self) -> None:
        """Write what is left."""
        self._trackio.finish()


class GuardedLogger:
    """A logger that falls silent, with a message, where it fails: on a full disk, without a net."""

    def __init__(self, name: str, logger: Logger) -> None:
        self._name = name
        self._logger = logger
        self._failed = False

    def log(self, row: dict[str, Any]) -> None:
        """Take one row."""
        if not self._failed:
            self._attempt(lambda: self._logger.log(row))

    def close(self) -> None:
        """Write what is left, also of what came before a failure."""
        self._attempt(self._logger.close)

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            if not self._failed:
                warnings.warn(
                    f"{self._name} gets no more metrics: {_describe(error)}", stacklevel=3
                )
            self._failed = True


_KINDS: dict[str, Callable[[TrainConfig, RunDirectory, int], Logger]] = {
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
    "trackio": TrackioLogger,
}


def check_loggers(config: TrainConfig) -> None:
    """Check that the packages are installed that `log_to` names.

    Raises:
        ValueError: one is not; names the command that installs it.
    """
    for name in filter(None, config.log_to.split(",")):
        try:
            importlib.import_module("torch.utils.tensorboard" if name == "tensorboard" else name)
        except ImportError as error:
            raise ValueError(
                f"log_to asks for {name}, which is not installed ({error}): "
                f"pip install 'cs336-basics[{name}]'"
            ) from error


def open_loggers(config: TrainConfig, run: RunDirectory, step: int) -> list[Logger]:
    """Return the loggers that `log_to` names, for a run that goes on after `step`.

    Raises:
        ValueError: the package of one is not installed, with the command for it; or it could not
            be started.
    """
    check_loggers(config)
    loggers: list[Logger] = []
    for name in filter(None, config.log_to.split(",")):
        try:
            loggers.append(GuardedLogger(name, _KINDS[name](config, run, step)))
        except Exception as error:  # each package has errors of its own
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
