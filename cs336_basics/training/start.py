"""Starting and resuming a training run. Read this before the loop in trainer.py.

config, origin = start_from(config)                 # if it continues another model
sources = check_start(config)                       # before any file is written
run = create_run(config, "runs/mine")
with open_trainer(config, run, sources, origin=origin) as trainer:  # prepares data, restores
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

from torch import Tensor

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.memory import physical_memory
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.validation import fields_of
from cs336_basics.checkpoints.checkpoint import read_checkpoint, verify_checkpoint
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.checked_tokens import CheckedTokens, MixedTokens
from cs336_basics.data.prepare import PreparedData, Sources, check_sources, prepare_data
from cs336_basics.data.sources import absolute_path, absolute_paths, check_length
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.definition import TOKENIZER_FILE
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import config_to_yaml, load_config
from cs336_basics.training.devices import check_compile, check_precision, choose_device
from cs336_basics.training.distributed import World, check_batch_size
from cs336_basics.training.load_run import check_model_size
from cs336_basics.training.loggers import check_loggers, open_loggers
from cs336_basics.training.origin import Origin, find_origin, run_tokenizer
from cs336_basics.training.products import check_products
from cs336_basics.training.trainer import Trainer

Report = Callable[[str], None]
Shown = Callable[[Argument], str]

MANY_PASSES = 10
"""Number of passes over a text above which a run warns. Repeated text is worth about as much as new
text for 4 passes, and adds little after 16 (Muennighoff et al. 2023, "Scaling Data-Constrained
Language Models")."""


@dataclass(frozen=True)
class Resumption:
    """How to resume a run."""

    checkpoint: Path | None = None
    """The checkpoint to resume from. None means the newest."""
    skip_damaged: bool = False
    """Whether to skip damaged checkpoints and use the newest intact one."""


def check_start(
    config: TrainConfig, world: World | None = None, resumed: RunDirectory | None = None
) -> Sources:
    """Check the data, batch size, device and loggers before any file is written.

    Args:
        config: Configuration of the run.
        world: The processes that train together.
        resumed: The run, if it is resumed. The files that it has recorded for a directory or a glob
            are then used, and later files are not.

    Returns:
        The sources of the data, for `open_trainer`.

    Raises:
        ValueError, OSError: If the configuration cannot be used on this machine.
    """
    tokenizer = None
    if config.init_from is not None:
        if config.origin.tokenizer is None and resumed is not None:
            raise InputError(
                f"is {short_repr(config.init_from)}, but the run did not start from a model",
                argument="init_from",
                remedy="leave it out, or start a new run",
            )
        if config.origin.tokenizer is None:
            raise InputError(
                f"must be read by `start_from` first, got {short_repr(config.init_from)}",
                argument="init_from",
            )
        # The run has a copy of the tokenizer, since the origin may be gone.
        if resumed is not None and (resumed.tokenizer / TOKENIZER_FILE).is_file():
            tokenizer = Tokenizer.from_directory(resumed.tokenizer)
        else:
            tokenizer = run_tokenizer(config)
    prepared = None if resumed is None else resumed.data
    sources = check_sources(config.preparation, prepared, tokenizer)
    key = "data.mix" if config.data.mix else "data.train_path"
    for corpus in sources.found.train:
        check_length(key, corpus.whole, config.model.context_length)
    check_length("data.valid_path", sources.found.valid, config.model.context_length)
    world = world or World()
    check_batch_size(config, world)
    device = choose_device(config.device)
    if device.type == "cpu":
        _check_memory(config, world)
    check_precision(config.precision, device)
    check_products(config.products, device)
    check_compile(config.compile, device)
    check_loggers(config.loggers)
    return sources


def _check_memory(config: TrainConfig, world: World) -> None:
    """Refuse a batch that cannot fit into memory, because the system would kill the process.

    The bound is low, so that it never refuses a batch that fits: a step keeps at least the token
    ids and the input of each block. `estimate` computes what a step needs.

    Raises:
        ValueError: If these do not fit into the machine's memory.
    """
    rows = config.batch_size // (world.size * config.accumulation) * config.model.context_length
    vector = config.model.d_model * (2 if config.precision == "bfloat16" else 4)
    needed, memory = rows * (8 + config.model.num_layers * vector), physical_memory()
    if memory is not None and needed > memory:
        raise InputError(
            f"needs more than {needed / 1e9:,.0f} GB for a step of this model, and the machine has "
            f"{memory / 1e9:,.0f} GB, got {config.batch_size}",
            argument="batch_size",
            remedy=("reduce it, or raise ", Argument("accumulation")),
        )


def create_run(config: TrainConfig, path: str | os.PathLike[str] | None = None) -> RunDirectory:
    """Create and lock the directory of a new run, and save its configuration there.

    Args:
        config: Configuration of the run.
        path: The directory. Defaults to runs/NAME-DATE.

    Raises:
        FileExistsError: If the directory is not empty or is a file.
        ValueError: If another process has just created a run there.
    """
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
    """Write the configuration with absolute paths, so a run can be resumed from any directory."""
    paths: dict[str, Any] = {}
    for name in ("data_dir", "train_path", "valid_path", "tokenizer"):
        path = getattr(config.data, name)
        if path is not None:
            paths[name] = absolute_paths(path)
    origin = None if config.init_from is None else os.path.abspath(config.init_from)
    if config.data.mix:
        paths["mix"] = [
            f"{absolute_path(word.rpartition(':')[0])}:{word.rpartition(':')[2]}"
            for word in config.data.mix
        ]
    data = dataclasses.replace(config.data, **paths)
    with atomic_writer(run.config, "w") as file:
        file.write(config_to_yaml(dataclasses.replace(config, data=data, init_from=origin)))


@contextlib.contextmanager
def open_trainer(
    config: TrainConfig,
    run: RunDirectory,
    sources: Sources,
    *,
    origin: Origin | None = None,
    resume: Resumption | None = None,
    world: World | None = None,
    progress: bool = False,
    report: Report = print,
    shown: Shown = str,
) -> Iterator[Trainer]:
    """Context manager that prepares a run's data and yields its trainer.

    The run is locked before anything is written to it. At the end, its loggers are closed and the
    run is unlocked. A new run that cannot be started is removed, so you can try again. A run that
    is interrupted during the preparation keeps its data and can be resumed.

    Args:
        config: Configuration of the run.
        run: The directory from `create_run`.
        sources: The result of `check_start`.
        origin: The model from `start_from`. If it is None, as in a run that is resumed and in all
            processes but the first, the model is loaded from `config.init_from` when it is needed.
        resume: How to resume the run. None starts a new run.
        world: The processes that train together. Each process calls this function.
        progress: Whether to show progress bars for the preparation on a terminal.
        report: Callback that the first process invokes with each line to show.
        shown: Function that formats the options that lines mention.

    Raises:
        ValueError, OSError, ImportError: If the data, tokenizer or checkpoint cannot be used, or
            another process is using the run.
        RuntimeError, MemoryError: If the model and data do not fit into memory.
    """
    world = world or World()
    say: Report = report if world.is_first else lambda line: None
    with contextlib.ExitStack() as stack:
        stack.callback(run.unlock)
        if world.is_first:
            run.lock()
        try:
            say(f"run directory: {run.path}")
            data = _prepare(sources, run, world, progress, say)
            config = _with_vocabulary(config, data, say)
            if resume is not None:
                for line in _rounding_changes(load_config(run.config), config):
                    say(line)
                _check_size(config, run, resume)
            _check_lengths(config, data)
            trainer = Trainer(
                config,
                data.train_tokens,
                data.valid_tokens,
                run,
                tokenizer=data.tokenizer,
                # A variable would keep the weights in memory as long as the run is open.
                weights=None
                if _has_checkpoint(run, resume)
                else _first_weights(config, data, origin, say),
                world=world,
                report=say,
            )
            _report_plan(trainer, data.train_tokens, shown)
            if resume is not None:
                resume_run(trainer, resume)
                say(_state_of(trainer, shown))
            if world.is_first:
                # Save only now, so that a rejected configuration does not replace the saved one.
                save_config(trainer.config, run)
                settings = dataclasses.asdict(trainer.config)
                trainer.loggers = open_loggers(config.loggers, run, settings, trainer.step)
                for logger in trainer.loggers:
                    stack.callback(logger.close)
        except Exception:
            if resume is None and world.is_first:
                run.discard()
            raise
        yield trainer


def _check_lengths(config: TrainConfig, data: PreparedData) -> None:
    """Check that each sequence of tokens fills a window.

    Raises:
        ValueError: If it does not. The message names the key of the configuration.
    """
    length = config.model.context_length
    given = "mix" if config.data.mix else "train_path" if config.data.train_path else "dataset"
    for side, tokens in (("training", data.train_tokens), ("validation", data.valid_tokens)):
        for name, _, corpus in tokens.portions():
            if len(corpus) > length:
                continue
            more: tuple[str | Argument, ...] = ("use more text or a smaller ",)
            key = given
            if side == "validation" and config.data.valid_path is not None:
                key = "valid_path"
            elif side == "validation":
                more = (
                    "use more text, a larger ",
                    Argument("data.valid_fraction"),
                    " or a smaller ",
                )
            raise InputError(
                f"gives {len(corpus):,} {side} tokens{f' of {name}' * bool(name)}, but must give "
                f"more than the context length, {length:,}",
                argument=f"data.{key}",
                remedy=(*more, Argument("model.context_length")),
            )


def _state_of(trainer: Trainer, shown: Shown) -> str:
    """Return a line that says where a resumed run goes on, or why it is complete."""
    if not trainer.is_complete():
        return f"resuming after step {trainer.step}"
    change = f"a larger {shown(Argument('max_steps'))}"
    if trainer.has_stopped():
        change = f"a larger {shown(Argument('stop_after_worse'))}, or 0"
    return (
        f"the run is complete after {trainer.step:,} steps; to train longer, resume it with "
        f"{change}"
    )


def _prepare(
    sources: Sources, run: RunDirectory, world: World, progress: bool, report: Report
) -> PreparedData:
    """Prepare and check the data in the first process, and hand it to the others."""
    data: PreparedData | None = None
    with world.first_process_first():
        if world.is_first:
            data = prepare_data(sources, run, progress=progress, report=report)
    shared: PreparedData = world.share(data)
    return shared


def _with_vocabulary(config: TrainConfig, data: PreparedData, report: Report) -> TrainConfig:
    """Return a configuration whose model has the tokenizer's vocabulary size."""
    sized = config.with_vocab_size(data.tokenizer.vocab_size)
    if sized != config:
        # An existing tokenizer has its own size, and a small text may not yield enough merges.
        size = sized.model.vocab_size
        report(f"model.vocab_size becomes {size:,}, the tokenizer's vocabulary size")
    return sized


def _rounding_changes(before: TrainConfig, now: TrainConfig) -> list[str]:
    """Return a line that names the values with which a resumed run rounds differently, if any."""
    changes = []
    for name, field in fields_of(TrainConfig):
        section, _, key = name.rpartition(".")
        old, new = (
            getattr(getattr(config, section) if section else config, key, None)
            for config in (before, now)
        )
        if field.changes_rounding and old != new:
            changes.append(f"{name} {old} became {new}")
    if not changes:
        return []
    named = ", ".join(changes)
    return [f"{named}: the run equals an uninterrupted one only up to rounding from here on"]


def _check_size(config: TrainConfig, run: RunDirectory, resume: Resumption) -> None:
    """Check that a checkpoint is large enough for the model, before the model is allocated."""
    named = [] if resume.checkpoint is None else [resume.checkpoint]
    saved = named or [run.checkpoint(step) for step in run.steps_saved()]
    if saved and all(path.exists() for path in saved):  # otherwise `resume_run` raises an error
        check_model_size(config.model, run, saved)


def _has_checkpoint(run: RunDirectory, resume: Resumption | None) -> bool:
    """Return whether a run resumes from a checkpoint, and not from its beginning."""
    return resume is not None and (resume.checkpoint is not None or bool(run.steps_saved()))


def _first_weights(
    config: TrainConfig, data: PreparedData, origin: Origin | None, report: Report
) -> dict[str, Tensor] | None:
    """Return the weights of the model that a run starts from, or None for drawn weights."""
    if config.init_from is None:
        return None
    if origin is None:
        origin = find_origin(config.init_from)
        origin.check(config.origin)
    return origin.weights_for(config.model, data.tokenizer, report)


def _report_plan(trainer: Trainer, train_tokens: CheckedTokens | MixedTokens, shown: Shown) -> None:
    """Report what will be trained, how often the text will be read, and if that is very often."""
    config, world, report = trainer.config, trainer.world, trainer.report
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    tokens = config.max_steps * config.batch_size * config.model.context_length
    together = f", with {world.size} processes ({config.parallel})" if world.size > 1 else ""
    passes = _passes(train_tokens, tokens)
    if isinstance(train_tokens, MixedTokens):
        each = (f"{name} {_number(p)}{' (repeats)' * (p >= 2)}" for name, p in passes.items())
        note = f"passes: {', '.join(each)}"
    else:
        note = f"{_number(passes[''])} passes over the training text"
    report(
        f"training {parameters:,} parameters for {config.max_steps:,} steps, {tokens:,} tokens "
        f"({note}), on {trainer.device} in {config.precision}{together}"
    )
    for name, number in passes.items():
        if number > MANY_PASSES:
            report(
                f"the training text{' of ' * bool(name)}{name} will be read {number:,.1f} times; "
                f"after about {MANY_PASSES} passes, models mostly memorize: watch the validation "
                f"loss, or set {shown(Argument('stop_after_worse'))} or "
                f"{shown(Argument('dropout'))}"
            )


def _passes(tokens: CheckedTokens | MixedTokens, num_tokens: int) -> dict[str, float]:
    """Return how often a run of `num_tokens` tokens reads each corpus, by its name."""
    return {name: num_tokens * weight / len(ids) for name, weight, ids in tokens.portions()}


def _number(passes: float) -> str:
    return f"{passes:,.1f}" if passes >= 1 else f"{passes:.2g}"


def resume_run(trainer: Trainer, resume: Resumption) -> None:
    """Load a checkpoint into the trainer of a run.

    A run without checkpoints starts from the beginning. Files that the run wrote after the
    checkpoint are set aside.

    Raises:
        ValueError: If the checkpoint cannot be read or does not fit this configuration, or all
            checkpoints that the run has saved are missing.
    """
    run, world = trainer.run, trainer.world
    source = resume.checkpoint
    if world.is_first:
        run.remove_temporary_files()
        source = source or _newest_checkpoint(run, resume.skip_damaged, trainer.report)
    source = world.share(source)
    if source is not None:
        trainer.step = _load(trainer, source)
    if trainer.step > trainer.config.max_steps:
        raise InputError(
            f"must be at least {trainer.step}, the step of {source}, got "
            f"{trainer.config.max_steps}",
            argument="max_steps",
        )
    world.wait()
    if world.is_first:
        for path in run.set_aside_after(trainer.step, source):
            trainer.report(f"set aside: {path} (the run resumes from {source or 'the beginning'})")
        # Remove old checkpoints before anything is written, because the disk may be full.
        trainer.best = run.best(trainer.step)
        trainer.remove_old_checkpoints()
        is_own = source is None or run.checkpoint(trainer.step).exists()
        run.truncate_metrics(
            trainer.step, keep_evaluation=is_own, is_last=trainer.is_last(trainer.step)
        )
    world.wait()
    if source is not None and not run.checkpoint(trainer.step).exists():
        trainer.save()  # the checkpoint is in another directory
    trainer.best = run.best()
    trainer.seconds_before = run.seconds()
    world.wait()


def _newest_checkpoint(run: RunDirectory, skip_damaged: bool, report: Report) -> Path | None:
    """Return the newest checkpoint of a run, or None if the run has not saved one yet.

    Raises:
        ValueError: If all checkpoints that the run has saved are missing or damaged.
    """
    steps = run.steps_saved()
    if not steps and any("val_loss" in row and row["step"] for row in run.read_metrics()):
        # Starting again would remove the metrics, the only remaining record of the run.
        raise InputError(
            "the saved checkpoints of this run are missing",
            place=str(run.checkpoints),
            remedy=(
                "restore them, pass one as ",
                Argument("resume_from"),
                ", or start a new run in another directory",
            ),
        )
    if not skip_damaged:
        return run.newest_checkpoint()
    for step in reversed(steps):
        try:
            verify_checkpoint(run.checkpoint(step))
            return run.checkpoint(step)
        except (InputError, OSError) as error:
            report(f"skipped: {error}")
    if steps:
        raise InputError(
            "all checkpoints are damaged",
            place=str(run.checkpoints),
            remedy=(
                "pass another one as ",
                Argument("resume_from"),
                ", or start a new run in another directory",
            ),
        )
    return None


def _load(trainer: Trainer, source: Path) -> int:
    """Load a checkpoint into the trainer's model and optimizer, and return its step.

    Raises:
        ValueError: If the checkpoint is damaged, from a different model or from another run.
    """
    try:
        return read_checkpoint(source, trainer.model, trainer.optimizer, trainer.owner)
    except (InputError, OSError) as error:
        run = trainer.run
        others = [path for path in map(run.checkpoint, run.steps_saved()) if path != source]
        raise InputError(
            f"cannot resume from {source}: {short_reason(error)}",
            remedy=(
                "pass ",
                Argument("resume_from", str(others[-1]) if others else "CHECKPOINT"),
                " for another checkpoint, or ",
                Argument("skip_damaged", True),
                " for the newest intact one",
            ),
        ) from error
