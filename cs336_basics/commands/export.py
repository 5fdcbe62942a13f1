"""`python -m cs336_basics export`: convert a tokenizer, model or token file to another format."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cs336_basics._support.validation import Checked, one_of, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import Command, UsageError
from cs336_basics.formats.exports import (
    MODEL_FORMATS,
    ROLES,
    TOKEN_FORMATS,
    TOKENIZER_FORMATS,
    WEIGHT_TYPES,
)

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement

# Formats available for each option that names the object to export.
SOURCES = {"tokenizer": TOKENIZER_FORMATS, "run": MODEL_FORMATS, "tokens": TOKEN_FORMATS}
FORMATS = tuple(dict.fromkeys(itertools.chain(*SOURCES.values())))


@dataclass(kw_only=True)
class Options(Checked):
    """Convert a tokenizer, a trained model with its tokenizer, or token files to another format.

    If the format's own library is installed, it loads the exported tokenizer or model, and its
    output is compared with the original's.
    """

    tokenizer: str | None = option(
        f"tokenizer directory (formats: {', '.join(TOKENIZER_FORMATS)})", None, metavar="DIR"
    )
    run: str | None = option(
        f"run directory (formats: {', '.join(MODEL_FORMATS)})", None, metavar="DIR"
    )
    tokens: tuple[str, ...] | None = option(
        f"token files with document starts (format: {', '.join(TOKEN_FORMATS)})",
        None,
        metavar="FILE",
    )
    to: Annotated[str, one_of(FORMATS)] = option(f"format: {', '.join(FORMATS)}", metavar="FORMAT")
    output: Path = option("file or directory to write", metavar="PATH")
    checkpoint: Path | None = option(
        "checkpoint to load (default: the newest)", None, metavar="PATH", rare=True
    )
    type: Annotated[str | None, one_of(WEIGHT_TYPES)] = option(
        f"GGUF: type of the weight matrices, one of {', '.join(WEIGHT_TYPES)} (default: f32)",
        None,
        metavar="TYPE",
    )
    without_cache: bool = option("ONNX: export without the key-value cache", False)
    eos_token: str | None = option(
        "Hugging Face and ONNX: special token at the end of a text (default: <|endoftext|>)",
        None,
        metavar="TOKEN",
    )
    pad_token: str | None = option(
        "Hugging Face and ONNX: special token for padding (default: the eos token)",
        None,
        metavar="TOKEN",
    )
    bos_token: str | None = option(
        "Hugging Face and ONNX: special token for the start of a text; not added automatically",
        None,
        metavar="TOKEN",
        rare=True,
    )
    unk_token: str | None = option(
        "Hugging Face and ONNX: special token for unknown text", None, metavar="TOKEN", rare=True
    )
    overwrite: bool = option("replace an existing file (directories must be new or empty)", False)


def export(options: Options) -> None:
    """Convert the input, load the result in the target runtime, and print the comparison."""
    given = [name for name in SOURCES if getattr(options, name) is not None]
    if len(given) != 1:
        raise UsageError("give exactly one of --tokenizer DIR, --run DIR and --tokens FILE")
    source, formats = f"--{given[0]}", SOURCES[given[0]]
    if options.to not in formats:
        raise UsageError(f"{source} can be exported to {', '.join(formats)}, not to {options.to}")
    # Options that apply only to some formats.
    own = {"type": options.type, "without_cache": options.without_cache or None}
    own |= {role: getattr(options, role) for role in ROLES}
    own = {name: value for name, value in own.items() if value is not None}
    unused = [name for name in own if name not in formats[options.to].options]
    if options.checkpoint is not None and options.run is None:
        unused.append("checkpoint")
    for name in unused:
        raise UsageError(
            f"--{name.replace('_', '-')} does not apply to {source} --to {options.to}; remove it"
        )
    if options.tokenizer is not None:
        _export_tokenizer(options, options.tokenizer, own)
    elif options.run is not None:
        _export_run(options, options.run, own)
    else:
        _export_tokens(options, options.tokens or ())


def _export_tokenizer(options: Options, directory: str, own: dict[str, Any]) -> None:
    from cs336_basics.formats import check_tokenizer, export_tokenizer
    from cs336_basics.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_directory(directory)
    export_tokenizer(tokenizer, options.to, options.output, **own)
    _report(options.output, lambda: check_tokenizer(tokenizer, options.to, options.output))


def _export_run(options: Options, directory: str, own: dict[str, Any]) -> None:
    from cs336_basics.checkpoints.run_dir import RunDirectory
    from cs336_basics.formats import check_model, export_model
    from cs336_basics.formats.run_card import card_of_run
    from cs336_basics.training.config_files import load_config
    from cs336_basics.training.load_run import load_run

    model, tokenizer = load_run(directory, checkpoint=options.checkpoint)
    to, output = options.to, options.output
    data = load_config(RunDirectory(directory).config).data
    card = card_of_run(directory, data, options.checkpoint)
    export_model(model, tokenizer, to, output, card=card, overwrite=options.overwrite, **own)
    own = {name: value for name, value in own.items() if name not in ROLES}
    _report(output, lambda: check_model(model, tokenizer, to, output, **own))


def _export_tokens(options: Options, paths: Sequence[str]) -> None:
    from cs336_basics.formats import export_tokens

    export_tokens(paths, options.to, options.output)
    _say_files(options.output)


def _report(output: Path, check: Callable[[], Agreement]) -> None:
    """Print the files written, and the result of comparing the target runtime with this library."""
    _say_files(output)
    try:
        agreement = check()
    except ImportError as error:
        say(f"checked     no: {error.name or error} is not installed")
        return
    for line in agreement.lines:
        say(f"checked     {agreement.runtime}: {line}")


def _say_files(output: Path) -> None:
    files = sorted(output.iterdir()) if output.is_dir() else [output]
    say(f"written to  {output}")
    for file in files:
        say(f"            {file.name}, {file.stat().st_size:,} bytes")


COMMAND = Command(
    "export",
    Options,
    export,
    "export --run runs/my --to huggingface --output my-model",
    "export --tokenizer tokenizers/my --to huggingface --output my-tokenizer",
    "export --run runs/my --to gguf --output my-model.gguf --type q8_0",
    "export --run runs/my --to onnx --output my-model-onnx",
    "export --tokens data/web.npy --to megatron --output web-megatron",
)
