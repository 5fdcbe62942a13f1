"""Count the pre-tokens of texts in memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cs336_basics.counting.word_counter import WordCounter, choose_splitting
from cs336_basics.counting.word_counts import WordCounts
from cs336_basics.splitting.splitter import Splitter, check_is_str
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.text.rows import texts_of_rows
from cs336_basics.text.utf8 import check_errors, is_valid_utf8


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
        texts: Texts (str or UTF-8 bytes, None for an empty text) or batches of texts or, with
            `field`, rows: dicts, a Hugging Face dataset, or an Arrow table or stream. See
            `texts_of_rows`.
        splitter: How to split the texts. Defaults to `Splitter()`.
        errors: How to handle invalid UTF-8; see `Corpus`.
        field: Field or column that contains each row's text.

    Returns:
        Mapping from pre-tokens (UTF-8 bytes) to counts.

    Raises:
        TypeError: If `texts` is a single str or bytes, or an item is neither str nor bytes.
        ValueError: If a text is not valid UTF-8 (`errors="strict"`) or starts with the byte order
            mark of UTF-16 or UTF-32, or if a row does not have the field.

    Example:
        >>> from cs336_basics.counting import count_texts
        >>> count_texts([{"text": "the cat"}, {"text": "the dog"}], field="text")[b"the"]
        2
    """
    found = texts_of_rows(texts, field)
    check_errors(errors)
    splitter = Splitter.of(splitter)
    counter = WordCounter(splitter, choose_splitting(None, splitter))
    count, reading = counter.count, ReadingRecord()
    num_bytes = 0
    for index, text in enumerate(found):
        # The most frequent cases do not need `utf8_of`.
        if type(text) is str and text.isascii():
            data = text.encode()
        elif type(text) is bytes and is_valid_utf8(text):
            data = text
        else:
            data = reading.utf8_of(text, errors, row=index)
        num_bytes += len(text) if isinstance(text, bytes) else len(data)
        count(data)
    reading.num_bytes = num_bytes
    reading.warn()
    return counter.counts()


def count_text(text: str, splitter: Splitter | None = None) -> Counter[bytes]:
    """Count the pre-tokens of a str in Python, without the compiled counter.

    Args:
        text: Text to count.
        splitter: How to split the text. Defaults to `Splitter()`.

    Raises:
        TypeError: If `text` is not a str.
        ValueError: If `text` contains a lone surrogate, which UTF-8 cannot encode.

    Example:
        >>> from cs336_basics.counting import count_text
        >>> count_text("the cat and the dog")
        Counter({b'the': 1, b' cat': 1, b' and': 1, b' the': 1, b' dog': 1})
    """
    check_is_str(text)
    ReadingRecord().utf8_of(text, "strict")  # an error with the position of a surrogate
    counts = Counter(Splitter.of(splitter).split(text))
    return Counter({word.encode(): count for word, count in counts.items() if word})
