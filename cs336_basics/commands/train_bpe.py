"""`python -m cs336_basics train-bpe`: train a BPE tokenizer."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cs336_basics._support.arguments import MAX_INT64
from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.files import check_is_free, named_directory
from cs336_basics._support.messages import counted, short_repr
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics._support.validation import one_of, option
from cs336_basics._support.warnings import warn
from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS
from cs336_basics.bpe.parity import UNITS, Parity
from cs336_basics.bpe.reference import NUM_BYTES, Pair
from cs336_basics.bpe.rules import TIE_BREAKS
from cs336_basics.commands._cli import say
from cs336_basics.commands._inputs import say_directories
from cs336_basics.commands._options import INPUT_HELP, Command, Several, TextOptions, UsageError
from cs336_basics.commands._outputs import check_output
from cs336_basics.commands._tables import table_lines
from cs336_basics.execution.executors import EXECUTORS
from cs336_basics.splitting import SPLITTINGS
from cs336_basics.splitting.patterns.named_patterns import PATTERNS, resolve_pattern
from cs336_basics.text.normalization import NORMALIZERS

if TYPE_CHECKING:
    from cs336_basics.data.parity_sources import ParitySources
    from cs336_basics.data.train_tokenizer import Continued
    from cs336_basics.data.training_text import Learned, Mixture, TrainingText
    from cs336_basics.text import Corpus

EXECUTION = tuple(name for name in EXECUTORS if name != "ray")  # --ray selects Ray


def _are_sizes(value: str) -> str:
    """Check the option for the vocabulary sizes; see `Checked`."""
    try:
        sizes = [int(size) for size in value.split(",")]
    except ValueError:
        raise InputError("must be an integer, or several integers separated by commas") from None
    if re.fullmatch(r"\d{1,3}(,\d{3})+", value) and sizes[0] < NUM_BYTES:
        raise InputError(f"must be written {value.replace(',', '')}, without commas")
    if len(set(sizes)) < len(sizes):
        raise InputError("must be different sizes")
    return value


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def _data_size(value: str) -> int:
    """Return a number of bytes, such as 1,500,000,000 for 1.5GB."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?B)?", value.upper(), re.ASCII)
    size = round(float(found[1]) * _UNITS[found[2] or ""]) if found else 0
    if not 1 <= size <= MAX_INT64:
        raise InputError("must be a size such as 500MB or 1GB")
    return size


