"""Run training for the `train` command. This module imports torch."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

import torch.distributed as dist

from cs336_basics._support.errors import RunError
from cs336_basics._support.memory import is_out_of_memory
from cs336_basics._support.messages import short_reason
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.commands._cli import complain, describe_error, say
from cs336_basics.commands._inputs import say_directories
from cs336_basics.commands._training_options import CommandLine
from cs336_basics.data.prepare import Sources
from cs336_basics.training.allocator import keep_freed_memory
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.distributed import World, join_world, leave_world
from cs336_basics.training.evaluation import rounded
from cs336_basics.training.origin import Origin, start_from
from cs336_basics.training.session import TrainingInterrupted
from cs336_basics.training.start import Resumption, check_start, create_run, open_trainer
from cs336_basics.training.trainer import NonFiniteLossError, Trainer, TrainResult


def train(command: CommandLine) -> int:
    """Train as configured, alone or as one of several processes. Return the exit status."""
    keep_freed_memory()
    if not faulthandler.is_enabled():  # a crash in compiled code should at least say where it was
        with contextlib.suppress(OSError, ValueError, AttributeError):  # no standard error
            faulthandler.enable()
    world = join_world(command.config.device)
    try:
        status = _run(command, world)
        if status == 0:
            world.finish()
        return status
    except RuntimeError as error:
        if not _is_from_gloo(error):
            raise
        reason = _reason(error)
        raise RunError(f"process {world.rank} of {world.size} stopped: {reason}") from error
    finally:
        leave_world()


def _run(command: CommandLine, world: World) -> int:
    """Open the run directory, train in it, and return the exit status."""
    run = sources = origin = error = None
    if world.is_first:
        try:
            resume = command.options.resume
            run = None if resume is None else RunDirectory(resume)
            if run is None:
                command.config, origin = start_from(command.config, command.set_by_user())
            sources = check_start(command.config, world, run)
            data = command.config.data
            mixed = [portion.path for portion in data.portions]
            for paths in (data.train_path, mixed, data.valid_path):
                if run is None:  # a resumed run reads the files that it has recorded
                    named = [paths] if isinstance(paths, str) else paths or ()
                    say_directories(named, data.format, data.text_field)
            command.choose_fast_path(num_processes=world.size)
            if run is None:
                run = create_run(command.config, command.options.run_dir)
            run.lock()
        except Exception as problem:  # raised below, once the other processes know
            error = problem
    # All processes use the configuration that the first one checked.
    path = None if run is None or error is not None else run.path
    command.config, sources, path = world.share((command.config, sources, path))
    if error is not None:
        raise error
    if path is None or sources is None:  # the first process raises the error
        return 2
    return _train_in(command, run or RunDirectory(path), sources, origin, world)


def _train_in(
    command: CommandLine, run: RunDirectory, sources: Sources, origin: Origin | None, world: World
) -> int:
    """Train in a run directory, print the result, and return the exit status."""
    from cs336_basics.commands.train import COMMAND

    python = f"torchrun --nproc-per-node {world.size}" if world.size > 1 else _interpreter()
    again = f"{python} -m cs336_basics train --resume {shlex.quote(str(run.path))}"
    resume = None
    if command.options.resume is not None:
        resume = Resumption(command.options.resume_from, command.options.skip_damaged)
        if command.note is not None and world.is_first:
            say(command.note)
    trainer: Trainer | None = None
    try:
        with open_trainer(
            command.config,
            run,
            sources,
            origin=origin,
            resume=resume,
            world=world,
            progress=sys.stderr.isatty(),
            report=say,
            shown=COMMAND.written,
        ) as trainer:
            result = trainer.fit()
    except TrainingInterrupted as stop:
        if world.is_first:
            complain(f"{COMMAND.program}: {stop}; to resume: {again}")
        return 128 + stop.signal_number
    except KeyboardInterrupt:
        complain(f"{COMMAND.program}: interrupted; to resume: {again}")
        return 128 + signal.SIGINT
    except (OSError, RuntimeError, MemoryError) as error:
        explained = _explain(error, trainer, world, again)
        if explained is None:
            raise
        raise explained from error
    if world.is_first:
        _print_summary(result, run, command.config)
    return 0


def _explain(
    error: Exception, trainer: Trainer | None, world: World, again: str
) -> Exception | None:
    """Return an error that adds advice to the message of `error`, or None if no advice applies.

    Args:
        error: The error that ended the run.
        trainer: The trainer, or None if the error occurred before it was created.
        world: The processes of the run.
        again: The command that resumes the run.
    """
    if is_out_of_memory(error):
        reason = (str(error) or "no details").splitlines()[0]
        return MemoryError(
            f"out of memory ({reason}); use a smaller model or batch, or a larger --accumulation, "
            "which gives the same result without dropout; "
            f"`{_interpreter()} -m cs336_basics estimate` predicts the memory of a run"
        )
    if trainer is None or isinstance(error, NonFiniteLossError):
        return None
    if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return RunError(
            f"torch.compile failed: {short_reason(error)}", remedy="pass --compile false"
        )
    if isinstance(error, OSError):  # such as a full disk; earlier checkpoints are intact
        return OSError(f"{describe_error(error)}; to resume: {again}")
    if world.size > 1 and (isinstance(error, (RunError, dist.DistError)) or _is_from_gloo(error)):
        saved = trainer.run.newest_checkpoint()
        kept = f"the last checkpoint is {saved}" if saved else "no checkpoint has been saved"
        return RunError(
            f"process {world.rank} of {world.size} stopped after step {trainer.step}: "
            f"{_reason(error)}; {kept}; to resume: {again}"
        )
    return None


def _is_from_gloo(error: Exception) -> bool:
    """Return whether gloo lost another process. Its messages refer to its own source files."""
    return "gloo/transport" in str(error)


def _reason(error: Exception) -> str:
    """Return why one of several processes stopped."""
    if not _is_from_gloo(error):
        return short_reason(error)
    hangs = "Timed out" in str(error)
    return "another process does not answer" if hangs else "another process has ended"


def _print_summary(result: TrainResult, run: RunDirectory, config: TrainConfig) -> None:
    """Print generated text, the final metrics, and the paths of the files."""
    if result.sample is not None:
        say(f"\nText from the trained model:\n\n{result.sample}")
    rows = [
        ("steps", f"{result.step:,}"),
        ("tokens", f"{result.tokens:,}"),
        *([("loss counts", "only the answers")] if config.data.has_turns else []),
        ("time", f"{result.seconds:,.1f} s"),
        ("tokens per second", f"{result.tokens / max(result.seconds, 1e-9):,.0f}"),
        ("training loss", f"{result.train_loss:.4f}"),
        ("validation loss", f"{result.val_loss:.4f}"),
        ("perplexity", rounded(result.val_perplexity)),
    ]
    if result.val_bits_per_byte is not None:
        bits = f"{result.val_bits_per_byte:.4f}, without special tokens and their loss"
        rows.append(("bits per byte", bits))
    rows += [
        (
            "best checkpoint",
            f"step {result.best_step:,}, validation loss {result.best_val_loss:.4f}",
        ),
        ("configuration", str(run.config)),
        ("tokenizer", str(run.tokenizer)),
        ("text and token files", str(run.data)),
        ("metrics", str(run.metrics)),
        ("checkpoints", str(run.checkpoints)),
    ]
    if run.loss_plot.is_file():  # absent if it could not be drawn
        rows.insert(-1, ("loss curve", str(run.loss_plot)))
    if run.samples.is_dir():  # absent if sample_tokens is 0
        rows.append(("samples", str(run.samples)))
    say("")
    for name, value in rows:
        say(f"{name:<22}{value}")
    _suggest_commands(run, config)


def _suggest_commands(run: RunDirectory, config: TrainConfig) -> None:
    """Print commands to try after a run."""
    path = shlex.quote(str(run.path))
    chat = " --chat --interactive" if config.data.has_turns else ""
    commands = [
        ("another text", f"generate --run {path}{chat}"),
        ("look at the model", f"playground --run {path}"),
        ("a page about the run", f"report --run {path} --output report.html"),
    ]
    if config.data.dataset == "sample" and not config.data.train_path:
        commands.append(("your own text", "train --data.train-path my.txt"))
    say("\nWhat to try next:\n")
    for name, arguments in commands:
        say(f"{name:<22}{_interpreter()} -m cs336_basics {arguments}")


def _interpreter() -> str:
    """Return a shell command that runs this Python even if its environment is not active."""
    name = os.path.basename(sys.executable)
    if shutil.which(name) == sys.executable:
        return name
    program = Path(sys.executable)
    here = Path.cwd()
    return shlex.quote(str(program.relative_to(here) if program.is_relative_to(here) else program))
