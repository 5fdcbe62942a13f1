"""How a training run starts: its directory, its data, and a trainer ready to take the first step.

check_start(config)
run = create_run(config, "runs/mine")
with open_trainer(config, run) as trainer:
    result = trainer.fit()
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cs336_basics._support.files import atomic_writer
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.prepare import check_sources, prepare_data
from cs336_basics.data.sources import absolute_path, check_length
from cs336_basics.training.config import TrainConfig, check_fast_is_chosen
from cs336_basics.training.config_files import config_to_dict, config_to_yaml
from cs336_basics.training.devices import check_precision, choose_device
from cs336_basics.training.distributed import World, check_batch_size
from cs336_basics.training.load_run import check_model_size
from cs336_basics.training.loggers import check_loggers, open_loggers
from cs336_basics.training.resume import resume_run
from cs336_basics.training.trainer import Trainer


@dataclass(frozen=True)
class Resumption:
    """How a run is continued."""

    checkpoint: Path | None = None
    """The checkpoint to continue from; None: the newest."""
    skip_damaged: bool = False
    """Skip damaged checkpoints, back to the newest that is whole."""


def check_start(config: TrainConfig, world: World | None = None) -> None:
    """Check what can be checked before anything is written: data, batch size, device, loggers.

    Raises:
        ValueError, OSError: the configuration cannot be used here; names the value.
    """
    sources = check_sources(config.preparation)
    for key, source in zip(("train_path", "valid_path"), sources, strict=True):
        check_length(f"data.{key}", source, config.model.context_length)
    check_batch_size(config, world or World())
    check_precision(config.precision, choose_device(config.device))
    check_loggers(config.loggers)


def create_run(config: TrainConfig, path: str | os.PathLike[str] | None = None) -> RunDirectory:
    """Create the directory of a new run, locked, with its configuration.

    Args:
        config: what to train, and how.
        path: the directory; None: runs/NAME-DATE.

    Raises:
        FileExistsError: the directory is not empty, or a file.
        ValueError: another process has just made a run in it; or `config.fast` is "auto".
    """
    check_fast_is_chosen(config)
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    run = RunDirectory(path or Path("runs") / f"{config.name}-{now}")
    run.create()
    try:
        save_config(config, run)
    except BaseException:
        run.discard()
        run.unlock()
        raise
    return run


def save_config(config: TrainConfig, run: RunDirectory) -> None:
    """Write the configuration, with absolute paths, so that a run can be resumed from anywhere."""

    def absolute(path: str | tuple[str, ...] | None) -> Any:
        if isinstance(path, tuple):
            return tuple(map(absolute_path, path))
        return None if path is None else absolute_path(path)

    data = dataclasses.replace(
        config.data,
        data_dir=absolute(config.data.data_dir),
        train_path=absolute(config.data.train_path),
        valid_path=absolute(config.data.valid_path),
        tokenizer=absolute(config.data.tokenizer),
    )
    with atomic_writer(run.config, "w") as file:
        file.write(config_to_yaml(dataclasses.replace(config, data=data)))


@contextlib.contextmanager
def open_trainer(
    config: TrainConfig,
    run: RunDirectory,
    *,
    resume: Resumption | None = None,
    world: World | None = None,
    progress: bool = False,
    report: Callable[[str], None] = print,
) -> Iterator[Trainer]:
    """Prepare the data of a run and yield the trainer on it; close its loggers at the end.

    The run is locked before anything is written into it, and unlocked at the end. A new run that
    cannot start leaves no directory in the way of the next attempt. One that is interrupted while
    it prepares its data keeps what it has, and can be resumed.

    Args:
        config: what to train, and how; with `resume`, that of the run, except for values that may
            change.
        run: the directory, as `create_run` makes it.
        resume: how to continue the run; None: it is new.
        world: the processes that train together; each calls this.
        progress: show progress bars of the preparation on a terminal.
        report: is given lines to show, in the first process.

    Raises:
        ValueError, OSError, ImportError: data, tokenizer, checkpoint or loggers cannot be used; or
            another process uses the run.
        RuntimeError, MemoryError: model and data do not fit into memory.
    """
    world = world or World()
    say: Callable[[str], None] = report if world.is_first else lambda line: None
    if world.is_first:
        run.lock()
    try:
        try:
            trainer = _prepare(config, run, resume, world, progress, say)
        except Exception:
            if resume is None and world.is_first:
                run.discard()
            raise
        try:
            yield trainer
        finally:
            for logger in trainer.loggers:
                logger.close()
    finally:
        run.unlock()


def _prepare(
    config: TrainConfig,
    run: RunDirectory,
    resume: Resumption | None,
    world: World,
    progress: bool,
    report: Callable[[str], None],
) -> Trainer:
    """Make the data of a run and the trainer on it, and restore its checkpoint."""
    report(f"run directory: {run.path}")
    if resume is not None and world.is_first:
        run.remove_temporary_files()
    if not world.is_first:
        world.wait()  # until the first process has made the data
    data = prepare_data(
        config.preparation, run, progress=progress and world.is_first, report=report
    )
    if world.is_first:
        world.wait()
    vocab_size = data.tokenizer.vocab_size
    if vocab_size != config.model.vocab_size:
        # A finished tokenizer has its own size, and a small text allows only so many merges.
        report(f"model.vocab_size becomes {vocab_size:,}, that of the tokenizer")
        model = dataclasses.replace(config.model, vocab_size=vocab_size)
        config = dataclasses.replace(config, model=model)
        if world.is_first:
            save_config(config, run)
    if resume is not None:
        named = [] if resume.checkpoint is None else [resume.checkpoint]
        saved = named or [run.checkpoint(step) for step in run.steps_saved()]
        if saved and all(path.exists() for path in saved):  # otherwise `resume_run` says so
            check_model_size(config.model, run, saved)
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
    if resume is not None:
        resume_run(trainer, resume.checkpoint, skip_damaged=resume.skip_damaged)
        if world.is_first:
            save_config(config, run)  # only now: a refused one must not replace it
        report(f"resuming after step {trainer.step}")
    if world.is_first:
        trainer.loggers = open_loggers(config.loggers, run, config_to_dict(config), trainer.step)
    return trainer


def _describe(config: TrainConfig, trainer: Trainer) -> str:
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    tokens = config.max_steps * config.batch_size * config.model.context_length
    text = (
        f"training {parameters:,} parameters for {config.max_steps:,} steps, {tokens:,} tokens, "
        f"on {trainer.device} in {config.precision}"
    )
    if trainer.world.size > 1:
        text += f", with {trainer.world.size} processes ({config.parallel})"
    return text