def _is_data_size(value: str) -> str:
    """Check an option for a size; see `Checked`."""
    _data_size(value)
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
    temperature: float | None = option(
        "let the shares of --mix depend on the sizes of the corpora: weight * size^(1/T); a weight "
        "may be left out; 1 keeps the sizes, and a larger T makes the shares more equal",
        None,
        metavar="T",
        rare=True,
    )
    parity: tuple[str, ...] = option(
        "instead of --input, texts such as ar.txt zh.txt that are to be compressed equally well "
        "(parity-aware BPE)",
        (),
        metavar="PATH",
        argument="sources",
    )
    parity_dev: tuple[str, ...] = option(
        "held-out text of each of --parity, in the same order (default: the last 5% of each)",
        (),
        metavar="PATH",
        argument="dev",
        rare=True,
    )
    parity_unit: Annotated[str, one_of(UNITS)] = option(
        "the compression of a text is its size in bytes or characters per token, or parallel if "
        "the held-out texts are translations of each other",
        UNITS[0],
        metavar="UNIT",
        argument="unit",
        rare=True,
    )
    parity_window: int | None = option(
        "number of the last choices among which no text may be chosen too often",
        None,
        argument="window",
        rare=True,
    )
    parity_alpha: float = option(
        "largest share of a text in --parity-window, divided by that of equal shares",
        2.0,
        argument="alpha",
        rare=True,
    )
    parity_global_merges: int = option(
        "number of merges to learn from all texts together first",
        0,
        argument="global_merges",
        rare=True,
    )
    held_out: tuple[str, ...] = option(
        "texts on which to compare the sizes of --vocab-size (default: the training text)",
        (),
        metavar="PATH",
        rare=True,
    )
    d_model: int = option("size of an embedding, for the comparison of sizes", 512, rare=True)
    least_gain: float = option(
        "the comparison names the size after which another 1,000 tokens increase the bytes per "
        "token by less than this share",
        0.01,
        metavar="SHARE",
        rare=True,
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
    require: str | None = option(
        "file with a word on each line, such as ' protein', that must become a token; the words "
        "count toward the size",
        None,
        metavar="FILE",
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
    sample: Annotated[str, _is_data_size] | None = option(
        "train on a random sample of this size, such as 1GB, of the stored bytes of --input or "
        "--mix; documents are drawn from all files",
        None,
        metavar="SIZE",
        rare=True,
    )
    sample_seed: int = option("seed of --sample", 0, rare=True, ge=0, le=MAX_INT64)
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
            given = Argument(name, value)
            raise InputError((given, " requires ", Argument("input"), " or ", Argument("mix")))


def _mixture(options: Options) -> Mixture:
    """Return the texts of --mix. A file that ends in .npz has word counts."""
    from cs336_basics.data.mixture import parse_mixture
    from cs336_basics.data.training_text import CountedText, Mixture
    from cs336_basics.text.sources import check_options_are_used

    try:
        default_weight = None if options.temperature is None else "1"
        portions = parse_mixture(map(os.path.expanduser, options.mix), default_weight)
    except InputError as error:
        raise UsageError(error.problem, argument="mix", remedy=error.remedy) from None
    parts = {
        portion: CountedText(counts=[portion.path])
        if portion.path.endswith(".npz")
        else CountedText(
            _corpus(options, portion.path), ray=options.ray, partial_counts=options.partial_counts
        )
        for portion in portions
    }
    corpora = [part.corpus for part in parts.values() if part.corpus is not None]
    if corpora:
        sources = [source for corpus in corpora for source in corpus.sources]
        check_options_are_used(sources, field=options.field, column=options.column)
        say_directories(
            (portion.path for portion, part in parts.items() if part.corpus),
            options.format,
            options.field,
        )
    return Mixture(parts, options.temperature, options.save_counts)


def _corpus(options: Options, path: str) -> Corpus:
    """Return one of several corpora, which need not use all options."""
    from cs336_basics.text import Corpus

    return Corpus(
        path,
        format=options.format,
        errors=options.errors,
        max_piece_bytes=options.max_piece_bytes,
        allow_unused=True,
        field=options.field,
        column=options.column,
    )


def _parity_sources(options: Options, files: contextlib.ExitStack) -> ParitySources:
    """Return the sources of --parity. The parts of divided files exist until `files` closes."""
    from cs336_basics.data.parity_sources import ParitySources

    for name in (
        "input", "mix", "sample", "counts", "save_counts", "ray", "partial_counts", "trace",
    ):  # fmt: skip
        if getattr(options, name):
            raise UsageError(("cannot be given with ", Argument(name)), argument="parity")
    paths, dev = (
        [*map(os.path.expanduser, given)] for given in (options.parity, options.parity_dev)
    )
    return ParitySources.held_out(
        paths,
        [_corpus(options, path) for path in paths],
        [_corpus(options, path) for path in dev],
        Parity(
            options.parity_unit,
            options.parity_window,
            options.parity_alpha,
            options.parity_global_merges,
        ),
        Path(files.enter_context(tempfile.TemporaryDirectory())),
    )


def _training_text(options: Options, files: contextlib.ExitStack) -> TrainingText:
    """Return the text of --parity, --mix, or --input and --counts.

    `files` closes what the text needs.
    """
    from cs336_basics.data.training_text import CountedText

    if options.parity:
        text: TrainingText = _parity_sources(options, files)
    elif options.mix:
        text = _mixture(options)
    else:
        text = CountedText(
            options.corpus() if options.input else None,
            options.counts,
            options.save_counts,
            options.ray,
            options.partial_counts,
        )
    if not text.corpora():
        _check_has_no_text_options(options)
    return text


def _check_texts(options: Options) -> None:
    """Check that there is text, and that the options of different kinds of text are not mixed."""
    if not (options.input or options.counts or options.mix or options.parity):
        raise UsageError("nothing to train on", remedy="give --input, --mix, --parity or --counts")
    if options.mix and (options.input or options.counts):
        raise UsageError(
            ("cannot be given with ", Argument("input" if options.input else "counts")),
            argument="mix",
            remedy="give every text a weight",
        )
    if options.sample_seed and options.sample is None:
        raise UsageError(("requires ", Argument("sample")), argument="sample_seed")
    if options.temperature is not None and not options.mix:
        raise UsageError(("requires ", Argument("mixture")), argument="temperature")
    for field in dataclasses.fields(options):
        is_given = getattr(options, field.name) != field.default
        if field.name.startswith("parity_") and is_given and not options.parity:
            raise UsageError(("requires ", Argument("sources")), argument=field.name)


def _required_words(path: str | None) -> list[str]:
    """Return the words in a file, one on each line."""
    if path is None:
        return []
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"must be a file with a word on each line, and {path!r} does not exist",
            argument="require",
        ) from None
    try:
        lines = text.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"is not UTF-8: byte {text[error.start]:#04x} at offset {error.start:,}", place=path
        ) from None
    words = dict.fromkeys(line.removesuffix("\r") for line in lines)
    return [word for word in words if word]


