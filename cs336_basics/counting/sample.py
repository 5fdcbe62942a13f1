"""Sample: a random part of a corpus that is too large to count as a whole.

The first files or the first lines of a corpus are no sample: they may have one language or one
subject. Therefore, uncompressed text and JSON Lines are cut into units of equal size, and some
are drawn, so that every byte has the same chance. Files that can be read only as a whole, such as
compressed files and tables, are read, and each row, or each block of compressed plain text, is
drawn on its own. What is drawn depends only on the files, the size and the seed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import IO, NamedTuple

from cs336_basics._support.arguments import MAX_INT64, checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.splitting.patterns.split_sequences import NO_SPLIT
from cs336_basics.splitting.safe_cuts import SafeCuts
from cs336_basics.text.cuts import Cuts, next_cut
from cs336_basics.text.sources import DivisibleSource, Piece, PlainText, Source, TextBlock

UNITS = 2000
"""Number of units in a sample, unless they would be too small or too large."""

SMALLEST_UNIT, LARGEST_UNIT = 1 << 16, 1 << 23
"""Limits of the size of a unit in bytes."""

_RANGE = 1 << 64


@dataclass(frozen=True)
class Sample:
    """How to draw a sample of a corpus.

    A document of uncompressed plain text ends at a special token. Documents are drawn as a whole,
    unless they are larger than a unit. A file that is smaller than a unit is drawn as a whole.

    Args:
        num_bytes: Approximate size of the sample in stored bytes. A smaller corpus is used as a
            whole.
        seed: Seed of the draws.

    Raises:
        ValueError, TypeError: If a value is not an integer or out of range.
    """

    num_bytes: int
    seed: int = 0

    def __post_init__(self) -> None:
        checked_integer("sample", self.num_bytes, 1, MAX_INT64, note=" byte")
        checked_integer("sample_seed", self.seed, 0, MAX_INT64)

    @property
    def unit_bytes(self) -> int:
        """Size of a unit in bytes."""
        return min(max(self.num_bytes // UNITS, SMALLEST_UNIT), LARGEST_UNIT)

    def portion(self, share: float) -> Sample:
        """Return the sample of a corpus that has this share of a mixture."""
        return dataclasses.replace(self, num_bytes=max(1, round(self.num_bytes * share)))

    def draw(self, sources: Iterable[Source]) -> list[DrawnUnits | DrawnRows]:
        """Return what is drawn from each file, in order."""
        sources = list(sources)
        sizes = [source.num_bytes for source in sources]
        share = min(1.0, self.num_bytes / max(1, sum(sizes)))
        num_units = [
            -(-size // self.unit_bytes) if _has_units(source) else 0
            for source, size in zip(sources, sizes, strict=True)
        ]
        total = sum(num_units)
        number = min(total, max(1, round(total * share)))
        chosen = iter(sorted(random.Random(self.seed).sample(range(total), number)))
        found: list[DrawnUnits | DrawnRows] = []
        unit = next(chosen, None)
        for index, (source, size, end) in enumerate(
            zip(sources, sizes, itertools.accumulate(num_units), strict=True)
        ):
            if not _has_units(source):
                seed = f"{self.seed} {index}"
                found.append(DrawnRows(source, size, share, seed, self.unit_bytes))
                continue
            ranges = []
            while unit is not None and unit < end:
                start = (unit - end + num_units[index]) * self.unit_bytes
                ranges.append((start, min(start + self.unit_bytes, size)))
                unit = next(chosen, None)
            found.append(DrawnUnits(source, ranges, self.unit_bytes))
        return found


def check_sample(sample: object) -> None:
    """Raise TypeError if a value is not a Sample."""
    if not isinstance(sample, Sample):
        raise InputTypeError(
            f"must be a Sample, got {short_repr(sample)}",
            argument="sample",
            remedy="pass Sample(10**9)",
        )


def _has_units(source: Source) -> bool:
    return isinstance(source, DivisibleSource) and not source.is_compressed


class DrawnUnits(NamedTuple):
    """The units that are drawn from a file."""

    source: Source
    ranges: Sequence[tuple[int, int]]
    """Limits of each unit in bytes."""
    unit_bytes: int

    @property
    def num_bytes(self) -> int:
        """Size of the units in stored bytes."""
        return sum(end - start for start, end in self.ranges)

    def pieces(self, special_tokens: Sequence[str], num_bytes: int) -> list[PieceOfUnits]:
        """Return pieces of at most about `num_bytes`.

        Args:
            special_tokens: Tokens that separate documents of plain text.
            num_bytes: Approximate number of stored bytes in a piece.
        """
        source = self.source
        if isinstance(source, PlainText):
            source = _Documents(
                source.path,
                errors=source.errors,
                max_piece_bytes=source.max_piece_bytes,
                unit_bytes=self.unit_bytes,
                special_tokens=tuple(special_tokens),
            )
        number = max(1, num_bytes // self.unit_bytes)
        return [
            PieceOfUnits(source, self.ranges[i : i + number])
            for i in range(0, len(self.ranges), number)
        ]


class DrawnRows(NamedTuple):
    """A file that can be read only as a whole, and how rows are drawn while it is read."""

    source: Source
    size: int
    """Size of the file in bytes."""
    share: float
    """Probability with which each row is drawn."""
    seed: str
    block_size: int
    """Size in bytes of the blocks that are drawn from compressed plain text, which has no rows."""

    @property
    def num_bytes(self) -> int:
        """Expected size of the rows in stored bytes."""
        return round(self.size * self.share)

    def pieces(self, special_tokens: Sequence[str], num_bytes: int) -> list[PieceOfRows]:
        """Return pieces of about `num_bytes`, before rows are drawn; see `DrawnUnits`."""
        return [
            PieceOfRows(piece, self.share, self.seed, self.block_size, tuple(special_tokens))
            for piece in self.source.pieces(num_bytes)
        ]


@dataclass(frozen=True)
class PieceOfUnits:
    """Like `Piece`, a part of a file that any process can read: some of the units."""

    source: Source
    ranges: Sequence[tuple[int, int]]
    """Limits of each unit in bytes."""

    @property
    def num_bytes(self) -> int:
        """Size of the units in stored bytes."""
        return sum(end - start for start, end in self.ranges)

    def texts(self, cuts: Cuts) -> Iterator[TextBlock]:
        """Yield the texts of the units; see `Piece.texts`. A document starts at each unit."""
        for start, end in self.ranges:
            unit = Piece(self.source, start, end, end - start)
            first = True
            for block in unit.texts(cuts):
                yield block._replace(starts_document=first or block.starts_document)
                first = False


@dataclass(frozen=True)
class PieceOfRows:
    """A piece of a file and how to draw rows from it; any process can read it, like a `Piece`."""

    piece: Piece
    share: float
    seed: str
    block_size: int
    special_tokens: tuple[str, ...]

    @property
    def source(self) -> Source:
        """The file."""
        return self.piece.source

    @property
    def num_bytes(self) -> int:
        """Expected size of the rows in stored bytes."""
        return round(self.piece.num_bytes * self.share)

    def texts(self, cuts: Cuts) -> Iterator[TextBlock]:
        """Yield the rows that are drawn; see `Piece.texts`. Each is a document."""
        # The blocks of compressed plain text must not depend on the split pattern.
        blocks = self.piece.texts(_safe_cuts(self.special_tokens), self.block_size)
        for number, block in enumerate(blocks):
            key = f"{self.seed} {self.piece.start} {number}".encode()
            digest = hashlib.blake2b(key, digest_size=8).digest()
            if int.from_bytes(digest, "little") < self.share * _RANGE:
                yield block._replace(starts_document=True)


@functools.lru_cache(maxsize=4)
def _safe_cuts(special_tokens: tuple[str, ...], pattern: str = "gpt2") -> SafeCuts:
    """Return the safe cuts, which take milliseconds to prepare; every unit needs them."""
    return SafeCuts(special_tokens, pattern)


@dataclass(frozen=True)
class _Documents(PlainText):
    """Plain text that is divided between documents if there is a boundary within a unit."""

    _: KW_ONLY
    unit_bytes: int
    special_tokens: tuple[str, ...]

    def boundary(self, file: IO[bytes], offset: int, cuts: Cuts) -> int:
        """Return the first boundary at or after `offset`, which does not depend on the pattern."""
        if not offset:
            return 0
        documents = _safe_cuts(self.special_tokens, NO_SPLIT)
        if documents.may_exist:
            try:
                cut = next_cut(file, offset, documents, max_bytes=self.unit_bytes)
                if cut - offset <= self.unit_bytes:
                    return cut
            except InputError:  # no boundary is near
                pass
        words = _safe_cuts(self.special_tokens)
        return next_cut(file, offset, words, max_bytes=self.max_piece_bytes)
