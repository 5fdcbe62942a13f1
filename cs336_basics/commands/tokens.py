"""`python -m cs336_basics tokens`: how often each token occurs in a text, and which never do."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from cs336_basics._support.files import atomic_writer, check_is_no_input
from cs336_basics.commands._cli import run_command, say
from cs336_basics.commands._parser import (
    Parser,
    add_input,
    add_num_workers,
    add_overwrite,
    add_text_options,
    add_tokenizer,
    corpus_of,
    integer,
)
from cs336_basics.formats.outputs import check_is_free
from cs336_basics.pretokenization.reading.corpus import ENCODING_ERRORS
from cs336_basics.tokenizer import Tokenizer, count_tokens, never_used
from cs336_basics.tokenizer.tokenizer import files_of_tokenizer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run_command(build_parser(), _count, arguments)


def build_parser() -> Parser:
    """Return the options of the command."""
    parser = Parser(
        "tokens",
        "Count how often each token of a tokenizer occurs in a text: the most frequent ones, and "
        "those that never occur, which a model would never learn.",
        examples=[
            "tokens --tokenizer tokenizers/my --input my.txt",
            "tokens --tokenizer tokenizers/my --input 'web/*.jsonl.gz' --field text "
            "--output counts.npy",
        ],
        interrupted="nothing was written",
    )
    add_tokenizer(parser)
    add_input(parser, required=True)
    parser.add("--output", "also write the counts, an int64 array with one for each id",
               output=True, metavar="FILE.npy")  # fmt: skip
    parser.add("--show", "tokens to list of each kind", type=integer(at_least=0), default=20,
               metavar="N")  # fmt: skip
    add_text_options(parser, errors=ENCODING_ERRORS)
    add_num_workers(parser)
    add_overwrite(parser, "an output that exists")
    return parser


def _count(options: argparse.Namespace) -> None:
    """Count the tokens, and print what was found."""
    if options.output is not None:
        check_is_free(options.output, options.overwrite)
    tokenizer = Tokenizer.from_directory(options.tokenizer)
    corpus = corpus_of(options)
    if options.output is not None:
        check_is_no_input(options.output, [*corpus.files, *files_of_tokenizer(options.tokenizer)])
    start = time.perf_counter()
    counts = count_tokens(tokenizer, corpus, num_workers=options.num_workers, progress=True)
    seconds = time.perf_counter() - start
    if options.output is not None:
        with atomic_writer(options.output) as file:
            np.save(file, counts)
    unused = never_used(tokenizer, counts)
    total = max(1, int(counts.sum()))
    say(f"tokens           {counts.sum():,}, in {seconds:.2f} s")
    say(f"used             {np.count_nonzero(counts):,} of {len(tokenizer):,}")
    say(f"never used       {len(unused):,}, without single bytes and special tokens")
    if options.show:
        say("")
        say(f"the {options.show} most frequent:")
    order = np.argsort(-counts, kind="stable")[: options.show]
    for token_id in order[counts[order] > 0].tolist():
        share = counts[token_id] / total
        say(f"{counts[token_id]:>14,}  {share:>7.2%}  {token_id:>7}  {tokenizer.vocab[token_id]!r}")
    if unused and options.show:
        shown = " ".join(repr(tokenizer.vocab[token_id]) for token_id in unused[: options.show])
        more = len(unused) - options.show
        say("")
        say(f"never used: {shown}{f' and {more:,} more' if more > 0 else ''}")
    if options.output is not None:
        say(f"written to {options.output}")


if __name__ == "__main__":
    sys.exit(main())
