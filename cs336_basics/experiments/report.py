"""The report of the experiments: report.md, and a figure for each group of runs."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cs336_basics._support.files import atomic_writer
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.experiments.plan import Experiment, Group
from cs336_basics.training.evaluation import perplexity
from cs336_basics.training.learning_curves import Rows, plot_group


def diverged_file(directory: Path) -> Path:
    """Return the path of the file that records why a run diverged."""
    return directory / "diverged.json"


def as_options(values: Mapping[str, Any]) -> list[str]:
    """Convert configuration values to options of `python -m cs336_basics.train`."""
    words = []
    for key, value in values.items():
        several = value if isinstance(value, tuple) else [value]
        words += [f"--{key.replace('_', '-')}", *map(str, several)]
    return words


def write_report(
    out: Path, groups: Sequence[Group], command: Sequence[str], newest: Experiment
) -> None:
    """Write report.md about the runs so far, and the figures that contain the newest run.

    Args:
        out: Output directory, with the runs in `runs/`.
        groups: The experiments.
        command: Options of the baseline.
        newest: The run that was trained last.
    """
    lines = [
        "# Experiments",
        "",
        "Loss is the mean cross-entropy per validation token at the end of the run, in nats. Bits "
        "per byte leave out special tokens and their loss. A run "
        "is unstable if its training loss rose above its first value. It diverged if its loss or "
        "gradient norm became infinite or NaN. Seconds are wall-clock time. Each run differs from "
        "the baseline only in the options of its row. The baseline is "
        "`python -m cs336_basics.train` with",
        "",
        "```",
        f"--config {' '.join(map(shlex.quote, command))}",
        "```",
    ]
    for group in groups:
        directories = {run.label: out / "runs" / run.name for run in group.experiments}
        curves = {label: RunDirectory(path).read_metrics() for label, path in directories.items()}
        lines += ["", f"## {group.title}", "", group.question, ""]
        lines += ["| run | options | loss | perplexity | bits per byte | seconds |"]
        lines += ["|---|---|---|---|---|---|"]
        for experiment in group.experiments:
            row = _summary(directories[experiment.label], curves[experiment.label])
            options = f"`{' '.join(as_options(experiment.values))}`"
            lines.append(f"| {experiment.label} | {options} | {row} |")
        lines += ["", f"![{group.title}]({group.name}.png)"]
        if newest.name in [experiment.name for experiment in group.experiments]:
            plot_group(
                out / f"{group.name}.png", group.title, _best_curves(group, directories, curves)
            )
    with atomic_writer(out / "report.md", "w") as file:
        file.write("\n".join(lines) + "\n")


def _best_curves(
    group: Group, directories: Mapping[str, Path], rows_of_runs: Mapping[str, Rows]
) -> dict[str, Rows]:
    """Return the rows of the best run for each curve of the group's figure, by label."""
    best: dict[str, tuple[float, str, Rows]] = {}
    for experiment in group.experiments:
        rows = rows_of_runs[experiment.label]
        has_diverged = diverged_file(directories[experiment.label]).exists()
        curve = experiment.curve or experiment.label
        label = f"{curve} (diverged)" if has_diverged else experiment.label
        losses = [row["val_loss"] for row in rows if "val_loss" in row]
        loss = math.inf if has_diverged or not losses else losses[-1]
        if curve not in best or loss < best[curve][0]:
            best[curve] = loss, label, rows
    return {label: rows for _, label, rows in best.values()}


def _summary(directory: Path, rows: Rows) -> str:
    """Return a run's table cells: loss, perplexity, bits per byte, seconds."""
    evaluated = [row for row in rows if "val_loss" in row]
    if diverged_file(directory).exists():
        at = f" after step {rows[-1]['step']}" if rows else ""
        return f"diverged{at} | - | - | - "
    if not evaluated:
        return "- | - | - | - "
    last = evaluated[-1]
    bits = last.get("val_bits_per_byte")
    bits_text = "-" if bits is None else f"{bits:.4f}"
    loss = f"{last['val_loss']:.4f}"
    training = [row["train_loss"] for row in rows if "train_loss" in row]
    if training and max(training) > training[0]:
        loss += f" (unstable: rose to {max(training):.2f})"
    seconds = f"{last['seconds']:.0f}" if "seconds" in last else "-"
    return f"{loss} | {perplexity(last['val_loss']):.2f} | {bits_text} | {seconds}"
