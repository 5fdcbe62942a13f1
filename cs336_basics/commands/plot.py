"""`python -m cs336_basics plot`: plot the learning curves of one or more runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import Checked, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import Command


@dataclass(kw_only=True)
class Options(Checked):
    """Plot the training and validation losses of one or more runs in one figure."""

    runs: tuple[Path, ...] = option("run directories", metavar="RUN ...", positional=True)
    x: Literal["step", "tokens", "seconds", "all"] = option(
        "horizontal axis; all draws one panel for each axis", "all"
    )
    ymax: float | None = option("upper limit of the loss axis", None, gt=0)
    output: Path = option("image to write: .png, .svg or .pdf", Path("runs.png"), metavar="FILE")


def plot(options: Options) -> None:
    """Plot the runs, and print a summary line for each."""
    from cs336_basics.training.learning_curves import AXES, name_runs, plot_runs, read_curves

    _check_format(options.output)
    curves = dict(zip(name_runs(options.runs), map(read_curves, options.runs), strict=True))
    axes = list(AXES) if options.x == "all" else [options.x]
    plot_runs(curves, options.output, axes, ymax=options.ymax)
    say(f"{'run':<40}{'steps':>9}{'tokens':>15}{'seconds':>11}{'best val. loss':>16}")
    for name, rows in curves.items():
        best = min((row["val_loss"] for row in rows if "val_loss" in row), default=math.nan)
        last = rows[-1]
        say(
            f"{name[-39:]:<40}{last['step']:>9,}{last['tokens']:>15,}"
            f"{last.get('seconds', math.nan):>11,.0f}{best:>16.4f}"
        )
    say(f"written to {options.output}")


def _check_format(output: Path) -> None:
    """Check that the output has the extension of an image, to avoid overwriting other files."""
    from cs336_basics.training.learning_curves import import_matplotlib

    import_matplotlib()
    from matplotlib.backend_bases import FigureCanvasBase  # slow to import

    if output.suffix[1:].lower() not in FigureCanvasBase.get_supported_filetypes():
        raise InputError(
            f"must end in .png, .svg or .pdf, got {short_repr(str(output))}", argument="output"
        )


COMMAND = Command(
    "plot",
    Options,
    plot,
    "plot runs/a",
    "plot runs/a runs/b --x tokens --ymax 4 --output both.svg",
)
