"""Token files: text stored as an array of ids that can be mapped into memory.

FILE.npy contains these parts in this order:

    NumPy array      header, then ids: one dimension, uint16 or uint32
    document starts  int64, little-endian, aligned to 8 bytes; optional
    metadata         JSON object: the tokenizer's hash, counts, sources
    footer           32 bytes: end of the array, size of the metadata, magic number

`np.load(FILE, mmap_mode="r")` maps the ids and ignores the other parts. The metadata is checked
when the file is opened, because a model would learn only noise from another tokenizer's ids.

`encode_files.py` encodes text to token files; `token_writer.py` writes them. `binary_tokens.py`
reads the token files of nanoGPT and llm.c.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import Argument, InputError, InputTypeError, MissingFileError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import json_kind, short_repr
from cs336_basics._support.reading import open_regular, parse_json, read_array_header
from cs336_basics._support.urls import is_url
from cs336_basics.tokenizer.files.binary_tokens import ENDING, map_binary_tokens
from cs336_basics.tokenizer.ids import TokenArray

FOOTER = struct.Struct("<QQ16s")
MAGIC = b"cs336 token file"
STARTS_DTYPE = "<i8"
STARTS_BYTES = 8

_ITEMS_AT_A_TIME = 1 << 20
_HOW_TO_MAKE = "create a token file with `python -m cs336_basics encode`"


@dataclass(frozen=True)
class TokenFile:
    """An open token file.

    Attributes:
        path: FILE.npy, or FILE.bin of another program.
        tokens: Ids of shape (num_tokens,), uint16 or uint32, mapped read-only.
        metadata: See `encode_file`. Empty for FILE.bin.
    """

    path: Path
    tokens: TokenArray
    metadata: dict[str, Any]
    _starts: npt.NDArray[np.int64]

    @property
    def has_document_starts(self) -> bool:
        """Whether the text was encoded with document starts."""
        return "num_documents" in self.metadata

    def document_starts(self) -> npt.NDArray[np.int64]:
        """Return the positions where documents start; see `load_document_starts`."""
        starts = self._starts
        if not self.has_document_starts:
            raise InputError(
                "encoded without document starts",
                place=str(self.path),
                remedy=("encode the text again with ", Argument("document_starts", True)),
            )
        if len(starts) and not (starts[0] == 0 and starts[-1] < len(self.tokens)):
            raise _damaged(self.path, "document starts are outside the ids")
        for first in range(0, len(starts), _ITEMS_AT_A_TIME):
            some = starts[first : first + _ITEMS_AT_A_TIME + 1]
            if (some[1:] <= some[:-1]).any():
                raise _damaged(self.path, "document starts do not ascend")
        return starts


def open_token_file(
    path: str | os.PathLike[str],
    *,
    vocab_size: int | None = None,
    tokenizer_hash: str | None = None,
    dtype: str | None = None,
) -> TokenFile:
    """Open a token file; see `load_token_file` for the arguments and errors."""
    if is_url(os.fspath(path)):
        raise InputError(
            "token files are mapped into memory, so they must be local",
            place=os.fspath(path),
            remedy="download them first",
        )
    path = Path(path)
    if vocab_size is not None:
        vocab_size = checked_integer("vocab_size", vocab_size, 1)
    if not isinstance(tokenizer_hash, (str, type(None))):
        raise InputTypeError(
            f"must be a str, such as tokenizer.hash(), got {short_repr(tokenizer_hash)}",
            argument="tokenizer_hash",
        )
    if path.suffix == ENDING and path.exists():
        return _open_binary_file(path, dtype, vocab_size)
    try:
        file = open_regular(path)
    except FileNotFoundError:
        raise MissingFileError(
            "file does not exist", place=os.fspath(path), remedy=_HOW_TO_MAKE
        ) from None
    with file:
        layout = read_layout(file, path, os.fstat(file.fileno()).st_size)
        found = TokenFile(
            path,
            np.memmap(file, layout.dtype, "r", layout.array_offset, (layout.num_tokens,)),
            layout.metadata,
            np.memmap(file, STARTS_DTYPE, "r", layout.starts_offset, (layout.num_starts,)),
        )
    _check_tokenizer(found, vocab_size, tokenizer_hash)
    return found


def _open_binary_file(path: Path, dtype: str | None, vocab_size: int | None) -> TokenFile:
    if dtype is None:
        raise InputError(
            "a .bin file records neither the type of its ids nor their tokenizer",
            place=str(path),
            remedy=("pass ", Argument("dtype", "uint16"), " if it is a file of token ids"),
        )
    ids = map_binary_tokens(path, dtype, vocab_size)
    return TokenFile(path, ids, {}, np.empty(0, np.int64))


def _check_tokenizer(found: TokenFile, vocab_size: int | None, tokenizer_hash: str | None) -> None:
    """Check that a file has the expected tokenizer and vocabulary size; see `load_token_file`."""
    path = found.path
    made_by, size = found.metadata["tokenizer_hash"], found.metadata["vocab_size"]
    if tokenizer_hash is not None and made_by != tokenizer_hash:
        source = found.metadata.get("tokenizer")
        which = f", loaded from {short_repr(source)}" if isinstance(source, str) else ""
        raise InputError(
            f"encoded with another tokenizer{which}",
            place=str(path),
            remedy="use that tokenizer, or encode the text again with this one",
        )
    if vocab_size is not None and size > vocab_size:
        raise InputError(
            f"must be at least {size} for this file, got {vocab_size}",
            argument="vocab_size",
            place=str(path),
            remedy="change it, or encode the text with a smaller vocabulary",
        )


def load_token_file(
    path: str | os.PathLike[str],
    *,
    vocab_size: int | None = None,
    tokenizer_hash: str | None = None,
    dtype: str | None = None,
) -> TokenArray:
    """Open the ids of a token file as a read-only memory map, after checking its metadata.

    Args:
        path: FILE.npy, written by `encode_file`, or FILE.bin of nanoGPT or llm.c.
        vocab_size: Vocabulary size of the model. Every id must be below it. Defaults to no check.
        tokenizer_hash: Expected hash of the file's tokenizer, from `Tokenizer.hash()`. Defaults to
            no check. A FILE.bin does not record its tokenizer and is not checked.
        dtype: Type of the ids in a FILE.bin without a header: `"uint16"` or `"uint32"`. Required
            for every FILE.bin.

    Returns:
        Ids of shape (num_tokens,), dtype uint16 or uint32.

    Raises:
        TypeError: If `vocab_size` is not an int, or `tokenizer_hash` is not a str.
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not a token file, is damaged, or was encoded with a different
            tokenizer or a larger vocabulary.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import encode_file, load_token_file
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> metadata = encode_file(tokenizer, "stories.txt", "loaded.npy")
        >>> ids = load_token_file("loaded.npy", vocab_size=tokenizer.vocab_size)
        >>> len(ids) == metadata["num_tokens"], bool((ids < tokenizer.vocab_size).all())
        (True, True)
    """
    return open_token_file(
        path, vocab_size=vocab_size, tokenizer_hash=tokenizer_hash, dtype=dtype
    ).tokens


def ids_are_intact(file: TokenFile) -> bool:
    """Return whether the ids have the hash that the metadata records, by reading them."""
    digest = hashlib.sha256()
    for first in range(0, len(file.tokens), _ITEMS_AT_A_TIME):
        digest.update(file.tokens[first : first + _ITEMS_AT_A_TIME].tobytes())
    return file.metadata.get("ids_sha256") == digest.hexdigest()


def load_document_starts(path: str | os.PathLike[str]) -> npt.NDArray[np.int64]:
    """Open the document starts of a token file as a read-only memory map.

    Args:
        path: FILE.npy, written by `encode_file` with `document_starts=True`.

    Returns:
        Ascending positions of shape (num_documents,), dtype int64. Document i is
        `tokens[starts[i] : starts[i + 1]]`; the last document extends to the end.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not a token file, is damaged, or has no document starts.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import encode_file, load_document_starts
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> metadata = encode_file(tokenizer, "stories.txt", "starts.npy", document_starts=True)
        >>> starts = load_document_starts("starts.npy")
        >>> int(starts[0]), len(starts) == metadata["num_documents"]
        (0, True)
    """
    return open_token_file(path).document_starts()


def starts_offset(array_end: int) -> int:
    """Return the offset of the document starts: `array_end` rounded up to a multiple of 8 bytes."""
    return -(-array_end // STARTS_BYTES) * STARTS_BYTES


class Layout(NamedTuple):
    """The metadata of a token file, and the positions of its ids and document starts."""

    metadata: dict[str, Any]
    dtype: np.dtype[Any]
    num_tokens: int
    array_offset: int
    starts_offset: int
    num_starts: int


def read_layout(file: BinaryIO, path: str | os.PathLike[str], size: int) -> Layout:
    """Return the layout of a token file of `size` bytes, after checking it.

    Raises:
        ValueError: If the file is not a token file or is damaged.
    """
    file.seek(max(0, size - FOOTER.size))
    footer = file.read()
    file.seek(0)
    if not footer.endswith(MAGIC):
        read_array_header(file, path, size, ("uint16", "uint32"))
        raise InputError(
            "array without metadata, so its tokenizer is unknown",
            place=os.fspath(path),
            remedy=_HOW_TO_MAKE,
        )
    array_end, metadata_size, _ = FOOTER.unpack(footer)
    dtype, length = read_array_header(file, path, array_end, ("uint16", "uint32"))
    array_offset, offset = file.tell(), starts_offset(array_end)
    starts_size = size - FOOTER.size - metadata_size - offset
    if starts_size < 0 or starts_size % STARTS_BYTES:
        raise _damaged(path, f"unexpected size of {size:,} bytes")
    num_starts = starts_size // STARTS_BYTES
    file.seek(offset + starts_size)
    metadata = _parse_metadata(file.read(metadata_size), path)
    if metadata.get("num_tokens") != length:
        raise _damaged(
            path, f"num_tokens is {short_repr(metadata.get('num_tokens'))}, not {length:,}"
        )
    if metadata.get("num_documents", 0) != num_starts:
        raise _damaged(path, f"unexpected number of document starts, {num_starts:,}")
    return Layout(metadata, dtype, length, array_offset, offset, num_starts)


def _parse_metadata(content: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        metadata = parse_json(content, path)
    except InputError as error:
        raise _damaged(path, f"metadata is not JSON: {error}") from error
    if not isinstance(metadata, dict):
        raise _damaged(path, f"metadata must be an object, not {json_kind(metadata)}")
    if not isinstance(metadata.get("tokenizer_hash"), str):
        raise _damaged(path, f"tokenizer_hash is {short_repr(metadata.get('tokenizer_hash'))}")
    for key in ("vocab_size", "num_bytes"):
        value = metadata.get(key)
        if type(value) is not int or not 0 <= value < 1 << 63:
            raise _damaged(path, f"{key} is {short_repr(value)}")
    return metadata


def _damaged(path: str | os.PathLike[str], reason: str) -> InputError:
    return InputError(f"damaged file: {reason}", place=str(path), remedy="encode the text again")
