"""The directory of a training run.

config.yaml     the resolved configuration
data/           text, token files and a record of their inputs
tokenizer/      tokenizer.json, training.json
metrics.jsonl   one JSON object per line; a repeated run writes the same bytes
timings.jsonl   wall-clock times: one line for each line of metrics.jsonl and each checkpoint
loss.png        the loss curves in metrics.jsonl
checkpoints/    step_00000500.safetensors, ...
samples/        step_00000500.txt, ...
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cs336_basics._support.errors import Argument, InputError, MissingFileError, OutputExistsError
from cs336_basics._support.files import TEMPORARY_NAME, atomic_writer, full_disk_names, remove, sync
from cs336_basics._support.messages import short_repr
from cs336_basics._support.paths import checked_path
from cs336_basics._support.processes import lock_file
from cs336_basics._support.reading import open_regular

Item = TypeVar("Item")


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` (at least 2) evenly spaced items, always including the last."""
    step = max(1, math.ceil((len(items) - 1) / (most - 1)))
    return [*items[:-1:step], *items[-1:]]


def subset_key(key: str) -> str:
    """Return the name of a validation metric on the windows of every evaluation.

    Only the last row of a run has it. The metric itself then covers all windows.
    """
    return f"{key}_subset"


def comparable(row: Mapping[str, Any], key: str) -> float:
    """Return a metric of a row. Validation metrics are for the same windows in all rows."""
    value: float = row.get(subset_key(key), row[key])
    return value


class BestLoss(NamedTuple):
    """The lowest validation loss of a run so far."""

    loss: float = math.inf
    step: int = 0
    """Step of the evaluation with this loss, or 0 if there was none."""
    num_worse: int = 0
    """Number of evaluations since then."""

    def after(self, loss: float, step: int) -> BestLoss:
        """Return the lowest loss after another evaluation."""
        if loss < self.loss:
            return BestLoss(loss, step)
        return self._replace(num_worse=self.num_worse + 1)


