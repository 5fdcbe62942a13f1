"""`python -m cs336_basics prune`: a tokenizer with the most frequent tokens of another."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

import numpy as np

from cs336_basics._support.files import atomic_writer, check_is_no_input
from cs336_basics.commands._cli import run_command, say
from cs336_basics.commands._outputs import check_beside_tokenizer
from cs336_basics.commands._parser import (
    Parser,
    add_input,
    add_num_workers,
    add_overwrite,
    add_text_options,
    add_tokenizer,
    corpus_of,
)
from cs336_basics.formats.outputs import check_is_free
from cs336_basics.tokenizer import Tokenizer, prune
from cs336_basics.tokenizer.tokenizer import files_of_tokenizer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run_command(build_parser(), _prune, arguments)


def build_parser() -> Parser:
    """Return the options of the command."""
    parser = Parser(
        "prune",
        "Write a smaller tokenizer: the tokens that occur most often in a text, and the tokens of "
        "which they are made. Bytes and special tokens stay.",
        examples=[
            "prune --tokenizer tokenizers/my --input my.txt --vocab-size 8000 "
            "--output tokenizers/small",
        ],
        interrupted="no tokenizer was written",
    )
    add_tokenizer(parser)
    add_input(parser, required=True)
    parser.add("--vocab-size", "tokens that remain", required=True, type=int, metavar="N")
    parser.add("--output", "directory to write", required=True, metavar="DIR", output=True)
    parser.add(
        "--id-map",
        "also write an int64 array, old id -> new id or -1, for model.select_embeddings",
        metavar="FILE.npy",
        output=True,
    )
    add_text_options(parser)
    add_num_workers(parser)
    add_overwrite(parser, "outputs that exist")
    return parser


def _prune(options: argparse.Namespace) -> None:
    """Prune, write the tokenizer, and print what was removed."""
    if options.id_map is not None:
        check_beside_tokenizer("--id-map", options.id_map, options.output)
    for output in filter(None, (options.output, options.id_map)):
        check_is_free(output, options.overwrite)
    tokenizer = Tokenizer.from_directory(options.tokenizer)
    corpus = corpus_of(options)
    if options.id_map is not None:
        check_is_no_input(options.id_map, [*corpus.files, *files_of_tokenizer(options.tokenizer)])
    pruned, id_map = prune(tokenizer, options.vocab_size, corpus, num_workers=options.num_workers)
    with contextlib.ExitStack() as files:
        # The map replaces an old one only after the tokenizer was saved.
        if options.id_map is not None:
            np.save(files.enter_context(atomic_writer(options.id_map)), id_map)
        pruned.save(options.output)
    if options.id_map is not None:
        say(f"id map     {options.id_map}")
    say(f"tokens     {len(pruned):,} of {len(tokenizer):,}")
    say(f"merges     {len(pruned.merges):,} of {len(tokenizer.merges):,}")
    say(f"written to {options.output}")


if __name__ == "__main__":
    sys.exit(main())
