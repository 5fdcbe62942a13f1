"""`python -m cs336_basics tokens`: count how often each token occurs in a text."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cs336_basics._support.files import atomic_writer
from cs336_basics._support.validation import Amount, option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import Command, EncodingOptions
from cs336_basics.commands._outputs import check_output


@dataclass(kw_only=True)
class Options(EncodingOptions):
    """Count how often each token occurs in a text.

    The most frequent tokens and the unused tokens are printed. A model cannot learn unused tokens.
    Some of them are only steps: merges produce them, but always merge them further.
    """

    output: str | None = option(
        "also write the counts, an int64 array indexed by id", None, metavar="FILE.npy"
    )
    show: Amount = option("number of most frequent tokens and of unused tokens to list", 20)


def count(options: Options) -> None:
    """Count the tokens and print the result."""
    import numpy as np

    from cs336_basics.formats.huggingface.tokenizer_json import files_of_tokenizer
    from cs336_basics.tokenizer import Tokenizer, count_steps, count_tokens, never_used, only_steps

    corpus = options.corpus()
    inputs = [*corpus.files, *files_of_tokenizer(options.tokenizer)]
    check_output("output", options.output, options.overwrite, inputs, ending=".npy")
    tokenizer = Tokenizer.from_directory(options.tokenizer)
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
    say(f"never used       {len(unused):,}, excluding single bytes and special tokens")
    steps = count_steps(tokenizer, counts)
    residue = only_steps(tokenizer, counts)
    say(f"only steps       {len(residue):,}, on the way to longer tokens")
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
    if residue and options.show:
        residue.sort(key=lambda token_id: -steps[token_id])
        shown = " ".join(f"{tokenizer.vocab[i]!r} ({steps[i]:,})" for i in residue[: options.show])
        say("")
        say(f"most frequent tokens that are only steps: {shown}")
    if options.output is not None:
        say(f"written to {options.output}")


COMMAND = Command(
    "tokens",
    Options,
    count,
    "tokens --tokenizer tokenizers/my --input my.txt",
    "tokens --tokenizer tokenizers/my --input 'web/*.jsonl.gz' --field text --output counts.npy",
)
