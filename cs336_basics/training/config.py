"""The configuration of a training run: dataclass defaults < YAML file < command line.

A configuration is data: names, numbers and strings, checked against the types below. Unknown names
and wrong types are errors; nothing in a file is ever executed. Parsing is jsonargparse's work.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import yaml
from jsonargparse import ArgumentParser, Namespace

from cs336_basics.model import ModelConfig

NAMED_CONFIGS = ("sample", "tinystories", "speedrun", "owt")
"""Configurations that come with the package, in `cs336_basics/configs/`."""


LOGGERS = ("tensorboard", "wandb", "trackio")
"""Where metrics can go beside the run directory."""


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line that names the key."""


def option(default: Any, description: str) -> Any:
    """Return a dataclass field with a default value and the line that `--help` shows for it."""
    return field(default=default, metadata={"help": description})


@dataclass
class DataConfig:
    """Where the text comes from, and how it becomes tokens."""

    dataset: Literal["sample", "tinystories", "owt"] = option(
        "sample", "the corpus to train on, unless train_path names another"
    )
    data_dir: str | None = option(
        None, "folder of the downloaded corpora (unset: the environment's CS336_DATA, else data/)"
    )
    sample_bytes: int = option(10_000_000, "size of the generated sample corpus, in bytes")
    train_path: str | None = option(
        None,
        "your own training text, documents separated by <|endoftext|>; or a .npy token file",
    )
    valid_path: str | None = option(
        None, "validation text or .npy token file to go with train_path"
    )
    valid_fraction: float = option(
        0.05, "share of train_path held out, whole documents at its end, if valid_path is not set"
    )
    tokenizer: str | None = option(
        None, "directory of a finished tokenizer to use; unset: train one on the training text"
    )
    trainer: str = option("memoryview", "which BPE trainer learns the tokenizer")
    pattern: str = option("gpt2", "pre-token pattern of a new tokenizer: gpt2, cl100k or a regex")


@dataclass
class OptimizerConfig:
    """The optimizer, see training/optimizers.py, and gradient clipping."""

    kind: Literal["adamw", "muon"] = option(
        "adamw", "AdamW for all weights; or Muon for the matrices and AdamW for the rest"
    )
    betas: tuple[float, float] = option(
        (0.9, 0.95), "decay rates of AdamW's two moment estimates, as [beta1, beta2]"
    )
    eps: float = option(1e-8, "added to the denominator of AdamW's update")
    weight_decay: float = option(0.1, "decoupled weight decay")
    momentum: float = option(0.95, "decay rate of Muon's averaged gradient")
    embedding_lr_scale: float = option(
        1.0, "with muon: learning rate of the embedding, relative to that of the matrices"
    )
    head_lr_scale: float = option(
        1.0, "with muon: learning rate of the output head, relative to that of the matrices"
    )
    max_grad_norm: float = option(1.0, "gradients are scaled down to this L2 norm")


@dataclass
class ScheduleConfig:
    """Linear warm-up, then a cosine down to the minimum, or a plateau and a straight line."""

    shape: Literal["cosine", "linear"] = option(
        "cosine", "way down from the maximum: half a cosine, or a plateau and a straight line"
    )
    max_learning_rate: float = option(1e-3, "learning rate at the end of the warm-up")
    min_learning_rate: float = option(1e-4, "learning rate at the end of the schedule")
    warmup_fraction: float = option(0.05, "share of the schedule that is linear warm-up")
    decay_fraction: float = option(
        1.0, "share of a linear schedule that is its way down; 1: all but the warm-up, no plateau"
    )
    cycle_steps: int | None = option(None, "step at which the schedule ends; unset: max_steps")


