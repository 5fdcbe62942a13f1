"""Read tiktoken's rank files (see `ranks.py`), our exports for tiktoken, and its encodings."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cs336_basics._support.errors import (
    Argument,
    InputError,
    InputTypeError,
    MissingFileError,
    UnavailableError,
    error_in_file,
)
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.paths import checked_path
from cs336_basics._support.reading import (
    open_regular,
    parse_json,
    read_json_object,
    unique_keys,
)
from cs336_basics._support.vocabularies import MAX_ID
from cs336_basics.formats.foreign_patterns import (
    from_fancy_regex,
    from_given_fancy_regex,
)
from cs336_basics.formats.recognition import (
    is_rank_file,
    is_tekken,
    recognized_content,
    recognized_directory,
)
from cs336_basics.formats.tiktoken.rank_merges import (
    MAX_BYTES,
    MAX_BYTES_PER_TOKEN,
    definition_of_ranks,
)
from cs336_basics.formats.tiktoken.tekken import parse_tekken
from cs336_basics.splitting.patterns.named_patterns import resolve_pattern
from cs336_basics.splitting.splitter import check_special_tokens
from cs336_basics.tokenizer.added_tokens import check_added_tokens
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.words import Words

if TYPE_CHECKING:
    from pathlib import Path

try:
    from cs336_basics.formats import _byte_strings
except ImportError:  # the extension is not built
    _byte_strings = None  # type: ignore[assignment]

RANKS_FILE = "ranks.tiktoken"
ENCODING_FILE = "encoding.json"

_MAX_SETTINGS = 1 << 24  # bytes
_NAME = re.compile(r"[\w-]+")  # a name of an encoding or a model, rather than of a file


def load_tiktoken(
    source: Any,
    special_tokens: Mapping[str, int] | None = None,
    pattern: str | None = None,
) -> TokenizerDefinition:
    """Read a tiktoken tokenizer.

    Args:
        source: Rank file, directory written by our export, or name of an encoding, such as
            `cl100k_base`, which tiktoken loads from its cache or the network. Also a
            `tiktoken.Encoding`, or the `tekken.json` of Mistral.
        special_tokens: Mapping of special token -> id. Defaults to the encoding's special tokens.
        pattern: Split pattern, either a name or a regular expression for tiktoken. Defaults to the
            encoding's pattern. Required for a rank file.

    Raises:
        TypeError: If `source` is neither a path nor an Encoding, or `special_tokens` is not a
            mapping or has a key that is not a str.
        FileNotFoundError: If there is no such file or encoding.
        ValueError: If a file is malformed, a byte is missing, or the pattern is missing or invalid.
            If it is another kind of file, the message says which. Also raised if `special_tokens`
            or `pattern` is given for a `tekken.json`, which has its own.
        ImportError: If `source` is an encoding and tiktoken is not installed.
        OSError: If tiktoken cannot load the encoding.

    Warns:
        UserWarning: If `pattern` has syntax that may mean something else in tiktoken.
    """
    if special_tokens is not None and not isinstance(special_tokens, Mapping):
        raise InputTypeError(
            f"must be a mapping of special token -> id, got {short_repr(special_tokens)}",
            argument="special_tokens",
        )
    check_special_tokens(list(special_tokens or ()))
    found = _found(source)
    if found.tekken is not None:
        for name, value in (("special_tokens", special_tokens), ("pattern", pattern)):
            if value is not None:
                raise InputError(
                    f"is {short_repr(value)}, but {found.place} has its own",
                    argument=name,
                    remedy="leave it out",
                )
        try:
            return parse_tekken(found.tekken)
        except InputError as error:
            raise error_in_file(error, found.place) from None
    special = found.special_tokens or {} if special_tokens is None else dict(special_tokens)
    ranks = found.ranks
    read = read_ranks(found.content, special) if ranks is None else None
    if ranks is None and read is None:
        ranks = parse_ranks(found.content, found.file)
    if pattern is not None:  # an error here concerns the argument, not the file
        pattern = from_given_fancy_regex(resolve_pattern(pattern))
    elif found.pat_str is None:
        raise InputError(
            f"{found.place} has no split pattern",
            remedy=("pass ", Argument("pattern"), ", such as gpt2 or cl100k"),
        )
    try:
        if pattern is None:
            assert found.pat_str is not None
            pattern = from_fancy_regex(found.pat_str)
        if read is not None:
            return TokenizerDefinition.of_words(
                read.words, read.own_ids, check_added_tokens(list(special)), pattern,
                read.ignore_merges, None, None,
            )  # fmt: skip
        assert ranks is not None
        return definition_of_ranks(ranks, special, pattern)
    except InputError as error:
        raise error_in_file(error, found.place) from None


class _Found(NamedTuple):
    """The parts of a tokenizer that a source contains."""

    place: str
    """Name of the source, for messages."""
    ranks: dict[bytes, int] | None = None
    """The ranks, or None if they are in `content`."""
    content: bytes = b""
    file: str | os.PathLike[str] = ""
    """The rank file with `content`."""
    pat_str: str | None = None
    """Split pattern, in tiktoken's syntax."""
    special_tokens: dict[str, int] | None = None
    tekken: dict[str, Any] | None = None
    """Content of a tekken.json, which has all parts."""


