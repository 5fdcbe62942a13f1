"""Tokens as strings in GPT-2's byte alphabet (`byte_alphabet.py`).

They represent ordinary tokens in GPT-2's `vocab.json` and `merges.txt`, in Hugging Face's
`tokenizer.json` and in GGUF files. Special tokens are plain text.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cs336_basics._support.byte_alphabet import byte_to_character, character_to_byte
from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.vocabularies import MAX_ID, explain_bad_id
from cs336_basics.text.utf8 import UTF8_BYTES, is_valid_utf8
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.words import Pair

try:
    from cs336_basics.formats import _byte_strings
except ImportError:  # the extension is not built
    _byte_strings = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from cs336_basics.formats._byte_strings import TokenizerFile

NO_BYTE = 0x100


def token_to_string(token: bytes) -> str:
    """Return the printable string that represents a token."""
    return token.decode("latin-1").translate(byte_to_character())


def string_to_token(string: str) -> bytes:
    """Return the token that a string represents. This is the inverse of `token_to_string`.

    Raises:
        KeyError: If a character does not represent a byte.
    """
    to_byte = character_to_byte()
    return bytes([to_byte[character] for character in string])


def strings_to_tokens(strings: list[str]) -> list[bytes | None]:
    """Return the token of each string, or None if a character does not represent a byte."""
    known = character_to_byte().keys()
    return (
        [string_to_token(string) if known >= set(string) else None for string in strings]
        if _byte_strings is None
        else _byte_strings.strings_to_tokens(strings, byte_of_code())
    )


@functools.cache
def byte_of_code() -> array[int]:
    """Return an array of 325 uint16 with the byte for each code point, or NO_BYTE.

    The last item applies to all higher code points as well.
    """
    table = array("H", [NO_BYTE]) * (NO_BYTE + 69)
    for character, byte in character_to_byte().items():
        table[ord(character)] = byte
    return table


# --------------------------------------------------------------------- reading


def read_vocabulary(content: bytes) -> TokenizerFile | None:
    """Read the vocabulary and the merges of a `tokenizer.json` in its usual form.

    Returns None if the extension is not built, or the file is unusual or invalid.
    """
    if _byte_strings is None or not is_valid_utf8(content):
        return None
    return _byte_strings.TokenizerFile.read(content, byte_of_code())


def vocab_of_strings(strings: Mapping[str, Any], *, plain_text: bool = False) -> dict[int, bytes]:
    """Convert a vocabulary from a JSON file (string -> id) to a mapping of id -> token.

    Args:
        strings: Mapping of string -> id, unchecked.
        plain_text: Whether to read a string with a character outside the alphabet as plain text. If
            False, such a string is an error.

    Raises:
        ValueError: If a string is invalid, or an id is not an integer, is out of range or occurs
            twice.
    """
    tokens, ids = strings_to_tokens(list(strings)), list(strings.values())
    # Check all items at once. If that fails, the loop below finds the invalid item for the message.
    in_range = set(map(type, ids)) <= {int} and (not ids or (min(ids) >= 0 and max(ids) <= MAX_ID))
    if in_range and None not in tokens:
        vocab = dict(zip(ids, tokens, strict=True))
        if len(vocab) == len(ids):
            return vocab
    vocab = {}
    for (string, token_id), token in zip(strings.items(), tokens, strict=True):
        if token is None and not plain_text:
            raise InputError(
                f"token {short_repr(string)} has a character outside GPT-2's byte alphabet"
            )
        add_token(vocab, token_id, string.encode() if token is None else token)
    return vocab


def add_token(vocab: dict[int, bytes], token_id: Any, token: bytes) -> None:
    """Add a token from a file to a vocabulary.

    Raises:
        ValueError: If the id is not an integer, is out of range, or belongs to another token.
    """
    if type(token_id) is not int:
        raise InputError(
            f"the id of {short_repr(token)} must be an integer, got {short_repr(token_id)}"
        )
    if not 0 <= token_id <= MAX_ID:
        raise InputError(explain_bad_id(token_id, token), argument="vocab")
    if token_id in vocab:
        raise InputError(
            f"{short_repr(vocab[token_id])} and {short_repr(token)} have the same id {token_id}"
        )
    vocab[token_id] = token


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the garbage collector.

    Otherwise, garbage collection would take a quarter of the time needed to load GPT-2's
    vocabulary.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def merges_of_strings(pairs: list[Any], place: Callable[[int], str]) -> list[Pair]:
    """Return the merges in a file, each stored as two strings or as a string with one space.

    Args:
        pairs: Merges from the file, unchecked.
        place: Function from a merge's index to its name in error messages.

    Raises:
        ValueError: If a merge has a different form, or a string does not represent bytes.
    """
    if _byte_strings is not None:
        found: list[Pair] | None = _byte_strings.merges_of_strings(pairs, byte_of_code())
        if found is not None:  # otherwise, find the invalid merge for the message
            return found
    return [_merge_of_strings(pair, index, place) for index, pair in enumerate(pairs)]


def merges_of_lines(text: str, place: Callable[[int], str]) -> list[Pair]:
    """Return the merges in text with one merge per line; see `merges_of_strings`."""
    if _byte_strings is not None and text:
        found: list[Pair] | None = _byte_strings.merges_of_lines(text, byte_of_code())
        if found is not None:
            return found
    return merges_of_strings(text.split("\n") if text else [], place)


def _merge_of_strings(pair: Any, index: int, place: Callable[[int], str]) -> Pair:
    strings = pair.split(" ") if type(pair) is str else pair
    try:
        left, right = map(string_to_token, strings if type(strings) is list else ())
        if left and right:
            return left, right
    except (KeyError, TypeError, ValueError):  # unknown character, not a string, or not two strings
        pass
    raise InputError(
        f"must be two tokens in GPT-2's byte alphabet, got {short_repr(pair)}", place=place(index)
    )


# --------------------------------------------------------------------- writing


def strings_of_vocab(definition: TokenizerDefinition) -> dict[str, int]:
    """Return the vocabulary as a mapping of string -> id.

    Added tokens are plain text. All other tokens use the alphabet.

    Raises:
        ValueError: If other libraries would give different ids or text, because a byte is missing,
            or because an added token would be decoded to different text, is written like an
            ordinary token, or has the id of a single byte or of a part of a merge.
    """
    check_has_bytes_of_text(set(definition.vocab.values()))
    texts = {token_id: text for text, token_id in definition.added_ids.items()}
    merged = {token for pair in definition.merges for token in (*pair, b"".join(pair))}
    strings: dict[str, int] = {}
    for token_id, token in sorted(definition.vocab.items()):
        as_bytes = token_to_string(token)
        string = texts.get(token_id, as_bytes)
        if string != as_bytes:
            reason = ""
            # An added token may also have another id than the ordinary token with the same bytes.
            is_ordinary = definition.token_ids.get(token) == token_id
            if is_ordinary and (token in merged or len(token) == 1):
                reason = "it is also an ordinary token, which is written differently"
            elif strings_to_tokens([string]) != [None]:
                reason = "it would be decoded to other bytes"
            if reason:
                raise InputError(f"added token {short_repr(string)} cannot be exported: {reason}")
        if string in strings:
            raise InputError(
                f"ids {strings[string]} and {token_id} are both written as {short_repr(string)}; "
                "an added token must not look like an ordinary token in GPT-2's byte alphabet"
            )
        strings[string] = token_id
    return strings


def check_has_bytes_of_text(tokens: Collection[bytes]) -> None:
    """Raise ValueError unless a vocabulary has a token for every byte of UTF-8."""
    _check_has_bytes(tokens, UTF8_BYTES)


def check_has_all_bytes(tokens: Collection[bytes]) -> None:
    """Raise ValueError unless a vocabulary has a token for every byte."""
    _check_has_bytes(tokens, range(256))


def _check_has_bytes(tokens: Collection[bytes], needed: Iterable[int]) -> None:
    for byte in sorted(needed):
        if bytes([byte]) not in tokens:
            raise InputError(
                f"there is no token for byte {byte:#04x}; only vocabularies with all bytes can be "
                "exported or read as ranks"
            )
