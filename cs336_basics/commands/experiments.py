"""`python -m cs336_basics experiments`: the course's experiments, as learning curves and a report.

python -m cs336_basics experiments --scale cpu                       # two hours on two cores
python -m cs336_basics experiments --scale cpu --train-path my.txt   # on your own text
python -m cs336_basics experiments --scale course                    # CS336's sizes, for a GPU

Stopped at any moment, the same command goes on where it was; `report.md` in the output directory
holds what there is so far. Every experiment is a training run of its own, which
`python -m cs336_basics.train` could do as well: report.md names the options.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see train.py

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cs336_basics._files import atomic_writer, write_json
from cs336_basics.commands import train
from cs336_basics.commands._cli import complain, complain_of, say, show_what_can_be_shown
from cs336_basics.commands._options import parse_command_line
from cs336_basics.commands.plot import draw_run
from cs336_basics.runs.prepare import prepare_data
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import load_config

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """One training run: what it is called, and how it differs from the baseline."""

    name: str
    label: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """Runs that are compared with each other, in one figure and one table."""

    name: str
    title: str
    question: str
    experiments: tuple[Experiment, ...]


@dataclass(frozen=True)
class Scale:
    """How large the runs are.

    `options` make the baseline out of the configuration `config`. The batch sizes share one budget
    of tokens; `learning_rates` end with one that diverges.
    """

    config: str
    options: tuple[str, ...]
    learning_rates: tuple[float, ...]
    baseline_rate: float
    lower_rate: float
    batch_sizes: tuple[int, ...]


SCALES = {
    # For the tests: it goes through all the motions and learns nothing.
    "test": Scale(
        "sample",
        (
            *("--data.sample-bytes", "60000", "--model.vocab-size", "300"),
            *("--model.context-length", "16", "--model.d-model", "16", "--model.d-ff", "64"),
            *("--model.num-layers", "1", "--model.num-heads", "2"),
            *("--batch-size", "4", "--max-steps", "8", "--eval-every", "4", "--log-every", "2"),
            *("--eval-batches", "2", "--sample-tokens", "0", "--checkpoint-every", "4"),
        ),
        learning_rates=(1e-3, 1e-2, 1e6),
        baseline_rate=1e-2,
        lower_rate=1e-3,
        batch_sizes=(1, 4, 8),
    ),
    # 1.1 M parameters; 2.5 M tokens for each run.
    "cpu": Scale(
        "sample",
        (
            *("--model.vocab-size", "2000", "--model.d-ff", "344"),
            *("--batch-size", "16", "--max-steps", "600", "--eval-every", "50"),
            *("--log-every", "5", "--sample-tokens", "0", "--checkpoint-every", "50"),
            *("--eval-batches", "10", "--schedule.min-learning-rate", "0"),
        ),
        learning_rates=(1e-3, 3e-3, 1e-2, 3e-2, 0.1, 1.0, 100.0),
        baseline_rate=1e-2,
        lower_rate=1e-3,
        batch_sizes=(1, 4, 16, 64, 128),
    ),
    # CS336's own: 327,680,000 tokens for each run.
    "course": Scale(
        "tinystories",
        ("--schedule.min-learning-rate", "0", "--sample-tokens", "0"),
        learning_rates=(1e-3, 3e-3, 1e-2, 3e-2, 0.1, 1.0, 100.0),
        baseline_rate=1e-2,
        lower_rate=1e-3,
        batch_sizes=(1, 8, 64, 256, 512),
    ),
}


# These may change when the command is given again; what is computed may not.
_OF_THE_MACHINE = ("--device", "--num-workers")


def plan(scale: Scale, config: TrainConfig) -> list[Group]:
    """Return the experiments of a scale; `config` is that of the baseline."""
    rate = "--schedule.max-learning-rate"
    baseline = Experiment("baseline", "baseline", (rate, str(scale.baseline_rate)))

    def variant(name: str, label: str, *options: str) -> Experiment:
        # Later options win: one that sets the learning rate overrides the baseline's.
        return Experiment(name, label, (*baseline.options, *options))

    def named(label: str) -> Experiment:
        return dataclasses.replace(baseline, label=f"{label} (baseline)")

    rates = tuple(
        named(f"learning rate {value:g}")
        if value == scale.baseline_rate
        else Experiment(
            f"lr-{value:g}".replace("+", ""), f"learning rate {value:g}", (rate, str(value))
        )
        for value in scale.learning_rates
    )
    tokens = config.max_steps * config.batch_size
    sizes = []
    for size in scale.batch_sizes:
        if size == config.batch_size:
            sizes.append(named(f"batch size {size}"))
            continue
        # The square root of the batch size: Malladi et al. 2022, for Adam.
        scaled = scale.baseline_rate * math.sqrt(size / config.batch_size)
        factor = config.batch_size / size
        steps = max(1, tokens // size)
        options = [
            *("--batch-size", str(size), "--max-steps", str(steps), rate, f"{scaled:g}"),
            *("--eval-every", str(max(1, round(config.eval_every * factor)))),
            *("--checkpoint-every", str(max(1, round(config.checkpoint_every * factor)))),
            *("--log-every", str(max(1, round(config.log_every * factor)))),
            *("--eval-batches", str(max(1, round(config.eval_batches * factor)))),
        ]
        sizes.append(variant(f"batch-{size}", f"batch size {size}", *options))
    lower = str(scale.lower_rate)
    return [
        Group(
            "learning-rate",
            "Learning rate",
            "How fast does it learn, where does it become unstable, and where does it diverge?",
            rates,
        ),
        Group(
            "batch-size",
            "Batch size",
            "The same number of tokens in fewer, larger steps; the learning rate follows the "
            "square root of the batch size.",
            tuple(sizes),
        ),
        Group(
            "normalization",
            "RMSNorm",
            "What happens without it, at the same learning rate and at a lower one, and when it "
            "stands behind the sublayers?",
            (
                baseline,
                variant("no-norm", "without RMSNorm", "--model.norm", "none"),
                variant(
                    "no-norm-lower",
                    f"without RMSNorm, learning rate {lower}",
                    *("--model.norm", "none", rate, lower),
                ),
                variant("post-norm", "post-norm", "--model.norm", "post"),
            ),
        ),
        Group(
            "position",
            "Position embedding",
            "Does the causal mask tell enough about positions?",
            (baseline, variant("nope", "no positions (NoPE)", "--model.position", "none")),
        ),
        Group(
            "feed-forward",
            "SwiGLU against SiLU",
            "What is the gate worth, at about as many parameters (SiLU: d_ff = 4 d_model)?",
            (
                baseline,
                variant(
                    "silu",
                    "SiLU",
                    *("--model.ffn", "silu", "--model.d-ff", str(4 * config.model.d_model)),
                ),
            ),
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 2 for what cannot be used, or 130 or 143 where it was stopped."""
    options = build_parser().parse_args(arguments)
    show_what_can_be_shown()
    try:
        return run_all(SCALES[options.scale], options, report=say)
    except KeyboardInterrupt:
        complain("stopped; the same command goes on where it was")
        return 130
    except (ValueError, OSError) as error:
        complain_of(error)
        return 2


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m cs336_basics experiments",
        description="Run the course's experiments: learning rates, batch sizes, and ablations.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--scale", choices=list(SCALES), required=True, help="how large the runs are")
    add("--out", type=Path, metavar="DIR", help="output directory; unset: experiments/SCALE")
    add("--dataset", choices=("sample", "tinystories", "owt"), help="unset: the scale's own")
    add("--train-path", metavar="FILE", help="your own training text instead")
    add("--valid-path", metavar="FILE", help="and validation text; unset: the end of the training")
    add("--num-workers", type=int, metavar="N", help="threads; unset: all cores")
    add("--device", default="auto", help="cpu, cuda, cuda:N, mps or auto")
    return parser


