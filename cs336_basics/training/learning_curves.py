"""Plots of learning curves: the metrics of one or more runs over steps, tokens or time."""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.paths import printable_path
from cs336_basics._support.warnings import warn
from cs336_basics.checkpoints.run_dir import RunDirectory, comparable, subset_key

Rows = list[dict[str, Any]]
"""The metrics of a run, from `RunDirectory.read_metrics`."""

_LARGEST = 1e15  # larger values have no ticks that matplotlib can place

AXES = {
    "step": "optimizer step",
    "tokens": "tokens",
    "seconds": "wall-clock time (seconds)",
}
"""Labels of the horizontal axis, by the metric that it shows."""

MEASURES = {
    "loss": ("cross-entropy loss (nats per token)", "train_loss", "val_loss"),
    "bits-per-byte": ("bits per byte", None, "val_bits_per_byte"),
    "lr": ("learning rate", "lr", None),
    "grad-norm": ("norm of the gradient", "grad_norm", None),
}
"""Label of the vertical axis, training metric and validation metric of each measure.

Bits per byte let you compare runs with different tokenizers. Training rows do not have them.
"""


def read_curves(path: Path, y: str = "loss") -> Rows:
    """Return the metrics of a run, including any recorded times.

    Args:
        path: Run directory.
        y: Key of MEASURES. If it is not the loss, the run must have it.

    Raises:
        ValueError: If `path` is not a run directory, there are no metrics yet, a row does not
            contain the number of tokens, or no row has the measure.
    """
    run = RunDirectory(path)
    if not run.metrics.is_file():
        raise InputError(f"{path} is not a run directory or has no metrics yet ({run.metrics})")
    rows = run.read_metrics()
    if not rows:
        raise InputError("no rows yet", place=str(run.metrics))
    for row in rows:
        if "tokens" not in row:
            raise InputError(
                f"the row of step {row['step']} has no tokens",
                place=str(run.metrics),
                remedy="remove it",
            )
    _, *metrics = MEASURES[y]
    if y != "loss" and not any(metric in row for row in rows for metric in metrics):
        raise InputError(
            f"no row has the measure {y} ({' or '.join(filter(None, metrics))})",
            place=str(run.metrics),
        )
    return rows


def name_runs(runs: Iterable[Path]) -> list[str]:
    """Return each run's directory name, or the run's path if two runs have the same name."""
    paths = list(runs)
    names = [RunDirectory(path).name for path in paths]
    return [
        name if names.count(name) == 1 else str(path)
        for name, path in zip(names, paths, strict=True)
    ]


def import_matplotlib() -> None:
    """Import matplotlib, which takes half a second and is needed only for drawing.

    Raises:
        ValueError: If $MPLBACKEND names no backend of this environment.
    """
    try:
        import matplotlib  # noqa: F401
    except ValueError as error:  # Jupyter sets the variable for the commands that it starts
        backend = os.environ.get("MPLBACKEND")
        raise InputError(
            f"MPLBACKEND is {short_repr(backend)}, a backend that matplotlib does not have here",
            remedy="unset this environment variable",
        ) from error


