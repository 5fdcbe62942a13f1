"""`python -m cs336_basics encode`: text files to a token file."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from cs336_basics.commands._cli import run_command, say
from cs336_basics.commands._parser import (
    Parser,
    add_input,
    add_num_workers,
    add_overwrite,
    add_text_options,
    add_tokenizer,
    corpus_of,
)
from cs336_basics.pretokenization.reading.corpus import ENCODING_ERRORS
from cs336_basics.tokenizer import Tokenizer, encode_file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run_command(build_parser(), _encode, arguments)


def build_parser() -> Parser:
    """Return the options of the command."""
    parser = Parser(
        "encode",
        "Encode text files into a token file: FILE.npy, an array of token ids that numpy.load "
        "opens, with what they were made from.",
        examples=[
            "encode --tokenizer tokenizers/my --input my.txt --output data/my.npy",
            "encode --tokenizer tokenizers/my --input 'web/*.jsonl.gz' --field text "
            "--end-of-document '<|endoftext|>' --output data/web.npy",
        ],
        interrupted="nothing was written",
    )
    add_tokenizer(parser)
    add_input(parser, required=True)
    parser.add("--output", "file to write", required=True, output=True, metavar="FILE.npy")
    parser.add(
        "--end-of-document",
        "special token to append to each text file and row that does not end with it",
        metavar="TOKEN",
    )
    parser.add(
        "--document-starts",
        "also write the index of each document's first token",
        action="store_true",
    )
    add_text_options(parser, errors=ENCODING_ERRORS)
    add_num_workers(parser)
    add_overwrite(parser, "an output that exists")
    return parser


def _encode(options: argparse.Namespace) -> None:
    """Encode the files and print what was written."""
    tokenizer = Tokenizer.from_directory(options.tokenizer)
    corpus = corpus_of(options)
    start = time.perf_counter()
    metadata = encode_file(
        tokenizer,
        corpus,
        options.output,
        num_workers=options.num_workers,
        progress=True,
        overwrite=options.overwrite,
        document_starts=options.document_starts,
        end_of_document=options.end_of_document,
    )
    seconds = time.perf_counter() - start
    say(f"tokens           {metadata['num_tokens']:,} ({metadata['dtype']})")
    if options.document_starts:
        say(f"documents        {metadata['num_documents']:,}")
    say(f"bytes per token  {metadata['bytes_per_token']:.3f}")
    say(f"speed            {metadata['num_bytes'] / seconds / 1e6:.2f} MB/s")
    say(f"written to       {options.output}")


if __name__ == "__main__":
    sys.exit(main())
