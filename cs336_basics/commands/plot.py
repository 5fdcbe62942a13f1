"""`python -m cs336_basics plot`: the learning curves of one or several runs in one picture."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cs336_basics._files import atomic_writer
from cs336_basics.commands._cli import complain_of, say, show_what_can_be_shown
from cs336_basics.runs.run_dir import RunDirectory, figure_text

AXES = {
    "step": "optimizer step",
    "tokens": "tokens",
    "seconds": "wall-clock time (seconds)",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 for what cannot be used."""
    options = build_parser().parse_args(arguments)
    show_what_can_be_shown()
    try:
        curves = {run: read_curves(run) for run in options.runs}
        plot_runs(curves, options.x, options.output, options.ymax)
    except (ValueError, OSError) as error:
        complain_of(error)
        return 2
    say(f"{'run':<40}{'steps':>9}{'tokens':>15}{'seconds':>11}{'best val. loss':>16}")
    for name, rows in zip(name_runs(curves), curves.values(), strict=True):
        best = min((row["val_loss"] for row in rows if "val_loss" in row), default=math.nan)
        last = rows[-1]
        say(
            f"{name[-39:]:<40}{last['step']:>9,}{last['tokens']:>15,}"
            f"{last.get('seconds', math.nan):>11,.0f}{best:>16.4f}"
        )
    say(f"drawn: {options.output}")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m cs336_basics plot",
        description="Draw the training and validation losses of runs over each other.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    add("--x", choices=[*AXES, "all"], default="all", help="what the horizontal axis counts")
    add("--ymax", type=float, metavar="LOSS", help="upper end of the vertical axis; unset: all")
    add("--output", type=Path, default=Path("runs.png"), metavar="FILE", help="picture to write")
    return parser


def read_curves(path: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run, with times where they are known.

    Raises:
        ValueError: it is not a run directory, or there is nothing in it yet.
    """
    run = RunDirectory(path)
    if not run.metrics.is_file():
        raise ValueError(f"{path} is not a run directory, or has no metrics yet: {run.metrics}")
    rows = run.read_metrics()
    if not rows:
        raise ValueError(f"{run.metrics} has no rows yet")
    return rows


def name_runs(runs: Iterable[Path]) -> list[str]:
    """Return what each run is called: the name of its directory, or its path where two share it."""
    paths = list(runs)
    names = [RunDirectory(path).name for path in paths]
    return [
        name if names.count(name) == 1 else str(path)
        for name, path in zip(names, paths, strict=True)
    ]


def plot_runs(
    curves: dict[Path, list[dict[str, Any]]], x: str, output: Path, ymax: float | None = None
) -> None:
    """Draw the losses of runs into a picture; `x` is a key of AXES, or "all" for one panel each.

    A run has one colour in all panels.
    """
    # Only drawing needs matplotlib, which takes half a second to import.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    keys = list(AXES) if x == "all" else [x]
    figure = Figure(figsize=(7 * len(keys), 5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(keys), squeeze=False)[0]
    for key, panel in zip(keys, panels, strict=True):
        for number, (name, rows) in enumerate(zip(name_runs(curves), curves.values(), strict=True)):
            draw_run(panel, rows, key, figure_text(name), f"C{number}")
        panel.set_xlabel(AXES[key])
        panel.set_ylabel("cross-entropy loss (nats per token)")
        panel.grid(alpha=0.3)
        if ymax is not None:
            # The margin below is a part of what is shown, not of what the first steps reach.
            visible = [loss for line in panel.lines for loss in line.get_ydata() if loss < ymax]
            if visible:
                panel.set_ylim(bottom=min(visible) - 0.05 * (ymax - min(visible)))
            panel.set_ylim(top=ymax)
        if panel.get_legend_handles_labels()[0]:
            panel.legend()
    with atomic_writer(output) as file:
        figure.savefig(file, format=output.suffix.lstrip(".") or "png", dpi=120)


def draw_run(axes: Any, rows: list[dict[str, Any]], x: str, label: str, color: str) -> None:
    """Draw a run's training loss, thin, and its validation loss, with markers, over `rows[...][x]`.

    One that has not been evaluated yet has its training loss only, with the label.
    """
    shown = None
    for loss, style in (
        ("train_loss", {"alpha": 0.35, "linewidth": 1}),
        ("val_loss", {"marker": "o", "markersize": 3}),
    ):
        points = [(row[x], row[loss]) for row in rows if x in row and loss in row]
        if points:
            (shown,) = axes.plot(*zip(*points, strict=True), color=color, **style)
    if shown is not None:
        shown.set_label(label)


if __name__ == "__main__":
    sys.exit(main())