def run_all(scale: Scale, options: argparse.Namespace, report: Callable[[str], None]) -> int:
    """Run what is missing of a scale's experiments; write the report after each of them.

    Raises:
        ValueError, OSError: the options or the data cannot be used.
    """
    out: Path = options.out or Path("experiments") / options.scale
    common = [*scale.options, "--device", options.device]
    for key, value in (
        ("--data.dataset", options.dataset),
        ("--data.train-path", options.train_path),
        ("--data.valid-path", options.valid_path),
        ("--num-workers", options.num_workers),
    ):
        common += [] if value is None else [key, str(value)]
    for path in (options.train_path, options.valid_path):
        if path is not None and path.endswith(".npy"):
            raise ValueError(
                f"{path} is a token file: the experiments train a tokenizer of their own, so name "
                "the text that it was made from"
            )
    config = parse_command_line(["--config", scale.config, *common]).config
    _check_same_command(out, [scale.config, *common])
    common += prepare_shared_data(config, out / "data", report)

    groups = plan(scale, config)
    experiments = {run.name: run for group in groups for run in group.experiments}
    for number, experiment in enumerate(experiments.values(), start=1):
        report(f"{number}/{len(experiments)} {experiment.label}")
        command = ["--config", scale.config, *common, *experiment.options]
        status = run_training(out / "runs" / experiment.name, experiment.name, command)
        if status != 0:
            return status
        write_report(out, groups, [scale.config, *common], experiment)
    report(f"report: {out / 'report.md'}")
    return 0


