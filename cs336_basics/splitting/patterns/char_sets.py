"""Sets of characters, including the Unicode properties that patterns use.

The properties are stored in `unicode_sets.txt`, which `make_unicode_tables.py` generates from a
pinned version of the `regex` module.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NUM_CODE_POINTS = 0x110000

_FILE = Path(__file__).with_name("unicode_sets.txt")


@dataclass(frozen=True)
class CharSet:
    """A set of code points.

    Args:
        bounds: Ascending limits of half-open ranges. The set contains the code points in
            `range(bounds[0], bounds[1])`, `range(bounds[2], bounds[3])`, and so on.
    """

    bounds: tuple[int, ...] = ()

    @classmethod
    def of(cls, characters: Iterable[str]) -> CharSet:
        """Return the set of the given characters."""
        return union(cls((ord(character), ord(character) + 1)) for character in set(characters))

    @classmethod
    def between(cls, first: str, last: str) -> CharSet:
        """Return the set of the characters from `first` to `last`, inclusive."""
        return cls((ord(first), ord(last) + 1))

    def __contains__(self, code: int) -> bool:
        return bisect_right(self.bounds, code) % 2 == 1

    def complement(self) -> CharSet:
        """Return the set of all other code points."""
        bounds = self.bounds
        bounds = bounds[1:] if bounds[:1] == (0,) else (0, *bounds)
        end = (NUM_CODE_POINTS,)
        return CharSet(bounds[:-1] if bounds[-1:] == end else (*bounds, *end))


def union(sets: Iterable[CharSet]) -> CharSet:
    """Return the union of the given sets."""
    bounds = [char_set.bounds for char_set in sets if char_set.bounds]
    if not bounds:
        return CharSet()
    starts = sorted(itertools.chain.from_iterable(item[::2] for item in bounds))
    ends = sorted(itertools.chain.from_iterable(item[1::2] for item in bounds))
    # There is a gap between the n-th end and the next start if this start is greater: then n ranges
    # have started before the gap, and n have ended.
    gaps = (gap for gap in zip(ends, starts[1:], strict=False) if gap[0] < gap[1])
    return CharSet((starts[0], *itertools.chain.from_iterable(gaps), ends[-1]))


def intersection(sets: Iterable[CharSet]) -> CharSet:
    """Return the intersection of the given sets."""
    return union(char_set.complement() for char_set in sets).complement()


EVERYTHING = CharSet((0, NUM_CODE_POINTS))


@functools.lru_cache(maxsize=1)
def _lines() -> dict[str, str]:
    """Read unicode_sets.txt. Each line has a name and the differences between bounds, in hex."""
    lines = _FILE.read_text(encoding="ascii").splitlines()
    split = (line.partition(" ") for line in lines if not line.startswith("#"))
    return {name: steps for name, _, steps in split}


@functools.lru_cache(maxsize=256)
def named_set(name: str) -> CharSet | None:
    r"""Return the characters with a Unicode property, or None if the property is not in the file.

    Args:
        name: General category (`Lu`), group of categories (`L`), script (`Han`), `space` for `\s`,
            or `word` for `\w`.
    """
    lines = _lines()
    if name in lines:
        return CharSet(tuple(itertools.accumulate(int(step, 16) for step in lines[name].split())))
    return None
