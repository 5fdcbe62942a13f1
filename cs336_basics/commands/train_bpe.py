"""`python -m cs336_basics train-bpe`: train a BPE tokenizer.

It writes a directory with tokenizer.json (Hugging Face's format), which the other commands and
`Tokenizer.from_directory` read, and training.json, which tells where it comes from.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

from cs336_basics._support.text import END_OF_TEXT
from cs336_basics._support.warnings import warn
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS
from cs336_basics.bpe.options import TIE_BREAKS
from cs336_basics.bpe.reference import Pair
from cs336_basics.bpe.trace import trace_file
from cs336_basics.commands._cli import run_command, say
from cs336_basics.commands._outputs import check_beside_tokenizer
from cs336_basics.commands._parser import (
    Parser,
    add_input,
    add_num_workers,
    add_overwrite,
    add_text_options,
    corpus_of,
)
from cs336_basics.data.train_tokenizer import train_tokenizer
from cs336_basics.pretokenization import PATTERNS
from cs336_basics.tokenizer.vocabulary import longest_tokens


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = build_parser()

    def work(options: argparse.Namespace) -> None:
        if not options.input and not options.counts:
            raise parser.usage_error("nothing to train on: give --input, --counts, or both")
        _train(options)

    return run_command(parser, work, arguments)


def build_parser() -> Parser:
    """Return the options of the command."""
    parser = Parser(
        "train-bpe",
        "Train a byte-level BPE tokenizer on text.",
        examples=[
            "train-bpe --input my.txt --vocab-size 10000 --output tokenizers/my",
            "train-bpe --input 'web/*.jsonl.gz' --field text --vocab-size 32000 "
            "--special-token '<|endoftext|>' --output tokenizers/web",
        ],
        interrupted="no tokenizer was written",
    )
    add = parser.add
    add("--output", "directory to write", required=True, metavar="DIR", output=True)
    add("--vocab-size", "256 bytes + special tokens + merges", required=True, type=int, metavar="N")
    add_input(parser, default=[])
    add(
        "--special-token",
        "text that becomes one token, such as '<|endoftext|>'; repeatable",
        action="append",
        default=[],
        dest="special_tokens",
        metavar="TEXT",
    )
    patterns = ", ".join(PATTERNS)
    add("--pattern", f"split pattern: {patterns}, or a regular expression (default: gpt2, or that "
        "of --continue)", metavar="NAME")  # fmt: skip
    add_text_options(parser)
    add_num_workers(parser)
    add_overwrite(parser, "outputs that exist")

    merges = "merges"
    add(
        "--continue",
        "tokenizer to continue: its vocabulary, merges and special tokens are kept; --vocab-size "
        "is the size of the result",
        metavar="DIR",
        dest="continued",
        group=merges,
        common=False,
    )
    add(
        "--trainer",
        f"version of the algorithm, all with the same result: {', '.join(TRAINERS)}",
        choices=list(TRAINERS),
        default=DEFAULT_TRAINER,
        metavar="NAME",
        group=merges,
        common=False,
    )
    add("--min-frequency", "do not merge pairs with a smaller count", type=int, default=1,
        metavar="N", group=merges, common=False)  # fmt: skip
    add("--max-token-length", "limit of a token's length, in bytes", type=int, metavar="N",
        group=merges, common=False)  # fmt: skip
    add(
        "--tie-break",
        f"which of equally frequent pairs is merged first: {', '.join(TIE_BREAKS)}",
        choices=TIE_BREAKS,
        default=TIE_BREAKS[0],
        metavar="RULE",
        group=merges,
        common=False,
    )
    add("--trace", "write a row for each merge to this CSV file: count, time, what it touched",
        metavar="FILE", output=True, group=merges, common=False)  # fmt: skip
    counting = "word counts"
    add("--counts", "word counts that --save-counts wrote, added to those of --input", nargs="+",
        action="extend", default=[], metavar="FILE", group=counting, common=False)  # fmt: skip
    add("--save-counts", "write the word counts to this file", metavar="FILE", output=True,
        group=counting, common=False)  # fmt: skip
    add(
        "--ray",
        "count over Ray: auto joins the running cluster, local starts one on this machine",
        metavar="ADDRESS",
        group=counting,
        common=False,
    )
    return parser


def _check_has_no_text_options(options: argparse.Namespace) -> None:
    """Refuse options that say how --input is read, where there is none."""
    for name in ("field", "column", "errors", "ray"):
        value = getattr(options, name)
        if value is not None and (name, value) != ("errors", "replace"):
            raise ValueError(f"--{name} {value} is for the text of --input, which is not given")


def _train(options: argparse.Namespace) -> None:
    """Train, write the tokenizer, and print what it took."""
    corpus = None
    if options.input:
        corpus = corpus_of(options)
    else:
        _check_has_no_text_options(options)
    if options.save_counts:
        check_beside_tokenizer("--save-counts", options.save_counts, options.output)
    pattern, special_tokens, continue_from = _start(options)
    with contextlib.ExitStack() as files:
        trace = None
        if options.trace:
            files_of_words = [*options.counts, *filter(None, [options.save_counts])]
            others = [*files_of_words, *(corpus.files if corpus is not None else ())]
            if options.continued:
                from cs336_basics.tokenizer.tokenizer import files_of_tokenizer

                others += files_of_tokenizer(options.continued)
            check_beside_tokenizer("--trace", options.trace, options.output, others)
            trace = files.enter_context(trace_file(options.trace, overwrite=options.overwrite))
        trainer = TRAINERS[options.trainer](
            pattern=pattern,
            num_workers=options.num_workers,
            progress=True,
            min_frequency=options.min_frequency,
            max_token_length=options.max_token_length,
            tie_break=options.tie_break,
            trace=trace,
            continue_from=continue_from,
        )
        vocab, merges = train_tokenizer(
            trainer,
            corpus,
            options.output,
            options.vocab_size,
            special_tokens,
            counts=options.counts,
            save_counts=options.save_counts,
            ray=options.ray,
            overwrite=options.overwrite,
        )
    total = trainer.timings["total"] or 1.0
    say(f"trainer: {trainer.name}")
    for phase, seconds in trainer.timings.items():
        say(f"{phase:<22}{seconds:>10.3f} s{seconds / total:>8.1%}")
    _warn_of_end_of_text(vocab, special_tokens)
    longest = longest_tokens(vocab, special_tokens)[0]
    if continue_from:
        say(f"continued {options.continued}: {len(continue_from[0]):,} tokens")
    say(f"{len(vocab):,} tokens, {len(merges):,} merges; longest token: {longest!r}")
    say(f"written to {options.output}: tokenizer.json, training.json")
    if options.trace:
        say(f"trace written to {options.trace}: {len(merges):,} merges")


def _warn_of_end_of_text(vocab: dict[int, bytes], special_tokens: Sequence[str]) -> None:
    """Warn if the text holds <|endoftext|> where that is not a special token."""
    if END_OF_TEXT in special_tokens:
        return
    # Every split pattern leaves the letters together: a token has them, if there are many.
    learned = [token for token in vocab.values() if b"endoftext" in token]
    if learned:
        warn(
            f"the text seems to hold {END_OF_TEXT}, which was learned like other text: a token is "
            f"{min(learned, key=len)!r}. To make it one token that separates documents, repeat the "
            f"command with --special-token '{END_OF_TEXT}'"
        )


def _start(
    options: argparse.Namespace,
) -> tuple[str, list[str], tuple[dict[int, bytes], list[Pair]] | None]:
    """Return the pattern, all special tokens, and the vocabulary and merges that are continued."""
    if options.continued is None:
        return options.pattern or "gpt2", options.special_tokens, None
    # Imported here: the command otherwise starts without what encodes.
    from cs336_basics.tokenizer.tokenizer import Tokenizer
    from cs336_basics.tokenizer.unmerged_tokens import check_merges_suffice

    tokenizer = Tokenizer.from_directory(options.continued)
    check_merges_suffice(tokenizer, "training that continues")
    vocab, merges, special_tokens, pattern, _ = tokenizer.parts()
    if options.pattern not in (None, pattern):
        raise ValueError(
            f"--pattern is {options.pattern!r}, but {options.continued} has the pattern "
            f"{pattern!r}: leave --pattern out, since merges belong to a pattern"
        )
    added = [token for token in options.special_tokens if token not in special_tokens]
    return pattern, [*special_tokens, *added], (vocab, merges)


if __name__ == "__main__":
    sys.exit(main())
