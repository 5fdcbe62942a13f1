"""Plots of learning curves: the losses of one or several runs over steps, tokens or time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cs336_basics._support.files import atomic_writer, printable_path
from cs336_basics.checkpoints.run_dir import RunDirectory

Rows = list[dict[str, Any]]
"""The metrics of a run, as `RunDirectory.read_metrics` returns them."""

AXES = {
    "step": "optimizer step",
    "tokens": "tokens",
    "seconds": "wall-clock time (seconds)",
}
"""What the horizontal axis can count: a key of the metrics, and the label of the axis."""


def read_curves(path: Path) -> Rows:
    """Return the metrics of a run, with times where they are known.

    Raises:
        ValueError: it is not a run directory, has no metrics yet, or a row lacks its tokens.
    """
    run = RunDirectory(path)
    if not run.metrics.is_file():
        raise ValueError(f"{path} is not a run directory, or has no metrics yet: {run.metrics}")
    rows = run.read_metrics()
    if not rows:
        raise ValueError(f"{run.metrics} has no rows yet")
    for row in rows:
        if "tokens" not in row:
            raise ValueError(f"{run.metrics}: a row of step {row['step']} has no tokens: remove it")
    return rows


def name_runs(runs: Iterable[Path]) -> list[str]:
    """Return the name of each run's directory, or its path where two have the same name."""
    paths = list(runs)
    names = [RunDirectory(path).name for path in paths]
    return [
        name if names.count(name) == 1 else str(path)
        for name, path in zip(names, paths, strict=True)
    ]


def plot_runs(
    curves: Mapping[str, Rows],
    output: Path,
    axes: Sequence[str] = tuple(AXES),
    *,
    title: str = "",
    ymin: float | None = None,
    ymax: float | None = None,
) -> None:
    """Plot the losses of runs, one panel for each of `axes`; a run has one colour in all panels.

    Args:
        curves: the metrics of each run, by its label.
        output: picture to write; its suffix chooses the format (none: PNG).
        axes: keys of AXES.
        title: above the panels.
        ymin, ymax: limits of the loss; None: all of it.

    Raises:
        ValueError: the suffix of `output` is not a format of matplotlib.
    """
    # matplotlib takes half a second to import, and only drawing needs it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7 * len(axes), 5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(axes), squeeze=False)[0]
    for key, panel in zip(axes, panels, strict=True):
        for index, (label, rows) in enumerate(curves.items()):
            _draw_run(panel, rows, key, _figure_text(label), f"C{index}")
        visible = [y for line in panel.lines for y in line.get_ydata() if y < (ymax or math.inf)]
        if ymax is not None and ymin is None and visible:
            # The lower margin is a share of the visible range, not of the losses above it.
            ymin = min(visible) - 0.05 * (ymax - min(visible))
        panel.set_ylim(ymin, ymax)
        panel.set_xlabel(AXES[key])
        panel.set_ylabel("cross-entropy loss (nats per token)")
        panel.grid(alpha=0.3)
        if panel.get_legend_handles_labels()[0]:
            panel.legend()
    figure.suptitle(title)
    with atomic_writer(output) as file:
        figure.savefig(file, format=output.suffix.lstrip(".") or "png", dpi=120)


def plot_run(run: RunDirectory) -> None:
    """Plot the losses of a run over its steps into its loss.png."""
    plot_runs({run.name: run.read_metrics()}, run.loss_plot, ["step"])


def plot_group(output: Path, title: str, curves: Mapping[str, Rows]) -> None:
    """Plot the losses of runs over tokens, from below the best run to 3 nats above it."""
    final = [row["val_loss"] for rows in curves.values() for row in rows[-1:] if "val_loss" in row]
    lowest = min(final, default=None)
    limits = {} if lowest is None else {"ymin": lowest - 0.2, "ymax": lowest + 3}
    plot_runs(curves, output, ["tokens"], title=title, **limits)


def _draw_run(panel: Any, rows: Rows, x: str, label: str, color: str) -> None:
    """Draw the training loss of a run, thin, and its validation loss, with markers, over `x`.

    A run without evaluations has the training loss only, with the label.
    """
    drawn = None
    for loss, style in (
        ("train_loss", {"alpha": 0.35, "linewidth": 1}),
        ("val_loss", {"marker": "o", "markersize": 3}),
    ):
        points = [(row[x], row[loss]) for row in rows if x in row and loss in row]
        if points:
            (drawn,) = panel.plot(*zip(*points, strict=True), color=color, **style)
    if drawn is not None:
        drawn.set_label(label)


def _figure_text(name: str) -> str:
    """Return a name as text that matplotlib draws literally, with no formula in it."""
    text = printable_path(name).replace("$", r"\$")
    # matplotlib omits a label that begins with an underscore from a legend.
    return f" {text}" if text.startswith("_") else text
