"""Drawings of the trainers' data as text: the moment to draw, and tables of words and pairs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from unicodedata import east_asian_width

from cs336_basics._support.errors import InputError
from cs336_basics._support.visible import visible
from cs336_basics.bpe.reference import Pair, Symbols, merge_pair, split_bytes
from cs336_basics.bpe.rules import Rules
from cs336_basics.bpe.v1_naive import NaiveTrainer

MOST_BYTES = 500
"""Maximum total length of the distinct words, in bytes. Each byte may become a column."""

_LINE = 110
"""Maximum line length of tables that have a column for each position."""


class Moment:
    """The words of a text after some merges.

    Args:
        word_counts: Mapping from words to counts. The words must have at most MOST_BYTES bytes in
            total.
        num_merges: Number of merges. Fewer are made if no pair is left.

    Attributes:
        rules: The rules by which the words are merged: the default options of a trainer.
        counts: Number of occurrences of each word.
        merges: The merges so far.
        words: The symbols of each word.
        best: The pair to merge next, or None if no pair is left.

    Raises:
        ValueError: If there are no words, or they have too many bytes.
    """

    def __init__(self, word_counts: Mapping[bytes, int], num_merges: int) -> None:
        num_bytes = sum(map(len, word_counts))
        if not num_bytes:
            raise InputError("must not be empty", argument="words", remedy="try 'low lower widest'")
        if num_bytes > MOST_BYTES:
            longest = symbol_text(max(word_counts, key=len)[:20])
            raise InputError(
                f"the distinct words must have at most {MOST_BYTES} bytes in total, got "
                f"{num_bytes:,} (the longest word starts with {longest})"
            )
        self.word_counts = word_counts
        self.counts = list(word_counts.values())
        self.rules = Rules(num_merges)
        learned = NaiveTrainer().learn(self.split(), self.counts, self.rules, nullcontext)
        self.merges = [pair for pair, *_ in itertools.islice(learned, num_merges)]
        self.best = next((pair for pair, *_ in learned), None)
        self.words = self.split()
        for pair in self.merges:
            self.words = [merge_pair(symbols, pair) for symbols in self.words]

    def split(self) -> list[Symbols]:
        """Return the symbols of each word before the first merge."""
        return [split_bytes(word) for word in self.word_counts]

    def tokens(self) -> list[bytes]:
        """Return the token of each id: the 256 bytes, then the merged tokens."""
        return [*split_bytes(bytes(range(256))), *(left + right for left, right in self.merges)]

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
