"""Texts as callers pass them: what is accepted, and the errors that name what is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cs336_basics._support.messages import short_repr
from cs336_basics.pretokenization.reading.corpus import check_errors
from cs336_basics.pretokenization.reading.encodings import check_beginning
from cs336_basics.pretokenization.reading.text_changes import TextChanges, replaced_in
from cs336_basics.pretokenization.reading.utf8 import count_invalid, is_valid_utf8, replace_invalid
from cs336_basics.pretokenization.reading.utf8_errors import invalid_utf8_error
from cs336_basics.pretokenization.safe_cuts import SafeCuts
from cs336_basics.pretokenization.splitter import Splitter, check_is_str
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError, Encoder
from cs336_basics.tokenizer.special_tokens import SpecialSets

# encode_iterable holds less than a megabyte: bytes that it reads before it searches for a safe cut,
# characters of a huge chunk that it reads at a time, and bytes of cached words.
READ_AHEAD = 1 << 11
SLICE_SIZE = 1 << 13
ITERABLE_CACHE_SIZE = 448 << 10


def check_is_iterable(name: str, value: object, of: str) -> None:
    """Raise TypeError for an argument that is not several things, or is a single text."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} is the single text {short_repr(value)}: pass a list of {of}")
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} is {short_repr(value)}: pass a list of {of}")


def checked_utf8(data: bytes, errors: str, *, where: str | None = None, start: int = 0) -> bytes:
    """Return bytes that are valid UTF-8.

    Args:
        data: any bytes.
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD, `"strict"` refuses them.
        where: the name of the text, for the message.
        start: offset of `data` in that text.

    Raises:
        ValueError: (`"strict"`) a byte that is not UTF-8, with its offset; `errors` is unknown.
    """
    check_errors(errors)
    if is_valid_utf8(data):
        return data
    if start == 0:
        check_beginning(data, where or "the text")
    if errors == "strict":
        _, _, offset = count_invalid(data)
        raise invalid_utf8_error(where, data[offset], start + offset)
    return replace_invalid(data)


def replaced_utf8(data: bytes, errors: str) -> bytes:
    """Return an argument as valid UTF-8, as `checked_utf8`; warn of changes."""
    valid = checked_utf8(data, errors)
    if valid is not data:
        changes = TextChanges(len(data))
        changes.add_replaced("", replaced_in(data))
        changes.warn("", "encoded")
    return valid


def explained(
    error: UnicodeEncodeError | AbsentByteError, text: str | bytes, start: int = 0
) -> ValueError:
    """Return the error of an encoder as one that names the character and its position.

    Args:
        error: what an encoder raised.
        text: the text that it encoded.
        start: position of `text` in the whole text, in characters.
    """
    if isinstance(error, UnicodeEncodeError):
        surrogate = ord(error.object[error.start])
        return ValueError(
            f"the text holds the lone surrogate U+{surrogate:04X} at character "
            f"{start + error.start:,}: it is not a character and has no UTF-8"
        )
    data = text if isinstance(text, bytes) else text.encode()
    before = data[: error.offset].decode(errors="ignore")  # without an incomplete character
    character = data[len(before.encode()) :][:4].decode(errors="ignore")[0]
    return ValueError(
        f"the vocabulary has no token for the byte {error.byte:#04x} of {character!r} at character "
        f"{start + len(before):,} of the text: add it to the vocabulary, or remove the character"
    )


def absent_in_word(error: AbsentByteError, word: str | bytes) -> ValueError:
    """Return the error of an encoder as one that names the word of a list of words."""
    return ValueError(
        f"word {short_repr(word)} needs the byte {error.byte:#04x}, which the vocabulary lacks"
    )


def encode_chunks(
    encoder: Encoder,
    splitter: Splitter,
    chunks: Iterable[str],
    special: SpecialSets,
    cache_size: int,
) -> Iterator[int]:
    """Yield the ids of a text in chunks; see `Tokenizer.encode_iterable`."""
    encoder = encoder.with_own_cache(min(cache_size, ITERABLE_CACHE_SIZE))
    start = 0
    for text in independent_texts(chunks, special.splitter(splitter)):
        special.check(text, start)
        try:
            ids = encoder.encode(text, special.allowed)
        except AbsentByteError as error:
            raise explained(error, text, start) from None
        yield from ids
        start += len(text)


def independent_texts(chunks: Iterable[str], splitter: Splitter) -> Iterator[str]:
    """Regroup the chunks of a text so that each can be encoded by itself, with the same ids.

    Raises:
        TypeError: a chunk is not a str.
        ValueError: a lone surrogate, with its position in the whole text.
    """
    buffer = SafeCutBuffer(splitter.safe_cuts, READ_AHEAD)
    num_characters = 0
    for chunk in chunks:
        check_is_str(chunk)
        # A huge chunk is read in slices, so that the buffer stays small.
        for start in range(0, len(chunk), SLICE_SIZE):
            part = chunk[start : start + SLICE_SIZE]
            try:
                data = part.encode()
            except UnicodeEncodeError as error:
                raise explained(error, part, num_characters) from None
            num_characters += len(part)
            if independent := buffer.add(data):
                yield independent.decode()
    yield buffer.rest().decode()


class SafeCutBuffer:
    """The end of a text that cannot be split yet, because what follows is unknown.

    Args:
        cuts: finds where the text can be cut.
        read_ahead: bytes that are added before a cut is searched for.
    """

    def __init__(self, cuts: SafeCuts, read_ahead: int = 0) -> None:
        self._cuts = cuts
        self._read_ahead = read_ahead
        self._waiting = bytearray()
        self._searched = 0  # waiting[:searched] holds no safe cut

    def add(self, data: bytes) -> bytes:
        """Add bytes; return those that can be split by themselves, b"" if there are none."""
        waiting, margin = self._waiting, self._cuts.margin
        waiting += data
        if len(waiting) - self._searched < self._read_ahead + margin:
            return b""
        # Only the new bytes are searched: a text without a cut must not take n^2 time.
        origin = max(0, self._searched - margin)
        cut = self._cuts.last(bytes(waiting[origin:]), self._searched - origin)
        independent = b""
        if cut is not None:
            independent = bytes(waiting[: origin + cut])
            del waiting[: origin + cut]
        self._searched = max(0, len(waiting) - margin)
        return independent

    def rest(self) -> bytes:
        """Return the bytes that wait, where the text ends."""
        return bytes(self._waiting)