def _found(source: Any) -> _Found:
    """Return the parts of a tokenizer that a source contains; see `load_tiktoken`."""
    if not isinstance(source, (str, os.PathLike)):
        if not isinstance(getattr(source, "_mergeable_ranks", None), dict):
            raise InputTypeError(
                "must be a path, the name of an encoding or a tiktoken.Encoding, got "
                f"{short_repr(source)}",
                argument="source",
            )
        return _found_in_encoding(source, short_repr(source))
    path, place = checked_path("source", source), os.fspath(source)
    if os.path.isdir(path):
        settings = _read_settings(path)
        file = os.path.join(path, RANKS_FILE)
        return _Found(
            place,
            content=_read(file),
            file=file,
            pat_str=settings["pat_str"],
            special_tokens=settings["special_tokens"],
        )
    if not os.path.exists(path) and isinstance(source, str) and _NAME.fullmatch(source):
        return _found_in_encoding(registered_encoding(source), place)
    content = _read(path)
    if content.lstrip()[:1] != b"{":
        return _Found(place, content=content, file=source)
    tekken = parse_json(content, path, unique_keys)
    if not is_tekken(tekken):
        raise InputError(
            "this is JSON, and not a rank file",
            place=place,
            remedy=f"read it with Tokenizer.from_pretrained({place!r})",
        )
    return _Found(place, tekken=tekken)


def _found_in_encoding(encoding: Any, place: str) -> _Found:
    """Return the parts of a tiktoken `Encoding`."""
    # tiktoken's documentation also uses these three private attributes to extend an encoding.
    return _Found(
        place,
        dict(encoding._mergeable_ranks),
        pat_str=encoding._pat_str,
        special_tokens=dict(encoding._special_tokens),
    )


def read_export(directory: Path) -> tuple[dict[bytes, int], dict[str, Any]]:
    """Return the ranks and the content of encoding.json in an exported directory."""
    settings = _read_settings(directory)
    return load_ranks(directory / RANKS_FILE), settings


def _read_settings(directory: str | os.PathLike[str]) -> dict[str, Any]:
    path = os.path.join(directory, ENCODING_FILE)
    if not os.path.exists(path):
        if other := recognized_directory(directory):
            raise other
        raise MissingFileError(
            f"{path} does not exist",
            remedy="pass a rank file, or a directory that export_tokenizer wrote",
        )
    found = read_json_object(path, _MAX_SETTINGS)
    special = found.get("special_tokens")
    if not isinstance(special, dict) or not isinstance(found.get("pat_str"), str):
        raise InputError(f"{path} must contain a string 'pat_str' and an object 'special_tokens'")
    return found


