"""`python -m cs336_basics encode`: text files to a token file."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cs336_basics._support.validation import option
from cs336_basics.commands._cli import say
from cs336_basics.commands._options import Command, EncodingOptions


@dataclass(kw_only=True)
class Options(EncodingOptions):
    """Encode text files into a token file.

    It is an array of token ids that numpy.load opens, with what they were made from.
    """

    output: str = option("file to write", metavar="FILE.npy")
    end_of_document: str | None = option(
        "special token to append to each text file and row that does not end with it",
        None,
        metavar="TOKEN",
    )
    document_starts: bool = option(
        "also write the index of each document's first token", False, rare=True
    )


def encode(options: Options) -> None:
    """Encode the files and print what was written."""
    from cs336_basics.tokenizer import Tokenizer, encode_file

    tokenizer = Tokenizer.from_directory(options.tokenizer)
    corpus = options.corpus()
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


COMMAND = Command(
    "encode",
    Options,
    encode,
    "encode --tokenizer tokenizers/my --input my.txt --output data/my.npy",
    "encode --tokenizer tokenizers/my --input 'web/*.jsonl.gz' --field text \\\n"
    "      --end-of-document '<|endoftext|>' --output data/web.npy",
)
