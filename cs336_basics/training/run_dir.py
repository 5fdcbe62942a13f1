"""A run's directory: which file lies where, and how each is written.

config.yaml     the resolved configuration
data/           text, token files, and what they were made from
tokenizer/      vocab.json, merges.txt, metadata.json
metrics.jsonl   one JSON object per line
loss.png        the curves in metrics.jsonl
checkpoints/    step_00000500.pt, ..., best.pt
samples/        step_00000500.txt, ...
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import IO, Any

from cs336_basics._files import atomic_writer


class RunDirectory:
    """The files of one run.

    Args:
        path: the directory; `create` makes a new one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.data = self.path / "data"
        self.tokenizer = self.path / "tokenizer"
        self.metrics = self.path / "metrics.jsonl"
        self.loss_plot = self.path / "loss.png"
        self.checkpoints = self.path / "checkpoints"
        self.best_checkpoint = self.checkpoints / "best.pt"
        self.samples = self.path / "samples"
        self._lock: IO[str] | None = None

    def create(self) -> None:
        """Make the directory.

        Raises:
            FileExistsError: it exists and is not empty, or it is a file.
        """
        if self.path.is_dir() and any(self.path.iterdir()):
            raise FileExistsError(
                f"{self.path} is not empty: to continue the run in it, --resume {self.path}; "
                "for a new run, name another --run-dir or remove this one"
            )
        self.path.mkdir(parents=True, exist_ok=True)

    def remove_temporary_files(self) -> None:
        """Remove what a killed process was in the middle of writing."""
        for file in self.path.rglob(".*.tmp"):
            file.unlink()

    def checkpoint(self, step: int) -> Path:
        """Return the file of the checkpoint taken after `step` optimizer steps."""
        return self.checkpoints / f"step_{step:08d}.pt"

    def sample(self, step: int) -> Path:
        """Return the file of the text sampled after `step` optimizer steps."""
        return self.samples / f"step_{step:08d}.txt"

    def steps_saved(self) -> list[int]:
        """Return the steps of the checkpoints that are there, in order; best.pt not included."""
        names = (re.fullmatch(r"step_(\d+)\.pt", file.name) for file in self.checkpoints.glob("*"))
        return sorted(int(name[1]) for name in names if name)

    def newest_checkpoint(self) -> Path | None:
        """Return the checkpoint of the latest step, or None if there is none."""
        steps = self.steps_saved()
        return self.checkpoint(steps[-1]) if steps else None

    def keep_newest_checkpoints(self, count: int) -> None:
        """Remove all checkpoints but the newest `count`; best.pt is a copy and stays."""
        for step in self.steps_saved()[:-count]:
            self.checkpoint(step).unlink()

    def mark_best(self, step: int) -> None:
        """Make best.pt a copy of the checkpoint of `step`."""
        with (
            open(self.checkpoint(step), "rb") as source,
            atomic_writer(self.best_checkpoint) as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)

    def lock(self) -> None:
        """Keep other processes from working on this run, until this one ends.

        Raises:
            ValueError: another process has the lock.
        """
        try:
            import fcntl
        except ImportError:  # not on Windows
            return
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.path / ".lock", "w")  # noqa: SIM115 -- open as long as the lock
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"{self.path} is in use by another process: wait for it") from None

    def unlock(self) -> None:
        """Let other processes work on this run."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def set_aside_after(self, step: int, best_is_later: bool) -> list[Path]:
        """Rename the checkpoints of later steps, and a best.pt of a later step, to NAME.unused.

        A run continued from an earlier checkpoint takes another path; were they left in place, the
        next `--resume` would take the newest of them and mix the two.

        Returns:
            the files as they were called.
        """
        later = [self.checkpoint(saved) for saved in self.steps_saved() if saved > step]
        if best_is_later and self.best_checkpoint.exists():
            later.append(self.best_checkpoint)
        for file in later:
            os.replace(file, file.with_name(file.name + ".unused"))
        return later

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Add one line to metrics.jsonl."""
        with open(self.metrics, "a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(row) + "\n")

    def sync_metrics(self) -> None:
        """Wait until metrics.jsonl is on the disk."""
        if self.metrics.exists():
            with open(self.metrics, "ab") as file:
                os.fsync(file.fileno())

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl; a last line that was cut off is left out.

        Raises:
            ValueError: a line before the last is not JSON.
        """
        if not self.metrics.exists():
            return []
        rows = []
        lines = self.metrics.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                if number < len(lines):
                    raise ValueError(f"{self.metrics}, line {number} is not JSON") from None
        return rows

    def truncate_metrics(self, step: int) -> list[dict[str, Any]]:
        """Remove the rows after `step`, which a run continued from there writes again.

        Returns:
            the rows that were kept.
        """
        rows = [row for row in self.read_metrics() if row["step"] <= step]
        with atomic_writer(self.metrics, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return rows

    def plot_losses(self) -> None:
        """Draw training and validation loss over the steps into loss.png."""
        # Only drawing needs matplotlib, which takes half a second to import.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        rows = self.read_metrics()
        figure = Figure(figsize=(8, 5))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for key, label, style in (
            ("train_loss", "training", {"alpha": 0.6, "linewidth": 1}),
            ("val_loss", "validation", {"marker": "o", "markersize": 3}),
        ):
            points = [(row["step"], row[key]) for row in rows if key in row]
            if points:
                axes.plot(*zip(*points, strict=True), label=label, **style)
        axes.set_xlabel("optimizer step")
        axes.set_ylabel("cross-entropy loss (nats per token)")
        axes.set_title(self.path.name)
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend()
        with atomic_writer(self.loss_plot) as file:
            figure.savefig(file, format="png", dpi=120)
