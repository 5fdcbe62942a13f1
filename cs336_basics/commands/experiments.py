"""`python -m cs336_basics experiments`: run the course's experiments and write a report.

Each experiment is an ordinary run. The report lists the options with which
`python -m cs336_basics.train` repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cs336_basics._support.validation import Checked, one_of, option
from cs336_basics.commands._cli import complain, say
from cs336_basics.commands._options import COLUMN, DEVICE, FIELD, NUM_WORKERS, Command, UsageError
from cs336_basics.experiments.plan import SCALES


@dataclass(kw_only=True)
class Options(Checked):
    """Run the course's experiments and write a report with learning curves.

    The experiments cover learning rates, batch sizes and ablations. To continue after an
    interruption, repeat the command. The report covers the runs finished so far.
    """

    scale: Annotated[str, one_of(SCALES)] = option(
        "size of the runs: test (seconds), cpu (three hours on two cores) or course (the sizes "
        "used in CS336; needs a GPU)",
        metavar="NAME",
    )
    out: Path | None = option("output directory (default: experiments/SCALE)", None, metavar="DIR")
    dataset: Literal["sample", "tinystories", "owt"] | None = option(
        "corpus (default: depends on the scale)", None
    )
    train_path: str | None = option("training text, instead of a dataset", None, metavar="FILE")
    valid_path: str | None = option(
        "validation text (default: the end of the training text)", None, metavar="FILE"
    )
    field: str | None = FIELD
    column: str | None = COLUMN
    device: str = DEVICE
    num_workers: int | None = NUM_WORKERS


def experiment(options: Options) -> int:
    """Run the experiments, and return the exit status."""
    # These import torch, which help pages do not need.
    from cs336_basics.experiments.runner import run_experiments
    from cs336_basics.training.allocator import keep_freed_memory
    from cs336_basics.training.session import TrainingInterrupted

    if options.dataset is not None and options.train_path is not None:
        raise UsageError("give either --dataset or --train-path, not both")
    values = {
        "device": options.device,
        "num_workers": options.num_workers,
        **{
            f"data.{name}": getattr(options, name)
            for name in ("dataset", "train_path", "valid_path", "field", "column")
        },
    }
    values = {key: value for key, value in values.items() if value is not None}
    out = options.out or Path("experiments") / options.scale
    keep_freed_memory()
    try:
        run_experiments(SCALES[options.scale], out, values, report=say)
    except TrainingInterrupted as stop:
        complain(f"{COMMAND.program}: {stop}; repeat the command to continue")
        return 128 + stop.signal_number
    return 0


COMMAND = Command(
    "experiments",
    Options,
    experiment,
    "experiments --scale cpu",
    "experiments --scale cpu --train-path my.txt --out experiments/my",
    "experiments --scale course --device cuda",
    uses_torch=True,
)