def train_bpe(options: Options) -> None:
    """Train a tokenizer, save it, and print the timings."""
    _check_texts(options)
    with contextlib.ExitStack() as files:
        _train(options, _training_text(options, files))


def _train(options: Options, text: TrainingText) -> None:
    """Train on a text, save each size of the vocabulary, and print what was learned."""
    _check_outputs(options, text)
    start = _start(options)
    sizes = sorted(map(int, options.vocab_size.split(",")))
    folder = named_directory(options.output)
    if len(sizes) > 1 and options.require:
        raise UsageError("needs a single --vocab-size", argument="require")
    if len(sizes) > 1:
        check_is_free(folder, options.overwrite)
    held_out = _held_out(options)
    output = folder / str(sizes[-1]) if len(sizes) > 1 else folder
    learned = _learn(options, text, start, sizes, output)
    for line in text.summary(learned.record):
        say(line)
    _say_learned(options, start, learned)
    if len(sizes) > 1:
        _save_prefixes(folder, output, sizes[:-1])
    say(f"written to {output}: tokenizer.json, training.json")
    texts = held_out or text.corpora()
    where = "held-out text" if held_out or options.parity else "the training text"
    if (len(sizes) > 1 or held_out or options.parity) and texts:
        _compare_sizes(options, output, sizes, texts, where, folder)
    if options.trace:
        say(f"trace written to {options.trace}: {counted(len(learned.merges), 'merge')}")


def _check_outputs(options: Options, text: TrainingText) -> None:
    """Check that the command may write its other files: the word counts and the trace."""
    inputs = [*text.files, *filter(None, [options.require])]
    if options.continue_:
        from cs336_basics.formats.huggingface.tokenizer_json import files_of_tokenizer

        inputs += files_of_tokenizer(options.continue_)
    check_output("save_counts", options.save_counts, options.overwrite, inputs, options.output)
    inputs += filter(None, [options.save_counts])
    check_output("trace", options.trace, options.overwrite, inputs, options.output)


def _held_out(options: Options) -> dict[str, Corpus]:
    """Return the texts of --held-out by name."""
    from cs336_basics.data.mixture import corpus_names

    names = corpus_names(options.held_out)
    return {
        name: _corpus(options, path) for name, path in zip(names, options.held_out, strict=True)
    }


def _learn(
    options: Options, text: TrainingText, start: _Start, sizes: Sequence[int], output: Path
) -> Learned:
    """Train the largest size, write the trace, and print the timings.

    Args:
        options: Options of the command.
        text: What to train on.
        start: What training starts with.
        sizes: Sizes of the vocabulary in ascending order.
        output: Directory of the tokenizer.
    """
    from cs336_basics.bpe.trace import trace_file
    from cs336_basics.counting import Sample
    from cs336_basics.data.train_tokenizer import train_tokenizer

    with contextlib.ExitStack() as outputs:
        trace = None
        if options.trace:
            trace = outputs.enter_context(trace_file(options.trace, overwrite=options.overwrite))
        trainer = TRAINERS[options.trainer](
            pattern=start.pattern,
            normalizer=start.normalizer,
            splitting=options.splitting,
            execution=options.execution,
            num_workers=options.num_workers,
            progress=True,
            min_frequency=options.min_frequency,
            max_token_length=options.max_token_length,
            max_words=start.max_words if options.max_words is None else options.max_words,
            whole_characters=options.whole_characters,
            forbid=options.forbid,
            require=_required_words(options.require),
            tie_break=options.tie_break,
            trace=trace,
            continue_from=start.continue_from,
            superwords_from=options.superwords_from,
            superwords_pattern=options.superwords_pattern,
            sample=None
            if options.sample is None
            else Sample(_data_size(options.sample), options.sample_seed),
        )
        for size in sizes[:-1]:
            trainer.check_request(size, start.special_tokens)
        learned = train_tokenizer(
            trainer,
            text,
            output,
            sizes[-1],
            start.special_tokens,
            continued=start.continued,
            overwrite=options.overwrite,
        )
    say(f"trainer: {trainer.name}")
    for line in phase_lines(trainer.timings):
        say(line)
    return learned


