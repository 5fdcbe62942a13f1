"""The options of `train` and `estimate`: defaults < base < YAML file < command line.

Every value of a TrainConfig is an option of its dotted name: `--max-steps`, `--model.d-model`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cs336_basics._support.validation import Checked, Option, build, fields_of, option
from cs336_basics.commands._options import Command
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import NAMED_CONFIGS, find_config, load_config, read_values
from cs336_basics.training.schedule import resumed_schedule

COMMON = (
    "name",
    "max_steps",
    "batch_size",
    "fast",
    "device",
    "data.train_path",
    "data.tokenizer",
)
"""The values that `--help` shows, besides the options of the run directory."""

RESUME_OPTIONS = (
    "max_steps",
    "accumulation",
    "parallel",
    "device",
    "num_workers",
    "log_to",
    "eval_every",
    "checkpoint_every",
    "keep_checkpoints",
    "log_every",
    "data.train_path",
    "data.valid_path",
    "data.data_dir",
    "data.tokenizer",
)
"""What may differ when a run is continued. Files may have moved: the hashes that the run has
recorded refuse others."""


@dataclass(kw_only=True)
class RunOptions(Checked):
    """Where a run is stored and what it continues; its other options are a TrainConfig."""

    config: str = option(
        f"{', '.join(NAMED_CONFIGS)}, or a YAML file; its values are the defaults on this page",
        "sample",
        metavar="NAME",
    )
    run_dir: Path | None = option("a new directory (default: runs/NAME-DATE)", None, metavar="DIR")
    resume: Path | None = option("continue the run in this directory", None, metavar="RUN_DIR")
    resume_from: Path | None = option(
        "with --resume: the checkpoint to continue from (default: the newest)",
        None,
        metavar="CHECKPOINT",
        rare=True,
    )
    skip_damaged: bool = option(
        "with --resume: skip damaged checkpoints, back to the newest that is whole",
        False,
        rare=True,
    )
    schedule: Literal["continue", "extend"] = option(
        "with --resume and another --max-steps: the learning rate's schedule ends where it would "
        "have ended, or at the new last step",
        "continue",
        rare=True,
    )


@dataclass
class CommandLine:
    """What a command line of training asks for: the configuration, and where the run is stored."""

    config: TrainConfig
    options: Any
    """Of the run, a RunOptions."""
    given: Sequence[str] = ()
    """The keys of the configuration that the line names: precision, model.d_model, ..."""
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Where each value comes from that is no default, by key."""
    note: str | None = None
    """A line about the schedule of a run that is resumed with other max_steps."""


class TrainingCommand(Command):
    """A command whose options are also all values of a TrainConfig."""

    # A configuration file may say true: `--compile false`.
    switch: Mapping[str, Any] = {"nargs": "?", "const": "true", "metavar": "BOOL"}

    def fields(self) -> dict[str, Option]:
        """Return what the command line can set, by dotted name."""
        return {**super().fields(), **dict(fields_of(TrainConfig))}

    def is_common(self, name: str) -> bool:
        """Return whether `--help` shows an option."""
        return name in COMMON if name in dict(fields_of(TrainConfig)) else super().is_common(name)

    def help_page(self, words: Sequence[str]) -> str:
        """Return the help page, with the values of the configuration file."""
        given = self.given([word for word in words if word not in ("-h", "--help", "--help-all")])
        found = read_values(self._source(given, []))
        values = {name: value.value for name, value in found.items()}
        return self.parser("--help-all" in words, values).format_help().rstrip()

    def read(self, words: Sequence[str]) -> CommandLine:
        """Return what a command line asks for.

        With `--resume RUN_DIR` the configuration is the one saved there, and only the options of
        RESUME_OPTIONS may be given with it.

        Raises:
            ValueError: a wrong type, an impossible value, or options that exclude each other.
        """
        given = self.given(words)
        changes = {name: given.pop(name) for name in dict(fields_of(TrainConfig)) if name in given}
        options = build(self.options, given, self.shown)
        for name in ("resume_from", "skip_damaged", "schedule"):
            if options.resume is None and name in given:
                raise self.usage_error(f"{self.shown(name)} needs --resume RUN_DIR as well")
        source = self._source(given, list(changes))
        config = load_config(source, changes)
        origins = {name: value.origin for name, value in read_values(source).items()}
        origins.update((name, self.shown(name)) for name in changes)
        note = None
        if options.resume is not None:
            before = load_config(source).max_steps
            schedule, note = resumed_schedule(config, before, options.schedule)
            if schedule != config.schedule:
                config = dataclasses.replace(config, schedule=schedule)
                origins["schedule.cycle_steps"] = f"--schedule {options.schedule}"
        return CommandLine(config, options, list(changes), origins, note)

    def _source(self, given: Mapping[str, Any], changed: Sequence[str]) -> Path:
        """Return the file with the configuration.

        Raises:
            ValueError: there is none, or a resumed run cannot change these options.
        """
        if "resume" not in given:
            return find_config(given.get("config", "sample"))
        if "config" in given or "run_dir" in given:
            raise self.usage_error(
                "--resume continues a run with the configuration in its directory: omit --config "
                "and --run-dir"
            )
        for name in changed:
            if name not in RESUME_OPTIONS:
                can_change = ", ".join(map(self.shown, RESUME_OPTIONS))
                raise self.usage_error(
                    f"{self.shown(name)} cannot change when a run is resumed: start a new run, or "
                    f"omit it (these can change: {can_change})"
                )
        source = Path(given["resume"], "config.yaml")
        if not source.is_file():
            raise ValueError(f"--resume: {source.parent} is not a run directory (no {source.name})")
        return source
