"""Count the pre-tokens of texts in memory and of the texts in a chunk of a corpus."""

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

    Each text is a separate document: no word spans two texts. The texts are read one at a time, so
    a generator may yield more text than fits in memory.

    Args:
        texts: Texts (str or UTF-8 bytes) or, with `field`, rows: dicts, a Hugging Face dataset, or
            an Arrow table or stream. See `texts_of_rows`.
        splitter: Split pattern and special tokens. Defaults to `Splitter()`.
        errors: How to handle invalid UTF-8; see `Corpus`.
        field: Field or column that contains each row's text.

    Returns:
        Mapping from pre-tokens (UTF-8 bytes) to counts. The count of an absent word is 0.

    Raises:
        TypeError: If `texts` is a single str or bytes, or an item is neither str nor bytes.
        ValueError: If a text is not valid UTF-8 (`errors="strict"`) or starts with the byte order
            mark of UTF-16 or UTF-32, or if a row does not have the field.
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
            hint = "; pass field=, such as field='text'" if isinstance(text, Mapping) else ""
            raise TypeError(
                f"text {index:,} must be str or bytes, not {type(text).__name__}{hint}"
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
    """Return the counts of a chunk, its `num_bytes`, and the changes made to its text.

    Args:
        chunk: Chunk of a corpus.
        splitter: Split pattern and special tokens.
        backend: Name in BACKENDS; see `text_counter`.

    Raises:
        ValueError: If the file is truncated or damaged, a line is not JSON, a row does not have the
            field, or text is not valid UTF-8 (`errors="strict"`). The message includes the file
            name and the position.
        FileNotFoundError, OSError: If the file was deleted or cannot be read.
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
                location = f"the text at byte {location:,}"
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
    """Record how the counted bytes differ from the text.

    `name` is the file name. `row` is the location of the row or the index of the text, or None for
    a block of a plain text file.
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
    """Return the number of lone surrogates in `text` that became U+FFFD in `data`."""
    if text.isascii() or _REPLACEMENT not in data:
        return 0
    return data.count(_REPLACEMENT) - text.count("\N{REPLACEMENT CHARACTER}")


def count_text(text: str, splitter: Splitter | None = None) -> Counter[bytes]:
    """Count the pre-tokens of a str in Python, without the compiled counter.

    Raises:
        TypeError: If `text` is not a str.
        ValueError: If `text` contains a lone surrogate, which UTF-8 cannot encode.
    """
    check_is_str(text)
    to_utf8(text, "strict")
    counts = Counter(Splitter.of(splitter).split(text))
    return Counter({word.encode(): count for word, count in counts.items() if word})


def to_utf8(text: str | bytes, errors: str) -> bytes:
    """Encode a text as UTF-8. Bytes are returned unchanged; the counter checks them.

    Raises:
        TypeError: If `text` is neither str nor bytes.
        ValueError: If `errors` is "strict" and a str contains a lone surrogate.
    """
    if isinstance(text, bytes):
        return text if type(text) is bytes else bytes(text)
    if not isinstance(text, str):
        raise TypeError(f"text must be str or bytes, got {short_repr(text)}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        if errors == "strict":
            raise ValueError(
                f"the lone surrogate U+{ord(text[error.start]):04X} at character "
                f"{error.start:,} cannot be encoded as UTF-8"
            ) from None
        # UTF-16 can encode lone surrogates. Decoding combines pairs and replaces lone surrogates.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def text_counter(
    splitter: Splitter, errors: str, backend: str = "native"
) -> _NativeCounter | _PythonCounter:
    """Return a counter for a backend.

    For `"native"`, the counter is compiled if the extensions are built and support the pattern.

    Call `count` with each text; it returns the number of invalid sequences that were replaced with
    U+FFFD. Then `counts()` returns the total counts, and `num_dropped()` returns the number of
    bytes that the pattern did not match.
    """
    if backend == "regex":
        return _PythonCounter(splitter, errors, search_pretokens)
    if backend == "native" and splitter.has_scanner:
        return _NativeCounter(splitter, errors)
    return _PythonCounter(splitter, errors)


class _NativeCounter:
    """Compiled counter for patterns with a scanner. Such patterns match every character."""

    def __init__(self, splitter: Splitter, errors: str) -> None:
        from cs336_basics.pretokenization.counting._counting import TextCounter

        self._counter = TextCounter(splitter.special_tokens, splitter.pattern, errors)
        self._splitter = splitter
        self.count = self._counter.count  # not wrapped, because it is called for every row

    def num_dropped(self) -> int:
        return 0

    def counts(self) -> WordCounts:
        splitter = self._splitter
        buffers = self._counter.result()
        return WordCounts.of_buffers(buffers, splitter.pattern, splitter.special_tokens)


class _PythonCounter:
    """Python counter for all patterns."""

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