class RunDirectory:
    """The files of one run.

    Args:
        path: Directory of the run, which may start with `~`. It need not exist before you call
            `create`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(checked_path("path", path))
        self.config = self.path / "config.yaml"
        self.data = self.path / "data"
        self.tokenizer = self.path / "tokenizer"
        self.metrics = self.path / "metrics.jsonl"
        self.timings = self.path / "timings.jsonl"
        self.loss_plot = self.path / "loss.png"
        self.checkpoints = self.path / "checkpoints"
        self.samples = self.path / "samples"
        self._lock: int | None = None
        self._is_new = False  # whether `create` created the directory

    @property
    def name(self) -> str:
        """Last component of the absolute path, even if the path is `.`."""
        return os.path.basename(os.path.abspath(self.path))

    def check_exists(self) -> None:
        """Raise FileNotFoundError if this is not the directory of a run."""
        if self.config.is_file():
            return
        if not self.path.exists():
            raise MissingFileError(f"{self.path} does not exist", remedy="pass a run directory")
        if (self.path / "config.json").is_file():
            raise MissingFileError(
                f"{self.path} is not a run directory: it contains a model in Hugging Face's format",
                remedy="`train` can start from it, and `evaluate` can score it",
            )
        raise MissingFileError(f"{self.path} is not a run directory: {self.config.name} is missing")

    def create(self) -> None:
        """Create the directory and lock it. Nothing is written to it before it is locked.

        Raises:
            FileExistsError: If the path is a file or a non-empty directory.
            ValueError: If another process holds the lock, or the path is not valid UTF-8.
        """
        try:
            os.fspath(self.path).encode()
        except UnicodeEncodeError:  # safetensors could not open the checkpoints
            raise InputError(
                f"must be valid UTF-8, got {short_repr(os.fspath(self.path))}", argument="run_dir"
            ) from None
        self._check_is_free()
        try:
            self.lock()
        except OSError as error:
            reason = f"cannot create the directory: {error.strerror}"
            raise OSError(error.errno, reason, os.fspath(self.path)) from error
        try:
            self._check_is_free()  # another process may have held the lock in the meantime
        except BaseException:
            self.unlock()
            raise
        self._is_new = True

    def _check_is_free(self) -> None:
        if self.path.is_file():
            raise OutputExistsError(
                f"{self.path} is a file", remedy=("pass a directory as ", Argument("run_dir"))
            )
        # A process killed before it writes a configuration leaves only files with these names.
        nothing = re.compile(r"\.lock|\..*\.tmp")
        if self.path.is_dir() and not all(map(nothing.fullmatch, os.listdir(self.path))):
            raise OutputExistsError(
                f"{self.path} is not empty",
                remedy=(
                    "to continue its run, pass ",
                    Argument("resume", str(self.path)),
                    "; for a new run, remove the directory or pass another ",
                    Argument("run_dir"),
                ),
            )

    def discard(self) -> None:
        """Remove the files left by a failed start, so that the next start can use the directory.

        Do nothing if `create` did not start this run, or if the run has metrics or a checkpoint.
        """
        if not self._is_new or self.metrics.exists() or self.steps_saved():
            return
        for entry in self.path.iterdir():
            with contextlib.suppress(OSError):  # another program may be writing to it
                remove(entry)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def remove_temporary_files(self) -> None:
        """Remove incomplete files left by a killed process."""
        names = (TEMPORARY_NAME, re.compile(r"\.tmp[0-9A-Za-z]{6}"))  # the latter by safetensors
        for path in self._entries():
            if any(name.fullmatch(path.name) for name in names) and not path.is_dir():
                remove(path)

    def _entries(self) -> list[Path]:
        """Return the paths of the entries of the run and of its four subdirectories."""
        folders = (self.path, self.data, self.tokenizer, self.checkpoints, self.samples)
        return [path for folder in folders for path in folder.glob("*")]

    def checkpoint(self, step: int) -> Path:
        """Return the path of the checkpoint saved after `step` optimizer steps."""
        return self.checkpoints / f"step_{step:08d}.safetensors"

    def sample(self, step: int) -> Path:
        """Return the path of the text sampled after `step` optimizer steps."""
        return self.samples / f"step_{step:08d}.txt"

    def sample_files(self) -> list[Path]:
        """Return the paths of all samples by step. Symbolic links are omitted.

        A link could point to a file outside the run, which a page would then show.
        """
        files = [] if self.samples.is_symlink() else self.samples.glob("step_*.txt")
        return sorted(file for file in files if not file.is_symlink())

    def steps_saved(self) -> list[int]:
        """Return the steps of all saved checkpoints in ascending order."""
        steps = (step_of(file) for file in self.checkpoints.glob("*"))
        return sorted(step for step in steps if step is not None)

    def newest_checkpoint(self) -> Path | None:
        """Return the path of the newest checkpoint, or None if there is none."""
        steps = self.steps_saved()
        return self.checkpoint(steps[-1]) if steps else None

    def keep_checkpoints(self, newest: int, is_regular: Callable[[int], bool], best: int) -> None:
        """Remove all checkpoints except the last, the best and the newest regular ones.

        Args:
            newest: Number of regular checkpoints to keep.
            is_regular: Function that returns whether an uninterrupted run saves a checkpoint at a
                step.
            best: Step of the best checkpoint.
        """
        saved = self.steps_saved()
        kept = {*saved[-1:], *list(filter(is_regular, saved))[-newest:], best}
        for step in saved:
            if step not in kept:
                remove(self.checkpoint(step))

    def best(self, last: int | None = None) -> BestLoss:
        """Return the lowest validation loss, up to the step `last` if given.

        The loss before the first step, which a run records if it starts from another model, does
        not count.
        """
        best = BestLoss()
        for row in self.read_metrics():
            if "val_loss" in row and row["step"] and (last is None or row["step"] <= last):
                best = best.after(comparable(row, "val_loss"), row["step"])
        return best

    def find_checkpoint(self, which: str | os.PathLike[str] | int = "last") -> Path:
        """Return the path of a checkpoint.

        Args:
            which: "last" for the newest, "best" for the one with the lowest validation loss, a
                step, or a path, which may start with `~`.

        Raises:
            FileNotFoundError: If the run has no checkpoint yet, or the path does not exist.
            ValueError: If there is no checkpoint of this step, or of the best evaluation.
        """
        name = os.fspath(which) if isinstance(which, os.PathLike) else str(which)
        is_step = name.isascii() and name.isdigit()
        if not (is_step or name in ("last", "best")):
            path = Path(os.path.expanduser(name))
            if not path.exists():
                raise MissingFileError(
                    f"must be last, best, a step or a file, got {name!r}", argument="checkpoint"
                )
            return path
        saved = self.steps_saved()
        if not saved:
            raise MissingFileError("no checkpoint yet", place=str(self.checkpoints))
        steps = {"last": saved[-1], "best": self.best().step if name == "best" else 0}
        step = steps[name] if name in steps else int(name)
        if step not in saved:
            at = f"best (step {step})" if name == "best" else f"step {step}"
            raise InputError(
                f"must be a checkpoint in {self.checkpoints}, got {at}"
                if step
                else "cannot be best, because the run has not been evaluated yet",
                argument="checkpoint",
                remedy=(
                    "pass ",
                    Argument("checkpoint", "last"),
                    f", or one of these steps: {', '.join(map(str, saved))}",
                ),
            )
        return self.checkpoint(step)

    def lock(self) -> None:
        """Lock the run against other processes until `unlock` is called or this process ends.

        Raises:
            ValueError: If another process holds the lock, or a file or directory of the run is a
                symbolic link.
            OSError: If `.lock` cannot be written or is a symbolic link.
        """
        if self._lock is not None:
            return
        self._check_links()
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = lock_file(self.path / ".lock")
        except BlockingIOError:
            raise InputError(
                f"{self.path} is in use by another process", remedy="wait until it exits"
            ) from None

    def _check_links(self) -> None:
        """Raise ValueError if writing to this run could change files in other directories."""
        for path in self._entries():
            if path.is_symlink() and path.name != ".lock":  # `os.open` refuses this link
                raise InputError(
                    f"{path} is a symbolic link",
                    remedy="replace it with the file or directory itself (only the whole run "
                    "directory may be a link)",
                )

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def set_aside_after(self, step: int, source: Path | None = None) -> list[Path]:
        """Rename the checkpoints of later steps to NAME.unused, and return their old paths.

        A run that resumes from an earlier checkpoint saves new checkpoints for these steps. If the
        old checkpoints kept their names, the next `--resume` could load one of them and mix the two
        runs. For the same reason, this run's own checkpoint for `step` is renamed if the run
        resumes from a different checkpoint, `source`.
        """
        first = step + 1
        own = self.checkpoint(step)
        if source is not None and own.exists() and not own.samefile(source):
            first = step
        later = [self.checkpoint(saved) for saved in self.steps_saved() if saved >= first]
        for checkpoint in later:
            os.replace(checkpoint, checkpoint.with_name(checkpoint.name + ".unused"))
        return later

    def append_metrics(self, row: dict[str, Any], timing: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl and a line to timings.jsonl.

        Args:
            row: Values that are the same in a repeated run, such as losses.
            timing: Values that differ between runs, such as seconds and tokens per second.
        """
        kind = "evaluation" if "val_loss" in row else "training"
        _append_line(self.timings, {"step": row["step"], "kind": kind, **timing})
        _append_line(self.metrics, row)

    def append_checkpoint_time(self, step: int, seconds: float) -> None:
        """Append the time of a checkpoint, in seconds since the start, to timings.jsonl."""
        _append_line(self.timings, {"step": step, "kind": "checkpoint", "seconds": seconds})

    def seconds(self) -> float:
        """Return the recorded run time in seconds, without the pauses between sessions."""
        return max((line.get("seconds", 0.0) for line in _read_lines(self.timings)), default=0.0)

    def sync_metrics(self) -> None:
        """Wait until metrics.jsonl and timings.jsonl are on disk."""
        for file in (self.metrics, self.timings):
            if file.exists():
                sync(file)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl, each merged with its line in timings.jsonl, if any.

        An incomplete last line is omitted.

        Raises:
            ValueError: If any other line is not JSON or has a value of the wrong type.
        """
        timings = {}
        for line in _read_lines(self.timings):
            step, kind = line.pop("step"), line.pop("kind")
            timings[step, kind] = line  # a resumed run may have written this line again
        return [
            {
                **row,
                **timings.get((row["step"], "evaluation" if "val_loss" in row else "training"), {}),
            }
            for row in _read_lines(self.metrics)
        ]

    def truncate_metrics(
        self, step: int, *, keep_evaluation: bool = True, is_last: bool = True
    ) -> None:
        """Remove the rows after `step`, because a run that resumes at `step` writes them again.

        Args:
            step: Step after which the run resumes.
            keep_evaluation: Whether to keep the evaluation at `step`. It is removed if the run
                resumes with other weights.
            is_last: Whether `step` is the last step of the run. If not, an evaluation of all
                windows becomes one of the windows of every evaluation, as if the run had always
                been longer.
        """
        for file in (self.metrics, self.timings):
            rows = [
                row
                for row in _read_lines(file)
                if row["step"] < step
                or (row["step"] == step and (keep_evaluation or "val_loss" not in row))
            ]
            if not is_last:
                rows = [
                    {k: comparable(row, k) for k in row if not k.endswith(subset_key(""))}
                    for row in rows
                ]
            with atomic_writer(file, "w") as out:
                out.writelines(json.dumps(row) + "\n" for row in rows)


def step_of(checkpoint: str | os.PathLike[str]) -> int | None:
    """Return the step in a checkpoint's file name, or None if the name does not contain one."""
    # `RunDirectory.checkpoint` uses at least eight digits. A file named step_99 is the user's own.
    name = re.fullmatch(r"step_(\d{8,})\.safetensors", Path(checkpoint).name)
    return None if name is None else int(name[1])


def _append_line(file: Path, row: dict[str, Any]) -> None:
    with full_disk_names(file), open(file, "a", encoding="utf-8", newline="\n") as out:
        out.write(json.dumps(row) + "\n")


def _read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the objects in a JSON Lines file. An incomplete last line is omitted."""
    if not file.exists():
        return []
    with open_regular(file) as opened:
        lines = opened.read().splitlines()
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            if number < len(lines):
                raise InputError(
                    "not JSON", place=f"{file}, line {number}", remedy="remove the line"
                ) from None
            break
        if not _is_row(row, has_kind=file.name == "timings.jsonl"):
            raise InputError(
                "not an object with a step and numbers",
                place=f"{file}, line {number}",
                remedy="remove the line",
            )
        rows.append(row)
    return rows


def _is_row(row: Any, has_kind: bool) -> bool:
    if not isinstance(row, dict) or (has_kind and not isinstance(row.get("kind"), str)):
        return False
    numbers = [value for key, value in row.items() if not (has_kind and key == "kind")]
    return (
        type(row.get("step")) is int
        and 0 <= row["step"] < 10**15
        and all(
            type(value) is float or (type(value) is int and abs(value) < 10**300)
            for value in numbers
        )
    )
