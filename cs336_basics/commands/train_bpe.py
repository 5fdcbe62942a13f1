"""Train a BPE vocabulary: `python -m cs336_basics train-bpe --input FILE --output DIR ...`.

Writes a directory with vocab.json and merges.txt (GPT-2's format) and metadata.json, which the
other commands and `Tokenizer.from_directory` read.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS
from cs336_basics.bpe.base import TIE_BREAKS, BPE_Trainer, check_request
from cs336_basics.pretokenization import Corpus

MOST_HASHED = 1 << 30
"""Bytes of an input file whose hash is recorded."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, train, save, print; return the exit status."""
    options = parse(arguments)
    try:
        run(options)
    except (OSError, ValueError, TypeError, ImportError, OverflowError, RuntimeError) as error:
        print(f"train_bpe: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("train_bpe: interrupted; nothing was written", file=sys.stderr)
        return 130
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="python -m cs336_basics train-bpe",
        description="Train a byte-level BPE vocabulary.",
    )
    text = parser.add_argument_group("text")
    text.add_argument(
        "--input",
        nargs="+",
        default=[],
        metavar="FILE",
        help="UTF-8 text or JSON lines (.jsonl), also as .gz or .zst, or .parquet; several, or "
        "patterns such as 'data/*.txt'",
    )
    text.add_argument("--field", help="of JSON lines, the field that has the text")
    text.add_argument("--column", help="of Parquet, the column that has the text")
    text.add_argument(
        "--errors",
        choices=("replace", "strict"),
        default="replace",
        help="bytes that are not UTF-8: read them as U+FFFD, or refuse them (default: replace)",
    )
    text.add_argument(
        "--counts",
        nargs="+",
        default=[],
        metavar="FILE",
        help="word counts that --save-counts wrote, added to those of --input",
    )
    text.add_argument("--save-counts", metavar="FILE", help="write the word counts to a file")

    vocabulary = parser.add_argument_group("vocabulary")
    vocabulary.add_argument("--output", required=True, metavar="DIR", help="directory to write")
    vocabulary.add_argument(
        "--vocab-size", required=True, type=int, metavar="N", help="256 bytes + specials + merges"
    )
    vocabulary.add_argument(
        "--special-token",
        action="append",
        default=[],
        dest="special_tokens",
        metavar="TEXT",
        help="a text that is cut out and becomes one token, such as '<|endoftext|>'; repeatable",
    )
    vocabulary.add_argument(
        "--pattern", default="gpt2", help="gpt2 (default), cl100k, or a regular expression"
    )
    vocabulary.add_argument(
        "--min-frequency",
        type=int,
        default=1,
        metavar="N",
        help="pairs with a smaller count are not merged (default: 1)",
    )
    vocabulary.add_argument(
        "--max-token-length", type=int, metavar="N", help="no merge makes a longer token, in bytes"
    )
    vocabulary.add_argument(
        "--tie-break",
        choices=TIE_BREAKS,
        default=TIE_BREAKS[0],
        help=f"which of equally frequent pairs is merged first (default: {TIE_BREAKS[0]})",
    )
    vocabulary.add_argument(
        "--overwrite", action="store_true", help="replace a vocabulary that is already there"
    )

    work = parser.add_argument_group("work")
    work.add_argument(
        "--trainer",
        choices=list(TRAINERS),
        default=DEFAULT_TRAINER,
        help=f"version of the algorithm; all learn the same merges (default: {DEFAULT_TRAINER})",
    )
    work.add_argument(
        "--num-workers", type=int, metavar="N", help="threads or processes (default: all cores)"
    )
    work.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="count over Ray: auto joins the cluster that runs, local starts one on this machine",
    )
    options = parser.parse_args(arguments)
    if not options.input and not options.counts:
        parser.error("nothing to train on: give --input, --counts, or both")
    return options


