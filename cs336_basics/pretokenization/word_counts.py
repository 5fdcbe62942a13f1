"""WordCounts: distinct words and how often each occurs, in three flat arrays.

BPE training needs only the word counts of a text, which are far smaller than the text. With saved
counts, a larger vocabulary, another mixture of corpora or the sum over several machines needs no
second pass over the text.

The file that `WordCounts.save` writes is a NumPy `.npz` archive (a ZIP file of `.npy` arrays,
without pickled objects):

| array | type | content |
|---|---|---|
| `header` | uint8 | UTF-8 JSON: `format`, `version` (1), `pattern`, `special_tokens` |
| `data` | uint8 | the bytes of all words, one after the other |
| `offsets` | int64 little-endian, n + 1 | word i is `data[offsets[i]:offsets[i + 1]]` |
| `counts` | int64 little-endian, n | occurrences of word i, greater than zero |
"""

from __future__ import annotations

import io
import itertools
import json
import os
import zipfile
from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cs336_basics._files import atomic_writer
from cs336_basics._journal import open_regular
from cs336_basics._messages import short_reason, short_repr
from cs336_basics._reading import parse_json, read_array_header
from cs336_basics.pretokenization.patterns import pattern_name

FORMAT = "cs336_basics word counts"
FORMAT_VERSION = 1

_ARRAYS = {"header": "uint8", "data": "uint8", "offsets": "int64", "counts": "int64"}

_INT64_MAX = 2**63 - 1


