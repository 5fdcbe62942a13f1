"""Train a BPE vocabulary: `python -m cs336_basics.train_bpe --input FILE --output DIR ...`.

Writes a directory with vocab.json and merges.txt (GPT-2's format) and metadata.json, which the
other commands and `Tokenizer.from_directory` read.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from cs336_basics.bpe import DEFAULT_TRAINER, TRAINERS
from cs336_basics.bpe.trainer import BPE_Trainer


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
        prog="python -m cs336_basics.train_bpe",
        description="Train a byte-level BPE vocabulary on a text file.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--input", required=True, metavar="FILE", help="UTF-8 text to train on")
    parser.add_argument("--output", required=True, metavar="DIR", help="directory to write")
    parser.add_argument(
        "--vocab-size", required=True, type=int, metavar="N", help="256 bytes + specials + merges"
    )
    parser.add_argument(
        "--special-token",
        action="append",
        default=[],
        dest="special_tokens",
        metavar="TEXT",
        help="a text that is cut out and becomes one token, such as '<|endoftext|>'; repeatable",
    )
    parser.add_argument(
        "--trainer",
        choices=list(TRAINERS),
        default=DEFAULT_TRAINER,
        help="version of the algorithm; all learn the same merges",
    )
    parser.add_argument("--pattern", default="gpt2", help="gpt2, cl100k, or a regular expression")
    parser.add_argument(
        "--errors",
        choices=("replace", "strict"),
        default="replace",
        help="bytes that are not UTF-8: read them as U+FFFD, or refuse them",
    )
    parser.add_argument(
        "--num-workers", type=int, metavar="N", help="worker processes; all cores if not given"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a vocabulary that is already there"
    )
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> None:
    """Train and write the vocabulary."""
    from cs336_basics._files import sha256_file
    from cs336_basics.pretokenization.reference import unicode_version
    from cs336_basics.tokenizer.vocab_files import save_tokenizer

    output = Path(options.output)
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"{output} is a file: --output names a directory")
    if (output / "vocab.json").exists() and not options.overwrite:
        raise FileExistsError(
            f"{output} already holds a vocabulary: pass --overwrite to replace it"
        )
    trainer = TRAINERS[options.trainer](
        pattern=options.pattern,
        num_workers=options.num_workers,
        errors=options.errors,
        progress=True,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        vocab, merges = trainer.train(options.input, options.vocab_size, options.special_tokens)
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
        corpus={
            "path": options.input,
            "num_bytes": Path(options.input).stat().st_size,
            "sha256": sha256_file(options.input),
        },
    )
    print(timing_table(trainer))
    longest = max(vocab.values(), key=len)
    print(f"{len(vocab):,} tokens, {len(merges):,} merges; longest token: {longest!r}")
    print(f"written to {output}/: vocab.json, merges.txt, metadata.json")


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