def _say_learned(options: Options, start: _Start, learned: Learned) -> None:
    """Print the sizes of the vocabulary, and warn if it probably should have a special token."""
    _warn_of_end_of_text(learned.vocab, start.special_tokens)
    special = {token.encode() for token in start.special_tokens}
    # Of several longest tokens, the one with the lowest id.
    tokens = (token for _, token in sorted(learned.vocab.items()) if token not in special)
    longest = max(tokens, key=len)
    if start.continued is not None:
        before = len(start.continued.definition.vocab)
        say(f"continued {options.continue_}: {counted(before, 'token')}")
    sizes = f"{counted(len(learned.vocab), 'token')}, {counted(len(learned.merges), 'merge')}"
    say(f"{sizes}; longest token: {short_repr(longest)}")


def _compare_sizes(
    options: Options,
    largest: Path,
    sizes: Sequence[int],
    texts: Mapping[str, Corpus],
    where: str,
    folder: Path,
) -> None:
    """Print a table that compares the sizes and, if there are several, save it with a chart."""
    from cs336_basics._support.files import atomic_writer
    from cs336_basics.reports.page import render_html
    from cs336_basics.reports.vocabulary_sizes import compare_sizes
    from cs336_basics.tokenizer.tokenizer import Tokenizer

    comparison = compare_sizes(
        Tokenizer.from_directory(largest),
        sizes,
        texts,
        d_model=options.d_model,
        least_gain=options.least_gain,
        num_workers=options.num_workers,
    )
    say(f"on {where}:")
    for line in table_lines(comparison.header(), comparison.rows(), num_names=0):
        say(line)
    if len(sizes) > 1:
        say(comparison.conclusion())
        page = folder / "sizes.html"
        with atomic_writer(page, "w") as file:
            file.write(render_html("Sizes of the vocabulary", [comparison.section(where)]))
        say(f"chart written to {page}")


def _save_prefixes(folder: Path, largest: Path, sizes: Sequence[int]) -> None:
    """Save a tokenizer for each smaller size: the start of the largest one, with its record.

    Args:
        folder: Directory with a directory for each size.
        largest: Directory of the largest tokenizer.
        sizes: The smaller sizes.
    """
    from cs336_basics.tokenizer.definition import TRAINING_FILE
    from cs336_basics.tokenizer.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_directory(largest)
    record = json.loads((largest / TRAINING_FILE).read_text(encoding="utf-8"))
    del record["tokenizer_hash"]  # each tokenizer has its own
    for size in sizes:
        prefix = tokenizer.truncated(min(size, len(tokenizer)))  # a short text has fewer merges
        prefix.save(folder / str(size), record)
        say(f"written to {folder / str(size)}: the first {len(prefix):,} tokens")


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
    continued: Continued | None = None

    @property
    def max_words(self) -> int | None:
        """The limit of the superwords to continue."""
        if self.continued is None or self.continued.superwords is None:
            return None
        return self.continued.superwords.max_words

    @property
    def continue_from(self) -> tuple[dict[int, bytes], list[Pair]] | None:
        """The vocabulary and merges to continue."""
        if self.continued is None:
            return None
        return self.continued.definition.vocab, self.continued.definition.merges


def _start(options: Options) -> _Start:
    """Return the options that may come from the tokenizer of --continue."""
    new_tokens = list(options.special_token)
    if options.continue_ is None:
        pattern = "gpt2" if options.pattern is None else options.pattern
        return _Start(pattern, options.normalizer, new_tokens)
    # Imported here, because only --continue needs these modules.
    from cs336_basics.data.train_tokenizer import Continued, superwords_of
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
    superwords = superwords_of(options.continue_) if pattern == definition.pattern else None
    continued = Continued(definition, superwords)
    return _Start(pattern, normalizer, [*tokens, *added], continued)


COMMAND = Command(
    "train-bpe",
    Options,
    train_bpe,
    "train-bpe --input my.txt --vocab-size 10000 --output tokenizers/my",
    "train-bpe --mix reviews.jsonl:0.6 code/:0.3 ko.txt:0.1 --field text --vocab-size 16000 \\\n"
    "      --output tokenizers/mixed",
    "train-bpe --parity ar.txt zh.txt ru.txt --vocab-size 32000 --output tokenizers/fair",
    "train-bpe --input 'web/*.jsonl.gz' --field text --vocab-size 32000 \\\n"
    "      --special-token '<|endoftext|>' --output tokenizers/web",
)
