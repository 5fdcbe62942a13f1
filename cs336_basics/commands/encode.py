"""`python -m cs336_basics encode`: encode text into a token file, or print the ids."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.validation import option
from cs336_basics.commands._cli import say, show
from cs336_basics.commands._inputs import STDOUT
from cs336_basics.commands._options import Command, EncodingOptions

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer

_BLOCK = 1 << 16  # bytes to print at a time
_BYTES_IN_MEMORY = 1 << 22
"""Maximum size of the printed ids in memory. If they are larger, they are written to a temporary
file."""


@dataclass(kw_only=True)
class Options(EncodingOptions):
    """Encode text into a token file: an array of ids that numpy.load can open, with metadata."""

    output: str = option(
        "file to write, or - to print the ids, one line for each document that is not empty; "
        "with --ray, a directory or the URL of a folder in an object store",
        metavar="FILE.npy",
        argument="destination",
    )
    end_of_document: str | None = option(
        "special token to append to each file or row that does not end with it",
        None,
        metavar="TOKEN",
    )
    dropout: float = option(
        "probability of leaving out each merge (BPE-dropout), so that each --seed gives other ids "
        "for the same text",
        0.0,
        metavar="P",
        rare=True,
    )
    seed: int = option("seed of --dropout", 0, rare=True)
    document_starts: bool = option(
        "also store the index of each document's first token", False, rare=True
    )
    ray: str | None = option(
        "encode with Ray into the --output directory, with one token file for each input file: "
        "auto joins a running cluster, local starts one on this machine",
        None,
        metavar="ADDRESS",
        argument="ray_address",
        rare=True,
    )


def encode(options: Options) -> None:
    """Encode the input and print statistics, or the ids themselves."""
    from cs336_basics.tokenizer import Dropout, Tokenizer, encode_file
    from cs336_basics.tokenizer.files.listed_ids import listed_documents

    tokenizer = Tokenizer.from_directory(options.tokenizer)
    printed = options.output == STDOUT
    dropout = Dropout(options.dropout, options.seed)
    if options.ray is not None:
        _encode_with_ray(options, tokenizer)
        return
    corpus = options.corpus(listed=not printed)
    settings: dict[str, Any] = {
        "num_workers": options.num_workers,
        "progress": True,
        "end_of_document": options.end_of_document,
        "dropout": dropout,
    }
    if printed:
        _print_ids(listed_documents(tokenizer, corpus, **settings))
        return
    start = time.perf_counter()
    metadata = encode_file(
        tokenizer,
        corpus,
        options.output,
        overwrite=options.overwrite,
        document_starts=options.document_starts,
        **settings,
    )
    seconds = time.perf_counter() - start
    _say_sizes(metadata)
    say(f"speed            {metadata['num_bytes'] / seconds / 1e6:.2f} MB/s")
    say(f"written to       {options.output}")


def _encode_with_ray(options: Options, tokenizer: Tokenizer) -> None:
    """Encode the input on a Ray cluster and print statistics."""
    from cs336_basics.tokenizer.files.ray_encoding import encode_files_ray

    if options.output == STDOUT:
        raise InputError("with --ray, --output must be a directory or a URL, not -")
    if options.dropout:
        raise InputError("--ray does not encode with --dropout", remedy="remove one of them")
    if options.overwrite:
        raise InputError("--ray does not replace a directory", remedy="remove --overwrite")
    metadata = encode_files_ray(
        tokenizer,
        options.corpus(),
        options.output,
        address=options.ray,
        num_workers=options.num_workers,
        progress=True,
        document_starts=options.document_starts,
        end_of_document=options.end_of_document,
    )
    _say_sizes(metadata)
    kept = metadata["num_kept"]
    say(f"token files      {metadata['num_files']:,}" + (f", {kept:,} kept" if kept else ""))
    say(f"written to       {options.output}")


def _say_sizes(metadata: Mapping[str, Any]) -> None:
    say(f"tokens           {metadata['num_tokens']:,} ({metadata['dtype']})")
    if "num_documents" in metadata:
        say(f"documents        {metadata['num_documents']:,}")
    say(f"bytes per token  {metadata['bytes_per_token']:.3f}")


def _print_ids(documents: Iterator[tuple[list[int], bool]]) -> None:
    """Print ids, one document per line, after all are known."""
    import tempfile

    with tempfile.SpooledTemporaryFile(_BYTES_IN_MEMORY) as file:
        before = ""
        for ids, is_end in documents:
            line = before + " ".join(map(str, ids)) if ids else ""
            file.write((line + "\n" if is_end else line).encode())
            before = "" if is_end else " "
        file.seek(0)
        while block := file.read(_BLOCK):
            show(block.decode())


COMMAND = Command(
    "encode",
    Options,
    encode,
    "encode --tokenizer tokenizers/my --input my.txt --output data/my.npy",
    "encode --tokenizer tokenizers/my --input - --output -",
    "encode --tokenizer tokenizers/my --input 'web/*.jsonl.gz' --field text \\\n"
    "      --end-of-document '<|endoftext|>' --output data/web.npy",
)
