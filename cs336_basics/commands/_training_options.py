"""The options of `train` and `estimate`.

Every field of TrainConfig is an option with its dotted name, such as `--max-steps` or
`--model.d-model`. The command line overrides the YAML file, which overrides its base and the
defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cs336_basics._support.errors import InputError
from cs336_basics._support.validation import Checked, Option, build, fields_of, option
from cs336_basics.checkpoints.run_dir import RunDirectory
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import Command
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import NAMED_CONFIGS, find_config, load_config, read_values
from cs336_basics.training.schedule import resumed_schedule


@dataclass(kw_only=True)
class RunOptions(Checked):
    """Options that are not fields of TrainConfig, such as the run directory."""

    config: str = option(
        f"{', '.join(NAMED_CONFIGS)}, or a YAML file; sets the defaults of the other options",
        "sample",
        metavar="NAME",
    )
    run_dir: Path | None = option(
        "new directory for the run (default: runs/NAME-DATE)", None, metavar="DIR"
    )
    fast: Literal["off", "auto"] = option(
        "auto: choose precision, products, compile, loss_chunks, optimizer.fused and "
        "model.attention for this machine, unless you set them",
        "off",
    )
    resume: Path | None = option("resume the run in this directory", None, metavar="RUN_DIR")
    resume_from: Path | None = option(
        "with --resume: checkpoint to resume from (default: the newest)",
        None,
        metavar="CHECKPOINT",
        rare=True,
    )
    skip_damaged: bool = option(
        "with --resume: fall back to the newest undamaged checkpoint",
        False,
        rare=True,
    )
    schedule: Literal["continue", "extend"] = option(
        "with --resume and a new --max-steps: continue keeps the end of the learning-rate "
        "schedule, extend moves it to the new last step",
        "continue",
        rare=True,
    )


@dataclass
class CommandLine:
    """A parsed command line of `train` or `estimate`."""

    config: TrainConfig
    options: Any
    """The command's own options, a RunOptions."""
    given: Sequence[str] = ()
    """Configuration fields given on the command line, such as "model.d_model"."""
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Mapping from each field whose value is not the default to the source of the value."""
    note: str | None = None
    """Message on how the schedule continues, for a run resumed with a different max_steps."""

    def set_by_user(self) -> list[str]:
        """Return the fields that the user has set, on the command line or in a file."""
        return [name for name, origin in self.origins.items() if origin not in NAMED_CONFIGS]

    def choose_fast_path(self, num_processes: int = 1) -> None:
        """Apply `--fast auto` to the configuration, and print the values chosen."""
        if self.options.fast == "auto":
            # These import torch, which help pages do not need.
            from cs336_basics.training.devices import choose_device
            from cs336_basics.training.fast_path import choose_fast_path

            device = choose_device(self.config.device)
            self.config, choices = choose_fast_path(self.config, device, self.given, num_processes)
            for line in choices:
                say(f"fast: {line}")


class TrainingCommand(Command):
    """A command that also accepts every field of TrainConfig as an option."""

    # `--compile false` overrides `compile: true` in a configuration file.
    switch: Mapping[str, Any] = {"nargs": "?", "const": "true", "metavar": "BOOL"}

    def fields(self) -> dict[str, Option]:
        """Return the options by dotted name."""
        config = fields_of(TrainConfig)
        return super().fields() | {
            name: field._replace(rare=not field.common) for name, field in config
        }

    def help_page(self, words: Sequence[str]) -> str:
        """Return the help page, with the configuration file's values as defaults."""
        given = self.given([word for word in words if word not in ("-h", "--help", "--help-all")])
        found = read_values(self._source(given, []))
        values = {name: value.value for name, value in found.items()}
        return self.parser("--help-all" in words, values).format_help().rstrip()

    def read(self, words: Sequence[str]) -> CommandLine:
        """Parse and check a command line.

        With `--resume RUN_DIR`, the configuration is read from the run directory, and only the
        resumable fields may be given.

        Raises:
            ValueError, FileNotFoundError: If a value is invalid, two options conflict, or the run
                does not exist.
        """
        given = self.given(words)
        changes = {name: given.pop(name) for name in dict(fields_of(TrainConfig)) if name in given}
        try:
            options = build(self.options, given)
        except InputError as error:
            raise self.usage_error(error.problem, error.argument, error.remedy) from None
        for name in ("resume_from", "skip_damaged", "schedule"):
            if options.resume is None and name in given:
                raise self.usage_error("requires --resume RUN_DIR", name)
        if options.resume_from is not None and options.skip_damaged:
            raise self.usage_error("cannot be given with --skip-damaged", "resume_from")
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
        """Return the path of the configuration file.

        Raises:
            ValueError: If the file does not exist, or an option cannot be used with `--resume`.
            FileNotFoundError: If the run does not exist.
        """
        if "resume" not in given:
            return find_config(given.get("config", "sample"))
        if "config" in given or "run_dir" in given:
            raise self.usage_error(
                "uses the configuration in the run directory; remove --config and --run-dir",
                "resume",
            )
        resumable = [name for name, field in fields_of(TrainConfig) if field.resumable]
        for name in changed:
            if name not in resumable:
                can_change = ", ".join(map(self.shown, resumable))
                raise self.usage_error(
                    "cannot change on resume; remove it or start a new run (these can change: "
                    f"{can_change})",
                    name,
                )
        run = RunDirectory(given["resume"])
        run.check_exists()
        return run.config
