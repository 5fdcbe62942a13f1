"""`python -m cs336_basics.train`: text to tokenizer to token files to a trained model.

python -m cs336_basics.train                              # a small model on a generated corpus
python -m cs336_basics.train --config tinystories         # the course's model and data
python -m cs336_basics.train --data.train-path my.txt     # your own text
python -m cs336_basics.train --resume runs/sample-...     # go on where it was stopped
"""

from __future__ import annotations

import os

# OpenMP reads this when torch loads it. Threads that wait for each other then sleep: spinning, the
# default, gains little where the cores are free and costs a lot where other programs use them too.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import dataclasses
import datetime
import io
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from cs336_basics._files import atomic_writer
from cs336_basics.training.config import (
    CommandLine,
    ConfigError,
    TrainConfig,
    config_to_yaml,
    parse_command_line,
)
from cs336_basics.training.prepare import check_sources, prepare_data
from cs336_basics.training.run_dir import RunDirectory
from cs336_basics.training.trainer import (
    NonFiniteLossError,
    Trainer,
    TrainingInterrupted,
    TrainResult,
    check_precision,
    choose_device,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    0: trained to the end; 1: stopped by an error in training; 2: the command, the configuration or
    the data cannot be used; 130 or 143: stopped by Ctrl-C or SIGTERM, ready to be resumed.
    """
    try:
        command = parse_command_line(sys.argv[1:] if arguments is None else arguments)
    except ConfigError as error:
        return _fail(error, 2)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a model may write what the terminal cannot show
    try:
        # Before there is a directory.
        check_sources(command.config)
        check_precision(command.config.precision, choose_device(command.config.device))
        run = _open_run(command)
        run.lock()
    except (ValueError, OSError) as error:
        return _fail(error, 2)

    try:
        return _train(command, run)
    finally:
        run.unlock()


def _train(command: CommandLine, run: RunDirectory) -> int:
    """Prepare the data, train, print; return the exit status."""
    again = f"python -m cs336_basics.train --resume {shlex.quote(str(run.path))}"
    try:
        trainer = _prepare(command, run)
    except KeyboardInterrupt:
        print(f"stopped while preparing; to go on: {again}", file=sys.stderr)
        return 128 + signal.SIGINT
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        return _fail(error, 2)

    try:
        result = trainer.fit()
    except TrainingInterrupted as stop:
        print(f"{stop}; to go on: {again}", file=sys.stderr)
        return 128 + stop.signal_number
    except KeyboardInterrupt:
        print(f"stopped at once; to go on from the last checkpoint: {again}", file=sys.stderr)
        return 128 + signal.SIGINT
    except NonFiniteLossError as error:
        return _fail(error, 1)
    except OSError as error:  # a full disk; what was saved before is whole
        return _fail(OSError(f"{error}; to go on from the last checkpoint: {again}"), 1)
    _print_summary(result, run)
    return 0


def _open_run(command: CommandLine) -> RunDirectory:
    """Return the directory of the run: a new one with its configuration in it, or the old one."""
    if command.resume is not None:
        return RunDirectory(command.resume)
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    run = RunDirectory(command.run_dir or Path("runs") / f"{command.config.name}-{now}")
    run.create()
    _save_config(command.config, run)
    return run


def _save_config(config: TrainConfig, run: RunDirectory) -> None:
    """Write the resolved configuration, with paths that hold wherever the run is resumed."""

    def absolute(path: str | None) -> str | None:
        return None if path is None else os.path.abspath(path)

    data = dataclasses.replace(
        config.data,
        data_dir=absolute(config.data.data_dir),
        train_path=absolute(config.data.train_path),
        valid_path=absolute(config.data.valid_path),
        tokenizer=absolute(config.data.tokenizer),
    )
    with atomic_writer(run.config, "w") as file:
        file.write(config_to_yaml(dataclasses.replace(config, data=data)))


def _prepare(command: CommandLine, run: RunDirectory) -> Trainer:
    """Make the data of a run and the trainer on it."""
    print(f"run directory: {run.path}", flush=True)
    if command.resume is not None:
        run.remove_temporary_files()
    config = command.config
    data = prepare_data(config, run, progress=sys.stderr.isatty(), report=_say)
    vocab_size = data.tokenizer.vocab_size
    if vocab_size != config.model.vocab_size:
        # A finished tokenizer has its own size, and a small text has no more than so many merges.
        _say(f"model.vocab_size becomes {vocab_size:,}, that of the tokenizer")
        model = dataclasses.replace(config.model, vocab_size=vocab_size)
        config = dataclasses.replace(config, model=model)
        _save_config(config, run)
    trainer = Trainer(
        config,
        data.train_tokens,
        data.valid_tokens,
        run,
        tokenizer=data.tokenizer,
        valid_bytes_per_token=data.valid_bytes_per_token,
        report=_say,
    )
    _say(_describe(config, trainer))
    if command.resume is not None:
        trainer.resume(command.resume_from, skip_damaged=command.skip_damaged)
        _save_config(config, run)  # only now: what was refused must not replace it
        _say(f"going on after step {trainer.step}")
    return trainer


def _describe(config: TrainConfig, trainer: Trainer) -> str:
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    tokens = config.max_steps * config.batch_size * config.model.context_length
    return (
        f"training {parameters:,} parameters for {config.max_steps:,} steps, {tokens:,} tokens, "
        f"on {trainer.device} in {config.precision}"
    )


def _print_summary(result: TrainResult, run: RunDirectory) -> None:
    """Print how the run ended, a story, and where everything lies."""
    if result.sample is not None:
        print(f"\nA story from the trained model:\n\n{result.sample}")
    rows = [
        ("steps", f"{result.step:,}"),
        ("tokens", f"{result.tokens:,}"),
        ("time", f"{result.seconds:,.1f} s"),
        ("training loss", f"{result.train_loss:.4f}"),
        ("validation loss", f"{result.val_loss:.4f} (best {result.best_val_loss:.4f})"),
        ("perplexity", f"{result.val_perplexity:.2f}"),
    ]
    if result.val_bits_per_byte is not None:
        rows.append(("bits per byte", f"{result.val_bits_per_byte:.4f}"))
    rows += [
        ("configuration", str(run.config)),
        ("tokenizer", str(run.tokenizer)),
        ("text and token files", str(run.data)),
        ("metrics", str(run.metrics)),
        ("loss curve", str(run.loss_plot)),
        ("checkpoints", str(run.checkpoints)),
        ("samples", str(run.samples)),
    ]
    print()
    for name, value in rows:
        print(f"{name:<22}{value}")
    print(
        "\nMore stories:         "
        f"python -m cs336_basics.generate --run {shlex.quote(str(run.path))} "
        "--prompt 'Once upon a time'"
    )


def _say(text: str) -> None:
    # Flushed, so that a log file shows how far the run is.
    print(text, flush=True)


def _fail(error: Exception, status: int) -> int:
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
