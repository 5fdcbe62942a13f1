"""Drawings of the trainers' data as text: the moment to draw, and tables of words and pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from unicodedata import east_asian_width

from cs336_basics._support.visible import visible
from cs336_basics.bpe.reference import Pair, Symbols, merge_pair
from cs336_basics.bpe.rules import Rules

MOST_BYTES = 500
"""Maximum total length of the distinct words, in bytes. Each byte may become a column."""

_LINE = 110
"""Maximum line length of tables that have a column for each position."""


@dataclass(frozen=True)
class Moment:
    """The words of a text after some merges.

    Attributes:
        word_counts: Mapping from words to counts.
        rules: The rules by which the words are merged.
        merges: The merges so far.
        best: The pair to merge next, or None if no pair is left.
    """

    word_counts: Mapping[bytes, int]
    rules: Rules
    merges: list[Pair]
    best: Pair | None

    @property
    def counts(self) -> list[int]:
        """Number of occurrences of each word."""
        return list(self.word_counts.values())

    @cached_property
    def words(self) -> list[Symbols]:
        """The symbols of each word."""
        words = self.split()
        for pair in self.merges:
            words = [merge_pair(symbols, pair) for symbols in words]
        return words

    def split(self) -> list[Symbols]:
        """Return the symbols of each word before the first merge."""
        return [self.rules.start.split(word) for word in self.word_counts]

    def tokens(self) -> list[bytes]:
        """Return the token of each symbol: those before the first merge, then the merged ones."""
        return [*self.rules.start.symbols, *(left + right for left, right in self.merges)]

    def pairs(self) -> list[tuple[Pair, int]]:
        """Return the pairs and their counts, starting with the next pair to merge."""
        pair_counts: Counter[Pair] = Counter()
        for symbols, count in zip(self.words, self.counts, strict=True):
            for pair in self.rules.pairs(symbols):
                pair_counts[pair] += count
        return sorted(pair_counts.items(), key=lambda item: (item[1], item[0]), reverse=True)


def draw_pairs(moment: Moment) -> str:
    """Return the words, the pairs with their counts, and the most frequent pair."""
    pairs = [(pair_text(pair), count) for pair, count in moment.pairs()]
    return f"{words_table(moment)}\n\n{table([('pair', 'count'), *pairs])}\n\n{maximum(moment)}"


def words_table(moment: Moment) -> str:
    """Return a table of the words."""
    numbered = enumerate(zip(moment.words, moment.counts, strict=True))
    rows = [(i, count, " ".join(map(symbol_text, symbols))) for i, (symbols, count) in numbered]
    return table([("word", "count", "symbols"), *rows])


def maximum(moment: Moment) -> str:
    """Return a line with the pair to merge next."""
    return f"the maximum: {pair_text(moment.best) if moment.best else 'none, no pair is left'}"


def symbol_text(symbol: bytes) -> str:
    """Return a symbol as printable text. Quote "." and "-", which the drawings use as marks."""
    text = visible(symbol)
    return f"'{text}'" if text in (".", "-") else text


def pair_text(pair: Pair) -> str:
    """Return a pair as printable text."""
    return f"({symbol_text(pair[0])}, {symbol_text(pair[1])})"


def table(rows: Iterable[Iterable[object]]) -> str:
    """Format rows as text with left-aligned columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    padded = [
        [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        for row in cells
    ]
    return "\n".join("  ".join(row).rstrip() for row in padded)


def bands(rows: list[list[str]]) -> str:
    """Format a table with a column for each position, as several tables if it is too wide."""
    names, *columns = zip(*rows, strict=True)
    found: list[list[tuple[str, ...]]] = []
    width = _LINE
    for column in columns:
        needed = 2 + max(map(_width, column))
        if width + needed > _LINE:
            found.append([names])
            width = max(map(_width, names))
        found[-1].append(column)
        width += needed
    return "\n\n".join(table(zip(*band, strict=True)) for band in found)


def _width(text: str) -> int:
    """Return the number of terminal columns that the text occupies."""
    return len(text) + sum(east_asian_width(character) in "WF" for character in text)