def _check_same_command(out: Path, command: list[str]) -> None:
    """Refuse to mix the runs of two different commands in one directory.

    Raises:
        ValueError: the directory was begun with other options.
    """
    record = out / "command.json"
    kept = [
        word
        for before, word in zip([None, *command], command, strict=False)
        if word not in _OF_THE_MACHINE and before not in _OF_THE_MACHINE
    ]
    if record.exists():
        if json.loads(record.read_text(encoding="utf-8")) != kept:
            raise ValueError(f"{out} was begun with other options: name another --out")
        return
    out.mkdir(parents=True, exist_ok=True)
    write_json(record, kept)


def prepare_shared_data(
    config: TrainConfig, directory: Path, report: Callable[[str], None]
) -> list[str]:
    """Make the tokenizer and token files that all runs share; return the options that name them.

    Raises:
        ValueError, OSError: the text cannot be used.
    """
    run = RunDirectory(directory)
    run.path.mkdir(parents=True, exist_ok=True)
    run.remove_temporary_files()
    data = prepare_data(config, run, report=report)
    files = [config.data.train_path, config.data.valid_path]
    for i, split in enumerate(("train", "valid")):
        file = files[i]
        if file is None or not file.endswith(".npy"):
            files[i] = str(run.data / f"{split}.npy")
    return [
        *("--data.tokenizer", str(run.tokenizer)),
        *("--data.train-path", str(files[0]), "--data.valid-path", str(files[1])),
        *("--model.vocab-size", str(data.tokenizer.vocab_size)),
    ]