def registered_encoding(name: str) -> Any:
    """Return the tiktoken `Encoding` with this name, from tiktoken's cache or the network.

    Raises:
        ImportError: If tiktoken is not installed.
        FileNotFoundError: If tiktoken has no such encoding.
        OSError: If tiktoken cannot load the encoding.
    """
    try:
        import tiktoken
    except ImportError:
        raise UnavailableError(
            f"{name} does not exist", remedy=f"to load the encoding {name}, pip install tiktoken"
        ) from None
    known = sorted(tiktoken.list_encoding_names())
    if name not in known:
        remedy = f"tiktoken's encodings are {', '.join(known)}"
        with contextlib.suppress(KeyError):
            remedy = f"did you mean {tiktoken.encoding_name_for_model(name)}, which it uses?"
        raise MissingFileError(
            f"{name} is not a file, a directory or a tiktoken encoding", remedy=remedy
        )
    try:
        return tiktoken.get_encoding(name)
    except MemoryError:
        raise
    except Exception as error:  # from tiktoken or requests
        raise OSError(
            f"tiktoken cannot download the encoding {name}: {short_reason(error)}"
        ) from error


def load_ranks(path: str | os.PathLike[str]) -> dict[bytes, int]:
    """Read a rank file.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: See `parse_ranks`.
    """
    return parse_ranks(_read(path), path)


def _read(path: str | os.PathLike[str]) -> bytes:
    with open_regular(path) as file:
        return file.read()


class ReadRanks(NamedTuple):
    """The content of a rank file and special tokens."""

    words: Words
    own_ids: dict[str, int]
    """Ids of the special tokens that have the same bytes as an ordinary token."""
    ignore_merges: bool
    """Whether a token has no merge."""


def read_ranks(content: bytes, special: Mapping[str, int]) -> ReadRanks | None:
    """Read a rank file in its usual form with compiled code.

    Returns None if the extension is not built, or anything is unusual or invalid: `parse_ranks`,
    `merges_of_ranks` and `TokenizerDefinition` do the same with messages.
    """
    limits = MAX_BYTES, MAX_BYTES_PER_TOKEN
    found = (
        None
        if _byte_strings is None
        else _byte_strings.words_of_ranks(content, dict(special), *limits)
    )
    if found is None:
        return None
    words, own_ids = found
    num_ranks = len(words) - (len(special) - len(own_ids))
    return ReadRanks(words, own_ids, words.num_merges < num_ranks - 256)


def parse_ranks(content: bytes, path: str | os.PathLike[str]) -> dict[bytes, int]:
    """Return the ranks in the content of a rank file.

    The multilingual file of Whisper has an empty token, which no text produces. It is left out.

    Raises:
        ValueError: If a line is not `base64 rank`, or repeats a token or a rank.
    """
    ranks: dict[bytes, int] = {}
    seen: set[int] = set()
    for number, line in enumerate(content.split(b"\n"), start=1):
        fields = line.split()
        if not fields:
            continue
        try:
            if len(fields) != 2 or len(fields[1]) > 10 or not fields[1].isdigit():
                raise ValueError
            text = b"" if fields[0] == b"=" else fields[0]
            token, rank = base64.b64decode(text, validate=True), int(fields[1])
            if rank > MAX_ID:
                raise ValueError
        except (ValueError, binascii.Error):
            other = None if is_rank_file(content) else recognized_content(content, path)
            if other is not None:
                raise other from None
            raise InputError(
                f"must be a token in base64 and a rank, got {short_repr(line)}",
                place=f"{path}, line {number}",
            ) from None
        if token in ranks or rank in seen:
            raise InputError(
                f"token {short_repr(token)} or rank {rank} occurs twice",
                place=f"{path}, line {number}",
            )
        ranks[token] = rank
        seen.add(rank)
    ranks.pop(b"", None)
    return ranks
