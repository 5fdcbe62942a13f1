"""Tokenizers of several libraries behind one interface, to be compared.

| what is named | is read by |
|---|---|
| a directory with `tokenizer.json`, as `save` writes it | this library |
| the file `tokenizer.json` itself | Hugging Face's tokenizers |
| a directory with `ranks.tiktoken`, as `export --to tiktoken` writes it | tiktoken |
| the name of an encoding, such as `gpt2` | tiktoken |

All read special tokens in a text as ordinary text, except Hugging Face's, which cannot.
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
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.reading import read_json_object
from cs336_basics.formats.byte_strings import character_to_byte, string_to_token
from cs336_basics.formats.tiktoken.ranks import (
    ENCODING_FILE,
    RANKS_FILE,
    load_ranks,
    registered_encoding,
)
from cs336_basics.tokenizer import Tokenizer

_MAX_SETTINGS = 1 << 24  # bytes


@dataclass(frozen=True)
class Coder:
    """A tokenizer with empty caches: text to ids, and back."""

    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]


@dataclass(frozen=True)
class ComparedTokenizer:
    """A tokenizer, as a comparison needs it.

    Attributes:
        name: how it was named.
        library: the library that encodes, with its version.
        tokens: its tokens in the order of their ids, without special tokens.
        num_tokens: their number, special tokens included.
        make: makes a Coder, so that none profits from what another has cached.
    """

    name: str
    library: str
    tokens: list[bytes]
    num_tokens: int
    make: Callable[[], Coder]


def open_tokenizer(name: str | os.PathLike[str]) -> ComparedTokenizer:
    """Return the tokenizer that a name stands for; see the table above.

    Raises:
        FileNotFoundError: there is no such file or directory, and no encoding of that name.
        ValueError: it cannot be read; says why.
        ImportError: the library for it is not installed; names the command that installs it.
        OSError: tiktoken cannot load the encoding, for example without a network.
    """
    path = Path(name)
    if path.is_dir():
        if (path / RANKS_FILE).exists():
            return _tiktoken(os.fspath(name), lambda library: _exported_encoding(library, path))
        return _ours(path)
    if path.is_file():
        return _huggingface(os.fspath(name), path)
    if not os.fspath(name).isidentifier():
        raise FileNotFoundError(f"{path} does not exist")
    return _tiktoken(os.fspath(name), lambda _: registered_encoding(os.fspath(name)))


def _ours(path: Path) -> ComparedTokenizer:
    tokenizer = Tokenizer.from_directory(path)
    special = {token.encode() for token in tokenizer.special_tokens}

    def make() -> Coder:
        own = copy.copy(tokenizer)
        return Coder(lambda text: own.encode(text, allowed_special=()), own.decode)

    return ComparedTokenizer(
        name=os.fspath(path),
        library=f"cs336_basics {cs336_basics.__version__}",
        tokens=[token for _, token in sorted(tokenizer.vocab.items()) if token not in special],
        num_tokens=len(tokenizer),
        make=make,
    )


# --------------------------------------------------------------------- tiktoken


def _tiktoken(name: str, load: Callable[[Any], Any]) -> ComparedTokenizer:
    """Return an encoding of tiktoken, which `load` makes of the module."""
    try:
        import tiktoken
    except ImportError:
        raise ImportError(
            f"{name} is read by tiktoken, which is not installed: pip install tiktoken, or leave "
            "it out"
        ) from None
    encoding = load(tiktoken)
    tokens = sorted(encoding.token_byte_values(), key=encoding.encode_single_token)
    return ComparedTokenizer(
        name=name,
        library=f"tiktoken {tiktoken.__version__}",
        tokens=tokens,
        num_tokens=len(tokens) + len(encoding.special_tokens_set),
        make=lambda: Coder(encoding.encode_ordinary, encoding.decode),  # it has no cache
    )


def _exported_encoding(tiktoken: Any, path: Path) -> Any:
    ranks = load_ranks(path / RANKS_FILE)
    settings = read_json_object(path / ENCODING_FILE, _MAX_SETTINGS)
    return _guarded(path, lambda: tiktoken.Encoding(**{**settings, "mergeable_ranks": ranks}))


# --------------------------------------------------------------------- Hugging Face


def _huggingface(name: str, path: Path) -> ComparedTokenizer:
    try:
        import tokenizers
    except ImportError:
        raise ImportError(
            f"{name} is read by Hugging Face's tokenizers, which is not installed: pip install "
            "tokenizers, or leave it out"
        ) from None

    def load() -> Any:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def make() -> Coder:
        own = _guarded(path, load)
        return Coder(
            lambda text: list(own.encode(text, add_special_tokens=False).ids),
            lambda ids: str(own.decode(ids, skip_special_tokens=False)),
        )

    loaded = _guarded(path, load)
    return ComparedTokenizer(
        name=name,
        library=f"tokenizers {tokenizers.__version__}",
        tokens=_tokens_of(loaded),
        num_tokens=loaded.get_vocab_size(with_added_tokens=True),
        make=make,
    )


def _tokens_of(tokenizer: Any) -> list[bytes]:
    """Return the tokens of a tokenizer of Hugging Face, without the special ones."""
    decoder = json.loads(tokenizer.to_str()).get("decoder") or {}
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    vocab = tokenizer.get_vocab(with_added_tokens=False)
    known = set(character_to_byte())
    # A byte-level vocabulary writes each byte as a character.
    in_bytes = "ByteLevel" in json.dumps(decoder)
    return [
        string_to_token(token) if in_bytes and known.issuperset(token) else token.encode()
        for token in sorted(vocab, key=vocab.__getitem__)
        if token not in special
    ]


def _guarded(path: Path, load: Callable[[], Any]) -> Any:
    """Return what `load` makes of a file; what another library raises becomes a ValueError."""
    try:
        return load()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a Rust panic is not an Exception
        raise ValueError(
            f"{short_repr(os.fspath(path))} cannot be read as a tokenizer: {short_reason(error)}"
        ) from error
