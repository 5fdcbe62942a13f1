"""Parity-aware BPE: learn merges from several sources so that all are compressed equally well.

Foroutan et al. 2025, "Parity-Aware Byte-Pair Encoding: Improving Cross-lingual Fairness in
Tokenization", arXiv 2508.04796. Each source, such as a language, has a text to learn from and a
held-out text. Each step finds the source whose held-out text is compressed worst, merges the most
frequent pair of this source, and applies the merge to the texts of all sources.

`specified_parity` is the definition. The native trainer learns the same merges. Hugging Face's
`ParityBpeTrainer` learns them with `tie_break="huggingface"`, `min_frequency=1` and the unit
`"parallel"`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cs336_basics._support.arguments import (
    MAX_INT64,
    check_choice,
    check_is_number,
    checked_integer,
)
from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.bpe.reference import Pair, Symbols, merge_pair
from cs336_basics.bpe.rules import LargestPair, Rules, Ties, huggingface_byte_ranks

if TYPE_CHECKING:
    from fractions import Fraction

    from cs336_basics.counting import WordCounts

UNITS = ("bytes", "characters", "parallel")


@dataclass(frozen=True)
class Parity:
    """How to choose the source of the next merge.

    Args:
        unit: The compression of a source is the size of its held-out text in this unit, divided by
            its tokens. Use `"bytes"`, `"characters"`, or `"parallel"` if the held-out texts are
            translations of each other, which counts all of them as equally large.
        window: Number of the last choices to look back at, or None. A source that was chosen more
            than `alpha / number of sources` of these times must wait. This is the paper's window
            variant, which uses 100.
        alpha: See `window`, at least 1. The paper uses 2.
        global_merges: Number of merges to learn from the sum of all sources first: the paper's
            hybrid variant.

    Raises:
        ValueError, TypeError: If an argument has an invalid value.
    """

    unit: str = "bytes"
    window: int | None = None
    alpha: float = 2.0
    global_merges: int = 0

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, UNITS)
        if self.window is not None:
            object.__setattr__(self, "window", checked_integer("window", self.window, 1, 1 << 30))
        check_is_number("alpha", self.alpha)
        if not 1 <= self.alpha < float("inf"):
            raise InputError(
                f"must be finite and at least 1, got {short_repr(self.alpha)}", argument="alpha"
            )
        object.__setattr__(self, "alpha", float(self.alpha))
        merges = checked_integer("global_merges", self.global_merges, 0, MAX_INT64)
        object.__setattr__(self, "global_merges", merges)

    def most_in_window(self, num_sources: int) -> int:
        """Return how often a source may occur in the window without having to wait."""
        if self.window is None:
            return 0
        share = self.alpha / num_sources
        return max(n for n in range(self.window + 1) if n / self.window <= share)

    def record(self) -> dict[str, Any]:
        """Return the options for a JSON file."""
        return asdict(self)


class ParityWords(NamedTuple):
    """The counted words of each source."""

    train: Sequence[WordCounts]
    dev: Sequence[WordCounts]
    """Of the held-out texts."""

    def check(self) -> None:
        """Check that there is a held-out text for each of several sources, and that all have words.

        Raises:
            ValueError: If there is not.
        """
        if len(self.train) < 2:
            raise InputError(f"must be at least two, got {len(self.train)}", argument="sources")
        if len(self.dev) != len(self.train):
            raise InputError(
                f"must be one held-out text for each source, got {len(self.dev)} for "
                f"{len(self.train)} sources",
                argument="dev",
            )
        for name, group in zip(("sources", "dev"), self, strict=True):
            for index, counts in enumerate(group):
                counts.check_num_bytes()
                if not len(counts):
                    raise InputError(
                        f"must contain words, got none at index {index}", argument=name
                    )

    def sizes(self, unit: str) -> list[int]:
        """Return the sizes of the held-out texts; see `Parity`."""
        if unit == "bytes":
            return [counts.num_bytes for counts in self.dev]
        if unit == "characters":
            return [
                sum(count * num_characters(word) for word, count in counts.items())
                for counts in self.dev
            ]
        return [1] * len(self.dev)


def num_characters(word: bytes) -> int:
    """Return the number of characters that start in a word."""
    return sum(byte & 0xC0 != 0x80 for byte in word)


class Served(NamedTuple):
    """A merge of parity-aware BPE."""

    pair: Pair
    frequency: int
    """Count of the pair in the source that chose it, or in all sources."""
    source: int | None
    """Index of the source that chose the pair, or None for a merge from the sum of all sources."""


def specified_parity(
    train: Sequence[Mapping[Symbols, int]],
    dev: Sequence[Mapping[Symbols, int]],
    sizes: Sequence[int],
    rules: Rules,
    parity: Parity,
) -> Iterator[Served]:
    """Yield the merges until no pair is left, as the definition says. All pairs are counted anew.

    Of equally compressed sources, the first one is served. Equally frequent pairs are ordered by
    `ties_of`.

    Args:
        train: For each source, the symbols of its distinct words, and their counts.
        dev: The same for the held-out texts.
        sizes: Sizes of the held-out texts in the unit of compression.
        rules: See `BPE_Trainer.learn`.
        parity: How to choose sources.
    """
    from fractions import Fraction  # importing it takes as long as a small training run

    ties = ties_of(rules)
    most = parity.most_in_window(len(train))
    chosen: deque[int] = deque(maxlen=parity.window or 0)
    exhausted: set[int] = set()
    num_merges = 0

    def compression(source: int) -> tuple[Fraction, int]:
        length = sum(len(symbols) * count for symbols, count in dev[source].items())
        return Fraction(sizes[source], length), source

    while len(exhausted) < len(train):
        if num_merges < parity.global_merges:
            source, counted = None, train
        else:
            left = [s for s in range(len(train)) if s not in exhausted]
            free = [s for s in left if parity.window is None or chosen.count(s) <= most]
            source = min(free or left, key=compression)
            chosen.append(source)
            counted = train[source : source + 1]
        best, count = _most_frequent(counted, rules, ties)
        if best is None:
            if source is None:
                return
            exhausted.add(source)
            continue
        train = [_merged(words, best) for words in train]
        dev = [_merged(words, best) for words in dev]
        ties.add(best)
        num_merges += 1
        yield Served(best, count, source)


def _most_frequent(
    sources: Sequence[Mapping[Symbols, int]], rules: Rules, ties: Ties
) -> tuple[Pair | None, int]:
    """Return the most frequent pair that the rules allow, and its count, or None and 0."""
    while True:
        counts: Counter[Pair] = Counter()
        for words in sources:
            for symbols, count in words.items():
                for pair in rules.pairs(symbols):
                    counts[pair] += count
        best = max(counts, key=lambda pair: (counts[pair], ties.key(pair)), default=None)
        if best is None or counts[best] < rules.min_frequency:
            return None, 0
        if not rules.refuse(best, counts[best]):
            return best, counts[best]


def _merged(words: Mapping[Symbols, int], pair: Pair) -> dict[Symbols, int]:
    return {merge_pair(symbols, pair): count for symbols, count in words.items()}


class LargestCharacters:
    """The tie rule of Hugging Face's `ParityBpeTrainer`: the largest pair of tokens first.

    Tokens are compared as strings of GPT-2's characters for bytes.
    """

    def __init__(self) -> None:
        self._table = bytes(huggingface_byte_ranks())

    def key(self, pair: Pair) -> Pair:
        """See `Ties`."""
        return pair[0].translate(self._table), pair[1].translate(self._table)

    def add(self, pair: Pair) -> None:
        """See `Ties`."""


def ties_of(rules: Rules) -> Ties:
    """Return the order of equally frequent pairs, which differs from `Rules.ties`.

    With `tie_break="huggingface"`, it is LargestCharacters, because Hugging Face's parity-aware
    trainer breaks ties in another way than its ordinary trainer.
    """
    return LargestCharacters() if rules.tie_break == "huggingface" else LargestPair()
