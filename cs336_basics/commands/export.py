"""`python -m cs336_basics export`: a tokenizer or a trained model in another library's format."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cs336_basics.commands._cli import run_command, say
from cs336_basics.commands._parser import Parser, add_overwrite
from cs336_basics.formats import (
    MODEL_FORMATS,
    TOKENIZER_FORMATS,
    Agreement,
    check_model,
    check_tokenizer,
    export_model,
    export_tokenizer,
)
from cs336_basics.formats.exports import WEIGHT_TYPES, Format
from cs336_basics.tokenizer import Tokenizer

FORMATS = tuple(dict.fromkeys([*TOKENIZER_FORMATS, *MODEL_FORMATS]))

MODEL_OPTIONS: tuple[str, ...] = ("checkpoint", "type", "without_cache")
"""Options of models alone, by their names in Python; a format names those that only it has."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = build_parser()
    return run_command(parser, lambda options: _export(parser, options), arguments)


def build_parser() -> Parser:
    """Return the options of the command."""
    parser = Parser(
        "export",
        "Write a tokenizer, or a trained model with its tokenizer, in the format of another "
        "library; then load it there, if that library is installed, and compare.",
        examples=[
            "export --tokenizer tokenizers/my --to huggingface --output my-tokenizer",
            "export --run runs/my --to huggingface --output my-model",
            "export --run runs/my --to gguf --output my-model.gguf --type q8_0",
            "export --run runs/my --to onnx --output my-model-onnx",
        ],
        interrupted="an unfinished output was not kept",
    )
    add = parser.add
    add("--tokenizer", f"tokenizer directory; to {', '.join(TOKENIZER_FORMATS)}", metavar="DIR")
    add("--run", f"run directory of a training; to {', '.join(MODEL_FORMATS)}", metavar="DIR")
    add("--to", ", ".join(FORMATS), choices=FORMATS, required=True, metavar="FORMAT")
    add("--output", "directory or file to write", required=True, output=True, metavar="PATH")
    add("--checkpoint", "checkpoint to load (default: the newest of the run)", type=Path,
        metavar="DIR", common=False)  # fmt: skip
    add("--type", f"type of the matrices in GGUF: {', '.join(WEIGHT_TYPES)} (default: f32)",
        choices=WEIGHT_TYPES, metavar="TYPE")  # fmt: skip
    add("--without-cache", "in ONNX, take ids alone, without keys and values of earlier tokens",
        action="store_const", const=True)  # fmt: skip
    add_overwrite(parser, "a file that exists (a directory must be new or empty)")
    return parser


def _export(parser: Parser, options: argparse.Namespace) -> None:
    """Write the output, load it in the runtime that it is for, and print what agrees."""
    if (options.tokenizer is None) == (options.run is None):
        raise parser.usage_error("give either --tokenizer DIR or --run DIR")
    if options.tokenizer is not None:
        _find(parser, TOKENIZER_FORMATS, options, "--tokenizer", "--run DIR")
        _export_tokenizer(options)
    else:
        advice = f"--tokenizer {Path(options.run, 'tokenizer')}"
        own = _find(parser, MODEL_FORMATS, options, "--run", advice).options
        _export_run(options, own)


def _find(
    parser: Parser,
    formats: Mapping[str, Format],
    options: argparse.Namespace,
    source: str,
    advice: str,
) -> Format:
    """Return the format, after refusing one that does not fit what is exported.

    Raises:
        UsageError: the format cannot hold it, or does not have one of the options.
    """
    to = options.to
    if to not in formats:
        raise parser.usage_error(
            f"{source} can be exported to {', '.join(formats)}: for {to}, give {advice}"
        )
    allowed = (*MODEL_OPTIONS[:1], *formats[to].options) if formats is MODEL_FORMATS else ()
    for name in MODEL_OPTIONS:
        if name not in allowed and getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise parser.usage_error(f"{option} has no meaning for {source} to {to}: omit it")
    return formats[to]


def _export_tokenizer(options: argparse.Namespace) -> None:
    tokenizer = Tokenizer.from_directory(options.tokenizer)
    output = Path(options.output)
    export_tokenizer(tokenizer, options.to, output)
    _report(output, lambda: check_tokenizer(tokenizer, options.to, output))


def _export_run(options: argparse.Namespace, own: Sequence[str]) -> None:
    from cs336_basics.formats.run_card import card_of_run  # both need torch, tokenizers do not
    from cs336_basics.training.load_run import load_run

    model, tokenizer = load_run(options.run, checkpoint=options.checkpoint)
    card = card_of_run(options.run, options.checkpoint)
    output = Path(options.output)
    values = {name: getattr(options, name) for name in own if getattr(options, name) is not None}
    export_model(
        model, tokenizer, options.to, output, card=card, overwrite=options.overwrite, **values
    )
    _report(output, lambda: check_model(model, tokenizer, options.to, output, **values))


def _report(output: Path, check: Callable[[], Agreement]) -> None:
    """Print what was written, and how it agrees with this library."""
    files = sorted(output.iterdir()) if output.is_dir() else [output]
    say(f"written to  {output}")
    for file in files:
        say(f"            {file.name}, {file.stat().st_size:,} bytes")
    try:
        agreement = check()
    except ImportError as error:
        say(f"checked     no: {error.name or error} is not installed, so it was not loaded there")
        return
    for line in agreement.lines:
        say(f"checked     {agreement.runtime}: {line}")


if __name__ == "__main__":
    sys.exit(main())
