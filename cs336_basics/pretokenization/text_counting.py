"""Counts texts one after the other: texts in memory, and the texts of a chunk of a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from cs336_basics.pretokenization.corpus import Chunk, check_errors
from cs336_basics.pretokenization.readers import texts_of_chunk
from cs336_basics.pretokenization.splitter import Splitter
from cs336_basics.pretokenization.utf8_errors import invalid_utf8_error
from cs336_basics.pretokenization.word_counts import WordCounts


def count_texts(
    texts: Iterable[str | bytes], splitter: Splitter | None = None, *, errors: str = "replace"
) -> Mapping[bytes, int]:
    """Count the pre-tokens of texts in memory, such as the rows of a dataset.

    Each text is a separate document: no word spans two of them. They are read one by one, so
    `texts` can be a generator over more than memory holds.

    Args:
        texts: strings, or UTF-8 bytes.
        splitter: how they are split; None: `Splitter()`.
        errors: how bytes that are not UTF-8 are treated; see `Corpus`.

    Raises:
        TypeError: a single str or bytes instead of several, or an item that is neither.
        ValueError: (`"strict"`) text that is not UTF-8, with its index.
    """
    if isinstance(texts, (str, bytes)):
        raise TypeError("texts is a single text: pass a list of texts, [text]")
    check_errors(errors)
    counter = text_counter(Splitter.of(splitter), errors)
    for index, text in enumerate(texts):
        try:
            counter.count(to_utf8(text, errors))
        except TypeError:
            raise TypeError(
                f"text {index:,} is a {type(text).__name__}, not str or bytes"
            ) from None
        except ValueError as error:
            raise ValueError(f"text {index:,}: {error}") from None
    return counter.counts()


def count_chunk(chunk: Chunk, splitter: Splitter) -> tuple[Mapping[bytes, int], int]:
    """Return the counts of a chunk, and its `num_bytes`.

    Raises:
        ValueError: a truncated or damaged file, a line that is not JSON, a row without the field,
            (`"strict"`) text that is not UTF-8; the message names the file and where in it.
        FileNotFoundError, OSError: the file vanished or cannot be read.
    """
    counter = text_counter(splitter, chunk.errors)
    for location, text, _ in texts_of_chunk(chunk, splitter.safe_cuts):
        try:
            counter.count(to_utf8(text, chunk.errors))
        except ValueError as error:
            if isinstance(location, int):
                location = f"the text from byte {location:,} on"
            raise ValueError(f"{chunk.path}, {location}: {error}") from None
    return counter.counts(), chunk.num_bytes


def count_text(text: str, splitter: Splitter | None = None) -> Counter[bytes]:
    """Count the pre-tokens of a text in memory, one after the other in Python."""
    counts = Counter(Splitter.of(splitter).split(text))
    return Counter({word.encode(): count for word, count in counts.items() if word})


def to_utf8(text: str | bytes, errors: str) -> bytes:
    """Return a text as UTF-8. Bytes are returned as they are, for the counter to check.

    Raises:
        TypeError: neither str nor bytes.
        ValueError: (`"strict"`) a lone surrogate, which UTF-8 cannot encode, with its index.
    """
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is a {type(text).__name__}, not str or bytes")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        if errors == "strict":
            raise ValueError(
                f"the lone surrogate U+{ord(text[error.start]):04X} at character "
                f"{error.start:,} has no UTF-8"
            ) from None
        # UTF-16 holds surrogates; decoding replaces lone ones.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class TextCounting(Protocol):
    """An object that counts texts one after the other."""

    def count(self, text: bytes, /) -> None:
        """Count the pre-tokens of a complete text."""

    def counts(self) -> Mapping[bytes, int]:
        """Return the counts of all texts so far."""


def text_counter(splitter: Splitter, errors: str) -> TextCounting:
    """Return the compiled counter if it is built and knows the pattern, else the readable one."""
    if splitter.has_scanner:
        return _NativeCounter(splitter, errors)
    return _PythonCounter(splitter, errors)


class _NativeCounter:
    def __init__(self, splitter: Splitter, errors: str) -> None:
        from cs336_basics.pretokenization._counting import TextCounter

        self._counter = TextCounter(splitter.special_tokens, splitter.pattern, errors)
        self._splitter = splitter

    def count(self, text: bytes, /) -> None:
        self._counter.count(text)

    def counts(self) -> WordCounts:
        splitter = self._splitter
        return WordCounts(*self._counter.result(), splitter.pattern, splitter.special_tokens)


class _PythonCounter:
    def __init__(self, splitter: Splitter, errors: str) -> None:
        self._splitter = splitter
        self._errors = errors
        self._counts: Counter[str] = Counter()

    def count(self, text: bytes, /) -> None:
        try:
            decoded = text.decode("utf-8", self._errors)
        except UnicodeDecodeError as error:
            raise invalid_utf8_error(None, text[error.start], error.start) from None
        self._counts.update(self._splitter.split(decoded))

    def counts(self) -> Counter[bytes]:
        return Counter({word.encode(): count for word, count in self._counts.items() if word})
