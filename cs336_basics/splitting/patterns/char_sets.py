"""Sets of characters, including the Unicode properties that patterns use.

The properties are stored in `unicode_sets.txt`. `make_unicode_tables.py` generates the file, along
with the tables of the compiled scanner, from a pinned version of the `regex` module.
"""

from __future__ import annotations

import functools
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
    changes: dict[int, int] = {}
    for char_set in sets:
        for index, bound in enumerate(char_set.bounds):
            changes[bound] = changes.get(bound, 0) + (1 if index % 2 == 0 else -1)
    bounds: list[int] = []
    depth = 0
    for bound in sorted(changes):
        before, depth = depth, depth + changes[bound]
        if (before == 0) != (depth == 0):
            bounds.append(bound)
    return CharSet(tuple(bounds))


def intersection(sets: Iterable[CharSet]) -> CharSet:
    """Return the intersection of the given sets."""
    return union(char_set.complement() for char_set in sets).complement()


EVERYTHING = CharSet((0, NUM_CODE_POINTS))


@functools.lru_cache(maxsize=1)
def _named_sets() -> dict[str, CharSet]:
    """Read unicode_sets.txt. Each line has a name and the differences between bounds, in hex."""
    sets = {}
    for line in _FILE.read_text(encoding="ascii").splitlines():
        if line and not line.startswith("#"):
            name, *steps = line.split()
            bounds, bound = [], 0
            for step in steps:
                bound += int(step, 16)
                bounds.append(bound)
            sets[name] = CharSet(tuple(bounds))
    return sets


@functools.lru_cache(maxsize=256)
def named_set(name: str) -> CharSet | None:
    r"""Return the characters with a Unicode property, or None if the property is not in the file.

    Args:
        name: General category (`Lu`), group of categories (`L`), script (`Han`), `space` for `\s`,
            or `word` for `\w`.
    """
    sets = _named_sets()
    if name in sets:
        return sets[name]
    members = [sets[key] for key in sets if len(name) == 1 and len(key) == 2 and key[0] == name]
    return union(members) if members else None
