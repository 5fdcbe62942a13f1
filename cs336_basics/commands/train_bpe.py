"""`python -m cs336_basics train-bpe`: train a BPE tokenizer."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import check_is_free, named_directory
from cs336_basics._support.messages import counted, short_repr
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics._support.validation import one_of, option
from cs336_basics._support.warnings import warn
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS
from cs336_basics.bpe.reference import Pair
from cs336_basics.bpe.rules import TIE_BREAKS
from cs336_basics.commands._cli import say
from cs336_basics.commands._inputs import say_directories
from cs336_basics.commands._options import INPUT_HELP, Command, Several, TextOptions, UsageError
from cs336_basics.commands._outputs import check_output
from cs336_basics.execution.executors import EXECUTORS
from cs336_basics.splitting import SPLITTINGS
from cs336_basics.splitting.patterns.named_patterns import PATTERNS, resolve_pattern
from cs336_basics.text.normalization import NORMALIZERS

if TYPE_CHECKING:
    from cs336_basics.data.mixture import Portion
    from cs336_basics.text import Corpus
    from cs336_basics.tokenizer.definition import TokenizerDefinition

EXECUTION = tuple(name for name in EXECUTORS if name != "ray")  # --ray selects Ray


def _are_sizes(value: str) -> str:
    """Check the option for the vocabulary sizes; see `Checked`."""
    try:
        sizes = [int(size) for size in value.split(",")]
    except ValueError:
        raise InputError("must be an integer, or several integers separated by commas") from None
    if len(set(sizes)) < len(sizes):
        raise InputError("must be different sizes")
    return value


@dataclass(kw_only=True)
class Options(TextOptions):
    """Train a byte-level BPE tokenizer on text."""

    output: str = option(
        "directory to write; with several sizes, each has a directory in it", metavar="DIR"
    )
    vocab_size: Annotated[str, _are_sizes] = option(
        "vocabulary size: 256 bytes + special tokens + merges; several sizes, separated by commas, "
        "are learned in one training run",
        metavar="N[,N...]",
    )
    input: Several = option(INPUT_HELP, (), argument="paths")
    mix: tuple[str, ...] = option(
        "instead of --input, corpora and their shares of the text, such as reviews.jsonl:0.6 "
        "code/:0.3 ko.npz:0.1; a .npz file has word counts written by --save-counts",
        (),
        metavar="PATH:WEIGHT",
        argument="mixture",
    )
    special_token: tuple[str, ...] = option(
        "one or more texts that each become one token, such as '<|endoftext|>'",
        (),
        metavar="TEXT",
        argument="special_tokens",
    )
    pattern: str | None = option(
        f"split pattern: {', '.join(PATTERNS)}, or a regular expression (default: gpt2, or the "
        "pattern of --continue)",
        None,
        metavar="NAME",
    )
    normalizer: Annotated[str, one_of(NORMALIZERS)] | None = option(
        f"Unicode normalization form of the text: {', '.join(NORMALIZERS)}; the tokenizer also "
        "normalizes the text that it encodes (default: none, or the normalizer of --continue)",
        None,
        metavar="FORM",
        rare=True,
    )
    continue_: str | None = option(
        "tokenizer to continue training; its tokens and merges are kept, also with another "
        "--pattern or --normalizer, and --vocab-size is the new total",
        None,
        metavar="DIR",
        rare=True,
    )
    trainer: Annotated[str, one_of(TRAINERS)] = option(
        f"implementation; all give the same result: {', '.join(TRAINERS)}",
        DEFAULT_TRAINER,
        metavar="NAME",
        rare=True,
    )
    splitting: Annotated[str, one_of(SPLITTINGS)] | None = option(
        f"how to split text into words; the counts are the same: {', '.join(SPLITTINGS)} (default: "
        "compiled if it supports the pattern)",
        None,
        metavar="NAME",
        rare=True,
    )
    execution: Annotated[str, one_of(EXECUTION)] | None = option(
        f"where to count words; the counts are the same: {', '.join(EXECUTION)} (default: threads "
        "for plain text and compiled splitting, otherwise processes)",
        None,
        metavar="NAME",
        rare=True,
    )
    min_frequency: int = option("minimum count of a merged pair", 1, rare=True)
    max_token_length: int | None = option("maximum length of a token in bytes", None, rare=True)
    superwords_from: int | None = option(
        "size of the vocabulary from which on tokens may span several words (SuperBPE)",
        None,
        metavar="SIZE",
        rare=True,
    )
    superwords_pattern: str | None = option(
        "split pattern that no superword crosses (default: lines, with numbers split as by "
        "--pattern)",
        None,
        metavar="NAME",
        rare=True,
    )
    max_words: int | None = option(
        "maximum number of words in a token (default: 4 for superwords, otherwise no limit)",
        None,
        rare=True,
    )
    whole_characters: bool = option(
        "learn no token that mixes a part of a character with another character", False, rare=True
    )
    forbid: str | None = option(
        "learn no token with text that matches this regular expression",
        None,
        metavar="REGEX",
        rare=True,
    )
    tie_break: Annotated[str, one_of(TIE_BREAKS)] = option(
        f"which of several equally frequent pairs to merge first: {', '.join(TIE_BREAKS)}",
        TIE_BREAKS[0],
        metavar="RULE",
        rare=True,
    )
    trace: str | None = option(
        "write a CSV file with the count, time and work of each merge",
        None,
        metavar="FILE",
        rare=True,
    )
    counts: tuple[str, ...] = option(
        "word counts written by --save-counts, added to the counts of --input", (), rare=True
    )
    save_counts: str | None = option(
        "write the word counts to this file", None, metavar="FILE", rare=True
    )
    ray: str | None = option(
        "count with Ray: auto joins a running cluster, local starts one on this machine",
        None,
        metavar="ADDRESS",
        argument="ray_address",
        rare=True,
    )
    partial_counts: str | None = option(
        "directory to keep the counts of each part of the text, so that the command can continue "
        "after an interruption",
        None,
        metavar="DIR",
        rare=True,
    )


def _check_has_no_text_options(options: Options) -> None:
    """Reject options that control how text is read, because there is no text."""
    for name in ("field", "column", "format", "errors", "splitting", "execution", "ray",
                 "partial_counts"):  # fmt: skip
        value = getattr(options, name)
        if value is not None and (name, value) != ("errors", "replace"):
            raise InputError(f"--{name.replace('_', '-')} {value} requires --input or --mix")


def _mixture(options: Options) -> dict[Portion, Corpus | None]:
    """Return the corpora of --mix, with None for a file of word counts."""
    from cs336_basics.data.mixture import parse_mixture
    from cs336_basics.text import Corpus
    from cs336_basics.text.sources import check_options_are_used

    try:
        portions = parse_mixture(map(os.path.expanduser, options.mix))
    except InputError as error:
        raise UsageError(error.problem, argument="mix", remedy=error.remedy) from None
    given: dict[str, Any] = {"field": options.field, "column": options.column}
    found = {
        portion: None
        if portion.path.endswith(".npz")
        else Corpus(
            portion.path,
            format=options.format,
            errors=options.errors,
            max_piece_bytes=options.max_piece_bytes,
            allow_unused=True,
            **given,
        )
        for portion in portions
    }
    sources = [source for corpus in found.values() if corpus for source in corpus.sources]
    if sources:
        check_options_are_used(sources, **given)
        say_directories(portion.path for portion, corpus in found.items() if corpus)
    return found


def train_bpe(options: Options) -> None:
    """Train a tokenizer, save it, and print the timings."""
    from cs336_basics.bpe.trace import trace_file
    from cs336_basics.data.train_tokenizer import train_tokenizer
    from cs336_basics.tokenizer.vocabulary import longest_tokens

    if not options.input and not options.counts and not options.mix:
        raise UsageError("nothing to train on", remedy="give --input, --mix, or --counts")
    if options.mix and (options.input or options.counts):
        raise UsageError(
            f"cannot be given with --{'input' if options.input else 'counts'}",
            argument="mix",
            remedy="give every text a weight",
        )
    corpus = options.corpus() if options.input else None
    mixture = _mixture(options)
    corpora = [corpus, *mixture.values()]
    if not any(corpora):
        _check_has_no_text_options(options)
    inputs = [*options.counts, *(file for one in corpora if one for file in one.files)]
    inputs += [portion.path for portion, one in mixture.items() if one is None]
    if options.continue_:
        from cs336_basics.formats.huggingface.tokenizer_json import files_of_tokenizer

        inputs += files_of_tokenizer(options.continue_)
    check_output("save_counts", options.save_counts, options.overwrite, inputs, options.output)
    inputs += filter(None, [options.save_counts])
    check_output("trace", options.trace, options.overwrite, inputs, options.output)
    start = _start(options)
    *smaller, largest = sorted(map(int, options.vocab_size.split(",")))
    output = folder = named_directory(options.output)
    if smaller:
        check_is_free(folder, options.overwrite)
        output = folder / str(largest)
    with contextlib.ExitStack() as files:
        trace = None
        if options.trace:
            trace = files.enter_context(trace_file(options.trace, overwrite=options.overwrite))
        trainer = TRAINERS[options.trainer](
            pattern=start.pattern,
            normalizer=start.normalizer,
            splitting=options.splitting,
            execution=options.execution,
            num_workers=options.num_workers,
            progress=True,
            min_frequency=options.min_frequency,
            max_token_length=options.max_token_length,
            max_words=options.max_words,
            whole_characters=options.whole_characters,
            forbid=options.forbid,
            tie_break=options.tie_break,
            trace=trace,
            continue_from=start.continue_from,
            superwords_from=options.superwords_from,
            superwords_pattern=options.superwords_pattern,
        )
        for size in smaller:
            trainer.check_request(size, start.special_tokens)
        vocab, merges = train_tokenizer(
            trainer,
            corpus,
            output,
            largest,
            start.special_tokens,
            continued=start.continued,
            mixture=mixture,
            counts=options.counts,
            save_counts=options.save_counts,
            ray=options.ray,
            partial_counts=options.partial_counts,
            overwrite=options.overwrite,
        )
    if mixture:
        shares = (f"{portion.name} {portion.weight:.1%}" for portion in mixture)
        say(f"mixture: {', '.join(shares)}")
    say(f"trainer: {trainer.name}")
    for line in phase_lines(trainer.timings):
        say(line)
    _warn_of_end_of_text(vocab, start.special_tokens)
    if smaller:
        _save_prefixes(folder, output, smaller)
    longest = longest_tokens(vocab, start.special_tokens)[0]
    if start.continued is not None:
        say(f"continued {options.continue_}: {counted(len(start.continued.vocab), 'token')}")
    sizes = f"{counted(len(vocab), 'token')}, {counted(len(merges), 'merge')}"
    say(f"{sizes}; longest token: {short_repr(longest)}")
    for size in smaller:
        say(f"written to {folder / str(size)}: the first {min(size, len(vocab)):,} tokens")
    say(f"written to {output}: tokenizer.json, training.json")
    if options.trace:
        say(f"trace written to {options.trace}: {counted(len(merges), 'merge')}")


def _save_prefixes(folder: Path, largest: Path, sizes: Sequence[int]) -> None:
    """Save a tokenizer for each size: the start of the largest one, with the same record.

    Args:
        folder: Directory with a directory for each size.
        largest: Directory of the largest tokenizer.
        sizes: The other sizes.
    """
    from cs336_basics.formats.huggingface.tokenizer_json import TRAINING_FILE
    from cs336_basics.tokenizer.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_directory(largest)
    record = json.loads((largest / TRAINING_FILE).read_text(encoding="utf-8"))
    del record["tokenizer_hash"]  # each tokenizer has its own
    for size in sizes:
        prefix = tokenizer.truncated(min(size, len(tokenizer)))  # a short text has fewer merges
        prefix.save(folder / str(size), record)


def phase_lines(timings: Mapping[str, float]) -> list[str]:
    """Return a line for each phase of training: its duration and its share of the total."""
    total = timings["total"] or 1.0
    return [f"{p:<24}{seconds:>9.4f} s{seconds / total:>8.1%}" for p, seconds in timings.items()]


def _warn_of_end_of_text(vocab: dict[int, bytes], special_tokens: Sequence[str]) -> None:
    """Warn if <|endoftext|> is not a special token, but the text seems to contain it."""
    if END_OF_TEXT in special_tokens:
        return
    # No split pattern separates these letters, so they become one token if they are frequent.
    learned = [token for token in vocab.values() if b"endoftext" in token]
    if learned:
        warn(
            f"the text seems to contain {END_OF_TEXT}, which was split like ordinary text (one "
            f"token is {min(learned, key=len)!r}); to make it a single token that separates "
            f"documents, add --special-token '{END_OF_TEXT}'"
        )


@dataclass(frozen=True)
class _Start:
    """What training starts with: options, and the tokenizer to continue."""

    pattern: str
    normalizer: str | None
    special_tokens: list[str]
    continued: TokenizerDefinition | None = None

    @property
    def continue_from(self) -> tuple[dict[int, bytes], list[Pair]] | None:
        """The vocabulary and merges to continue."""
        return None if self.continued is None else (self.continued.vocab, self.continued.merges)


def _start(options: Options) -> _Start:
    """Return the options of the trainer, some of which come from the tokenizer of --continue."""
    new_tokens = list(options.special_token)
    if options.continue_ is None:
        pattern = "gpt2" if options.pattern is None else options.pattern
        return _Start(pattern, options.normalizer, new_tokens)
    # Imported here, because only --continue needs these modules.
    from cs336_basics.tokenizer.tokenizer import Tokenizer
    from cs336_basics.tokenizer.unmerged_tokens import check_merges_suffice

    definition = Tokenizer.from_directory(options.continue_).definition
    check_merges_suffice(definition, "continued training")
    pattern, normalizer = definition.pattern, definition.normalizer
    if options.pattern is not None and (
        resolve_pattern(options.pattern) != resolve_pattern(pattern)
    ):
        if options.superwords_from is None:
            say(
                f"--pattern {short_repr(options.pattern)} replaces the pattern "
                f"{short_repr(pattern)} of {options.continue_}: the new tokenizer splits text only "
                "with the new pattern, and applies old and new merges within its pre-tokens"
            )
        pattern = options.pattern
    if options.normalizer is not None and options.normalizer != normalizer:
        before = f"the normalizer {normalizer}" if normalizer else "no normalizer"
        say(
            f"--normalizer {options.normalizer} replaces {before} of {options.continue_}: the new "
            "tokenizer cannot produce tokens that are not normalized"
        )
        normalizer = options.normalizer
    tokens = [token.content for token in definition.added_tokens]
    added = [token for token in new_tokens if token not in tokens]
    return _Start(pattern, normalizer, [*tokens, *added], definition)


COMMAND = Command(
    "train-bpe",
    Options,
    train_bpe,
    "train-bpe --input my.txt --vocab-size 10000 --output tokenizers/my",
    "train-bpe --mix reviews.jsonl:0.6 code/:0.3 ko.txt:0.1 --field text --vocab-size 16000 \\\n"
    "      --output tokenizers/mixed",
    "train-bpe --input 'web/*.jsonl.gz' --field text --vocab-size 32000 \\\n"
    "      --special-token '<|endoftext|>' --output tokenizers/web",
)
