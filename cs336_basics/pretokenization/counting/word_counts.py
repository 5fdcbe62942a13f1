"""WordCounts: distinct words and how often each occurs, in three flat arrays.

BPE training needs only the word counts of a text, which are far smaller than the text. With saved
counts, a larger vocabulary, another mixture of corpora or the sum over several machines needs no
second pass over the text.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Union

from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_repr
from cs336_basics.pretokenization.patterns.named_patterns import pattern_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:  # counting and native training do without
    np = LazyModule("numpy")

Buffer = Union["npt.NDArray[Any]", bytes, memoryview]
"""One-dimensional: uint8 or int64."""

_INT64_MAX = 2**63 - 1


class WordCounts(Mapping[bytes, int]):
    """Distinct words and their counts: word (bytes) -> int, without an object for each word.

    It behaves like an immutable Counter: an absent word has the count 0. The first lookup by word
    builds a dict (about 150 bytes per word); `len`, `total`, the arrays and addition need none.

    The object has its own copy of the arrays, which cannot be written to: compiled code reads them
    without the GIL.

    Args:
        data: (number of bytes,) uint8, the bytes of all words.
        offsets: (n + 1,) int64; word i is `data[offsets[i]:offsets[i + 1]]`.
        counts: (n,) int64, greater than zero.
        pattern: name or expression of the pattern that split the text, None if unknown.
        special_tokens: the special tokens that were cut out first, None if unknown. Counts that
            were made with different patterns or special tokens cannot be added.

    Raises:
        ValueError: the arrays do not match, a number does not fit its type, a count is not
            positive, or a word is repeated.
        TypeError: an array does not hold integers.
    """

    buffers: tuple[Buffer, Buffer, Buffer]
    """`data`, `offsets` and `counts` for compiled code: nothing may write to them."""

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        pattern: str | None = None,
        special_tokens: Iterable[str] | None = None,
    ) -> None:
        # (Copied first, then checked: others may write to the originals meanwhile.)
        arrays = np.array(data), np.array(offsets), np.array(counts)
        self._set(_checked(*arrays), pattern, special_tokens)
        index = _first_repeated(self)
        if index < len(self):
            raise ValueError(
                f"the word {short_repr(_word(self.data, self.offsets, index))} is repeated (word "
                f"{index:,}): add up the counts of equal words"
            )

    @classmethod
    def of_buffers(
        cls,
        buffers: tuple[Buffer, Buffer, Buffer],
        pattern: str | None = None,
        special_tokens: Iterable[str] | None = None,
    ) -> WordCounts:
        """Return word counts of what was counted or checked here, without checks or copies.

        Args:
            buffers: `data`, `offsets` and `counts`, of the types of the arrays, read-only.
            pattern, special_tokens: as for the constructor.
        """
        made = cls.__new__(cls)
        made._set(buffers, pattern, special_tokens)
        return made

    def _set(
        self,
        buffers: tuple[Buffer, Buffer, Buffer],
        pattern: str | None,
        special_tokens: Iterable[str] | None,
    ) -> None:
        self.buffers = buffers
        self.pattern = pattern
        self.special_tokens = None if special_tokens is None else frozenset(special_tokens)
        self._dict: dict[bytes, int] | None = None

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes of all words, read-only."""
        return _view(self.buffers[0], np.uint8)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where the words begin in `data`, and its length; read-only."""
        return _view(self.buffers[1], np.int64)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How often each word occurs, read-only."""
        return _view(self.buffers[2], np.int64)

    @classmethod
    def from_mapping(
        cls,
        counts: Mapping[bytes, int],
        pattern: str | None = None,
        special_tokens: Iterable[str] | None = None,
    ) -> WordCounts:
        """Return the word counts of a dict; words with the count 0 are left out.

        A WordCounts is returned as it is, unless it gets a pattern or special tokens.

        Raises:
            TypeError: a word is not bytes, or a count is not an int.
            ValueError: a count is negative.
            OverflowError: a count is greater than 2^63 - 1.
        """
        if isinstance(counts, WordCounts) and pattern is None and special_tokens is None:
            return counts
        words: list[bytes] = []
        numbers: list[int] = []
        for word, count in counts.items():
            if not isinstance(word, bytes):
                raise TypeError(
                    f"word {short_repr(word)} is of type {type(word).__name__}, not bytes"
                )
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
                raise TypeError(
                    f"the count of word {short_repr(word)} is {short_repr(count)}: it must be "
                    "an int"
                )
            if not 0 <= count <= _INT64_MAX:
                raise (ValueError if count < 0 else OverflowError)(
                    f"the count of word {short_repr(word)} is {short_repr(count)}: it must be from "
                    "0 to 2^63 - 1"
                )
            if count:
                words.append(word)
                numbers.append(int(count))
        offsets = np.zeros(len(words) + 1, np.int64)
        np.cumsum([len(word) for word in words], out=offsets[1:])
        data = np.frombuffer(b"".join(words), np.uint8)
        return cls(data, offsets, np.array(numbers, np.int64), pattern, special_tokens)

    @classmethod
    def combined(cls, addends: Iterable[WordCounts]) -> WordCounts:
        """Return the sum of several word counts: of several corpora, or of several machines.

        Raises:
            ValueError: they were made with different patterns or special tokens.
            OverflowError: a sum is greater than 2^63 - 1.
        """
        addends = list(addends)
        named = [counts.pattern for counts in addends if counts.pattern is not None]
        patterns = {_comparable(pattern) for pattern in named}
        if len(patterns) > 1:
            raise ValueError(
                "word counts of different split patterns cannot be added: "
                + " and ".join(sorted(short_repr(pattern) for pattern in patterns))
            )
        pattern = named[0] if named else None
        cut_out = {counts.special_tokens for counts in addends if counts.special_tokens is not None}
        if len(cut_out) > 1:
            raise ValueError(
                "word counts made with different special tokens cannot be added: "
                + " and ".join(sorted(short_repr(sorted(tokens)) for tokens in cut_out))
            )
        special_tokens = next(iter(cut_out), None)
        try:
            from cs336_basics.pretokenization.counting._counting import TextCounter
        except ImportError:
            total: Counter[bytes] = Counter()
            for counts in addends:
                total.update(counts)
            return cls.from_mapping(total, pattern, special_tokens)
        adder = TextCounter()
        for counts in addends:
            adder.add_words(*counts.buffers)
        return cls.of_buffers(adder.result(), pattern, special_tokens)

    def scaled(self, weight: float) -> WordCounts:
        """Return the counts times `weight`, to change the share of a corpus in a mixture.

        Products are rounded to the nearest integer; words whose product is 0 are left out.

        Raises:
            ValueError: the weight is negative or not finite.
            OverflowError: a product is greater than 2^63 - 1.
        """
        if not 0 <= weight < float("inf"):
            raise ValueError(f"weight is {weight}: it must be a finite number, at least 0")
        highest = int(self.counts.max()) if len(self) else 0
        if highest * weight > _INT64_MAX - 1024:
            raise OverflowError(f"weight {weight} makes a count of {highest:,} exceed 2^63 - 1")
        if isinstance(weight, (int, np.integer)):
            counts = self.counts * np.int64(weight)
        else:
            counts = np.rint(self.counts * np.float64(weight)).astype(np.int64)
        kept = counts > 0
        lengths = np.diff(self.offsets)
        offsets = np.zeros(int(kept.sum()) + 1, np.int64)
        np.cumsum(lengths[kept], out=offsets[1:])
        arrays = self.data[np.repeat(kept, lengths)], offsets, counts[kept]
        return self.of_buffers(arrays, self.pattern, self.special_tokens)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file; `word_count_files.py` describes the format."""
        from cs336_basics.pretokenization.counting.word_count_files import write_counts

        cut_out = None if self.special_tokens is None else sorted(self.special_tokens)
        write_counts(path, (self.data, self.offsets, self.counts), self.pattern, cut_out)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordCounts:
        """Read a file that `save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is damaged, of another format, or of a newer version.
        """
        from cs336_basics.pretokenization.counting.word_count_files import read_counts

        return read_counts(path, cls)

    @property
    def total(self) -> int:
        """The number of words, with repetition; it may exceed 64 bits."""
        high, low = self.counts >> 32, self.counts & 0xFFFFFFFF
        return (int(high.sum()) << 32) + int(low.sum())

    def sizes(self) -> str:
        """Return the number of words and of their bytes, for messages."""
        longest = int(np.diff(self.offsets).max(initial=0))
        return (
            f"{len(self):,} distinct words of {len(self.data):,} bytes, the longest of {longest:,}"
        )

    @property
    def num_bytes(self) -> int:
        """The number of bytes of all words, with repetition; it may exceed 64 bits."""
        lengths = np.diff(self.offsets)
        # (Not np.dot, which would start the threads of the linear algebra.)
        if float((lengths * self.counts.astype(float)).sum()) < 2**62:
            return int((lengths * self.counts).sum())
        # The exact sum of Python's integers takes time.
        return sum(map(int.__mul__, lengths.tolist(), self.counts.tolist()))

    def words(self) -> list[bytes]:
        """Return all words, in the order of the arrays."""
        blob, ends = self.data.tobytes(), self.offsets.tolist()
        return [blob[start:end] for start, end in itertools.pairwise(ends)]

    def as_dict(self) -> dict[bytes, int]:
        """Return the counts as a dict, which is built once and cached: do not change it."""
        if self._dict is None:
            self._dict = dict(zip(self.words(), self.counts.tolist(), strict=True))
        return self._dict

    def __getitem__(self, word: bytes) -> int:
        return self.as_dict().get(word, 0)

    def get(self, word: bytes, default: Any = None) -> Any:
        """Return the count of a word, `default` if it is absent."""
        return self.as_dict().get(word, default)

    def __contains__(self, word: object) -> bool:
        return word in self.as_dict()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.words())

    def __len__(self) -> int:
        return len(self.buffers[2])

    def items(self) -> ItemsView[bytes, int]:
        """Return the pairs of word and count, in the order of the arrays."""
        return self.as_dict().items()

    def values(self) -> ValuesView[int]:
        """Return the counts, in the order of the arrays."""
        return self.as_dict().values()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WordCounts):
            return self.as_dict() == other.as_dict()
        if isinstance(other, Mapping):
            return self.as_dict() == dict(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as dict: equal to mappings that can change

    def __add__(self, other: object) -> WordCounts:
        if not isinstance(other, WordCounts):
            return NotImplemented
        return WordCounts.combined([self, other])

    def __repr__(self) -> str:
        return f"<WordCounts: {len(self):,} distinct words, {self.total:,} in all>"

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = (self.data, self.offsets, self.counts)
        return WordCounts.of_buffers, (arrays, self.pattern, self.special_tokens)

    def check_made_with(self, pattern: str, special_tokens: Iterable[str]) -> None:
        """Check that the words were counted with this pattern and these special tokens.

        Raises:
            ValueError: they were counted with others.
        """
        if self.pattern is not None and _comparable(self.pattern) != _comparable(pattern):
            raise ValueError(
                f"the words were counted with the pattern {short_repr(self.pattern)}, not "
                f"{short_repr(pattern)}: a "
                "tokenizer must split text as its trainer did; pass the pattern of the counts"
            )
        tokens = frozenset(special_tokens)
        if self.special_tokens is not None and self.special_tokens != tokens:
            raise ValueError(
                f"the words were counted with the special tokens "
                f"{short_repr(sorted(self.special_tokens))} cut "
                f"out, not {short_repr(sorted(tokens))}: pass the same, or count again"
            )


def _view(buffer: Buffer, dtype: type) -> npt.NDArray[Any]:
    view: npt.NDArray[Any] = np.frombuffer(buffer, dtype)
    view.flags.writeable = False
    return view


def _comparable(pattern: str | None) -> str | None:
    return None if pattern is None else pattern_name(pattern) or pattern


def _first_repeated(counts: WordCounts) -> int:
    """Return the index of the first word that is equal to an earlier one; their number if none."""
    try:
        from cs336_basics.pretokenization.counting._counting import first_repeated
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
    """Return the arrays with their types, read-only; see `WordCounts` for what is raised."""
    data = _read_only("data", data, np.uint8)
    offsets = _read_only("offsets", offsets, np.int64)
    counts = _read_only("counts", counts, np.int64)
    if len(offsets) != len(counts) + 1:
        raise ValueError(
            f"{len(counts):,} counts need {len(counts) + 1:,} offsets, but there are "
            f"{len(offsets):,}"
        )
    if offsets[0] != 0 or offsets[-1] != len(data):
        raise ValueError(
            f"the offsets run from {offsets[0]:,} to {offsets[-1]:,}: they must run from 0 to the "
            f"number of bytes, {len(data):,}"
        )
    if np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("the offsets must not fall")
    if np.any(counts <= 0):
        bad = int(np.flatnonzero(counts <= 0)[0])
        raise ValueError(
            f"the count of word {short_repr(_word(data, offsets, bad))} is {counts[bad]}: it must "
            "be positive"
        )
    return data, offsets, counts


def _word(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], index: int) -> bytes:
    return data[offsets[index] : offsets[index + 1]].tobytes()


def _read_only(name: str, array: npt.NDArray[Any], dtype: type) -> npt.NDArray[Any]:
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions: it must have one")
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} holds {array.dtype}: it must hold integers")
    if array.size and not np.can_cast(array.dtype, dtype):
        limits = np.iinfo(dtype)
        for value in (int(array.min()), int(array.max())):
            if not limits.min <= value <= limits.max:
                raise ValueError(
                    f"{name} holds {value}: it must hold numbers from {limits.min} to {limits.max}"
                )
    view: npt.NDArray[Any] = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