@dataclass
class TrainConfig:
    """Everything that determines a run. The run directory holds it as `config.yaml`."""

    name: str = option("sample", "name of the run; begins the name of its directory")
    seed: int = option(0, "seed of the weights, the data order, the sample corpus and the samples")
    max_steps: int = option(1000, "optimizer steps in the whole run")
    batch_size: int = option(32, "sequences per optimizer step")
    accumulation: int = option(
        1, "micro-batches that a batch is computed in: less memory, the same result"
    )
    precision: Literal["float32", "bfloat16"] = option(
        "float32", "type of the matrix products; weights and optimizer stay in float32"
    )
    compile: bool = option(False, "compile the model with torch.compile")
    loss_chunks: int = option(
        1, "parts in which the logits are made: less memory, the same loss; 1: the readable path"
    )
    fused_optimizer: bool = option(False, "use torch's fused AdamW instead of the readable one")
    checkpoint_activations: bool = option(
        False, "compute each block again in the backward pass: less memory, more time"
    )
    fast: Literal["off", "auto"] = option(
        "off",
        "auto: choose precision, compile, loss_chunks, fused_optimizer for this machine, but for "
        "those that stand on the command line",
    )
    parallel: Literal["ddp", "fsdp"] = option(
        "ddp", "under torchrun: replicate the weights in each process, or shard them"
    )
    deterministic: bool = option(
        False, "on a GPU: exact resumption, by algorithms that are slower (a CPU is always exact)"
    )
    device: str = option("auto", "cpu, cuda, cuda:N, mps; auto: the best one there is")
    num_workers: int | None = option(None, "processes and threads to use; unset: all cores")
    log_every: int = option(10, "steps between rows in metrics.jsonl")
    eval_every: int = option(200, "steps between evaluations, each with a checkpoint before it")
    eval_batches: int = option(
        20, "fixed validation batches, spread over the file; 0: all of the validation data"
    )
    checkpoint_every: int = option(200, "steps between checkpoints")
    keep_checkpoints: int = option(2, "how many of the newest checkpoints stay, beside the best")
    log_to: str = option(
        "", "also log to these, separated by commas: tensorboard, wandb (offline), trackio"
    )
    sample_tokens: int = option(200, "length of the text sampled at each evaluation; 0: none")
    sample_prompt: str = option("", "how sampled texts begin; empty: at the start of a document")
    sample_temperature: float = option(0.8, "temperature of the sampled texts; 0: greedy")
    sample_top_p: float = option(0.95, "nucleus of the sampled texts; 1: the whole distribution")
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        _check_values(self)


# ModelConfig belongs to the model, which knows nothing of command lines: its help lines live here.
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

# What may differ when a run is continued. Another max_steps bends the rest of the learning rate's
# curve, unless schedule.cycle_steps is set; the steps that were taken stay what they were.
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


@dataclass
class _Leaf:
    """One value of a configuration, as an option."""

    key: str  # dotted: model.d_model
    kind: Any
    default: Any
    help: str
    group: str


def _leaves(defaults: TrainConfig) -> Iterator[_Leaf]:
    """Yield every value of a configuration, those of its sections included."""
    kinds = get_type_hints(TrainConfig)
    for item in dataclasses.fields(TrainConfig):
        value = getattr(defaults, item.name)
        if not dataclasses.is_dataclass(value):
            yield _Leaf(item.name, kinds[item.name], value, item.metadata["help"], "run")
            continue
        inner_kinds = get_type_hints(type(value))
        for inner in dataclasses.fields(value):
            text = inner.metadata["help"] if inner.metadata else MODEL_HELP[inner.name]
            key = f"{item.name}.{inner.name}"
            yield _Leaf(key, inner_kinds[inner.name], getattr(value, inner.name), text, item.name)


def config_keys() -> list[str]:
    """Return the dotted names of all values of a TrainConfig."""
    return [leaf.key for leaf in _leaves(TrainConfig())]


def build_parser(defaults: TrainConfig | None = None) -> ArgumentParser:
    """Return the parser of `python -m cs336_basics.train`, with these defaults."""
    parser = ArgumentParser(
        prog="python -m cs336_basics.train",
        usage="%(prog)s [--config NAME_OR_FILE] [--max-steps N] [--model.d-model N] ...",
        description="Train a Transformer language model: text to tokenizer to tokens to weights. "
        "With no argument it trains on a corpus that it generates itself. "
        "Values come from the dataclasses in training/config.py, then from the configuration "
        "file, then from the command line; names may be written with - or _.",
        exit_on_error=False,
        allow_abbrev=False,
        print_config=None,
    )
    parser.add_argument(
        "--config",
        action="config",
        metavar="NAME_OR_FILE",
        help=f"{', '.join(NAMED_CONFIGS)}, or a YAML file (default: sample)",
    )
    parser.add_argument(
        "--run-dir",
        type=str | None,
        metavar="DIR",
        help="a new directory for the run; unset: runs/NAME-DATE",
    )
    parser.add_argument(
        "--resume", type=str | None, metavar="RUN_DIR", help="continue the run in this directory"
    )
    parser.add_argument(
        "--resume-from",
        type=str | None,
        metavar="CHECKPOINT",
        help="with --resume: the checkpoint to continue from; unset: the newest",
    )
    parser.add_argument(
        "--skip-damaged",
        action="store_true",
        help="with --resume: pass over checkpoints that are damaged, to the newest that is not",
    )
    groups: dict[str, Any] = {}
    for leaf in _leaves(defaults or TrainConfig()):
        if leaf.group not in groups:
            groups[leaf.group] = parser.add_argument_group(leaf.group)
        name = f"--{leaf.key.replace('_', '-')}"
        groups[leaf.group].add_argument(name, type=leaf.kind, default=leaf.default, help=leaf.help)
    return parser


