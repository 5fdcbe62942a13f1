"""Counts texts one after the other: texts in memory, and the texts of a chunk of a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cs336_basics._support.messages import short_repr
from cs336_basics.pretokenization.counting.word_counts import WordCounts
from cs336_basics.pretokenization.reading.corpus import Chunk, check_errors
from cs336_basics.pretokenization.reading.encodings import check_beginning
from cs336_basics.pretokenization.reading.readers import texts_of_chunk
from cs336_basics.pretokenization.reading.rows import texts_of_rows
from cs336_basics.pretokenization.reading.text_changes import Replaced, TextChanges, replaced_in
from cs336_basics.pretokenization.reading.utf8_errors import checked_utf8, invalid_utf8_error
from cs336_basics.pretokenization.splitter import (
    Splitter,
    check_is_str,
    pretokenize,
    search_pretokens,
)

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


def count_texts(
    texts: Any,
    splitter: Splitter | None = None,
    *,
    errors: str = "replace",
    field: str | None = None,
) -> Mapping[bytes, int]:
    """Count the pre-tokens of texts in memory, such as the rows of a dataset.

    Each text is a separate document: no word spans two of them. They are read one by one, so
    `texts` can be a generator over more than memory holds.

    Args:
        texts: strings, or UTF-8 bytes; or, with `field`, rows: dicts, a dataset of Hugging Face's
            library, an Arrow table or stream; see `texts_of_rows`.
        splitter: how they are split; None: `Splitter()`.
        errors: how bytes that are not UTF-8 are treated; see `Corpus`.
        field: the field or column of the rows that has the text.

    Raises:
        TypeError: a single str or bytes instead of several, or an item that is neither.
        ValueError: (`"strict"`) text that is not UTF-8, with its index; a text that begins as
            UTF-16 or UTF-32 does; rows lack the field.
    """
    found = texts_of_rows(texts, field)
    check_errors(errors)
    splitter = Splitter.of(splitter)
    counter = text_counter(splitter, errors)
    changes = TextChanges()
    num_bytes = 0
    for index, text in enumerate(found):
        try:
            data = to_utf8(text, errors)
            num_bytes += len(data)
            num_replaced = counter.count(data)
            if num_replaced or len(data) != len(text):  # not ASCII
                _record(changes, text, data, num_replaced, "", 0, index)
        except TypeError:
            hint = ": pass field=, such as field='text'" if isinstance(text, Mapping) else ""
            raise TypeError(
                f"text {index:,} is of type {type(text).__name__}, not str or bytes{hint}"
            ) from None
        except ValueError as error:
            raise ValueError(f"text {index:,}: {error}") from None
    counts = counter.counts()
    changes.num_bytes = num_bytes
    changes.num_dropped = counter.num_dropped()
    changes.warn(splitter.pattern, "counted")
    return counts


def count_chunk(
    chunk: Chunk, splitter: Splitter, backend: str = "native"
) -> tuple[Mapping[bytes, int], int, TextChanges]:
    """Return the counts of a chunk, its `num_bytes`, and what reading and splitting changed.

    Args:
        chunk: of a corpus.
        splitter: how it is split.
        backend: A name in BACKENDS; see `text_counter`.

    Raises:
        ValueError: a truncated or damaged file, a line that is not JSON, a row without the field,
            (`"strict"`) text that is not UTF-8; the message names the file and where in it.
        FileNotFoundError, OSError: the file vanished or cannot be read.
    """
    counter = text_counter(splitter, chunk.errors, backend)
    changes = TextChanges()
    for location, text, _ in texts_of_chunk(chunk, splitter.safe_cuts):
        start, row = (location, None) if isinstance(location, int) else (0, location)
        try:
            data = to_utf8(text, chunk.errors)
            changes.num_bytes += len(data)
            _record(changes, text, data, counter.count(data), chunk.path, start, row)
        except ValueError as error:
            if isinstance(text, bytes) and chunk.errors == "strict":
                where = chunk.path if row is None else f"{chunk.path}, {row}"
                checked_utf8(text, "strict", where=where, start=start)
            if isinstance(location, int):
                location = f"the text from byte {location:,} on"
            raise ValueError(f"{chunk.path}, {location}: {error}") from None
    changes.num_dropped = counter.num_dropped()
    return counter.counts(), chunk.num_bytes, changes


def _record(
    changes: TextChanges,
    text: str | bytes,
    data: bytes,
    num_replaced: int,
    name: str,
    start: int,
    row: str | int | None,
) -> None:
    """Record what reading a text changed, if anything.

    Args:
        changes: grows.
        text, data: the text, and what was counted.
        num_replaced: what the counter returned.
        name: the file.
        start: the offset of the text in it.
        row: the row, or the index of the text; None for a block of a file of text.
    """
    if num_replaced:
        if start == 0:
            check_beginning(data, name or "the text")
        changes.add_replaced(name, replaced_in(data, start, _named(row)))
    elif isinstance(text, str) and (num_surrogates := replaced_surrogates(text, data)):
        found = Replaced(num_surrogates, 3 * num_surrogates, f"a lone surrogate in {_named(row)}")
        changes.add_replaced(name, found)


def _named(row: str | int | None) -> str | None:
    return f"text {row:,}" if isinstance(row, int) else row


def replaced_surrogates(text: str, data: bytes) -> int:
    """Return how many lone surrogates of a text are U+FFFD in its UTF-8."""
    if text.isascii() or _REPLACEMENT not in data:
        return 0
    return data.count(_REPLACEMENT) - text.count("\N{REPLACEMENT CHARACTER}")


def count_text(text: str, splitter: Splitter | None = None) -> Counter[bytes]:
    """Count the pre-tokens of a text in memory, one after the other in Python.

    Raises:
        TypeError: `text` is not a str.
        ValueError: a lone surrogate, which UTF-8 cannot encode, with its index.
    """
    check_is_str(text)
    to_utf8(text, "strict")
    counts = Counter(Splitter.of(splitter).split(text))
    return Counter({word.encode(): count for word, count in counts.items() if word})


def to_utf8(text: str | bytes, errors: str) -> bytes:
    """Return a text as UTF-8. Bytes are returned as they are, for the counter to check.

    Raises:
        TypeError: neither str nor bytes.
        ValueError: (`"strict"`) a lone surrogate, which UTF-8 cannot encode, with its index.
    """
    if isinstance(text, bytes):
        return text if type(text) is bytes else bytes(text)
    if not isinstance(text, str):
        raise TypeError(f"{short_repr(text)} is of type {type(text).__name__}, not str or bytes")
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


def text_counter(
    splitter: Splitter, errors: str, backend: str = "native"
) -> _NativeCounter | _PythonCounter:
    """Return the counter of a backend; `"native"` needs compiled code that knows the pattern.

    Both `count` the pre-tokens of one text after the other, and return how many sequences of it
    were replaced with U+FFFD; then `counts` and `num_dropped`, the bytes that the pattern did not
    match, are those of all texts.
    """
    if backend == "regex":
        return _PythonCounter(splitter, errors, search_pretokens)
    if backend == "native" and splitter.has_scanner:
        return _NativeCounter(splitter, errors)
    return _PythonCounter(splitter, errors)


class _NativeCounter:
    """Compiled; for patterns with a scanner, which match every character."""

    def __init__(self, splitter: Splitter, errors: str) -> None:
        from cs336_basics.pretokenization.counting._counting import TextCounter

        self._counter = TextCounter(splitter.special_tokens, splitter.pattern, errors)
        self._splitter = splitter
        self.count = self._counter.count  # called for every row: without a function in between

    def num_dropped(self) -> int:
        return 0

    def counts(self) -> WordCounts:
        splitter = self._splitter
        buffers = self._counter.result()
        return WordCounts.of_buffers(buffers, splitter.pattern, splitter.special_tokens)


class _PythonCounter:
    """Readable; for every pattern."""

    def __init__(
        self,
        splitter: Splitter,
        errors: str,
        pretokenize: Callable[[str, str], Iterator[str]] = pretokenize,
    ) -> None:
        self._splitter = splitter
        self._errors = errors
        self._pretokenize = pretokenize
        self._counts: Counter[str] = Counter()
        self._num_bytes = 0  # without special tokens

    def count(self, text: bytes, /) -> int:
        try:
            decoded = text.decode("utf-8")
            num_replaced = 0
        except UnicodeDecodeError as error:
            if self._errors == "strict":
                raise invalid_utf8_error(None, text[error.start], error.start) from None
            decoded = text.decode("utf-8", self._errors)
            num_replaced = decoded.count("\N{REPLACEMENT CHARACTER}") - text.count(_REPLACEMENT)
        for segment, is_special in self._splitter.split_special_tokens(decoded):
            if not is_special:
                self._num_bytes += len(segment.encode())
                self._counts.update(self._pretokenize(segment, self._splitter.pattern))
        return num_replaced

    def counts(self) -> Counter[bytes]:
        return Counter({word.encode(): count for word, count in self._counts.items() if word})

    def num_dropped(self) -> int:
        matched = sum(len(word.encode()) * count for word, count in self._counts.items())
        return self._num_bytes - matched
