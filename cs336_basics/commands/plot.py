"""`python -m cs336_basics plot`: plot the learning curves of one or more runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.validation import Checked, option
from cs336_basics.checkpoints.run_dir import comparable
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import OVERWRITE, Command
from cs336_basics.commands._outputs import check_output
from cs336_basics.commands._tables import table_lines

if TYPE_CHECKING:
    from cs336_basics.training.learning_curves import Rows


@dataclass(kw_only=True)
class Options(Checked):
    """Plot the losses, or another measure, of one or more runs in one figure.

    Each run has a color. The training loss is a thin line, and the validation loss has markers.
    """

    runs: tuple[Path, ...] = option("run directories", metavar="RUN ...", positional=True)
    x: Literal["step", "tokens", "seconds", "all"] = option(
        "horizontal axis; all draws one panel for each axis", "all"
    )
    y: Literal["loss", "bits-per-byte", "lr", "grad-norm"] = option(
        "vertical axis; bits-per-byte compares runs with different tokenizers", "loss"
    )
    ymax: float | None = option("upper limit of the vertical axis", None, gt=0)
    output: Path = option("image to write: .png, .svg or .pdf", Path("runs.png"), metavar="FILE")
    overwrite: bool = OVERWRITE


def plot(options: Options) -> None:
    """Plot the runs, and print a summary line for each."""
    from cs336_basics.training.learning_curves import AXES, name_runs, plot_runs, read_curves

    _check_format(options.output)
    check_output("output", str(options.output), options.overwrite, ())
    curves = {
        name: read_curves(path, options.y)
        for name, path in zip(name_runs(options.runs), options.runs, strict=True)
    }
    axes = list(AXES) if options.x == "all" else [options.x]
    plot_runs(curves, options.output, axes, y=options.y, ymax=options.ymax)
    table = [
        (
            name[-39:],
            f"{rows[-1]['step']:,}",
            f"{rows[-1]['tokens']:,}",
            _lowest(rows[-1:], "seconds", 0),
            _lowest(rows, "val_loss", 4),
            _lowest(rows, "val_bits_per_byte", 4),
        )
        for name, rows in curves.items()
    ]
    header = ("run", "steps", "tokens", "seconds", "best val. loss", "best bits/byte")
    for line in table_lines(header, table):
        say(line)
    say(f"written to {options.output}")


def _lowest(rows: Rows, metric: str, digits: int) -> str:
    """Return the lowest value of a metric after step 0 as text, or nothing if there is none."""
    values = [comparable(row, metric) for row in rows if metric in row and row["step"]]
    return f"{min(values):,.{digits}f}" if values else ""


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
    "plot runs/a runs/b --x tokens --y bits-per-byte",
)
