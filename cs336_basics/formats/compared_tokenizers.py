"""Tokenizers from several libraries behind one interface, for comparisons.

| name | library |
|---|---|
| a directory with `tokenizer.json`, written by `save` | this library |
| a `tokenizer.json` file | Hugging Face's tokenizers |
| a directory with `ranks.tiktoken`, written by `export --to tiktoken` | tiktoken |
| an encoding, such as `gpt2` | tiktoken |

All of them encode special tokens as ordinary text, except Hugging Face's tokenizers, which cannot
do so.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cs336_basics
from cs336_basics._support.byte_alphabet import character_to_byte
from cs336_basics._support.errors import InputError, MissingFileError
from cs336_basics._support.lazy import needed_for
from cs336_basics._support.messages import short_repr
from cs336_basics.formats.byte_strings import string_to_token
from cs336_basics.formats.library_errors import library_errors
from cs336_basics.formats.tiktoken.loading import RANKS_FILE, registered_encoding
from cs336_basics.formats.tiktoken.ranks import exported_encoding
from cs336_basics.tokenizer import Tokenizer


@dataclass(frozen=True)
class Coder:
    """Functions that convert text to ids and back, with empty caches."""

    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]


@dataclass(frozen=True)
class ComparedTokenizer:
    """A tokenizer in a comparison.

    Attributes:
        name: Name given by the user.
        library: Name and version of the library that encodes.
        vocab: Mapping of id -> token, including special tokens.
        special: Ids of the special tokens.
        make: Function that returns a Coder with its own empty caches.
        is_ours: Whether this library encodes, so that an unexpected error is a bug.
        tokenizer: The tokenizer, if it is this library's.
    """

    name: str
    library: str
    vocab: dict[int, bytes]
    special: frozenset[int]
    make: Callable[[], Coder]
    is_ours: bool = False
    tokenizer: Tokenizer | None = None

    @property
    def tokens(self) -> list[bytes]:
        """Tokens in the order of their ids, without special tokens."""
        return [
            token for token_id, token in sorted(self.vocab.items()) if token_id not in self.special
        ]

    @property
    def num_tokens(self) -> int:
        """Number of tokens, including special tokens."""
        return len(self.vocab)


def open_tokenizer(name: str | os.PathLike[str]) -> ComparedTokenizer:
    """Open a tokenizer by name. See the table at the top of this module.

    Raises:
        FileNotFoundError: If no file, directory or encoding has that name.
        ValueError: If the tokenizer cannot be read.
        ImportError: If its library is not installed.
        OSError: If tiktoken cannot load the encoding, for example without a network.
    """
    path = Path(name)
    if path.is_dir():
        if (path / RANKS_FILE).exists():
            return _tiktoken(os.fspath(name), lambda: _loaded(path, exported_encoding))
        return _ours(path)
    if path.is_file():
        return _huggingface(os.fspath(name), path)
    if not os.fspath(name).isidentifier():
        raise MissingFileError(
            f"{path} does not exist",
            remedy="pass a directory, a tokenizer.json file or a tiktoken encoding",
        )
    return _tiktoken(os.fspath(name), lambda: registered_encoding(os.fspath(name)))


def _ours(path: Path) -> ComparedTokenizer:
    tokenizer = Tokenizer.from_directory(path)

    def make() -> Coder:
        own = copy.copy(tokenizer)
        return Coder(lambda text: own.encode(text, allowed_special=()), own.decode)

    return ComparedTokenizer(
        name=os.fspath(path),
        library=f"cs336_basics {cs336_basics.__version__}",
        vocab=tokenizer.vocab,
        special=tokenizer.definition.ids_of_added,
        make=make,
        is_ours=True,
        tokenizer=tokenizer,
    )


# --------------------------------------------------------------------- tiktoken


def _tiktoken(name: str, load: Callable[[], Any]) -> ComparedTokenizer:
    with needed_for(name, f"tiktoken, or omit {name}"):
        import tiktoken
    encoding = load()
    special = {token: encoding.encode_single_token(token) for token in encoding.special_tokens_set}
    vocab = {encoding.encode_single_token(token): token for token in encoding.token_byte_values()}
    return ComparedTokenizer(
        name=name,
        library=f"tiktoken {tiktoken.__version__}",
        vocab=vocab | {token_id: token.encode() for token, token_id in special.items()},
        special=frozenset(special.values()),
        make=lambda: Coder(encoding.encode_ordinary, encoding.decode),  # no caches to reset
    )


# --------------------------------------------------------------------- Hugging Face


def _huggingface(name: str, path: Path) -> ComparedTokenizer:
    with needed_for(name, f"tokenizers, or omit {name}"):
        import tokenizers

    def load(path: Path) -> Any:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def make() -> Coder:
        own = _loaded(path, load)
        return Coder(
            lambda text: list(own.encode(text, add_special_tokens=False).ids),
            lambda ids: str(own.decode(ids, skip_special_tokens=False)),
        )

    loaded = _loaded(path, load)
    return ComparedTokenizer(
        name=name,
        library=f"tokenizers {tokenizers.__version__}",
        vocab=_vocab_of(loaded),
        special=frozenset(loaded.get_added_tokens_decoder()),
        make=make,
    )


def _vocab_of(tokenizer: Any) -> dict[int, bytes]:
    """Return the tokens of a Hugging Face tokenizer as a mapping of id -> bytes."""
    decoder = json.loads(tokenizer.to_str()).get("decoder") or {}
    added = tokenizer.get_added_tokens_decoder()
    known = set(character_to_byte())
    # A byte-level vocabulary represents each byte as a character.
    in_bytes = "ByteLevel" in json.dumps(decoder)
    return {
        token_id: string_to_token(token)
        if in_bytes and token_id not in added and known.issuperset(token)
        else token.encode()
        for token, token_id in tokenizer.get_vocab(with_added_tokens=True).items()
    }


def _loaded(path: Path, load: Callable[[Path], Any]) -> Any:
    """Load a tokenizer with another library, or raise InputError."""
    with library_errors(f"{short_repr(os.fspath(path))}: not a valid tokenizer", InputError):
        return load(path)
