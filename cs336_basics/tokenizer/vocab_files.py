"""Reads and writes vocabularies: GPT-2's pair of files, safe pickles, tokenizer directories.

`vocab.json` maps tokens to ids, and `merges.txt` holds one merge per line, in the order in which
they were learned. Tokens are bytes, but JSON holds text, so each byte is written as one printable
character (Radford et al. 2019, the `encoder.py` of GPT-2's code): see `byte_to_character`.

A tokenizer directory holds both, and a `metadata.json` with what the pair lacks: the split pattern
and the special tokens.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import regex

import cs336_basics
from cs336_basics._files import atomic_writer, write_json
from cs336_basics.pretokenization.patterns import pattern_name, resolve_pattern

try:
    from cs336_basics.tokenizer import _hashing
except ImportError:  # it is not built
    _hashing = None  # type: ignore[assignment]

Pair = tuple[bytes, bytes]

VOCAB_FILE = "vocab.json"
MERGES_FILE = "merges.txt"
METADATA_FILE = "metadata.json"

VERSION_LINE = "#version: 0.2"

_PICKLE_SUFFIXES = (".pkl", ".pickle")


# --------------------------------------------------------------------- bytes as printable text


@functools.cache
def byte_to_character() -> dict[int, str]:
    """Return GPT-2's map from byte to printable character.

    The printable characters of Latin-1 (33-126, 161-172, 174-255) represent themselves; the other
    68 bytes, in ascending order, become U+0100, U+0101, ... So a space is U+0120, `Ġ`.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printable]
    return {
        byte: chr(byte) if byte in printable else chr(0x100 + others.index(byte))
        for byte in range(256)
    }


@functools.cache
def character_to_byte() -> dict[str, int]:
    """Return the inverse of `byte_to_character`."""
    return {character: byte for byte, character in byte_to_character().items()}


def token_to_string(token: bytes) -> str:
    """Return the printable string that represents a token in vocab.json and merges.txt."""
    characters = byte_to_character()
    return "".join([characters[byte] for byte in token])


def string_to_token(string: str) -> bytes:
    """Return the token that a string represents, the inverse of `token_to_string`.

    Raises:
        KeyError: a character that represents no byte.
    """
    to_byte = character_to_byte()
    return bytes([to_byte[character] for character in string])


# --------------------------------------------------------------------- vocab.json


def save_vocab(vocab: Mapping[int, bytes], path: str | os.PathLike[str]) -> None:
    """Write a vocabulary as vocab.json, in the order of its ids, atomically.

    Special tokens are written like all others, one character for each byte.

    Raises:
        ValueError: two ids have the same bytes; the file can hold only one of them.
    """
    strings: dict[str, int] = {}
    for token_id in sorted(vocab):
        string = token_to_string(vocab[token_id])
        if string in strings:
            raise ValueError(
                f"ids {strings[string]} and {token_id} of the vocabulary are both "
                f"{vocab[token_id]!r}: remove one of them"
            )
        strings[string] = token_id
    # One token per line, so that the file can be read, searched and compared.
    with atomic_writer(path, "w") as file:
        json.dump(strings, file, ensure_ascii=False, indent=0)
        file.write("\n")


def load_vocab(path: str | os.PathLike[str]) -> dict[int, bytes]:
    """Read a vocabulary: vocab.json, or a pickled `dict[int, bytes]` if the name ends in .pkl.

    Some tools write special tokens as plain text, such as `<|end of text|>` with spaces. A key of
    vocab.json with a character outside GPT-2's alphabet is therefore read as that text in UTF-8.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not such a vocabulary; names the file, and the line or item.
    """
    path = Path(path)
    if path.suffix in _PICKLE_SUFFIXES:
        return _check_pickled_vocab(_load_plain_pickle(path), path)

    def unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
        # A dict would silently keep the last of two equal keys.
        content: dict[str, Any] = {}
        for key, value in items:
            if key in content:
                raise ValueError(f"the key {key!r} occurs twice: remove one")
            content[key] = value
        return content

    content = _load_json(path, unique_keys)
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, not an object of token -> id")
    vocab: dict[int, bytes] = {}
    for string, token_id in content.items():
        if type(token_id) is not int:
            raise ValueError(f"{path}: the id of {string!r} is {token_id!r}, not an integer")
        try:
            token = string_to_token(string)
        except KeyError:
            try:
                token = string.encode("utf-8")
            except UnicodeEncodeError as error:
                raise ValueError(f"{path}: the key {string!r} is not valid Unicode") from error
        if token_id in vocab:
            raise ValueError(
                f"{path}: {vocab[token_id]!r} and {token!r} have the same id {token_id}"
            )
        vocab[token_id] = token
    return vocab


# --------------------------------------------------------------------- merges.txt


