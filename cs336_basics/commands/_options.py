"""The options of `python -m cs336_basics.train`: dataclass defaults < YAML file < command line.

Every value of a TrainConfig is an option of its dotted name: `--max-steps`, `--model.d-model`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cs336_basics.training.config import TrainConfig
from cs336_basics.training.config_files import (
    NAMED_CONFIGS,
    ConfigError,
    config_keys,
    find_config,
    load_config,
    parse_value,
    unknown_name,
)

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
    "attention": "readable reference code, or PyTorch's fused kernel",
    "norm_eps": "epsilon inside RMSNorm's square root",
    "qk_norm": "RMSNorm on the queries and keys of each head",
    "tied_embeddings": "one table for the token embedding and the output head",
    "zero_init": "start the last matrix of each sub-layer at zero",
    "logit_soft_cap": "logits become cap * tanh(logits / cap); unset: as they are",
}
"""ModelConfig belongs to the model, which knows nothing of command lines: its help lines."""

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
)
"""What may differ when a run is continued. Another max_steps bends the rest of the learning rate's
curve, unless schedule.cycle_steps is set; the steps that were taken stay what they were."""

_COMMAND_ONLY = ("help", "config", "run_dir", "resume", "resume_from", "skip_damaged")


@dataclass
class CommandLine:
    """What `parse_command_line` found: the configuration, and where the run is stored."""

    config: TrainConfig
    run_dir: Path | None
    resume: Path | None
    resume_from: Path | None
    skip_damaged: bool = False
    given: Sequence[str] = ()
    """The keys that the line names: precision, model.d_model, ..."""


def parse_command_line(arguments: Sequence[str]) -> CommandLine:
    """Parse the arguments of `python -m cs336_basics.train`.

    With `--resume RUN_DIR` the configuration is the one saved there, and only the options of
    RESUME_OPTIONS may be given beside it.

    Raises:
        ConfigError: an unknown name, a wrong type or an impossible value.
        SystemExit: after `--help`.
    """
    parser = build_parser()
    try:
        found, unknown = parser.parse_known_args([_with_dashes(word) for word in arguments])
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from None
    if unknown:
        raise ConfigError(_explain_unknown(unknown[0]))
    given = [name for name in config_keys() if hasattr(found, name)]

    if found.resume is not None:
        source = _resumed_config(found, given)
    elif found.resume_from is not None:
        raise ConfigError("--resume-from needs --resume RUN_DIR beside it")
    elif found.skip_damaged:
        raise ConfigError("--skip-damaged needs --resume RUN_DIR beside it")
    else:
        source = find_config("sample" if found.config is None else found.config)
    if found.help:
        # The defaults shown are those of the file: they apply if no option is given.
        build_parser(load_config(source)).print_help()
        raise SystemExit(0)
    keys = config_keys()
    changes = {name: parse_value(keys[name], getattr(found, name)) for name in given}
    return CommandLine(
        load_config(source, changes),
        found.run_dir,
        found.resume,
        found.resume_from,
        found.skip_damaged,
        given,
    )


def build_parser(defaults: TrainConfig | None = None) -> argparse.ArgumentParser:
    """Return the parser of `python -m cs336_basics.train`, whose help shows these defaults.

    It leaves the values of the configuration as strings, and omits those that are not given.
    """
    parser = argparse.ArgumentParser(
        prog="python -m cs336_basics.train",
        usage="%(prog)s [--config NAME_OR_FILE] [--max-steps N] [--model.d-model N] ...",
        description="Train a Transformer language model: text to tokenizer to tokens to weights. "
        "With no argument it trains on a corpus that it generates itself. "
        "Values come from the dataclasses in training/config.py, then from the configuration "
        "file, then from the command line; names may be written with - or _.",
        exit_on_error=False,
        allow_abbrev=False,
        add_help=False,
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this help message and exit")
    add(
        "--config",
        metavar="NAME_OR_FILE",
        help=f"{', '.join(NAMED_CONFIGS)}, or a YAML file (default: sample)",
    )
    add("--run-dir", type=Path, metavar="DIR", help="a new directory; unset: runs/NAME-DATE")
    add("--resume", type=Path, metavar="RUN_DIR", help="continue the run in this directory")
    add(
        "--resume-from",
        type=Path,
        metavar="CHECKPOINT",
        help="with --resume: the checkpoint to continue from; unset: the newest",
    )
    add(
        "--skip-damaged",
        action="store_true",
        help="with --resume: skip damaged checkpoints, back to the newest that is whole",
    )
    groups = {}
    for key in config_keys(defaults).values():
        section = key.section or "run"
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        text = key.help or MODEL_HELP[key.name.removeprefix("model.")]
        shown = "unset" if key.default is None else key.default
        alone_it_means_true = key.kind is bool
        groups[section].add_argument(
            f"--{key.name.replace('_', '-')}",
            dest=key.name,
            nargs="?" if alone_it_means_true else None,
            const="true" if alone_it_means_true else None,
            default=argparse.SUPPRESS,
            metavar=_metavar(key.kind),
            help=f"{text} (default: {shown})".replace("%", "%%"),
        )
    return parser


def _metavar(kind: Any) -> str:
    names = {int: "N", float: "X", bool: "true|false", str: "TEXT"}
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    if get_origin(kind) is tuple:
        return "[X, X]"
    return names.get(kind) or _metavar(get_args(kind)[0])  # of an `int | None`: int


def _with_dashes(word: str) -> str:
    """Return a word of a command line with `-` for `_` in its option name, if it has one."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if word.startswith("--") else word


def _explain_unknown(word: str) -> str:
    if not word.startswith("--"):
        return f"unrecognized argument {word!r}: every value needs the name of its option before it"
    known = [*_COMMAND_ONLY, *config_keys()]
    return unknown_name(word[2:].split("=")[0].replace("-", "_"), known)


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
    source: Path = found.resume / "config.yaml"
    if not source.is_file():
        raise ConfigError(f"--resume: {found.resume} is not a run directory (no {source.name})")
    for name in given:
        if name not in RESUME_OPTIONS:
            raise ConfigError(
                f"--{name} cannot change when a run is resumed: start a new run, "
                f"or omit it (these can change: {', '.join(RESUME_OPTIONS)})"
            )
    return source