def plot_runs(
    curves: Mapping[str, Rows],
    output: Path,
    axes: Sequence[str] = tuple(AXES),
    *,
    y: str = "loss",
    title: str = "",
    ymin: float | None = None,
    ymax: float | None = None,
) -> None:
    """Plot a measure of runs, one panel per axis.

    A run has the same color in all panels. Its training metric is a thin line; its validation
    metric has markers. If it has several validation sources, each has its own style of line.

    Args:
        curves: Metrics of each run by label.
        output: Image file to write. The suffix selects the format and defaults to PNG.
        axes: Keys of AXES, one per panel.
        y: Key of MEASURES.
        title: Title above the panels.
        ymin, ymax: Limits of the vertical axis. Default to the range of the values.

    Raises:
        ValueError: If matplotlib cannot write the format, or $MPLBACKEND names no backend of this
            environment.
    """
    import_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import EngFormatter

    figure = Figure(figsize=(7 * len(axes), 5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(axes), squeeze=False)[0]
    for key, panel in zip(axes, panels, strict=True):
        entries: dict[str, Any] = {}  # of the legend: the color of each run, the style of each kind
        kinds: dict[str, Any] = {}
        for index, (name, rows) in enumerate(curves.items()):
            for kind, metric, style in _lines_of(rows, y):
                if points := _points(rows, key, metric):
                    panel.plot(*zip(*points, strict=True), color=f"C{index}", **style)
                    label = _figure_text(name)
                    entries[label] = Line2D([], [], color=f"C{index}", label=label)
                    label = _figure_text(kind)
                    kinds[label] = Line2D([], [], color="gray", label=label, **style)
        visible = [y for line in panel.lines for y in line.get_ydata() if y < (ymax or math.inf)]
        if ymax is not None and ymin is None:
            # Scale the lower margin to the visible range, which excludes losses above ymax.
            lowest = min(visible, default=0.0)
            ymin = lowest - 0.05 * (ymax - lowest)
        panel.set_ylim(ymin, ymax)
        panel.set_xlabel(AXES[key])
        if key == "tokens":
            panel.xaxis.set_major_formatter(EngFormatter(sep=""))  # 20M instead of 2.0 and 1e7
        panel.set_ylabel(MEASURES[y][0])
        panel.grid(alpha=0.3)
        if entries:
            panel.legend(handles=[*entries.values(), *(kinds.values() if len(kinds) > 1 else ())])
    figure.suptitle(title)
    with atomic_writer(output) as file:
        figure.savefig(file, format=output.suffix.lstrip(".") or "png", dpi=120)


def plot_run(run: RunDirectory) -> None:
    """Plot a run's losses over its steps into loss.png in the run directory, or warn."""
    _plot_or_warn({run.name: run.read_metrics()}, run.loss_plot, ["step"])


def plot_group(output: Path, title: str, curves: Mapping[str, Rows]) -> None:
    """Plot the losses of runs over tokens, from below the best final loss to 3 nats above it.

    If that fails, warn.
    """
    final = [row["val_loss"] for rows in curves.values() for row in rows[-1:] if "val_loss" in row]
    lowest = min(final, default=None)
    limits = {} if lowest is None else {"ymin": lowest - 0.2, "ymax": lowest + 3}
    _plot_or_warn(curves, output, ["tokens"], title=title, **limits)


def _plot_or_warn(curves: Mapping[str, Rows], output: Path, *args: Any, **options: Any) -> None:
    """Plot runs. A failure is only a warning, because a picture is worth less than a run."""
    try:
        plot_runs(curves, output, *args, **options)
    except Exception as error:  # matplotlib raises errors of many types
        _warn_once(f"{output} was not drawn: {short_reason(error)}")


@functools.cache  # a run draws its picture after every evaluation
def _warn_once(message: str) -> None:
    warn(message)


_TRAINING = {"alpha": 0.35, "linewidth": 1}
_VALIDATION = {"marker": "o", "markersize": 3}
_SOURCES = ("--", ":", "-.")


def _lines_of(rows: Rows, y: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the kind, the metric and the style of each line of a run."""
    _, training, validation = MEASURES[y]
    lines: list[tuple[str, str, dict[str, Any]]] = []
    if training is not None:
        lines.append(("training", training, _TRAINING if validation is not None else {}))
    if validation is not None:
        lines.append(("validation", validation, _VALIDATION))
        keys = dict.fromkeys(key for row in rows for key in row)
        suffix = subset_key("")
        sources = [
            key for key in keys if key.startswith(f"{validation}/") and not key.endswith(suffix)
        ]
        for key, style in zip(sources, itertools.cycle(_SOURCES), strict=False):
            lines.append((key.partition("/")[2], key, {"linestyle": style, "linewidth": 1}))
    return lines


def _points(rows: Rows, x: str, metric: str) -> list[tuple[float, float]]:
    """Return the points of a line that matplotlib can place."""
    return [
        (row[x], comparable(row, metric))
        for row in rows
        if all(key in row and abs(row[key]) < _LARGEST for key in (x, metric))
    ]


def _figure_text(name: str) -> str:
    """Return a name as text that matplotlib draws literally, not as a formula."""
    text = printable_path(name).replace("$", r"\$")
    # matplotlib leaves labels that start with an underscore out of the legend.
    return f" {text}" if text.startswith("_") else text