class WordCounts(Mapping[bytes, int]):
    """Distinct words and their counts: word (bytes) -> int, without an object for each word.

    It behaves like an immutable Counter: an absent word has the count 0. The first look-up by word
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
        ValueError: the arrays do not match, a count is not positive, or a word is repeated.
        TypeError: an array does not hold integers.
    """

    _data: npt.NDArray[np.uint8]
    _offsets: npt.NDArray[np.int64]
    _counts: npt.NDArray[np.int64]

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        pattern: str | None = None,
        special_tokens: Iterable[str] | None = None,
    ) -> None:
        # (Copied first, then checked: others may write to the originals meanwhile.)
        self._set(np.array(data), np.array(offsets), np.array(counts), pattern, special_tokens)
        self._check_distinct()

    @classmethod
    def adopt(
        cls,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        pattern: str | None = None,
        special_tokens: Iterable[str] | None = None,
    ) -> WordCounts:
        """Return word counts of arrays that nothing else can write to, without copying them.

        The words must be distinct: that is not checked.

        Raises:
            ValueError, TypeError: as the constructor.
        """
        adopted = cls.__new__(cls)
        adopted._set(data, offsets, counts, pattern, special_tokens)
        return adopted

    def _set(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        pattern: str | None,
        special_tokens: Iterable[str] | None,
    ) -> None:
        self._data = _read_only("data", data, np.uint8)
        self._offsets = _read_only("offsets", offsets, np.int64)
        self._counts = _read_only("counts", counts, np.int64)
        self.pattern = pattern
        self.special_tokens = None if special_tokens is None else frozenset(special_tokens)
        self._dict: dict[bytes, int] | None = None
        if len(self.offsets) != len(self.counts) + 1:
            raise ValueError(
                f"{len(self.counts):,} counts need {len(self.counts) + 1:,} offsets, but there are "
                f"{len(self.offsets):,}"
            )
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.data):
            raise ValueError(
                f"the offsets run from {self.offsets[0]:,} to {self.offsets[-1]:,}: they must run "
                f"from 0 to the number of bytes, {len(self.data):,}"
            )
        if np.any(self.offsets[1:] < self.offsets[:-1]):
            raise ValueError("the offsets must not fall")
        if np.any(self.counts <= 0):
            bad = int(np.flatnonzero(self.counts <= 0)[0])
            raise ValueError(
                f"the count of word {short_repr(self._word(bad))} is {self.counts[bad]}: it "
                "must be positive"
            )

    def _check_distinct(self) -> None:
        index = _first_repeated(self)
        if index < len(self):
            raise ValueError(
                f"the word {short_repr(self._word(index))} is repeated (word {index:,}): add up "
                "the counts of equal words"
            )

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes of all words, read-only."""
        return self._data

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where the words begin in `data`, and its length; read-only."""
        return self._offsets

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How often each word occurs, read-only."""
        return self._counts

    @classmethod
    def from_mapping(
        cls,
        counts: Mapping[bytes, int],
        pattern: str | None = None,
        special_tokens: Iterable[str] | None = None,
    ) -> WordCounts:
        """Return the word counts of a dict; words with the count 0 are left out.

        Raises:
            TypeError: a word is not bytes, or a count is not an int.
            ValueError: a count is negative.
            OverflowError: a count is greater than 2^63 - 1.
        """
        words: list[bytes] = []
        numbers: list[int] = []
        for word, count in counts.items():
            if not isinstance(word, bytes):
                raise TypeError(f"word {short_repr(word)} is a {type(word).__name__}, not bytes")
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
                raise TypeError(
                    f"the count of word {short_repr(word)} is {short_repr(count)}: it must be "
                    "an int"
                )
            if count < 0:
                raise ValueError(
                    f"the count of word {short_repr(word)} is {count}: it must not be negative"
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
            from cs336_basics.pretokenization._counting import TextCounter
        except ImportError:
            total: Counter[bytes] = Counter()
            for counts in addends:
                total.update(counts)
            return cls.from_mapping(total, pattern, special_tokens)
        adder = TextCounter()
        for counts in addends:
            adder.add_words(counts.data, counts.offsets, counts.counts)
        return cls.adopt(*adder.result(), pattern, special_tokens)

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
        if kept.all():
            return self.adopt(self.data, self.offsets, counts, self.pattern, self.special_tokens)
        lengths = np.diff(self.offsets)
        offsets = np.zeros(int(kept.sum()) + 1, np.int64)
        np.cumsum(lengths[kept], out=offsets[1:])
        data = self.data[np.repeat(kept, lengths)]
        return self.adopt(data, offsets, counts[kept], self.pattern, self.special_tokens)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file; the docstring of this module describes the format."""
        cut_out = None if self.special_tokens is None else sorted(self.special_tokens)
        header = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "pattern": self.pattern,
            "special_tokens": cut_out,
        }
        with atomic_writer(path) as file:
            np.savez(
                file,
                header=np.frombuffer(json.dumps(header).encode(), np.uint8),
                data=self.data,
                offsets=self.offsets.astype("<i8", copy=False),
                counts=self.counts.astype("<i8", copy=False),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordCounts:
        """Read a file that `save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is damaged, of another format, or of a newer version.
        """
        with open_regular(path) as file:
            try:
                return cls._read(file)
            except MemoryError:
                raise
            except Exception as error:
                # zipfile, zlib, NumPy and JSON each report a damaged archive in their own way.
                raise ValueError(
                    f"{os.fspath(path)} is not a file of word counts, or is damaged: "
                    f"{short_reason(error)}"
                ) from error

    @classmethod
    def _read(cls, file: BinaryIO) -> WordCounts:
        with zipfile.ZipFile(file) as archive:
            header = parse_json(_read_array(archive, "header", file).tobytes(), "header.npy")
            if not isinstance(header, dict) or header.get("format") != FORMAT:
                found = header.get("format") if isinstance(header, dict) else header
                raise ValueError(f"its format is {short_repr(found)}")
            arrays = [_read_array(archive, key, file) for key in ("data", "offsets", "counts")]
        if header.get("version") != FORMAT_VERSION:
            raise ValueError(
                f"its version is {short_repr(header.get('version'))}, this library reads "
                f"{FORMAT_VERSION}"
            )
        pattern, special_tokens = header.get("pattern"), header.get("special_tokens")
        if pattern is not None and not isinstance(pattern, str):
            raise ValueError(f"its pattern is {short_repr(pattern)}, not a string")
        if special_tokens is not None and not (
            isinstance(special_tokens, list) and all(isinstance(t, str) for t in special_tokens)
        ):
            raise ValueError(
                f"its special_tokens are {short_repr(special_tokens)}, not a list of strings"
            )
        data, offsets, counts = arrays
        read = cls.adopt(data, offsets, counts, pattern, special_tokens)
        read._check_distinct()
        return read

    @property
    def total(self) -> int:
        """The number of words, with repetition; it may exceed 64 bits."""
        high, low = self.counts >> 32, self.counts & 0xFFFFFFFF
        return (int(high.sum()) << 32) + int(low.sum())

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
        return len(self.counts)

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
        return WordCounts.adopt, (*arrays, self.pattern, self.special_tokens)

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

    def _word(self, index: int) -> bytes:
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()


def _comparable(pattern: str | None) -> str | None:
    return None if pattern is None else pattern_name(pattern) or pattern


def _read_array(archive: zipfile.ZipFile, key: str, file: BinaryIO) -> npt.NDArray[Any]:
    """Return an array of the archive, which is not larger than the file."""
    name = f"{key}.npy"
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise ValueError(f"{name} is compressed: save the counts again, with WordCounts.save")
    if member.file_size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"{name} is longer than the file")
    content = archive.read(member)  # checks the checksum
    stream = io.BytesIO(content)
    dtype, _ = read_array_header(stream, name, len(content), (_ARRAYS[key],))
    return np.frombuffer(content, dtype, offset=stream.tell())


def _first_repeated(counts: WordCounts) -> int:
    """Return the index of the first word that is equal to an earlier one; their number if none."""
    try:
        from cs336_basics.pretokenization._counting import first_repeated
    except ImportError:
        found: set[bytes] = set()
        for index, word in enumerate(counts.words()):
            found.add(word)
            if len(found) == index:
                return index
        return len(counts)
    return first_repeated(counts.data, counts.offsets)


def _read_only(name: str, array: npt.NDArray[Any], dtype: type) -> npt.NDArray[Any]:
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions: it must have one")
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} holds {array.dtype}: it must hold integers")
    view: npt.NDArray[Any] = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
