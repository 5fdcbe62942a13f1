"""`python -m cs336_basics.train`: text to tokenizer to token files to a trained model.

python -m cs336_basics.train                              # a small model on a generated corpus
python -m cs336_basics.train --config tinystories         # the course's model and data
python -m cs336_basics.train --data.train-path my.txt     # your own text
python -m cs336_basics.train --resume runs/sample-...     # go on where it was stopped
python -m cs336_basics.train --fast auto ...              # as fast as this machine can
torchrun --nproc-per-node 2 -m cs336_basics.train ...     # with several processes
"""

from __future__ import annotations

import os

# OpenMP reads this when torch loads it. Threads that wait for each other then sleep: spinning, the
# default, gains little where the cores are free and costs a lot where other programs use them too.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import dataclasses
import datetime
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from cs336_basics._files import atomic_writer
from cs336_basics.commands._cli import complain, complain_of, say, show_what_can_be_shown
from cs336_basics.commands._options import CommandLine, parse_command_line
from cs336_basics.runs.loggers import Logger, open_loggers
from cs336_basics.runs.prepare import check_sources, prepare_data
from cs336_basics.runs.run_dir import RunDirectory
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import ConfigError, config_to_yaml
from cs336_basics.training.devices import check_precision, choose_device, choose_fast_path
from cs336_basics.training.distributed import World, join_world, leave_world
from cs336_basics.training.trainer import (
    NonFiniteLossError,
    Trainer,
    TrainingInterrupted,
    TrainResult,
    check_batch_size,
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
    show_what_can_be_shown()
    try:
        world = join_world(command.config.device)
    except ValueError as error:  # more processes than GPUs
        return _fail(error, 2)
    except RuntimeError as error:
        return _fail(error, 1)
    try:
        return _run(command, world)
    except KeyboardInterrupt:
        complain("stopped before the run began")
        return 128 + signal.SIGINT
    finally:
        leave_world()


def _run(command: CommandLine, world: World) -> int:
    """Open the run's directory, train in it, and return the exit status."""
    run, error = None, None
    if world.is_first:
        try:
            # Before there is a directory.
            check_sources(command.config)
            check_batch_size(command.config, world)
            device = choose_device(command.config.device)
            check_precision(command.config.precision, device)
            if command.config.fast == "auto":
                command.config, choices = choose_fast_path(command.config, device, command.given)
                for line in choices:
                    say(f"fast: {line}")
            run = _open_run(command)
            run.lock()
        except (ValueError, OSError) as problem:
            error = problem
    # What the first process found is what all of them do.
    found = world.share((command.config, None if run is None else run.path))
    if error is not None:
        return _fail(error, 2)
    command.config, path = found
    if path is None:
        return 2
    run = run or RunDirectory(path)
    try:
        return _train(command, run, world)
    finally:
        run.unlock()


def _train(command: CommandLine, run: RunDirectory, world: World) -> int:
    """Prepare the data, train, print; return the exit status."""
    again = f"python -m cs336_basics.train --resume {shlex.quote(str(run.path))}"
    if world.size > 1:
        again = again.replace("python", f"torchrun --nproc-per-node {world.size}", 1)
    loggers: list[Logger] = []
    try:
        trainer = _prepare(command, run, world)
        if world.is_first:
            loggers += open_loggers(trainer.config, run, trainer.step)
        trainer.loggers = loggers
    except KeyboardInterrupt:
        complain(f"stopped while preparing; to go on: {again}")
        return 128 + signal.SIGINT
    except (ValueError, OSError, ImportError, RuntimeError, MemoryError) as error:
        return _fail(_explain_memory(error, "the model and its data must fit: make it smaller"), 2)

    try:
        result = trainer.fit()
    except TrainingInterrupted as stop:
        if world.is_first:
            complain(f"{stop}; to go on: {again}")
        return 128 + stop.signal_number
    except KeyboardInterrupt:
        complain(f"stopped at once; to go on from the last checkpoint: {again}")
        return 128 + signal.SIGINT
    except NonFiniteLossError as error:
        return _fail(error, 1)
    except OSError as error:  # a full disk; what was saved before is whole
        return _fail(OSError(f"{error}; to go on from the last checkpoint: {again}"), 1)
    except (RuntimeError, MemoryError) as error:
        accumulation, batch_size = trainer.config.accumulation, trainer.config.batch_size
        rows = f"batch_size {batch_size}"
        if world.size > 1:
            rows = f"{batch_size // world.size}, the part of each process"
        explained = _explain_memory(
            error,
            f"a larger --accumulation (now {accumulation}; a divisor of {rows}) "
            f"needs less and computes the same: {again} --accumulation N",
        )
        if explained is not error:
            return _fail(explained, 1)
        if world.size == 1:
            raise
        # What a collective operation raises when another process is gone.
        reason = f"process {world.rank} of {world.size} stopped: {error}"
        return _fail(RuntimeError(f"{reason}; to go on from the last checkpoint: {again}"), 1)
    finally:
        for logger in loggers:
            logger.close()
    if world.is_first:
        _print_summary(result, run)
    return 0


def _explain_memory(error: Exception, advice: str) -> Exception:
    """Return the error, or where memory ran out a MemoryError that says what to do."""
    ran_out = isinstance(error, (MemoryError, torch.OutOfMemoryError))
    if not ran_out and "DefaultCPUAllocator" not in str(error):  # torch's, which is a RuntimeError
        return error
    reason = (str(error) or "no more is known").splitlines()[0]
    return MemoryError(
        f"out of memory ({reason}): {advice}. `python -m cs336_basics estimate` tells beforehand "
        "what a run takes"
    )


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


def _prepare(command: CommandLine, run: RunDirectory, world: World) -> Trainer:
    """Make the data of a run and the trainer on it."""
    report: Callable[[str], None] = say if world.is_first else lambda text: None
    report(f"run directory: {run.path}")
    if command.resume is not None and world.is_first:
        run.remove_temporary_files()
    config = command.config
    if not world.is_first:
        world.wait()  # until the first process has made the data
    data = prepare_data(config, run, progress=sys.stderr.isatty() and world.is_first, report=report)
    if world.is_first:
        world.wait()
    vocab_size = data.tokenizer.vocab_size
    if vocab_size != config.model.vocab_size:
        # A finished tokenizer has its own size, and a small text has no more than so many merges.
        report(f"model.vocab_size becomes {vocab_size:,}, that of the tokenizer")
        model = dataclasses.replace(config.model, vocab_size=vocab_size)
        config = dataclasses.replace(config, model=model)
        if world.is_first:
            _save_config(config, run)
    trainer = Trainer(
        config,
        data.train_tokens,
        data.valid_tokens,
        run,
        tokenizer=data.tokenizer,
        world=world,
        report=report,
    )
    report(_describe(config, trainer))
    if command.resume is not None:
        trainer.resume(command.resume_from, skip_damaged=command.skip_damaged)
        if world.is_first:
            _save_config(config, run)  # only now: what was refused must not replace it
        report(f"going on after step {trainer.step}")
    return trainer


def _describe(config: TrainConfig, trainer: Trainer) -> str:
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    tokens = config.max_steps * config.batch_size * config.model.context_length
    text = (
        f"training {parameters:,} parameters for {config.max_steps:,} steps, {tokens:,} tokens, "
        f"on {trainer.device} in {config.precision}"
    )
    if trainer.world.size > 1:
        text += f", by {trainer.world.size} processes ({config.parallel})"
    return text


def _print_summary(result: TrainResult, run: RunDirectory) -> None:
    """Print how the run ended, a story, and where everything lies."""
    if result.sample is not None:
        say(f"\nA story from the trained model:\n\n{result.sample}")
    rows = [
        ("steps", f"{result.step:,}"),
        ("tokens", f"{result.tokens:,}"),
        ("time", f"{result.seconds:,.1f} s"),
        ("tokens per second", f"{result.tokens / max(result.seconds, 1e-9):,.0f}"),
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
    say("")
    for name, value in rows:
        say(f"{name:<22}{value}")
    say(
        "\nMore stories:         "
        f"python -m cs336_basics generate --run {shlex.quote(str(run.path))} "
        "--prompt 'Once upon a time'"
    )


def _fail(error: Exception, status: int) -> int:
    complain_of(error)
    return status


if __name__ == "__main__":
    sys.exit(main())
