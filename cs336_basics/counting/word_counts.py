"""Distinct words and their counts, stored in three flat arrays.

BPE training needs only the word counts of a text, which are far smaller than the text. If you save
them, you can train a larger vocabulary, change the mixture of corpora, or add the counts from
several machines without reading the text again.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import operator
import os
from array import array
from collections import Counter
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import Any, TypeVar, Union

from cs336_basics._support.arguments import (
    MAX_INT64,
    check_is_iterable,
    check_is_number,
    checked_integer,
)
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import counted, short_repr
from cs336_basics._support.ragged import items_at, offsets_of
from cs336_basics._support.warnings import warn
from cs336_basics.splitting.patterns.named_patterns import pattern_name
from cs336_basics.splitting.patterns.split_sequences import changes_text
from cs336_basics.splitting.splitter import Splitter
from cs336_basics.text.normalization import check_normalizer
from cs336_basics.text.reading_record import ReadingRecord

Buffer = Union["npt.NDArray[Any]", "array[int]", bytes, memoryview]
"""One-dimensional buffer of uint8 or int64."""

V = TypeVar("V")

# Limits of the table in a notebook.
_MOST_SHOWN = 20
_MOST_SHOWN_BYTES = 100

_MOST_SPLIT = 1000
"""Number of words that are split again. In English, the first word with punctuation among the words
between spaces is often not one of the 100 most frequent words."""
_LONGEST_SPLIT = 1000
"""Maximum number of bytes of a word that is split again. Longer words take too long."""


class WordCounts(Mapping[bytes, int]):
    """An immutable mapping from distinct words (bytes) to their counts.

    The count of an absent word is 0, as in a Counter. The first lookup of a word builds a dict,
    which takes about 150 bytes per word. `len`, `total`, the arrays and addition do not need the
    dict.

    The constructor copies the arrays and makes the copies read-only, because compiled code reads
    them without the GIL.

    Args:
        data: (number of bytes,) uint8. Bytes of all words, concatenated.
        offsets: (n + 1,) int64. Word i is `data[offsets[i]:offsets[i + 1]]`.
        counts: (n,) int64. Number of occurrences of each word, at least 1.
        pattern: Split pattern (name or regular expression), or None if unknown.
        special_tokens: Special tokens that were cut out first, or None if unknown.
        normalizer: Normalization form of the text (name in NORMALIZERS), or None if it was not
            normalized, or the pattern is unknown. Counts with different patterns, special tokens or
            normalizers cannot be added.

    Raises:
        ValueError: If the arrays are inconsistent, a count is less than 1, a word is repeated, or
            the normalizer is unknown.
        TypeError: If an array has a dtype that cannot be converted safely, or `special_tokens`
            is a bare string.

    Example:
        >>> from cs336_basics.counting import WordCounts
        >>> counts = WordCounts.from_mapping({"low": 5, "lower": 2})
        >>> counts[b"low"], counts[b"high"], counts.total
        (5, 0, 7)
        >>> (counts + counts).as_dict()
        {b'low': 10, b'lower': 4}
    """

    buffers: tuple[Buffer, Buffer, Buffer]
    """`data`, `offsets` and `counts` for compiled code. Do not modify them."""

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        pattern: str | None = None,
        special_tokens: Iterable[str] | None = None,
        normalizer: str | None = None,
    ) -> None:
        # Copy before checking: other threads may write to the originals.
        arrays = np.array(data), np.array(offsets), np.array(counts)
        self._set(_checked(*arrays), pattern, special_tokens, check_normalizer(normalizer))
        self._check_has_no_repeated_word()

    @classmethod
    def of_buffers(
        cls,
        buffers: tuple[Buffer, Buffer, Buffer],
        pattern: str | None = None,
        special_tokens: Iterable[str] | None = None,
        normalizer: str | None = None,
    ) -> WordCounts:
        """Return word counts that use trusted buffers without checking or copying them.

        Args:
            buffers: Read-only `data`, `offsets` and `counts`, with the same dtypes as in the
                constructor.
            pattern, special_tokens, normalizer: See the constructor.
        """
        made = cls.__new__(cls)
        made._set(buffers, pattern, special_tokens, normalizer)
        return made

    def _check_has_no_repeated_word(self) -> None:
        index = _first_repeated(self)
        if index < len(self):
            raise InputError(
                f"word {short_repr(self.words()[index])} is repeated at index {index:,}",
                remedy="add the counts of equal words",
            )

    def _set(
        self,
        buffers: tuple[Buffer, Buffer, Buffer],
        pattern: str | None,
        special_tokens: Iterable[str] | None,
        normalizer: str | None,
    ) -> None:
        if special_tokens is not None:
            check_is_iterable("special_tokens", special_tokens, "str")
        self.buffers = buffers
        self.pattern = pattern
        self.special_tokens = None if special_tokens is None else frozenset(special_tokens)
        self.normalizer = normalizer
        self._dict: dict[bytes, int] | None = None

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """Bytes of all words, concatenated. Read-only."""
        return _view(self.buffers[0], np.uint8)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Start offsets of the words in `data`, followed by the length of `data`. Read-only."""
        return _view(self.buffers[1], np.int64)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of occurrences of each word. Read-only."""
        return _view(self.buffers[2], np.int64)

    @classmethod
    def from_mapping(
        cls,
        counts: Mapping[bytes, int] | Mapping[str, int],
        pattern: str | None = None,
        special_tokens: Iterable[str] | None = None,
    ) -> WordCounts:
        """Convert a mapping to WordCounts. Words with count 0 are dropped.

        Words that are str are encoded to UTF-8. A WordCounts is returned unchanged if neither
        `pattern` nor `special_tokens` is given.

        Raises:
            TypeError: If `counts` is not a mapping, a word is neither bytes nor str, or a count is
                not an int.
            ValueError: If a count is negative or exceeds 2^63 - 1, a str contains a lone surrogate,
                or two words have the same UTF-8.
        """
        if isinstance(counts, WordCounts) and pattern is None and special_tokens is None:
            return counts
        if not isinstance(counts, Mapping):
            raise InputTypeError(
                f"must be a mapping of word -> count, got {short_repr(counts)}", argument="counts"
            )
        words: list[bytes] = []
        numbers = array("q")
        has_str = False
        for word, count in counts.items():
            if not isinstance(word, bytes):
                if not isinstance(word, str):
                    raise InputTypeError(
                        f"must be bytes or str, got {short_repr(word)}", argument="words"
                    )
                word, has_str = ReadingRecord().utf8_of(word, "strict"), True
            if type(count) is not int or not 0 <= count <= MAX_INT64:
                place = f"word {short_repr(word)}"
                count = checked_integer("counts", count, 0, MAX_INT64, place=place)
            if count:
                words.append(word)
                numbers.append(count)
        made = cls.of_buffers(buffers_of(words, numbers), pattern, special_tokens)
        if has_str:  # the same word may also occur as bytes
            made._check_has_no_repeated_word()
        return made

    @classmethod
    def combined(cls, addends: Iterable[WordCounts]) -> WordCounts:
        """Return the sum of word counts, for example from several corpora or machines.

        Args:
            addends: Word counts with the same pattern, special tokens and normalizer. Without any,
                the sum is empty.

        Raises:
            TypeError: If an addend is not a WordCounts.
            ValueError: If the words were counted with different patterns, special tokens or
                normalizers, or the total count of a word exceeds 2^63 - 1.
        """
        addends = list(addends)
        for counts in addends:
            if not isinstance(counts, WordCounts):
                raise InputTypeError(
                    f"must be WordCounts, got {short_repr(counts)}", argument="addends"
                )
        if len(addends) == 1:
            return addends[0]
        split = [counts for counts in addends if counts.pattern is not None]
        _only_value("split patterns", {_comparable(counts.pattern) for counts in split})
        normalizer = _only_value("normalizers", {counts.normalizer for counts in split})
        cut_out = {counts.special_tokens for counts in addends if counts.special_tokens is not None}
        special_tokens = _only_value("special tokens", cut_out, sorted)
        try:
            from cs336_basics.counting._counting import TextCounter
        except ImportError:
            total: Counter[bytes] = Counter()
            for counts in addends:
                total.update(counts)
            buffers = cls.from_mapping(total).buffers
        else:
            adder = TextCounter()
            for counts in addends:
                adder.add_words(*counts.buffers)
            buffers = adder.result()
        pattern = split[0].pattern if split else None
        return cls.of_buffers(buffers, pattern, special_tokens, normalizer)

    @classmethod
    def mixed(cls, counts: Sequence[WordCounts], weights: Sequence[float]) -> WordCounts:
        """Return the sum of word counts, where each corpus has a given share of the bytes.

        The counts of a corpus are multiplied by one integer (see `mixture_factors`), so no word is
        lost, and within a corpus, all ratios of counts stay the same.

        Args:
            counts: Word counts of each corpus.
            weights: Weight of each corpus, positive. Its share is its weight divided by the sum.

        Raises:
            TypeError, ValueError: See `combined` and `mixture_factors`.
        """
        from cs336_basics.counting.mixture_factors import mixture_factors

        factors, _ = mixture_factors([words.num_bytes for words in counts], weights)
        return cls.combined(words.scaled(f) for words, f in zip(counts, factors, strict=True))

    def scaled(self, weight: float) -> WordCounts:
        """Return the counts multiplied by `weight`.

        Products are rounded to the nearest integer. Words whose product is 0 are dropped with a
        warning, so to give corpora shares of a mixture, use `mixed`.

        Warns:
            UserWarning: If `weight` is positive and words are dropped.

        Raises:
            TypeError: If `weight` is not a number.
            ValueError: If `weight` is negative or not finite, or a product exceeds 2^63 - 1.
        """
        check_is_number("weight", weight)
        if not 0 <= weight < float("inf"):
            raise InputError(f"must be finite and at least 0, got {weight}", argument="weight")
        highest = int(self.counts.max()) if len(self) else 0
        if highest * weight > MAX_INT64 - 1024:
            raise InputError(
                f"times the highest count ({highest:,}) must not exceed 2^63 - 1, got {weight}",
                argument="weight",
            )
        if isinstance(weight, (int, np.integer)):
            counts = self.counts * np.int64(weight)
        else:
            counts = np.rint(self.counts * np.float64(weight)).astype(np.int64)
        kept = counts > 0
        num_dropped = len(counts) - int(kept.sum())
        if num_dropped and weight:
            warn(
                f"weight {weight} drops {num_dropped:,} of {counted(len(counts), 'distinct word')},"
                " whose products are 0; to mix corpora without losing words, use WordCounts.mixed"
            )
        lengths = np.diff(self.offsets)[kept]
        data = items_at(self.data, self.offsets[:-1][kept], lengths)
        arrays = data, offsets_of(lengths), counts[kept]
        return self.of_buffers(arrays, self.pattern, self.special_tokens, self.normalizer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file, atomically.

        Args:
            path: FILE.npz; see `word_count_files.py` for the format. An existing file is replaced.

        Raises:
            OSError: If the file cannot be written.
        """
        from cs336_basics.counting.word_count_files import write_counts

        cut_out = None if self.special_tokens is None else sorted(self.special_tokens)
        arrays = self.data, self.offsets, self.counts
        write_counts(path, arrays, self.pattern, cut_out, self.normalizer)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> WordCounts:
        """Read a file written by `save`.

        Args:
            path: FILE.npz.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file is damaged or has a different format or version.
        """
        from cs336_basics.counting.word_count_files import read_counts

        return read_counts(path, WordCounts)

    @property
    def total(self) -> int:
        """Sum of all counts. It may exceed 64 bits."""
        high, low = self.counts >> 32, self.counts & 0xFFFFFFFF
        return (int(high.sum()) << 32) + int(low.sum())

    def sizes(self) -> str:
        """Return a description of the number and size of the distinct words, for messages."""
        longest = int(np.diff(self.offsets).max(initial=0))
        return (
            f"{counted(len(self), 'distinct word')} with {counted(len(self.data), 'byte')} in "
            f"total (longest: {counted(longest, 'byte')})"
        )

    @property
    def num_bytes(self) -> int:
        """Total number of bytes in all occurrences of all words. It may exceed 64 bits."""
        with contextlib.suppress(ModuleNotFoundError):  # there is no NumPy in a browser
            lengths = np.diff(self.offsets)
            # np.dot would start the linear algebra library's threads.
            if float((lengths * self.counts.astype(float)).sum()) < 2**62:
                return int((lengths * self.counts).sum())
        # Python integers do not overflow, but they are slow.
        ends = _integers(self.buffers[1])
        sizes = map(operator.sub, itertools.islice(ends, 1, None), ends)
        return sum(map(operator.mul, sizes, _integers(self.buffers[2])))

    def check_num_bytes(self) -> None:
        """Raise InputError if the words have too many bytes for a trainer."""
        if self.num_bytes > MAX_INT64:
            raise InputError(
                f"must count at most 2^63 - 1 bytes, got {self.num_bytes:,}",
                argument="word_counts",
                remedy="divide all counts by a common factor",
            )

    def words(self) -> list[bytes]:
        """Return all words in the order of the arrays."""
        blob, ends = bytes(self.buffers[0]), _integers(self.buffers[1])
        return [blob[start:end] for start, end in itertools.pairwise(ends)]

    def as_dict(self) -> dict[bytes, int]:
        """Return the counts as a dict. The dict is cached; do not change it."""
        if self._dict is None:
            self._dict = dict(zip(self.words(), _integers(self.buffers[2]), strict=True))
        return self._dict

    def __getitem__(self, word: bytes) -> int:
        return self.as_dict().get(word, 0)

    def get(self, word: bytes, default: Any = None) -> Any:
        """Return the count of a word, or `default` if the word is absent."""
        return self.as_dict().get(word, default)

    def __contains__(self, word: object) -> bool:
        return word in self.as_dict()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.words())

    def __len__(self) -> int:
        return len(self.buffers[2])

    def items(self) -> ItemsView[bytes, int]:
        """Return `(word, count)` pairs in the order of the arrays."""
        return self.as_dict().items()

    def values(self) -> ValuesView[int]:
        """Return the counts in the order of the arrays."""
        return self.as_dict().values()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return self.as_dict() == dict(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # may equal dicts, which are mutable

    def __add__(self, other: object) -> WordCounts:
        if not isinstance(other, WordCounts):
            return NotImplemented
        return WordCounts.combined([self, other])

    def __repr__(self) -> str:
        return f"<WordCounts: {counted(len(self), 'distinct word')}, {self.total:,} in all>"

    def _repr_html_(self) -> str:
        """Return the most frequent words as a table for notebooks."""
        from cs336_basics._support.html_table import html_table
        from cs336_basics._support.visible import visible

        total = self.total
        rows = []
        for index in np.argsort(-self.counts, kind="stable")[:_MOST_SHOWN]:
            word, count = _word(self.data, self.offsets, index), int(self.counts[index])
            shown = visible(word[:_MOST_SHOWN_BYTES]) + "…" * (len(word) > _MOST_SHOWN_BYTES)
            rows.append((shown, (count, f"{count / total:.2%}")))
        caption = f"{counted(len(self), 'distinct word')}, {total:,} in all"
        if len(rows) < len(self):
            caption += f"; the {len(rows)} most frequent"
        return html_table(caption, ("word", "count", "share"), rows)

    def __reduce__(self) -> tuple[Any, ...]:
        buffers = self.buffers
        if not isinstance(buffers[1], array):  # workers that count in Python do not import NumPy
            buffers = self.data, self.offsets, self.counts
        made_with = self.pattern, self.special_tokens, self.normalizer
        return WordCounts.of_buffers, (buffers, *made_with)

    def check_made_with(self, splitter: Splitter) -> None:
        """Check that the words were counted with this splitter.

        If their pattern is unknown, the most frequent words are split again.

        Raises:
            ValueError: If the words were counted with a different pattern, different special tokens
                or a different normalizer.

        Warns:
            UserWarning: If the pattern of the words is unknown, and some of the most frequent words
                are not pre-tokens.
        """
        pattern = splitter.pattern
        if self.pattern is not None and _comparable(self.pattern) != _comparable(pattern):
            raise InputError(
                f"must be {short_repr(self.pattern)}, with which the words were counted, got "
                f"{short_repr(pattern)}",
                argument="pattern",
                remedy="pass the same pattern, because a tokenizer must split text in the same "
                "way as its trainer",
            )
        tokens = frozenset(splitter.special_tokens)
        if self.special_tokens is not None and self.special_tokens != tokens:
            raise InputError(
                f"must be {short_repr(sorted(self.special_tokens))}, with which the words were "
                f"counted, got {short_repr(sorted(tokens))}",
                argument="special_tokens",
                remedy="pass the same special tokens, or count the words again",
            )
        if self.pattern is None:
            self._warn_of_other_words(splitter)
        elif self.normalizer != splitter.normalizer:
            raise InputError(
                f"must be {self.normalizer!r}, with which the words were counted, got "
                f"{splitter.normalizer!r}",
                argument="normalizer",
                remedy="pass the same normalizer, or count the words again",
            )

    def _warn_of_other_words(self, splitter: Splitter) -> None:
        """Warn if some of the most frequent words are not pre-tokens of the splitter."""
        if changes_text(splitter.pattern):
            return  # splitting a pre-token may change it again
        blob, ends = bytes(self.buffers[0]), _integers(self.buffers[1])
        total, others, num_others = 0, [], 0
        for index, count in _most_frequent(_integers(self.buffers[2]), _MOST_SPLIT):
            start, end = ends[index], ends[index + 1]
            if not 0 < end - start <= _LONGEST_SPLIT:
                continue
            try:
                word = blob[start:end].decode()
            except UnicodeDecodeError:  # text in another encoding, or exact bytes
                continue
            total += count
            if list(splitter.split(word)) != [word]:
                others.append(word)
                num_others += count
        if others:
            shown = ", ".join(map(short_repr, others[:3]))
            changes = f"pattern {short_repr(splitter.pattern)} splits"
            if splitter.normalizer is not None:
                changes = f"normalizer {splitter.normalizer!r} changes, or {changes},"
            warn(
                f"{changes} words such as {shown} ({num_others / total:.1%} of the most frequent "
                "words), so some of the tokens can never occur; count the text with count_texts, "
                "or pass the options that made the words"
            )


def buffers_of(words: Sequence[bytes], counts: array[int]) -> tuple[Buffer, Buffer, Buffer]:
    """Return `data`, `offsets` and `counts` for distinct words, without NumPy."""
    offsets = array("q", itertools.accumulate(map(len, words), initial=0))
    return b"".join(words), offsets, counts


def _most_frequent(counts: Sequence[int], number: int) -> list[tuple[int, int]]:
    """Return `(index, count)` of the highest counts, in descending order."""
    indices: Iterable[int] = range(len(counts))
    with contextlib.suppress(ModuleNotFoundError):  # there is no NumPy in a browser
        if len(counts) > number:  # NumPy makes this ten times as fast for millions of words
            indices = np.argpartition(np.asarray(counts), -number)[-number:].tolist()
    return [(i, counts[i]) for i in heapq.nlargest(number, indices, key=counts.__getitem__)]


def _integers(buffer: Any) -> array[int]:
    """Return an int64 buffer as a sequence of Python integers, without NumPy."""
    integers = array("q")
    integers.frombytes(memoryview(buffer).tobytes())
    return integers


def _view(buffer: Buffer, dtype: type) -> npt.NDArray[Any]:
    view: npt.NDArray[Any] = np.frombuffer(buffer, dtype)
    view.flags.writeable = False
    return view


def _comparable(pattern: str | None) -> str | None:
    return None if pattern is None else pattern_name(pattern) or pattern


def _only_value(
    what: str, values: set[V], shown: Callable[[Any], object] = lambda value: value
) -> V | None:
    """Return the value that all word counts to add have, or None if none of them has one.

    Raises:
        ValueError: If they have different values, which the message lists.
    """
    if len(values) > 1:
        named = sorted(short_repr(shown(value)) for value in values)
        raise InputError(f"cannot add word counts with different {what}: {' and '.join(named)}")
    return next(iter(values), None)


def _first_repeated(counts: WordCounts) -> int:
    """Return the index of the first word that repeats an earlier word, or the number of words."""
    try:
        from cs336_basics.counting._counting import first_repeated
    except ImportError:
        found: set[bytes] = set()
        for index, word in enumerate(counts.words()):
            found.add(word)
            if len(found) == index:
                return index
        return len(counts)
    return first_repeated(*counts.buffers[:2])


def _checked(
    data: npt.NDArray[Any], offsets: npt.NDArray[Any], counts: npt.NDArray[Any]
) -> tuple[Buffer, Buffer, Buffer]:
    """Check arrays as described in `WordCounts`, and return them with the dtypes given there."""
    if not data.ndim == offsets.ndim == counts.ndim == 1:
        raise InputError(
            "data, offsets and counts must have one dimension, got "
            f"{data.ndim}, {offsets.ndim} and {counts.ndim}"
        )
    data = _cast("data", data, np.uint8)
    offsets = _cast("offsets", offsets, np.int64)
    counts = _cast("counts", counts, np.int64)
    if len(offsets) != len(counts) + 1:
        raise InputError(
            f"must have {len(counts) + 1:,} elements for {len(counts):,} counts, got "
            f"{len(offsets):,}",
            argument="offsets",
        )
    if offsets[0] != 0 or offsets[-1] != len(data) or np.any(offsets[1:] < offsets[:-1]):
        raise InputError(
            f"must ascend from 0 to the number of bytes, {len(data):,}", argument="offsets"
        )
    if np.any(counts <= 0):
        raise InputError(f"must be at least 1, got {counts.min():,}", argument="counts")
    return data, offsets, counts


def _cast(name: str, values: npt.NDArray[Any], dtype: type) -> npt.NDArray[Any]:
    try:
        return values.astype(dtype, casting="safe", copy=False)
    except TypeError:
        raise InputTypeError(
            f"must have a dtype that fits in {np.dtype(dtype)}, got {values.dtype}", argument=name
        ) from None


def _word(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], index: int) -> bytes:
    return data[offsets[index] : offsets[index + 1]].tobytes()