def run_training(directory: Path, name: str, command: Sequence[str]) -> int:
    """Train a run, or go on with it where it was stopped; what it prints goes to output.txt.

    Returns 0 also for a run that diverges, which leaves diverged.json in its directory, else the
    status of a command that was stopped: 130 or 143.

    Raises:
        ValueError: the command cannot be used; with what it said.
    """
    run = RunDirectory(directory)
    diverged = directory / "diverged.json"
    if diverged.exists() or is_finished(run):
        return 0
    if run.config.is_file():
        words = ["--resume", str(directory)]
        for option, value in itertools.pairwise(command):
            words += [option, value] if option in _OF_THE_MACHINE else []
    else:
        run.remove_temporary_files()  # of a process that was killed before it began
        words = [*command, "--name", name, "--run-dir", str(directory)]
    output = directory.parent / f"{name}.txt"  # beside it: a new run's directory must be empty
    output.parent.mkdir(parents=True, exist_ok=True)
    with (
        open(output, "a", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        status = train.main(words)
    if status in (130, 143):
        complain(f"stopped in {directory}; the same command goes on where it was")
        return status
    said = output.read_text(encoding="utf-8").splitlines()
    if status == 1 and said and "diverged" in said[-1]:
        write_json(diverged, {"message": said[-1]})
        return 0
    if status != 0:
        raise ValueError(f"{directory}: {said[-1] if said else f'status {status}'}")
    return 0


def is_finished(run: RunDirectory) -> bool:
    """Return whether the last step of a run was taken and evaluated."""
    if not run.config.is_file():
        return False
    last = load_config(run.config).max_steps
    return any("val_loss" in row and row["step"] == last for row in run.read_metrics())


# The report.


def write_report(
    out: Path, groups: Sequence[Group], command: Sequence[str], newest: Experiment
) -> None:
    """Write report.md, of the runs that there are, and a PNG for each group with the newest."""
    lines = [
        "# Experiments",
        "",
        "Loss is the mean cross-entropy per token of the validation data, in nats, at the end of "
        "the run; unstable is a run whose training loss rose above its first value, diverged one "
        "that ended in infinities. Seconds are wall-clock time. Every run is the baseline but for "
        "the options in its row; the baseline is `python -m cs336_basics.train` with",
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
            options = f"`{' '.join(experiment.options)}`"
            lines.append(f"| {experiment.label} | {options} | {row} |")
        lines += ["", f"![{group.title}]({group.name}.png)"]
        if newest.name in [experiment.name for experiment in group.experiments]:
            ended = {
                f"{label} (diverged)" if _diverged(directories[label]) else label: rows
                for label, rows in curves.items()
            }
            plot_curves(out / f"{group.name}.png", group.title, ended)
    with atomic_writer(out / "report.md", "w") as file:
        file.write("\n".join(lines) + "\n")


def _diverged(directory: Path) -> bool:
    return (directory / "diverged.json").exists()


def _summary(directory: Path, rows: Rows) -> str:
    """Return the cells of a run in the table: loss, perplexity, bits per byte, seconds."""
    evaluated = [row for row in rows if "val_loss" in row]
    if _diverged(directory):
        at = f" after step {rows[-1]['step']}" if rows else ""
        return f"diverged{at} | - | - | - "
    if not evaluated:
        return "- | - | - | - "
    last = evaluated[-1]
    bits = last.get("val_bits_per_byte")
    bits_text = "-" if bits is None else f"{bits:.4f}"
    loss = f"{last['val_loss']:.4f}"
    training = [row["train_loss"] for row in rows if "train_loss" in row]
    if max(training) > training[0]:
        loss += f" (unstable: rose to {max(training):.2f})"
    seconds = f"{last['seconds']:.0f}" if "seconds" in last else "-"
    return f"{loss} | {last['val_perplexity']:.2f} | {bits_text} | {seconds}"


def plot_curves(path: Path, title: str, curves: dict[str, Rows]) -> None:
    """Draw the losses of runs over tokens."""
    # Only drawing needs matplotlib, which takes half a second to import.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    final = [row["val_loss"] for rows in curves.values() for row in rows[-1:] if "val_loss" in row]
    for index, (label, rows) in enumerate(curves.items()):
        draw_run(axes, rows, "tokens", label, f"C{index}")
    if final:  # what matters is between the best run and some way above it
        axes.set_ylim(min(final) - 0.2, min(final) + 3)
    axes.set_xlabel("tokens")
    axes.set_ylabel("cross-entropy loss (nats per token)")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()
    with atomic_writer(path) as file:
        figure.savefig(file, format="png", dpi=120)


if __name__ == "__main__":
    sys.exit(main())
