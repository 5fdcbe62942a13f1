"""Reads and writes vocabularies: GPT-2's pair of files, safe pickles, tokenizer directories.

`vocab.json` maps tokens to ids, and `merges.txt` holds one merge per line, in the order in which
they were learned. Tokens are bytes, but JSON holds text, so each byte is written as one printable
character: see `byte_strings.py`.

A tokenizer directory holds both, and a `metadata.json` with what the pair lacks: the split pattern
and the special tokens. The three change together, see `journal.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import regex

import cs336_basics
from cs336_basics._support.files import atomic_writer
from cs336_basics._support.journal import changing_together, opened, opened_together
from cs336_basics._support.messages import short_repr
from cs336_basics._support.reading import decoded, parse_json, unique_keys
from cs336_basics.formats.gpt2.byte_strings import (
    byte_of_code,
    string_to_token,
    strings_to_tokens,
    token_to_string,
)
from cs336_basics.formats.gpt2.plain_pickles import load_pickled_merges, load_pickled_vocab
from cs336_basics.pretokenization.patterns.named_patterns import (
    PATTERNS,
    pattern_name,
    resolve_pattern,
)
from cs336_basics.tokenizer.vocabulary import MAX_ID, TokenizerParts, explain_bad_id

try:
    from cs336_basics.tokenizer import _loading
except ImportError:  # it is not built
    _loading = None  # type: ignore[assignment]

Pair = tuple[bytes, bytes]

VOCAB_FILE = "vocab.json"
MERGES_FILE = "merges.txt"
METADATA_FILE = "metadata.json"

VERSION_LINE = "#version: 0.2"

_PICKLE_SUFFIXES = (".pkl", ".pickle")


# --------------------------------------------------------------------- vocab.json


def save_vocab(vocab: Mapping[int, bytes], path: str | os.PathLike[str]) -> None:
    """Write a vocabulary as vocab.json, in the order of its ids, atomically.

    Special tokens are written like all others, one character for each byte.

    Raises:
        ValueError: two ids have the same bytes; the file can hold only one of them.
    """
    content = _vocab_as_text(vocab)
    with atomic_writer(path, "w") as file:
        file.write(content)


def _vocab_as_text(vocab: Mapping[int, bytes]) -> str:
    """Return the content of vocab.json."""
    strings: dict[str, int] = {}
    for token_id in sorted(vocab):
        string = token_to_string(vocab[token_id])
        if string in strings:
            raise ValueError(
                f"ids {strings[string]} and {token_id} of the vocabulary are both "
                f"{short_repr(vocab[token_id])}: remove one of them"
            )
        strings[string] = token_id
    # One token per line, so that the file can be read, searched and compared.
    return json.dumps(strings, ensure_ascii=False, indent=0) + "\n"


def load_vocab(path: str | os.PathLike[str]) -> dict[int, bytes]:
    """Read a vocabulary: vocab.json, or a pickled `dict[int, bytes]` if the name ends in .pkl.

    Some tools write special tokens as plain text, such as `<|end of text|>` with spaces. A key of
    vocab.json with a character outside GPT-2's alphabet is therefore read as that text in UTF-8.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not such a vocabulary; names the file, and the line or item.
    """
    path = Path(path)
    with opened(path) as file:
        return _parse_vocab(file.read(), path)


def _parse_vocab(data: bytes, path: Path) -> dict[int, bytes]:
    """Return the vocabulary that a file with this content and name holds."""
    if path.suffix in _PICKLE_SUFFIXES:
        return load_pickled_vocab(data, path)
    content = parse_json(data, path, unique_keys)
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} holds a value of type {type(content).__name__}, not an object of token -> id"
        )
    if _loading is not None:
        vocab = _loading.vocab_of_strings(content, byte_of_code(), MAX_ID)
        if vocab is not None:  # else a token is plain text, or something is wrong
            return vocab
    return _vocab_of_strings(content, path)


def _vocab_of_strings(content: dict[str, Any], path: Path) -> dict[int, bytes]:
    """Return id -> token for string -> id, after checking every item."""
    vocab: dict[int, bytes] = {}
    tokens = strings_to_tokens(list(content))
    for (string, token_id), token in zip(content.items(), tokens, strict=True):
        if type(token_id) is not int:
            raise ValueError(
                f"{path}: the id of {short_repr(string)} is {short_repr(token_id)}, not an integer"
            )
        if not 0 <= token_id <= MAX_ID:
            raise ValueError(f"{path}: {explain_bad_id(token_id, string)}")
        if token is None:
            try:
                token = string.encode("utf-8")
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"{path}: the key {short_repr(string)} is not valid Unicode"
                ) from error
        if token_id in vocab:
            raise ValueError(
                f"{path}: {short_repr(vocab[token_id])} and {short_repr(token)} have the same id "
                f"{short_repr(token_id)}"
            )
        vocab[token_id] = token
    return vocab


# --------------------------------------------------------------------- merges.txt


def save_merges(merges: Iterable[Pair], path: str | os.PathLike[str]) -> None:
    """Write merges as merges.txt, atomically: the line `#version: 0.2`, then `A B` on each line.

    Raises:
        ValueError: a merge with an empty token, which the file cannot represent.
    """
    content = merges_as_text(merges)
    with atomic_writer(path, "w") as file:
        file.write(content)


def merges_as_text(merges: Iterable[Pair]) -> str:
    """Return the content of merges.txt."""
    # The version line is always written: without it, a first merge of a token `#version:` would be
    # read as one.
    lines = [VERSION_LINE]
    for rank, (left, right) in enumerate(merges):
        if not left or not right:
            raise ValueError(
                f"merge {rank} ({short_repr(left)}, {short_repr(right)}) has an empty token"
            )
        lines.append(f"{token_to_string(left)} {token_to_string(right)}")
    return "\n".join(lines) + "\n"


def load_merges(path: str | os.PathLike[str]) -> list[Pair]:
    """Read merges: merges.txt, or a pickled list of byte pairs if the name ends in .pkl.

    The first line may be `#version: ...`; any other line that begins so is a merge. Line ends
    may be LF or CRLF, and the file may end with empty lines.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file does not hold merges; names the file and the line or item.
    """
    path = Path(path)
    with opened(path) as file:
        return _parse_merges(file.read(), path)


def _parse_merges(data: bytes, path: Path) -> list[Pair]:
    """Return the merges that a file with this content and name holds."""
    if path.suffix in _PICKLE_SUFFIXES:
        return load_pickled_merges(data, path)
    text = decoded(data, path)
    if _loading is not None:
        merges = _loading.merges_of_text(text, byte_of_code())
        if merges is not None:
            return merges
    return _merges_of_text(text, path)


def _merges_of_text(text: str, path: Path) -> list[Pair]:
    """Return the merges in the content of merges.txt, after checking every line."""
    # Not `splitlines`, which breaks lines at more than line feeds. A carriage return never occurs
    # in the string of a token, so removing it is safe.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    first = 1 if lines and lines[0].startswith("#version:") else 0
    halves = [line.partition(" ") for line in lines[first:]]
    strings = list(dict.fromkeys(string for half in halves for string in half[::2]))
    tokens = dict(zip(strings, strings_to_tokens(strings), strict=True))
    if all(tokens.values()):  # an empty token or a second space is false, or None
        return [(tokens[left], tokens[right]) for left, _, right in halves]  # type: ignore[misc]
    merges: list[Pair] = []
    for number, line in enumerate(lines[first:], start=first + 1):
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise ValueError(
                f"{path}, line {number}: {short_repr(line)} is not a merge, two tokens with one "
                "space between"
            )
        try:
            merges.append((string_to_token(pair[0]), string_to_token(pair[1])))
        except KeyError as error:
            raise ValueError(
                f"{path}, line {number}: {short_repr(line)} holds the character "
                f"{error.args[0]!r}, which represents no byte in GPT-2's alphabet"
            ) from None
    return merges


def load_pair(
    vocab_path: str | os.PathLike[str], merges_path: str | os.PathLike[str]
) -> tuple[dict[int, bytes], list[Pair]]:
    """Read a vocabulary and its merges; two files of one directory belong to the same tokenizer.

    Raises:
        FileNotFoundError, ValueError: see `load_vocab` and `load_merges`.
    """
    vocab_path, merges_path = Path(vocab_path), Path(merges_path)
    if vocab_path.parent == merges_path.parent:
        with opened_together(vocab_path.parent, [vocab_path.name, merges_path.name]) as files:
            contents = {name: file.read() for name, file in files.items()}
        if len(contents) == 2:
            return (
                _parse_vocab(contents[vocab_path.name], vocab_path),
                _parse_merges(contents[merges_path.name], merges_path),
            )
    return load_vocab(vocab_path), load_merges(merges_path)


# --------------------------------------------------------------------- tokenizer directories


def tokenizer_hash(
    vocab: Mapping[int, bytes],
    merges: Iterable[Pair],
    special_tokens: Iterable[str],
    pattern: str,
    ignore_merges: bool = False,
) -> str:
    """Return the SHA-256, 64 hexadecimal digits, of everything that determines the ids of a text.

    It depends neither on the order of `vocab` and of the special tokens, nor on whether the pattern
    is given by its name.
    """
    return _hash(vocab, merges, special_tokens, resolve_pattern(pattern), ignore_merges)


def _hash(
    vocab: Mapping[int, bytes],
    merges: Iterable[Pair],
    special_tokens: Iterable[str],
    expression: str,
    ignore_merges: bool,
) -> str:
    ids = sorted(vocab)
    digest = hashlib.sha256(f"pattern {expression!r}\n".encode())
    digest.update(_fastest_hash_lines(ids, [vocab[token_id] for token_id in ids], list(merges)))
    for token in sorted(token.encode() for token in special_tokens):
        digest.update(f"special {token.hex()}\n".encode())
    if ignore_merges:
        digest.update(b"ignore_merges\n")
    return digest.hexdigest()


def hash_lines(ids: Sequence[int], tokens: Sequence[bytes], merges: Sequence[Pair]) -> bytes:
    """Return the lines that `tokenizer_hash` has for tokens and merges."""
    lines = [f"token {i} {token.hex()}\n" for i, token in zip(ids, tokens, strict=True)]
    lines += [f"merge {left.hex()} {right.hex()}\n" for left, right in merges]
    return "".join(lines).encode()


# In Python the lines take ten times as long as hashing them: most of loading a tokenizer.
_fastest_hash_lines = hash_lines if _loading is None else _loading.hash_lines


def save_tokenizer(
    directory: str | os.PathLike[str],
    vocab: Mapping[int, bytes],
    merges: Sequence[Pair],
    special_tokens: Sequence[str],
    pattern: str = "gpt2",
    ignore_merges: bool = False,
    **extra_metadata: Any,
) -> None:
    """Write a tokenizer directory: vocab.json, merges.txt and metadata.json, all of them or none.

    Args:
        directory: created if it is missing; files of the same names in it are replaced.
        vocab: id -> token, special tokens included.
        merges: in the order in which they were learned.
        special_tokens: which of the tokens are special.
        pattern: the split pattern, a name in PATTERNS or a regular expression.
        ignore_merges: see `Tokenizer`.
        extra_metadata: further items to record, for example the corpus and its hash.

    Raises:
        ValueError: a special token is not in the vocabulary; see also `save_vocab`, `save_merges`.
    """
    tokens = set(vocab.values())
    for token in special_tokens:
        if token.encode() not in tokens:
            raise ValueError(
                f"special token {short_repr(token)} is not in the vocabulary: add it first"
            )
    metadata = {
        "pattern": pattern_name(pattern) or pattern,
        "pattern_regex": resolve_pattern(pattern),
        "special_tokens": list(special_tokens),
        "ignore_merges": ignore_merges,
        "vocab_size": max(vocab, default=-1) + 1,
        "num_merges": len(merges),
        "tokenizer_hash": tokenizer_hash(vocab, merges, special_tokens, pattern, ignore_merges),
        "library_version": cs336_basics.__version__,
        # Its Unicode tables determine which characters are letters for the pattern.
        "regex_version": regex.__version__,
    }
    if repeated := metadata.keys() & extra_metadata.keys():
        raise ValueError(f"extra metadata {sorted(repeated)} would replace what is recorded anyway")
    contents = {
        VOCAB_FILE: _vocab_as_text(vocab),
        MERGES_FILE: merges_as_text(merges),
        # The last one, see `Change.open`.
        METADATA_FILE: json.dumps({**metadata, **extra_metadata}, ensure_ascii=False, indent=2)
        + "\n",
    }
    with changing_together(directory) as change:
        for name, content in contents.items():
            change.write(name, content)


def files_of_tokenizer(directory: str | os.PathLike[str]) -> list[str]:
    """Return the paths of the files of a tokenizer directory."""
    return [os.path.join(directory, name) for name in (VOCAB_FILE, MERGES_FILE, METADATA_FILE)]


def load_tokenizer(directory: str | os.PathLike[str]) -> tuple[TokenizerParts, str]:
    """Read a tokenizer directory: what it says of the tokenizer, and its hash, which is checked.

    Raises:
        FileNotFoundError: the directory or one of its files is missing; says how to make it.
        ValueError: a file is malformed, or the three do not belong together; it is no directory.
    """
    directory = Path(directory)
    contents = _read_files(directory)
    vocab = _parse_vocab(contents[VOCAB_FILE], directory / VOCAB_FILE)
    merges = _parse_merges(contents[MERGES_FILE], directory / MERGES_FILE)
    path = directory / METADATA_FILE
    metadata = parse_json(contents[METADATA_FILE], path)
    if not isinstance(metadata, dict):
        raise ValueError(f"{path} holds a value of type {type(metadata).__name__}, not an object")
    pattern, special_tokens = metadata.get("pattern"), metadata.get("special_tokens")
    if not isinstance(pattern, str):
        raise ValueError(f"{path}: 'pattern' is {short_repr(pattern)}, not a string")
    if not isinstance(special_tokens, list) or not all(isinstance(t, str) for t in special_tokens):
        raise ValueError(
            f"{path}: 'special_tokens' is {short_repr(special_tokens)}, not a list of strings"
        )
    ignore_merges = metadata.get("ignore_merges", False)  # (older versions do not write it)
    if not isinstance(ignore_merges, bool):
        raise ValueError(
            f"{path}: 'ignore_merges' is {short_repr(ignore_merges)}, neither true nor false"
        )
    # The hash first: compiling the pattern of a damaged file could take any time.
    expression = PATTERNS.get(pattern, pattern)
    saved_expression = metadata.get("pattern_regex")
    if expression != saved_expression:
        raise ValueError(
            f"{path}: the pattern {short_repr(pattern)} was {short_repr(saved_expression)} when "
            f"the tokenizer was saved and is {short_repr(expression)} in this version of the "
            "library. To keep the saved one, set 'pattern' to it"
        )
    expected = metadata.get("tokenizer_hash")
    try:
        found = _hash(vocab, merges, special_tokens, expression, ignore_merges)
    except UnicodeEncodeError:
        raise ValueError(f"{path}: a special token or the pattern is not valid Unicode") from None
    if found != expected:
        raise ValueError(
            f"{directory}: the files do not belong together, or one was edited: {METADATA_FILE} "
            f"has tokenizer_hash {short_repr(expected)}, the files give {found}. If the edit is "
            "intended, set 'tokenizer_hash' to the latter"
        )
    resolve_pattern(pattern)
    return TokenizerParts(vocab, merges, special_tokens, pattern, ignore_merges), found


def _how_to_make(directory: Path) -> str:
    """Return the sentence that says how a directory becomes a tokenizer directory."""
    sentence = (
        "Make one with `python -m cs336_basics train-bpe --input FILE --vocab-size N "
        f"--output {shlex.quote(str(directory))}`"
    )
    run_tokenizer = directory / "tokenizer"
    if (run_tokenizer / METADATA_FILE).exists():
        return f"{directory} is a training run: name its tokenizer, {run_tokenizer}"
    vocab_file, merges_file = directory / VOCAB_FILE, directory / MERGES_FILE
    if (directory / "tokenizer.json").exists():
        read = f"tokenizer.json with Tokenizer.from_huggingface({str(directory)!r})"
    elif vocab_file.exists() and merges_file.exists():
        read = f"GPT-2's files with Tokenizer.from_gpt2({str(vocab_file)!r}, {str(merges_file)!r})"
    else:
        return sentence
    return f"{sentence}, or read {read} and write one with `save`"


def _read_files(directory: Path) -> dict[str, bytes]:
    """Return the content of each file of a tokenizer directory."""
    names = (METADATA_FILE, VOCAB_FILE, MERGES_FILE)
    if directory.is_file():
        raise ValueError(f"{directory} is a file: name the directory that holds {METADATA_FILE}")
    with opened_together(directory, names) as files:
        absent = [directory / name for name in names if name not in files]
        if absent:
            missing = absent[0] if directory.exists() else directory
            raise FileNotFoundError(
                f"{missing} does not exist: a tokenizer directory holds {VOCAB_FILE}, "
                f"{MERGES_FILE} and {METADATA_FILE}. {_how_to_make(directory)}"
            )
        return {name: file.read() for name, file in files.items()}
