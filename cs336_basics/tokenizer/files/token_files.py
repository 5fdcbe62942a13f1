"""Token files: text as one long array of ids that is mapped into memory, not read.

FILE.npy is a plain NumPy array of one dimension, uint16 or uint32. FILE.json next to it names the
tokenizer that made it, and its size. Both are checked when the file is opened: the ids of another
tokenizer look like any other numbers, and a model would learn noise from them. FILE.starts.npy is
optional: an int64 array of the positions where documents begin. The files change together, see
`journal.py`.

`encode_files.py` makes token files from text; `token_writer.py` writes them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.journal import opened, opened_together
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import map_array, parse_json
from cs336_basics.tokenizer.ids import TokenArray

_METADATA_KEYS = (
    "tokenizer_hash",
    "vocab_size",
    "dtype",
    "num_tokens",
    "num_bytes",
    "bytes_per_token",
    "source",
    "library_version",
)


_STARTS_AT_A_TIME = 1 << 20


def metadata_path_of(path: Path) -> Path:
    """Return the name of FILE.json for FILE.npy."""
    return path.with_suffix(".json")


def starts_path_of(path: Path) -> Path:
    """Return the name of FILE.starts.npy for FILE.npy."""
    return path.with_suffix(".starts.npy")


def load_token_file(
    path: str | os.PathLike[str],
    *,
    vocab_size: int | None = None,
    tokenizer_hash: str | None = None,
) -> TokenArray:
    """Open a token file as a read-only memory map, after checking it against its FILE.json.

    Args:
        path: FILE.npy, as `encode_file` writes it.
        vocab_size: the number of ids that a model knows; all ids of the file must be below it.
        tokenizer_hash: `Tokenizer.hash()` of the tokenizer that must have made the file.

    Returns:
        token ids of shape (num_tokens,), dtype uint16 or uint32.

    Raises:
        TypeError: `vocab_size` is not an int, or `tokenizer_hash` not a str.
        FileNotFoundError: FILE.npy or FILE.json is missing.
        ValueError: one of them is malformed, they do not belong together, or the file was made for
            another tokenizer or a larger vocabulary.
    """
    path = Path(path)
    if vocab_size is not None:
        vocab_size = checked_integer("vocab_size", vocab_size, 1)
    if not isinstance(tokenizer_hash, (str, type(None))):
        raise TypeError(
            f"tokenizer_hash is {short_repr(tokenizer_hash)}: pass a str, such as tokenizer.hash()"
        )
    metadata_path = metadata_path_of(path)
    with opened_together(path.parent, [path.name, metadata_path.name]) as files:
        metadata, tokens = _load_pair(path, files)
    if tokenizer_hash is not None and metadata["tokenizer_hash"] != tokenizer_hash:
        raise ValueError(
            f"{path} was made by the tokenizer {_shown(metadata['tokenizer_hash'])}, not by "
            f"{tokenizer_hash}: load that tokenizer, or encode {_source_of(metadata)} again with "
            "this one"
        )
    if vocab_size is not None and metadata["vocab_size"] > vocab_size:
        raise ValueError(
            f"{path} has ids up to {metadata['vocab_size'] - 1}, beyond a vocabulary of "
            f"{vocab_size}: set vocab_size to {metadata['vocab_size']}, or encode the text with a "
            "smaller tokenizer"
        )
    return tokens


def load_document_starts(path: str | os.PathLike[str]) -> npt.NDArray[np.int64]:
    """Open the document starts of a token file as a read-only memory map.

    Args:
        path: FILE.npy, which `encode_file` wrote with `document_starts=True`.

    Returns:
        positions in FILE.npy, of shape (num_documents,), dtype int64, ascending: document i is
        `tokens[starts[i] : starts[i + 1]]`; the last one extends to the end.

    Raises:
        FileNotFoundError: FILE.npy, FILE.json or FILE.starts.npy is missing.
        ValueError: one of them is malformed, they do not belong together, or the file was made
            without document starts.
    """
    path = Path(path)
    metadata_path, starts_path = metadata_path_of(path), starts_path_of(path)
    names = [path.name, metadata_path.name, starts_path.name]
    with opened_together(path.parent, names) as files:
        metadata, tokens = _load_pair(path, files)
        num_documents = metadata.get("num_documents")
        if num_documents is None:
            raise ValueError(
                f"{path} was encoded without document starts: encode the text again with "
                "document_starts=True (--document-starts)"
            )
        if starts_path.name not in files:
            raise FileNotFoundError(f"{starts_path} does not exist: encode the text again")
        starts: npt.NDArray[np.int64] = _map(files[starts_path.name], starts_path, ("int64",))
    if len(starts) != num_documents:
        raise ValueError(
            f"{starts_path} holds {len(starts):,} positions, but {metadata_path.name} says "
            f"{short_repr(num_documents)} documents: they do not belong together. Encode the text "
            "again"
        )
    if len(starts) and not (starts[0] == 0 and starts[-1] < len(tokens)):
        raise ValueError(f"{starts_path} does not fit {path.name}: encode the text again")
    for first in range(0, len(starts), _STARTS_AT_A_TIME):
        some = starts[first : first + _STARTS_AT_A_TIME + 1]
        if (some[1:] < some[:-1]).any():
            raise ValueError(f"{starts_path} does not ascend: encode the text again")
    return starts


def has_document_starts(path: str | os.PathLike[str]) -> bool:
    """Return whether a token file was encoded with document starts.

    Raises:
        OSError: FILE.json cannot be read.
        ValueError: it is malformed.
    """
    return "num_documents" in load_metadata(metadata_path_of(Path(path)))


def load_metadata(path: Path) -> dict[str, Any]:
    """Read FILE.json of a token file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is malformed, or is not the metadata of a token file.
    """
    with opened(path) as file:
        return _parse_metadata(file, path)


def _load_pair(path: Path, files: dict[str, BinaryIO]) -> tuple[dict[str, Any], TokenArray]:
    """Return the metadata and the ids of a token file, which belong together."""
    metadata_path = metadata_path_of(path)
    for needed in (path, metadata_path):
        if needed.name not in files:
            raise FileNotFoundError(
                f"{needed} does not exist: a token file is a pair, {path.name} and "
                f"{metadata_path.name}. Make it with `python -m cs336_basics encode --tokenizer "
                f"DIR --input FILE --output {path}`"
            )
    metadata = _parse_metadata(files[metadata_path.name], metadata_path)
    tokens: TokenArray = _map(files[path.name], path, ("uint16", "uint32"))
    for key, value in (("dtype", tokens.dtype.name), ("num_tokens", len(tokens))):
        if metadata[key] != value:
            raise ValueError(
                f"{path} has {key} {value}, but {metadata_path.name} says {_shown(metadata[key])}: "
                "they do not belong together. Encode the text again"
            )
    return metadata, tokens


def _parse_metadata(file: BinaryIO, path: Path) -> dict[str, Any]:
    try:
        metadata = parse_json(file.read(), path)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): encode the text again") from error
    if not isinstance(metadata, dict):
        raise ValueError(
            f"{path} holds a value of type {type(metadata).__name__}, "
            "not an object: encode the text again"
        )
    for key in _METADATA_KEYS:
        if key not in metadata:
            raise ValueError(
                f"{path} has no {key!r}: it is not the metadata of a token file. Encode the text "
                "again"
            )
    for key in ("vocab_size", "num_bytes"):
        if type(metadata[key]) is not int:
            raise ValueError(
                f"{path}: {key} is {short_repr(metadata[key])}, not an integer: encode the text "
                "again"
            )
        if not 0 <= metadata[key] < 1 << 63:
            raise ValueError(
                f"{path}: {key} is {short_repr(metadata[key])}, not a size: encode the text again"
            )
    return metadata


def _source_of(metadata: dict[str, Any]) -> str:
    source = metadata["source"]
    return f"its {len(source):,} sources" if isinstance(source, list) else _shown(source)


def _shown(value: Any) -> str:
    """Return a value of the metadata for a message."""
    return value if isinstance(value, str) and len(value) < 200 else short_repr(value)


def _map(file: BinaryIO, path: Path, dtypes: Sequence[str]) -> npt.NDArray[Any]:
    try:
        return map_array(file, path, dtypes)
    except ValueError as error:
        raise ValueError(f"{error}. Encode the text again") from error