def save_merges(merges: Iterable[Pair], path: str | os.PathLike[str]) -> None:
    """Write merges as merges.txt, atomically: the line `#version: 0.2`, then `A B` on each line.

    Raises:
        ValueError: a merge with an empty token, which the file cannot represent.
    """
    # The version line is always written: without it, a first merge of a token `#version:` would be
    # read as one.
    lines = [VERSION_LINE]
    for rank, (left, right) in enumerate(merges):
        if not left or not right:
            raise ValueError(f"merge {rank} ({left!r}, {right!r}) has an empty token")
        lines.append(f"{token_to_string(left)} {token_to_string(right)}")
    with atomic_writer(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def load_merges(path: str | os.PathLike[str]) -> list[Pair]:
    """Read merges: merges.txt, or a pickled list of byte pairs if the name ends in .pkl.

    The first line may be `#version: ...`; any other line that begins so is a merge. Line ends
    may be LF or CRLF, and the file may end with empty lines.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file does not hold merges; names the file and the line or item.
    """
    path = Path(path)
    if path.suffix in _PICKLE_SUFFIXES:
        return _check_pickled_merges(_load_plain_pickle(path), path)
    # Not `splitlines`, which breaks lines at more than line feeds. A carriage return never occurs
    # in the string of a token, so removing it is safe.
    lines = [line.removesuffix("\r") for line in _read_text(path).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    merges: list[Pair] = []
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith("#version:"):
            continue
        tokens = line.split(" ")
        if len(tokens) != 2 or not all(tokens):
            raise ValueError(
                f"{path}, line {number}: {line!r} is not a merge, two tokens with one space between"
            )
        try:
            merges.append((string_to_token(tokens[0]), string_to_token(tokens[1])))
        except KeyError as error:
            raise ValueError(
                f"{path}, line {number}: {line!r} holds the character {error.args[0]!r}, which "
                "represents no byte in GPT-2's alphabet"
            ) from None
    return merges


# --------------------------------------------------------------------- pickles


class _PlainUnpickler(pickle.Unpickler):
    """Loads containers, numbers and text; refuses every import, so that no code can run."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(
            f"it asks for {module}.{name}; only dict, list, tuple, int, str and bytes are loaded "
            "(save it with pickle protocol 3 or later, or as vocab.json and merges.txt)"
        )


def _load_plain_pickle(path: Path) -> Any:
    """Load a pickle of plain values. Without imports, no opcode has a function to call."""
    data = path.read_bytes()
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a malformed pickle can raise anything
        raise ValueError(f"{path} is not a pickle of plain values: {error}") from error


def _check_pickled_vocab(content: Any, path: Path) -> dict[int, bytes]:
    if type(content) is not dict:
        raise ValueError(f"{path} holds a {type(content).__name__}, not a dict of id -> bytes")
    for token_id, token in content.items():
        if type(token_id) is not int or type(token) is not bytes:
            raise ValueError(f"{path}: {token_id!r}: {token!r} is not an item of int -> bytes")
    return content


def _check_pickled_merges(content: Any, path: Path) -> list[Pair]:
    if type(content) not in (list, tuple):
        raise ValueError(f"{path} holds a {type(content).__name__}, not a list of byte pairs")
    merges: list[Pair] = []
    for rank, pair in enumerate(content):
        if (
            type(pair) not in (list, tuple)
            or len(pair) != 2
            or not all(type(token) is bytes for token in pair)
        ):
            raise ValueError(f"{path}: merge {rank}, {pair!r}, is not a pair of bytes")
        merges.append((pair[0], pair[1]))
    return merges


# --------------------------------------------------------------------- tokenizer directories


def tokenizer_hash(
    vocab: Mapping[int, bytes], merges: Iterable[Pair], special_tokens: Iterable[str], pattern: str
) -> str:
    """Return the SHA-256, 64 hexadecimal digits, of everything that determines the ids of a text.

    It depends neither on the order of `vocab` and of the special tokens, nor on whether the pattern
    is given by its name.
    """
    ids = sorted(vocab)
    digest = hashlib.sha256(f"pattern {resolve_pattern(pattern)!r}\n".encode())
    digest.update(_fastest_hash_lines(ids, [vocab[token_id] for token_id in ids], list(merges)))
    for token in sorted(token.encode() for token in special_tokens):
        digest.update(f"special {token.hex()}\n".encode())
    return digest.hexdigest()


def hash_lines(ids: Sequence[int], tokens: Sequence[bytes], merges: Sequence[Pair]) -> bytes:
    """Return the lines that `tokenizer_hash` has for tokens and merges."""
    lines = [f"token {i} {token.hex()}\n" for i, token in zip(ids, tokens, strict=True)]
    lines += [f"merge {left.hex()} {right.hex()}\n" for left, right in merges]
    return "".join(lines).encode()


# In Python the lines take ten times as long as hashing them: most of loading a tokenizer.
_fastest_hash_lines = hash_lines if _hashing is None else _hashing.hash_lines


def save_tokenizer(
    directory: str | os.PathLike[str],
    vocab: Mapping[int, bytes],
    merges: Sequence[Pair],
    special_tokens: Sequence[str],
    pattern: str = "gpt2",
    **extra_metadata: Any,
) -> None:
    """Write a tokenizer directory: vocab.json, merges.txt and, last, metadata.json.

    Args:
        directory: created if it is missing; files of the same names in it are replaced.
        vocab: id -> token, special tokens included.
        merges: in the order in which they were learned.
        special_tokens: which of the tokens are special.
        pattern: the split pattern, a name in PATTERNS or a regular expression.
        extra_metadata: further items to record, for example the corpus and its hash.

    Raises:
        ValueError: a special token is not in the vocabulary; see also `save_vocab`, `save_merges`.
    """
    tokens = set(vocab.values())
    for token in special_tokens:
        if token.encode() not in tokens:
            raise ValueError(f"special token {token!r} is not in the vocabulary: add it first")
    directory = Path(directory)
    metadata = {
        "pattern": pattern_name(pattern) or pattern,
        "pattern_regex": resolve_pattern(pattern),
        "special_tokens": list(special_tokens),
        "vocab_size": max(vocab, default=-1) + 1,
        "num_merges": len(merges),
        "tokenizer_hash": tokenizer_hash(vocab, merges, special_tokens, pattern),
        "library_version": cs336_basics.__version__,
        # Its Unicode tables determine which characters are letters for the pattern.
        "regex_version": regex.__version__,
    }
    if repeated := metadata.keys() & extra_metadata.keys():
        raise ValueError(f"extra metadata {sorted(repeated)} would replace what is recorded anyway")
    # Each file is either the old or the new one; the hash shows when the three do not match.
    save_vocab(vocab, directory / VOCAB_FILE)
    save_merges(merges, directory / MERGES_FILE)
    write_json(directory / METADATA_FILE, {**metadata, **extra_metadata})


def load_tokenizer(
    directory: str | os.PathLike[str],
) -> tuple[dict[int, bytes], list[Pair], list[str], str, str]:
    """Read a tokenizer directory: vocabulary, merges, special tokens, split pattern, hash.

    The hash has been checked against the other four.

    Raises:
        FileNotFoundError: the directory or one of its files is missing; says how to make it.
        ValueError: a file is malformed, or the three do not belong together.
    """
    directory = Path(directory)
    for path in (
        directory,
        *(directory / name for name in (METADATA_FILE, VOCAB_FILE, MERGES_FILE)),
    ):
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist: a tokenizer directory holds {VOCAB_FILE}, {MERGES_FILE} "
                f"and {METADATA_FILE}. Make one with `python -m cs336_basics train-bpe --input "
                f"FILE --vocab-size N --output {directory}`"
            )
    vocab = load_vocab(directory / VOCAB_FILE)
    merges = load_merges(directory / MERGES_FILE)
    path = directory / METADATA_FILE
    metadata = _load_json(path)
    if not isinstance(metadata, dict):
        raise ValueError(f"{path} holds a {type(metadata).__name__}, not an object")
    pattern = metadata.get("pattern")
    special_tokens = metadata.get("special_tokens")
    if not isinstance(pattern, str):
        raise ValueError(f"{path}: 'pattern' is {pattern!r}, not a string")
    if not isinstance(special_tokens, list) or not all(isinstance(t, str) for t in special_tokens):
        raise ValueError(f"{path}: 'special_tokens' is {special_tokens!r}, not a list of strings")
    saved_regex = metadata.get("pattern_regex")
    if resolve_pattern(pattern) != saved_regex:
        raise ValueError(
            f"{path}: the pattern {pattern!r} was {saved_regex!r} when the tokenizer was saved and "
            f"is {resolve_pattern(pattern)!r} in this version of the library. To keep the saved "
            "one, set 'pattern' to it"
        )
    expected, found = (
        metadata.get("tokenizer_hash"),
        tokenizer_hash(vocab, merges, special_tokens, pattern),
    )
    if found != expected:
        raise ValueError(
            f"{directory}: the files do not belong together, or one was edited: {METADATA_FILE} "
            f"has tokenizer_hash {expected}, the files give {found}. If the edit is intended, load "
            "the pair with Tokenizer.from_files and save it again"
        )
    return vocab, merges, special_tokens, pattern, found


# --------------------------------------------------------------------- helpers


def _read_text(path: Path) -> str:
    try:
        # "-sig": some Windows editors write a byte order mark at the beginning.
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 at byte {error.start}: {error.reason}") from error


def _load_json(path: Path, object_pairs_hook: Any = None) -> Any:
    text = _read_text(path)
    try:
        return json.loads(text, object_pairs_hook=object_pairs_hook)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