# Options that mean "true" where they stand alone.
_SWITCHES = ("--compile", "--fused-optimizer", "--checkpoint-activations", "--deterministic")


def _normalize(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with `-` in option names and switches as options."""
    normal = []
    for word, following in itertools.zip_longest(words, words[1:], fillvalue="--"):
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            word = name.replace("_", "-") + equals + value
        if word in _SWITCHES and following.startswith("--"):
            word += "=true"
        normal.append(word)
    return normal


@dataclass
class CommandLine:
    """What `parse_command_line` found: the configuration, and where the run lives."""

    config: TrainConfig
    run_dir: Path | None
    resume: Path | None
    resume_from: Path | None
    skip_damaged: bool = False
    given: Sequence[str] = ()
    """The keys that stand on the line: precision, model.d_model, ..."""


def parse_command_line(arguments: Sequence[str]) -> CommandLine:
    """Parse the arguments of `python -m cs336_basics.train`.

    With `--resume RUN_DIR` the configuration is the one saved there, and only the options of
    RESUME_OPTIONS may be given beside it.

    Raises:
        ConfigError: an unknown name, a wrong type or an impossible value.
        SystemExit: after `--help`.
    """
    # These decide which file is read first, wherever they stand on the line: an option always
    # overrides the file, also when it was typed before --config.
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    early.add_argument("--config")
    early.add_argument("--resume", type=Path)
    early.add_argument("--run-dir", type=Path)
    early.add_argument("--resume-from", type=Path)
    early.add_argument("--skip-damaged", action="store_true")
    try:
        first, rest = early.parse_known_args(_normalize(arguments))
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from None

    if first.resume is not None:
        if first.config or first.run_dir:
            raise ConfigError(
                "--resume continues a run with the configuration in its directory: "
                "leave --config and --run-dir away"
            )
        source = first.resume / "config.yaml"
        if not source.is_file():
            raise ConfigError(f"--resume: {first.resume} is not a run directory (no {source.name})")
        _refuse_changes(rest)
    elif first.resume_from is not None:
        raise ConfigError("--resume-from needs --resume RUN_DIR beside it")
    elif first.skip_damaged:
        raise ConfigError("--skip-damaged needs --resume RUN_DIR beside it")
    else:
        source = find_config("sample" if first.config is None else first.config)
    if {"-h", "--help"} & set(rest):
        # The defaults shown are those of the file: they are what happens if one types no more.
        build_parser(load_config(source)).print_help()
        raise SystemExit(0)
    return CommandLine(
        load_config(source, rest),
        first.run_dir,
        first.resume,
        first.resume_from,
        first.skip_damaged,
        _given_keys(rest),
    )


def find_config(name: str) -> Path:
    """Return the file of a named configuration, or `name` itself if it is a file.

    Raises:
        ConfigError: it is neither.
    """
    if name in NAMED_CONFIGS:
        return Path(str(resources.files("cs336_basics") / "configs" / f"{name}.yaml"))
    if not Path(name).is_file():
        raise ConfigError(
            f"--config: {name!r} is neither a file nor one of {', '.join(NAMED_CONFIGS)}"
        )
    return Path(name)


def load_config(source: Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Return the defaults, changed by the YAML file `source`, changed by options `overrides`.

    Raises:
        ConfigError: an unknown name, a wrong type or an impossible value.
    """
    parser = build_parser()
    _check_yaml(source)
    # The file alone first, so that a complaint can say whether the file or the line is at fault.
    where = f"{source}: "
    try:
        found = parser.parse_args([f"--config={source}"])
        _check_shape(found)
        where = ""
        if overrides:
            found = parser.parse_args([f"--config={source}", *_normalize(overrides)])
            _check_shape(found)
        return _build(found)
    except (argparse.ArgumentError, ValueError, TypeError) as error:
        raise ConfigError(where + _one_line(str(error))) from None


def _check_yaml(source: Path) -> None:
    """Refuse what a YAML reader lets pass: a key given twice, one file including another.

    Raises:
        ConfigError: naming the file and the key.
    """
    try:
        root = yaml.compose(source.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{source}: not YAML: {' '.join(str(error).split())}") from None
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from None

    def visit(node: yaml.Node | None, path: str) -> None:
        if not isinstance(node, yaml.MappingNode):
            return
        seen: set[str] = set()
        for key, value in node.value:
            name = f"{path}{key.value}"
            if name in seen:
                raise ConfigError(f"{source}: {name} is given twice")
            if name == "config":
                raise ConfigError(f"{source}: config belongs on the command line, not into a file")
            seen.add(name)
            if value is node:
                raise ConfigError(f"{source}: {name} holds itself")
            visit(value, f"{name}.")

    try:
        visit(root, "")
    except RecursionError:
        raise ConfigError(f"{source}: a value holds itself") from None


def _check_shape(found: Namespace) -> None:
    """Refuse what jsonargparse lets a file say, though no dataclass could hold it.

    Raises:
        ValueError: naming the key.
    """
    for key in ("run_dir", "resume", "resume_from", "skip_damaged"):
        if found[key] not in (None, False):
            raise ValueError(f"{key} belongs on the command line, not into a file")
    for leaf in _leaves(TrainConfig()):
        section = leaf.key.partition(".")[0]
        if section != leaf.key and not isinstance(found[section], Namespace):
            raise ValueError(f"{section} is a section with values of its own, not {found[section]}")
        if found[leaf.key] is None and type(None) not in get_args(leaf.kind):
            raise ValueError(f"{leaf.key} is null: it needs a value")


def _build(found: Namespace) -> TrainConfig:
    """Turn a parsed namespace into dataclasses."""
    values: dict[str, Any] = {}
    for name, kind in get_type_hints(TrainConfig).items():
        value = found[name]
        values[name] = kind(**vars(value)) if isinstance(value, Namespace) else value
    return TrainConfig(**values)


def _given_keys(options: Sequence[str]) -> list[str]:
    """Return the keys of the configuration that options name, in their order."""
    names = [word[2:].split("=")[0].replace("-", "_") for word in options if word[:2] == "--"]
    return [name for name in names if name in config_keys()]


def _refuse_changes(options: Sequence[str]) -> None:
    """Refuse options that a continued run cannot change.

    Raises:
        ConfigError: naming the first of them.
    """
    for key in _given_keys(options):
        if key not in RESUME_OPTIONS:
            raise ConfigError(
                f"--{key} cannot change when a run is resumed: start a new run, "
                f"or leave it away (these can: {', '.join(RESUME_OPTIONS)})"
            )


def _one_line(message: str) -> str:
    """Return jsonargparse's message on one line, with the nearest known name if one is unknown."""
    text = " ".join(message.split())
    text = re.sub(r"<class '(\w+)'>", r"\1", text).replace("typing.", "")
    text = re.sub(
        r'^Parser key "(.+?)": Expected an? (.*)\. Got value:', r"\1: expected \2, got", text
    )
    text = re.sub(
        r'^Parser key "(.+?)": Does not validate against any of the Union subtypes.*'
        r"Subtypes: \[(.+?)\].*?(?:Got value|Given value)[^:]*: (.*)$",
        r"\1: expected one of \2, got \3",
        text,
    )
    unknown = re.search(r"Option '([^']+)' is not accepted|unrecognized arguments: --(\S+)", text)
    if unknown:
        name = (unknown[1] or unknown[2]).split("=")[0].replace("-", "_")
        names = [*config_keys(), "config", "resume", "resume_from", "run_dir", "skip_damaged"]
        # A value is often asked for without its section: learning_rate, d_model.
        near = [known for known in names if known.split(".")[-1] == name.split(".")[-1]]
        near = near or difflib.get_close_matches(name, names, n=2, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "see --help for all names"
        text = f"unknown option {name!r}: {hint}"
    return text


def config_to_dict(config: TrainConfig) -> dict[str, Any]:
    """Return the configuration as nested dictionaries."""
    return dataclasses.asdict(config)


def config_to_yaml(config: TrainConfig) -> str:
    """Return the configuration as YAML that `--config` reads back."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, str):
            return _Quoted(value)
        return list(value) if isinstance(value, tuple) else value

    text: str = yaml.dump(plain(dataclasses.asdict(config)), Dumper=_Dumper, sort_keys=False)
    return text


class _Quoted(str):
    """A string that is written in quotes: readers of YAML disagree on whether 1e5 is a number."""


class _Dumper(yaml.SafeDumper):
    """Writes _Quoted strings."""


_Dumper.add_representer(
    _Quoted,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"'),
)


def _check_values(config: TrainConfig) -> None:
    """Check what the types cannot say.

    Raises:
        ValueError: naming the key and its value.
    """

    def require(key: str, holds: bool, rule: str) -> None:
        if not holds:
            value: Any = config
            for part in key.split("."):
                value = getattr(value, part)
            raise ValueError(f"{key} is {value!r}: it must be {rule}")

    for key in ("batch_size", "max_steps", "accumulation", "log_every", "eval_every"):
        require(key, getattr(config, key) >= 1, "at least 1")
    for key in ("checkpoint_every", "keep_checkpoints", "loss_chunks"):
        require(key, getattr(config, key) >= 1, "at least 1")
    workers = config.num_workers
    require("num_workers", workers is None or 1 <= workers <= 4096, "between 1 and 4096")
    for key in ("eval_batches", "sample_tokens", "sample_temperature"):
        require(key, 0 <= getattr(config, key) < math.inf, "0 or more")
    require("sample_top_p", 0 < config.sample_top_p <= 1, "above 0 and at most 1")
    # Seeds are one word of the data order's Philox key, and the sample corpus takes the next one.
    require("seed", 0 <= config.seed < 2**63 - 1, "between 0 and 2^63 - 2")
    require("name", re.fullmatch(r"[\w.-]+", config.name) is not None, "letters, digits, . _ or -")
    require(
        "accumulation",
        config.batch_size % config.accumulation == 0,
        f"a divisor of batch_size, {config.batch_size}",
    )
    loggers = [name for name in config.log_to.split(",") if name]
    require("log_to", set(loggers) <= set(LOGGERS), f"a list of {', '.join(LOGGERS)}")
    data = config.data
    require("data.sample_bytes", data.sample_bytes >= 1_000, "at least 1000")
    require("data.valid_fraction", 0 < data.valid_fraction < 1, "between 0 and 1")
    if data.valid_path is not None and data.train_path is None:
        raise ValueError("data.valid_path is set without data.train_path: give both")
    rates = config.schedule
    require("schedule.max_learning_rate", 0 < rates.max_learning_rate < math.inf, "above 0")
    require(
        "schedule.min_learning_rate",
        0 <= rates.min_learning_rate <= rates.max_learning_rate,
        "between 0 and schedule.max_learning_rate",
    )
    cycle = rates.cycle_steps
    require("schedule.cycle_steps", cycle is None or cycle >= 1, "at least 1")
    require("schedule.warmup_fraction", 0 <= rates.warmup_fraction < 1, "at least 0 and below 1")
    require("schedule.decay_fraction", 0 <= rates.decay_fraction <= 1, "between 0 and 1")
    betas = config.optimizer.betas
    require("optimizer.betas", all(0 <= beta < 1 for beta in betas), "two numbers in [0, 1)")
    require("optimizer.eps", 0 < config.optimizer.eps < math.inf, "above 0")
    require("optimizer.weight_decay", 0 <= config.optimizer.weight_decay < math.inf, "0 or more")
    require("optimizer.momentum", 0 <= config.optimizer.momentum < 1, "at least 0 and below 1")
    for key in ("optimizer.embedding_lr_scale", "optimizer.head_lr_scale"):
        scale = getattr(config.optimizer, key.partition(".")[2])
        require(key, 0 <= scale < math.inf, "0 or more")
    require("optimizer.max_grad_norm", 0 < config.optimizer.max_grad_norm < math.inf, "above 0")
