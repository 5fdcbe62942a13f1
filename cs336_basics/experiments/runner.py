"""Run the experiments. Each is a separate training run, and all share the token files.

After an interruption, repeating the call resumes where the experiments stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import write_json
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import open_regular, parse_json
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.data.prepare import Sources, prepare_data
from cs336_basics.experiments.plan import Scale, Values, plan
from cs336_basics.experiments.report import as_options, diverged_file, write_report
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import find_config, load_config
from cs336_basics.training.start import Resumption, check_start, create_run, open_trainer
from cs336_basics.training.trainer import NonFiniteLossError

_MACHINE_VALUES = ("device", "num_workers")
"""Values that may change when the experiments resume, because they do not affect the results."""


def run_experiments(
    scale: Scale,
    out: Path,
    values: Values | None = None,
    report: Callable[[str], None] = print,
) -> None:
    """Run the unfinished experiments for a scale, and write the report after each run.

    Args:
        scale: One of SCALES.
        out: Output directory for report.md, the figures, and the runs in `runs/`.
        values: Further configuration values by dotted name, such as `data.train_path`.
        report: Callback invoked with each line of output.

    Raises:
        ValueError, OSError: If the values or the data are invalid, or `out` contains experiments
            with other values.
        TrainingInterrupted: After Ctrl-C or SIGTERM. The run has been saved.
    """
    common = {**scale.values, **(values or {})}
    if common.get("init_from") is not None:
        raise InputError(
            f"must be unset, because the experiments draw their weights, got "
            f"{short_repr(common['init_from'])}",
            argument="init_from",
        )
    for key in ("data.train_path", "data.valid_path"):
        paths = common.get(key) or ()
        for path in [paths] if isinstance(paths, str) else paths:
            if path.endswith(".npy"):
                raise InputError(
                    f"must be text, got the token file {path}; the experiments train their own "
                    "tokenizer",
                    argument=key,
                )
    config = load_config(find_config(scale.config), common)
    sources = check_start(config)
    kept = {key: value for key, value in common.items() if key not in _MACHINE_VALUES}
    _check_same_request(out, [scale.config, *as_options(kept)])
    common |= _prepare_shared_data(sources, out / "data", report)
    for key in ("data.field", "data.column"):  # token files have neither fields nor columns
        common.pop(key, None)

    groups = plan(scale, config)
    experiments = {run.name: run for group in groups for run in group.experiments}
    command = [scale.config, *as_options(common)]
    for number, experiment in enumerate(experiments.values(), start=1):
        report(f"{number}/{len(experiments)} {experiment.label}")
        changes = {**common, **experiment.values, "name": experiment.name}
        run_one(out / "runs" / experiment.name, load_config(find_config(scale.config), changes))
        write_report(out, groups, command, experiment)
    report(f"report: {out / 'report.md'}")


def _check_same_request(out: Path, request: list[str]) -> None:
    """Raise a ValueError if the directory contains runs with different options."""
    record = out / "command.json"
    if record.exists():
        with open_regular(record) as file:
            before = parse_json(file.read(), record)
        if before != request:
            raise InputError(
                f"{out} contains experiments with other options", remedy="use another directory"
            )
        return
    out.mkdir(parents=True, exist_ok=True)
    write_json(record, request)


def _prepare_shared_data(
    sources: Sources, directory: Path, report: Callable[[str], None]
) -> dict[str, Any]:
    """Create the tokenizer and token files that all runs share; return their configuration."""
    run = RunDirectory(directory)
    run.lock()  # also creates the directory
    try:
        run.remove_temporary_files()
        data = prepare_data(sources, run, report=report)
    finally:
        run.unlock()
    return {
        "data.tokenizer": str(run.tokenizer),
        "data.train_path": str(run.data / "train.npy"),
        "data.valid_path": str(run.data / "valid.npy"),
        "model.vocab_size": data.tokenizer.vocab_size,
    }


def run_one(directory: Path, config: TrainConfig) -> None:
    """Start or resume a run. Messages go to NAME.txt next to the run's directory.

    A run that diverges counts as finished, and a diverged.json is written to its directory.

    Raises:
        ValueError, RuntimeError, MemoryError: If the run cannot be started or resumed.
        TrainingInterrupted: After Ctrl-C or SIGTERM. The run has been saved.
    """
    run = RunDirectory(directory)
    if diverged_file(directory).exists() or _is_finished(run):
        return
    resume = None
    if run.config.is_file():
        machine = {key: getattr(config, key) for key in _MACHINE_VALUES}
        config = load_config(run.config, machine)
        resume = Resumption()
    try:
        sources = check_start(config)
        if resume is None:
            run = create_run(config, directory)
            run.remove_temporary_files()  # left by a process killed before the run was created
        with open(directory.parent / f"{directory.name}.txt", "a", encoding="utf-8") as log:

            def report(line: str) -> None:
                print(line, file=log, flush=True)

            with open_trainer(config, run, sources, resume=resume, report=report) as trainer:
                trainer.fit()
    except NonFiniteLossError as error:
        write_json(diverged_file(directory), {"message": str(error)})


def _is_finished(run: RunDirectory) -> bool:
    """Return whether the last step of a run was completed and evaluated."""
    if not run.config.is_file():
        return False
    last = load_config(run.config).max_steps
    return any("val_loss" in row and row["step"] == last for row in run.read_metrics())
