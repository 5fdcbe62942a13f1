"""`python -m cs336_basics export`: convert a tokenizer, model or token file to another format."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cs336_basics._support.errors import Argument
from cs336_basics._support.validation import Checked, fields_of, one_of, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import CHECKPOINT, Command, UsageError
from cs336_basics.commands._outputs import say_kept
from cs336_basics.formats.export_format import ExportFormat
from cs336_basics.formats.exports import MODEL_FORMATS, TOKEN_FORMATS, TOKENIZER_FORMATS

if TYPE_CHECKING:
    from cs336_basics.formats.agreement import Agreement

# Formats available for each option that names the object to export.
SOURCES: dict[str, Mapping[str, type[ExportFormat]]] = {
    "tokenizer": TOKENIZER_FORMATS,
    "run": MODEL_FORMATS,
    "tokens": TOKEN_FORMATS,
}
FORMATS = tuple(dict.fromkeys(itertools.chain(*SOURCES.values())))


@dataclass(kw_only=True)
class CommonOptions(Checked):
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
        f"token files, for megatron with document starts (formats: {', '.join(TOKEN_FORMATS)})",
        None,
        metavar="FILE",
    )
    to: Annotated[str, one_of(FORMATS)] = option(f"format: {', '.join(FORMATS)}", metavar="FORMAT")
    output: Path = option("file or directory to write", metavar="PATH")
    checkpoint: str | None = CHECKPOINT
    overwrite: bool = option("replace an existing file (directories must be new or empty)", False)


# The options of each format. If several formats have an option of the same name, it is the same.
OWN_OPTIONS = {
    field.name: (known.kind, field)
    for formats in SOURCES.values()
    for kind in formats.values()
    for (_, known), field in zip(fields_of(kind), dataclasses.fields(kind), strict=True)
}


def _options() -> type[Any]:
    """Return a dataclass with the common options and the options of each format."""
    fields = [
        (name, kind, dataclasses.field(default=field.default, metadata=field.metadata))
        for name, (kind, field) in OWN_OPTIONS.items()
    ]
    namespace = {"__doc__": CommonOptions.__doc__}
    return dataclasses.make_dataclass(
        "Options", fields, bases=(CommonOptions,), namespace=namespace, kw_only=True
    )


def export(options: Any) -> None:
    """Convert the input, load the result in the target runtime, and print the comparison."""
    given = [name for name in SOURCES if getattr(options, name) is not None]
    if len(given) != 1:
        raise UsageError("give exactly one of --tokenizer DIR, --run DIR and --tokens FILE")
    source, formats = Argument(given[0]), SOURCES[given[0]]
    if options.to not in formats:
        raise UsageError(
            (f"must be one of {', '.join(formats)} for ", source, f", got {options.to}"),
            argument="to",
        )
    known = dict(fields_of(formats[options.to]))
    own = {name: getattr(options, name) for name in known}
    unused = [
        name
        for name, (_, field) in OWN_OPTIONS.items()
        if name not in known and getattr(options, name) != field.default
    ]
    if options.checkpoint is not None and options.run is None:
        unused.append("checkpoint")
    for name in unused:
        raise UsageError(
            ("does not apply to ", source, " ", Argument("to", options.to)),
            argument=name,
            remedy="remove it",
        )
    if options.tokenizer is not None:
        _export_tokenizer(options, options.tokenizer, own)
    elif options.run is not None:
        _export_run(options, options.run, own)
    else:
        _export_tokens(options, options.tokens or ())


def _export_tokenizer(options: Any, directory: str, own: dict[str, Any]) -> None:
    from cs336_basics.formats import check_tokenizer, export_tokenizer
    from cs336_basics.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_directory(directory)
    export_tokenizer(tokenizer, options.to, options.output, **own)
    say_kept(tokenizer, own.get("keep_files", False))
    _report(options.output, lambda: check_tokenizer(tokenizer, options.to, options.output))


def _export_run(options: Any, directory: str, own: dict[str, Any]) -> None:
    from cs336_basics.checkpoints.run_dir import RunDirectory
    from cs336_basics.formats import check_model, export_model
    from cs336_basics.formats.run_card import card_of_run
    from cs336_basics.training.config_files import load_config
    from cs336_basics.training.load_run import load_run

    checkpoint = options.checkpoint or "last"
    model, tokenizer = load_run(directory, checkpoint=checkpoint)
    to, output = options.to, options.output
    config = load_config(RunDirectory(directory).config)
    card = card_of_run(directory, config.data, checkpoint)
    card = dataclasses.replace(card, origin=config.origin_facts())
    export_model(model, tokenizer, to, output, card=card, overwrite=options.overwrite, **own)
    say_kept(tokenizer, own.get("keep_files", False))
    _report(output, lambda: check_model(model, tokenizer, to, output, **own))


def _export_tokens(options: Any, paths: Sequence[str]) -> None:
    from cs336_basics.formats import export_tokens

    export_tokens(paths, options.to, options.output, overwrite=options.overwrite)
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
    say(f"written to  {output}")
    if not output.is_dir():
        say(f"            {output.name}, {output.stat().st_size:,} bytes")
    for file in sorted(path for path in output.rglob("*") if path.is_file()):
        say(f"            {file.relative_to(output)}, {file.stat().st_size:,} bytes")


COMMAND = Command(
    "export",
    _options(),
    export,
    "export --run runs/my --to huggingface --output my-model",
    "export --tokenizer tokenizers/my --to huggingface --output my-tokenizer",
    "export --tokenizer Qwen3-0.6B --to huggingface --output my-qwen --keep-files",
    "export --run runs/my --to gguf --output my-model.gguf --type q8_0",
    "export --run runs/my --checkpoint best --to onnx --output my-model-onnx",
    "export --tokens data/web.npy --to megatron --output web-megatron",
    "export --tokens data/web.npy --to nanogpt --output train.bin",
    uses_torch=True,
)
