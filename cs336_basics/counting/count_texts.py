"""Count the pre-tokens of texts in memory and of the texts in a chunk of a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.splitting.splitter import (
    Splitter,
    check_is_str,
    pretokenize,
    search_pretokens,
)
from cs336_basics.text.corpus import Chunk, check_errors
from cs336_basics.text.readers import texts_of_chunk
from cs336_basics.text.rows import texts_of_rows
from cs336_basics.text.text_changes import TextChanges
from cs336_basics.text.utf8 import is_valid_utf8


def count_texts(
    texts: Any,
    splitter: Splitter | None = None,
    *,
    errors: str = "replace",
    field: str | None = None,
) -> WordCounts:
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
        Mapping from pre-tokens (UTF-8 bytes) to counts.

    Raises:
        TypeError: If `texts` is a single str or bytes, or an item is neither str nor bytes.
        ValueError: If a text is not valid UTF-8 (`errors="strict"`) or starts with the byte order
            mark of UTF-16 or UTF-32, or if a row does not have the field.
    """
    found = texts_of_rows(texts, field)
    check_errors(errors)
    splitter = Splitter.of(splitter)
    counter = text_counter(splitter)
    changes = TextChanges()
    num_bytes = 0
    for index, text in enumerate(found):
        # Valid UTF-8, the most frequent case, does not need `utf8_of`.
        is_valid = type(text) is bytes and is_valid_utf8(text)
        data = text if is_valid else changes.utf8_of(text, errors, row=index)
        num_bytes += len(text) if isinstance(text, bytes) else len(data)
        counter.count(data)
    changes.num_bytes = num_bytes
    counts = counter.counts()
    changes.num_dropped = counter.num_dropped()
    changes.warn(splitter.pattern, "counted")
    return counts


def count_chunk(
    chunk: Chunk, splitter: Splitter, backend: str = "native"
) -> tuple[WordCounts, int, TextChanges]:
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
    counter = text_counter(splitter, backend)
    changes = TextChanges()
    for location, text, _ in texts_of_chunk(chunk, splitter.safe_cuts):
        start, row = (location, None) if isinstance(location, int) else (0, location)
        data = changes.utf8_of(text, chunk.errors, file=chunk.path, start=start, row=row)
        changes.num_bytes += len(text) if isinstance(text, bytes) else len(data)
        counter.count(data)
    changes.num_dropped = counter.num_dropped()
    return counter.counts(), chunk.num_bytes, changes


def count_text(text: str, splitter: Splitter | None = None) -> Counter[bytes]:
    """Count the pre-tokens of a str in Python, without the compiled counter.

    Raises:
        TypeError: If `text` is not a str.
        ValueError: If `text` contains a lone surrogate, which UTF-8 cannot encode.
    """
    check_is_str(text)
    TextChanges().utf8_of(text, "strict")  # checks text that the pattern may drop
    counts = Counter(Splitter.of(splitter).split(text))
    return Counter({word.encode(): count for word, count in counts.items() if word})


def text_counter(splitter: Splitter, backend: str = "native") -> _NativeCounter | _PythonCounter:
    """Return a counter for a backend.

    Call `count` with each text in valid UTF-8. Then `counts()` returns the total counts, and
    `num_dropped()` returns the number of bytes that the pattern did not match.

    For `"native"`, the counter is compiled if the extensions are built and support the pattern.
    """
    if backend == "regex":
        return _PythonCounter(splitter, search_pretokens)
    if backend == "native" and splitter.has_scanner:
        return _NativeCounter(splitter)
    return _PythonCounter(splitter)


class _NativeCounter:
    """Compiled counter for patterns with a scanner. Such patterns match every character."""

    def __init__(self, splitter: Splitter) -> None:
        from cs336_basics.counting._counting import TextCounter

        self._counter = TextCounter(splitter.special_tokens, splitter.pattern)
        self._splitter = splitter
        self.count = self._counter.count  # a wrapper would be slow, as it is called for every row

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
        pretokenize: Callable[[str, str], Iterator[str]] = pretokenize,
    ) -> None:
        self._splitter = splitter
        self._pretokenize = pretokenize
        self._counts: Counter[str] = Counter()
        self._num_bytes = 0  # without special tokens

    def count(self, text: bytes, /) -> None:
        for segment, is_special in self._splitter.split_special_tokens(text.decode()):
            if not is_special:
                self._num_bytes += len(segment.encode())
                self._counts.update(self._pretokenize(segment, self._splitter.pattern))

    def counts(self) -> WordCounts:
        splitter = self._splitter
        counts = {word.encode(): count for word, count in self._counts.items() if word}
        return WordCounts.from_mapping(counts, splitter.pattern, splitter.special_tokens)

    def num_dropped(self) -> int:
        matched = sum(len(word.encode()) * count for word, count in self._counts.items())
        return self._num_bytes - matched