def run(options: argparse.Namespace) -> None:
    """Train and write the vocabulary."""
    from cs336_basics.pretokenization.reference import unicode_version
    from cs336_basics.tokenizer.vocab_files import save_tokenizer

    output = Path(options.output)
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"{output} is a file: --output names a directory")
    if (output / "vocab.json").exists() and not options.overwrite:
        raise FileExistsError(
            f"{output} holds a vocabulary already: pass --overwrite to replace it"
        )
    trainer = TRAINERS[options.trainer](
        pattern=options.pattern,
        num_workers=options.num_workers,
        progress=True,
        min_frequency=options.min_frequency,
        max_token_length=options.max_token_length,
        tie_break=options.tie_break,
    )
    # What can fail should fail before the work, not after it.
    check_request(options.vocab_size, options.special_tokens)
    corpus = None
    if options.input:
        corpus = Corpus(
            options.input, field=options.field, column=options.column, errors=options.errors
        )
    sources = describe_files([*(corpus.files if corpus else ()), *options.counts])
    is_new = not output.exists()
    output.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=output):
            pass
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            vocab, merges = train(trainer, corpus, options)
    except BaseException:
        if is_new:
            output.rmdir()
        raise
    for warning in caught:
        print(f"train_bpe: warning: {warning.message}", file=sys.stderr)
    save_tokenizer(
        output,
        vocab,
        merges,
        options.special_tokens,
        options.pattern,
        unicode_version=unicode_version(),
        trainer=options.trainer,
        tie_break=options.tie_break,
        min_frequency=options.min_frequency,
        max_token_length=options.max_token_length,
        corpus=sources,
    )
    print(timing_table(trainer))
    longest = max(vocab.values(), key=len)
    print(f"{len(vocab):,} tokens, {len(merges):,} merges; longest token: {longest!r}")
    print(f"written to {output}/: vocab.json, merges.txt, metadata.json")


def train(
    trainer: BPE_Trainer, corpus: Corpus | None, options: argparse.Namespace
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Return the vocabulary and merges, from text, from saved counts, or from both."""
    if corpus is not None and not (options.counts or options.save_counts or options.ray):
        return trainer.train(corpus, options.vocab_size, options.special_tokens)

    start = time.perf_counter()
    counts = count(corpus, options)
    counted = time.perf_counter() - start
    result = trainer.train_from_counts(counts, options.vocab_size, options.special_tokens)
    trainer.timings["reading and counting"] = counted
    trainer.timings["total"] += counted
    return result


def count(corpus: Corpus | None, options: argparse.Namespace) -> Mapping[bytes, int]:
    """Return the word counts of the corpus and of the files of counts, saved if that is asked."""
    from cs336_basics.pretokenization import Splitter, WordCounts, count_words

    parts = [WordCounts.load(file) for file in options.counts]
    splitter = Splitter(options.pattern, options.special_tokens)
    request: dict[str, Any] = {"num_workers": options.num_workers, "progress": True}
    counts: Mapping[bytes, int] | None = None
    if corpus is not None and options.ray:
        from cs336_basics.pretokenization.ray_counting import count_words_ray

        counts = count_words_ray(corpus, splitter, address=options.ray, **request)
    elif corpus is not None:
        counts = count_words(corpus, splitter, **request)
    if counts is not None:
        if not isinstance(counts, WordCounts):
            counts = WordCounts.from_mapping(counts, options.pattern, options.special_tokens)
        parts.append(counts)
    total = parts[0] if len(parts) == 1 else WordCounts.combined(parts)
    if options.save_counts:
        total.save(options.save_counts)
    return total


def describe_files(files: Sequence[str]) -> list[dict[str, Any]]:
    """Return path, size and hash of every file, for the metadata; of URLs only the name.

    Files above a gigabyte have the hash None: it would take as long as training.
    """
    from cs336_basics._files import printable_path, sha256_file

    return [
        {"path": file}
        if "://" in file
        else {
            "path": printable_path(file),
            "num_bytes": (size := os.path.getsize(file)),
            "sha256": sha256_file(file) if size <= MOST_HASHED else None,
        }
        for file in files
    ]


def timing_table(trainer: BPE_Trainer) -> str:
    """Return the phases of a training run as lines of `name  seconds  share`."""
    total = trainer.timings["total"] or 1.0
    lines = [
        f"{phase:<22}{seconds:>10.3f} s{seconds / total:>8.1%}"
        for phase, seconds in trainer.timings.items()
    ]
    return "\n".join([f"trainer: {trainer.name}", *lines])


if __name__ == "__main__":
    sys.exit(main())
