"""Encode files of text to a token file: `python -m cs336_basics encode --help`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from cs336_basics.tokenizer import Tokenizer, encode_file


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, encode, print; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        tokenizer = Tokenizer.from_directory(options.tokenizer)
        start = time.perf_counter()
        metadata = encode_file(
            tokenizer,
            options.input,
            options.output,
            num_workers=options.num_workers,
            progress=True,
            overwrite=options.overwrite,
            errors=options.errors,
            field=options.field,
            column=options.column,
            document_starts=options.document_starts,
            end_of_document=options.end_of_document,
        )
        seconds = time.perf_counter() - start
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print("error:", str(error).replace("\n", " "), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; nothing was written", file=sys.stderr)
        return 130
    print(f"tokens           {metadata['num_tokens']:,} ({metadata['dtype']})")
    if options.document_starts:
        print(f"documents        {metadata['num_documents']:,}")
    print(f"bytes per token  {metadata['bytes_per_token']:.3f}")
    print(f"speed            {metadata['num_bytes'] / seconds / 1e6:.2f} MB/s")
    print(f"written to       {options.output}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cs336_basics encode",
        description="Encode files of text to a token file: FILE.npy, an array that is mapped into "
        "memory, and FILE.json, which says what made it.",
    )
    parser.add_argument(
        "--tokenizer",
        required=True,
        metavar="DIR",
        help="directory written by python -m cs336_basics train-bpe",
    )
    parser.add_argument(
        "--input",
        nargs="+",
        required=True,
        metavar="FILE",
        help="UTF-8 text or JSON lines (.jsonl), also as .gz or .zst, or .parquet; several, or "
        "patterns such as 'data/*.txt'",
    )
    parser.add_argument("--field", help="of JSON lines, the field that has the text")
    parser.add_argument("--column", help="of Parquet, the column that has the text")
    parser.add_argument("--output", required=True, metavar="FILE.npy", help="file to write")
    parser.add_argument(
        "--num-workers", type=int, metavar="N", help="threads or processes (default: all cores)"
    )
    parser.add_argument(
        "--document-starts",
        action="store_true",
        help="also write FILE.starts.npy: where in FILE.npy each document begins",
    )
    parser.add_argument(
        "--end-of-document",
        metavar="TOKEN",
        help="a special token to put after every file of text and every row that lacks it, such "
        "as '<|endoftext|>'",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")
    parser.add_argument(
        "--errors",
        choices=("replace", "strict"),
        default="replace",
        help="bytes that are not UTF-8: read as U+FFFD (default), or refuse",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
