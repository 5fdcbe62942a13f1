"""Continuing a run: which checkpoint, what to do with damaged ones, what to set aside."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from cs336_basics._support.messages import short_reason
from cs336_basics.checkpoints.checkpoint import read_checkpoint, verify_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.training.trainer import Trainer


def resume_run(
    trainer: Trainer, checkpoint: Path | None = None, *, skip_damaged: bool = False
) -> None:
    """Load a checkpoint of the trainer's run, the newest one unless another is named.

    A run that has saved none yet starts from the beginning.

    Args:
        trainer: a new trainer of the run.
        checkpoint: the one to load.
        skip_damaged: skip damaged checkpoints, back to the newest that is whole.

    Raises:
        ValueError: the checkpoint cannot be read or does not belong to this configuration; or
            the run has saved some and none is left.
    """
    run, world = trainer.run, trainer.world
    source = checkpoint
    if world.is_first:
        run.remove_temporary_files()
        source = source or newest_checkpoint(run, skip_damaged, trainer.report)
    source = world.share(source)
    if source is not None:
        trainer.step = _load(trainer, source)
    if trainer.step > trainer.config.max_steps:
        raise ValueError(
            f"{source} was saved at step {trainer.step}, after the last step: "
            f"max_steps is {trainer.config.max_steps}"
        )
    world.wait()
    if world.is_first:
        for path in run.set_aside_after(trainer.step, source):
            trainer.report(
                f"set aside: {path} (the run continues from {source or 'its beginning'})"
            )
        run.truncate_metrics(trainer.step)
    world.wait()
    if source is not None and not run.checkpoint(trainer.step).exists():
        trainer.save()  # the checkpoint is of another directory; now the run has its own
    if run.best_step() is not None:
        losses = [row["val_loss"] for row in run.read_metrics() if "val_loss" in row]
        trainer.best_val_loss = min(losses, default=math.inf)
    trainer.seconds_before = run.seconds()
    world.wait()


def newest_checkpoint(
    run: RunDirectory, skip_damaged: bool, report: Callable[[str], None]
) -> Path | None:
    """Return the newest checkpoint of a run, or None if it has saved none yet.

    Args:
        run: the run to continue.
        skip_damaged: return the newest that is whole, and report the damaged ones skipped.
        report: is called with each line.

    Raises:
        ValueError: the run has saved checkpoints, and none is there or none is whole.
    """
    steps = run.steps_saved()
    if not steps and any("val_loss" in row for row in run.read_metrics()):
        # Starting again would remove the rows of the metrics, the only record left of the run.
        raise ValueError(
            f"{run.checkpoints} has none of the checkpoints that this run has saved: put "
            "them back or name one with --resume-from; or start a new run in another directory"
        )
    if not skip_damaged:
        return run.newest_checkpoint()
    for step in reversed(steps):
        try:
            verify_checkpoint(run.checkpoint(step))
            return run.checkpoint(step)
        except (ValueError, OSError) as error:
            report(f"skipped: {error}")
    if steps:
        raise ValueError(
            f"no checkpoint in {run.checkpoints} is whole: name another with "
            "--resume-from, or start a new run in another directory"
        )
    return None


def _load(trainer: Trainer, source: Path) -> int:
    """Load a checkpoint into the trainer's model and optimizer; return its step.

    Raises:
        ValueError: it is damaged or of another model; the message names others to continue from.
    """
    try:
        return read_checkpoint(source, trainer.model, trainer.optimizer)
    except (MemoryError, torch.OutOfMemoryError):
        raise  # not the fault of the checkpoint
    except Exception as error:
        run = trainer.run
        others = [path for path in map(run.checkpoint, run.steps_saved()) if path != source]
        raise ValueError(
            f"the checkpoint {source} cannot be used: {short_reason(error)}. To continue "
            f"from another one: --resume-from {others[-1] if others else 'CHECKPOINT'} "
            "(--skip-damaged finds the newest that is whole)"
        ) from error
