"""Writing the token files of nanoGPT and llm.c; see `tokenizer/files/binary_tokens.py`."""

from __future__ import annotations

from pathlib import Path

from cs336_basics._support.errors import InputError
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.lazy import np
from cs336_basics.tokenizer.files.binary_tokens import (
    DTYPES,
    ENDING,
    HEADER_DTYPE,
    HEADER_LENGTH,
    HEADERS,
    MOST_TOKENS,
)
from cs336_basics.tokenizer.files.joined_tokens import TokenPaths, open_token_files

_IDS_AT_A_TIME = 1 << 20


def write(paths: TokenPaths, output: Path, *, has_header: bool) -> None:
    """Write the ids of token files, joined in order, as FILE.bin.

    Args:
        paths: Token files that `encode_file` wrote, with or without document starts.
        output: FILE.bin.
        has_header: Whether to write the header of llm.c. nanoGPT's files have none, and their ids
            are uint16.

    Raises:
        ValueError: If `output` does not end in .bin, an id needs more bits than nanoGPT's ids have,
            or there are too many ids for the header; see also `export_tokens`.
    """
    if output.suffix != ENDING:
        raise InputError(f"must end in {ENDING}, got {output}", argument="output")
    files = open_token_files(paths)
    dtype = np.result_type(*(file.tokens.dtype for file in files)).name
    count = sum(len(file.tokens) for file in files)
    if not has_header and dtype != "uint16":
        size = max(file.metadata["vocab_size"] for file in files)
        raise InputError(
            f"nanoGPT's ids are uint16, but the vocabulary has {size:,} tokens",
            place=str(files[0].path),
            remedy="use a tokenizer with at most 65,536 tokens",
        )
    if has_header and count > MOST_TOKENS:
        raise InputError(
            f"a file of llm.c has at most {MOST_TOKENS:,} ids, got {count:,}",
            place=str(files[0].path),
            remedy="export the token files one by one, as several shards",
        )
    with atomic_writer(output) as file:
        if has_header:
            header = np.zeros(HEADER_LENGTH, HEADER_DTYPE)
            header[:3] = *HEADERS[dtype], count
            file.write(header.tobytes())
        for found in files:
            for first in range(0, len(found.tokens), _IDS_AT_A_TIME):
                ids = found.tokens[first : first + _IDS_AT_A_TIME]
                file.write(ids.astype(DTYPES[dtype], copy=False).tobytes())
