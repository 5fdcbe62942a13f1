"""The options of `train` and `estimate`: dataclass defaults < YAML file < command line.

Every value of a TrainConfig is an option of its dotted name: `--max-steps`, `--model.d-model`.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cs336_basics._support.option import takes_several
from cs336_basics.commands._parser import Option, Parser, asks_for_help
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import (
    NAMED_CONFIGS,
    ConfigError,
    ConfigKey,
    config_keys,
    find_config,
    load_config,
    parse_value,
)

COMMON = (
    "data.train_path",
    "data.valid_path",
    "data.field",
    "data.column",
    "data.tokenizer",
    "name",
    "max_steps",
    "batch_size",
    "fast",
    "device",
)
"""The values that `--help` shows, besides the options of the run directory."""

DEFAULT_CONFIG = "sample"
"""The configuration of a command line without --config; the help pages show its values."""

MODEL_HELP = {
    "vocab_size": "tokens of a new tokenizer and its model; a finished tokenizer has its own size",
    "context_length": "longest sequence that the model sees, in tokens",
    "d_model": "width of the residual stream",
    "num_layers": "Transformer blocks",
    "num_heads": "attention heads; must divide d_model",
    "d_ff": "width inside the feed-forward network, about 8/3 d_model",
    "rope_theta": "base of the rotary position embedding's wavelengths",
    "norm": "RMSNorm before each sub-layer, after it, or nowhere",
    "position": "rotary position embedding, or none at all",
    "ffn": "feed-forward network: gated SwiGLU, or SiLU without a gate",
    "attention": "PyTorch's fused kernel, products over two blocks of queries, or readable code",
    "norm_eps": "epsilon inside RMSNorm's square root",
    "qk_norm": "RMSNorm on the queries and keys of each head",
    "tied_embeddings": "one table for the token embedding and the output head",
    "zero_init": "start the last matrix of each sub-layer at zero",
    "logit_soft_cap": "logits become cap * tanh(logits / cap); unset: as they are",
}
"""The help lines of ModelConfig, which belongs to the model and knows nothing of command lines."""

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
"""What may differ when a run is continued. Another max_steps bends the rest of the learning rate's
curve, unless schedule.cycle_steps is set; the steps that were taken stay what they were. Files may
have moved: the hashes that the run has recorded refuse others."""


@dataclass
class CommandLine:
    """What a command line of training asks for: the configuration, and where the run is stored."""

    config: TrainConfig
    run_dir: Path | None
    resume: Path | None
    resume_from: Path | None
    skip_damaged: bool = False
    given: Sequence[str] = ()
    """The keys that the line names: precision, model.d_model, ..."""


class TrainParser(Parser):
    """The options of a training run; its help pages show the values of the configuration file.

    The values of the configuration stay strings, and those that are not given are omitted;
    `read_command_line` makes a configuration of them.
    """

    def __init__(
        self, command: str, description: str, examples: Sequence[str], interrupted: str = ""
    ) -> None:
        super().__init__(command, description, examples, interrupted)
        self._shown_config = TrainConfig()
        self.add(
            "--config",
            f"{', '.join(NAMED_CONFIGS)}, or a YAML file (default: sample); its values "
            "are the defaults on this page",
            metavar="NAME",
        )
        keys = config_keys()
        # The common options come first on the page, in an order that tells a story.
        for name in dict.fromkeys([*COMMON, *keys]):
            self._add_key(keys[name])
        self.add("--run-dir", "a new directory (default: runs/NAME-DATE)", type=Path, metavar="DIR",
                 output=True)  # fmt: skip
        self.add("--resume", "continue the run in this directory", type=Path, metavar="RUN_DIR")
        self.add(
            "--resume-from",
            "with --resume: the checkpoint to continue from (default: the newest)",
            type=Path,
            metavar="CHECKPOINT",
            common=False,
        )
        self.add(
            "--skip-damaged",
            "with --resume: skip damaged checkpoints, back to the newest that is whole",
            action="store_true",
            common=False,
        )

    def _add_key(self, key: ConfigKey) -> None:
        is_switch = key.kind is bool
        common = key.name in COMMON
        several: dict[str, Any] = {}
        if takes_several(key.kind):
            several = {"nargs": "+", "action": "extend"}
        self.add(
            f"--{key.name.replace('_', '-')}",
            key.help or MODEL_HELP[key.name.removeprefix("model.")],
            group="options" if common else key.section or "run",
            common=common,
            dest=key.name,
            default=argparse.SUPPRESS,
            metavar=_metavar(key.kind),
            **({"nargs": "?", "const": "true"} if is_switch else several),
        )

    def requested_help(self, words: Sequence[str]) -> str | None:
        """Return the help page that a command line asks for, with the values of its file."""
        if not asks_for_help(words):
            return None
        # `--config=NAME` is `--config NAME`.
        parts = itertools.chain.from_iterable(
            word.split("=", 1) if word.startswith(("--config=", "--resume=")) else [word]
            for word in words
        )
        self._shown_config = load_config(find_config(DEFAULT_CONFIG))
        for before, word in itertools.pairwise(parts):
            if before == "--config":
                self._shown_config = load_config(find_config(word))
            elif before == "--resume":
                self._shown_config = load_config(_config_of_run(Path(word)))
        return super().requested_help(words)

    def help_of(self, option: Option) -> str:
        """Return the line of an option, with the value that it has if it is not given."""
        key = config_keys(self._shown_config).get(option.action.dest)
        if key is None:
            return super().help_of(option)
        if key.default in (None, ""):
            return option.action.help or ""
        shown = key.default
        if isinstance(shown, bool):
            shown = str(shown).lower()
        elif takes_several(key.kind) and isinstance(shown, tuple):
            shown = " ".join(shown)
        return f"{option.action.help} (default: {shown})"


def read_command_line(found: argparse.Namespace) -> CommandLine:
    """Return what the options of a TrainParser ask for.

    With `--resume RUN_DIR` the configuration is the one saved there, and only the options of
    RESUME_OPTIONS may be given with it.

    Raises:
        ConfigError: a wrong type, an impossible value, or options that exclude each other.
    """
    keys = config_keys()
    given = [name for name in keys if hasattr(found, name)]
    if found.resume is not None:
        source = _resumed_config(found, given)
    elif found.resume_from is not None:
        raise ConfigError("--resume-from needs --resume RUN_DIR as well")
    elif found.skip_damaged:
        raise ConfigError("--skip-damaged needs --resume RUN_DIR as well")
    else:
        source = find_config(DEFAULT_CONFIG if found.config is None else found.config)
    changes = {name: parse_value(keys[name], getattr(found, name)) for name in given}
    return CommandLine(
        load_config(source, changes),
        found.run_dir,
        found.resume,
        found.resume_from,
        found.skip_damaged,
        given,
    )


def parse_command_line(words: Sequence[str]) -> CommandLine:
    """Return what the options of `train` ask for.

    Raises:
        UsageError, ConfigError: the command line or the configuration cannot be used.
    """
    return read_command_line(TrainParser("train", "", []).parse(words))


def _metavar(kind: Any) -> str:
    names = {int: "N", float: "X", bool: "BOOL", str: "TEXT"}
    if takes_several(kind):
        return "FILE"
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    if get_origin(kind) is tuple:
        return "[X, X]"
    return names.get(kind) or _metavar(get_args(kind)[0])  # of an `int | None`: int


def _config_of_run(run_dir: Path) -> Path:
    """Return the configuration file of a run.

    Raises:
        ConfigError: it is not a run directory.
    """
    file = run_dir / "config.yaml"
    if not file.is_file():
        raise ConfigError(f"--resume: {run_dir} is not a run directory (no {file.name})")
    return file


def _resumed_config(found: argparse.Namespace, given: Sequence[str]) -> Path:
    """Return the configuration file of the run to resume.

    Raises:
        ConfigError: it is not a run, or there are options that a resumed run cannot change.
    """
    if found.config or found.run_dir:
        raise ConfigError(
            "--resume continues a run with the configuration in its directory: "
            "omit --config and --run-dir"
        )
    source = _config_of_run(found.resume)
    for name in given:
        if name not in RESUME_OPTIONS:
            can_change = ", ".join(f"--{name}" for name in RESUME_OPTIONS).replace("_", "-")
            raise ConfigError(
                f"--{name.replace('_', '-')} cannot change when a run is resumed: start a new run, "
                f"or omit it (these can change: {can_change})"
            )
    return source
