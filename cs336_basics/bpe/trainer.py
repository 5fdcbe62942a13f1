"""BPE_Trainer: what every version of the trainer shares. A version adds one idea, `_learn_merges`.

Byte-pair encoding (Sennrich et al. 2016; over bytes: Radford et al. 2019): begin with words as
sequences of single bytes; again and again find the most frequent pair of neighbours and merge it
everywhere into a new token. The tie rule of CS336: of equally frequent pairs the greatest one
wins, compared as `(bytes, bytes)`.
"""

from __future__ import annotations

import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from tqdm import tqdm

from cs336_basics.pretokenization.counting import count_words
from cs336_basics.pretokenization.patterns import resolve_pattern
from cs336_basics.pretokenization.splitting import check_special_tokens

Pair = tuple[bytes, bytes]

NUM_BYTES = 256
_INT64_MAX = 2**63 - 1

PHASES = ("reading and counting", "counting pairs", "finding the maximum", "updating", "total")
"""The keys of `BPE_Trainer.timings`, in seconds of wall time."""


class BPE_Trainer(ABC):
    """Learns a byte-level BPE vocabulary from a text file.

    The base class reads, splits and counts, checks what it is given, and builds the vocabulary; a
    subclass learns the merges. So there are two honest timings, of the merge loop alone and of the
    whole, and both compare like with like.

    Args:
        pattern: split pattern, a name in PATTERNS or a regular expression.
        num_workers: processes that count words, None = one for each core.
        errors: `"replace"` reads bytes that are not UTF-8 as U+FFFD, `"strict"` refuses them.
        progress: show progress bars on a terminal.

    Attributes:
        timings: after training, phase -> seconds; the phases are PHASES.
    """

    name: ClassVar[str]
    """The key of the class in TRAINERS."""

    def __init__(
        self,
        *,
        pattern: str = "gpt2",
        num_workers: int | None = None,
        errors: str = "replace",
        progress: bool = False,
    ) -> None:
        resolve_pattern(pattern)
        self.pattern = pattern
        self.num_workers = num_workers
        self.errors = errors
        self.progress = progress
        self.timings: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self._bar: tqdm[Any] | None = None

    def train(
        self,
        input_path: str | os.PathLike[str],
        vocab_size: int,
        special_tokens: Iterable[str],
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on a text file.

        Args:
            input_path: UTF-8 text; see `count_words` for how it is read.
            vocab_size: size of the vocabulary: 256 bytes, the special tokens, the merges.
            special_tokens: cut out of the text first, so that they add nothing to any count and no
                merge crosses them.

        Returns:
            vocab: id -> bytes. Ids 0-255 are the bytes, then come the special tokens in the order
                given, then the merged tokens in the order of the merges.
            merges: the merged pairs, in order. When no pair is left before `vocab_size` is
                reached, training stops early, with a warning.

        Raises:
            ValueError: `vocab_size` has no room for the bytes and special tokens; a special token
                is empty, repeated, or a single byte; the file is empty or a directory.
            FileNotFoundError: there is no such file.
        """
        tokens = _check_request(vocab_size, special_tokens)
        self._reset_timings()
        start = time.perf_counter()
        word_counts = count_words(
            input_path,
            tokens,
            pattern=self.pattern,
            num_workers=self.num_workers,
            errors=self.errors,
            progress=self.progress,
        )
        counted = time.perf_counter()
        self.timings["reading and counting"] = counted - start
        result = self._train_on(word_counts, vocab_size, tokens)
        self.timings["total"] = time.perf_counter() - start
        return result

    def train_from_counts(
        self, word_counts: Mapping[bytes, int], vocab_size: int, special_tokens: Iterable[str] = ()
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on words that are counted already; otherwise as `train`.

        Args:
            word_counts: pre-token (bytes) -> number of occurrences, at least zero.

        Raises:
            ValueError: as `train`; a negative count; counts that together do not fit 64 bits.
            TypeError: a word that is not bytes, a count that is not an int.
        """
        tokens = _check_request(vocab_size, special_tokens)
        self._reset_timings()
        start = time.perf_counter()
        result = self._train_on(word_counts, vocab_size, tokens)
        self.timings["total"] = time.perf_counter() - start
        return result

    @abstractmethod
    def _learn_merges(self, words: list[bytes], counts: list[int], num_merges: int) -> list[Pair]:
        """Return up to `num_merges` merges, fewer only if no pair is left.

        Args:
            words: distinct words of at least two bytes.
            counts: their numbers of occurrences, all positive; Σ count·length fits 63 bits.
            num_merges: how many merges to learn.

        A version adds its seconds to `self.timings` under the names in PHASES, and calls
        `self._advance(n)` after every n merges.
        """

    def _train_on(
        self, word_counts: Mapping[bytes, int], vocab_size: int, special_tokens: list[str]
    ) -> tuple[dict[int, bytes], list[Pair]]:
        words, counts = _check_counts(word_counts)
        num_merges = vocab_size - NUM_BYTES - len(special_tokens)
        with tqdm(
            total=num_merges,
            unit=" merges",
            desc="learning merges",
            disable=None if self.progress else True,
        ) as bar:
            self._bar = bar
            merges = self._learn_merges(words, counts, num_merges)
        self._bar = None
        if len(merges) < num_merges:
            warnings.warn(
                f"no pair was left after {len(merges):,} of {num_merges:,} merges: the vocabulary "
                f"has {vocab_size - num_merges + len(merges):,} tokens instead of {vocab_size:,}; "
                "a larger text would fill it",
                stacklevel=3,
            )
        return build_vocab(special_tokens, merges), merges

    def _advance(self, num_merges: int) -> None:
        if self._bar is not None:
            self._bar.update(num_merges)

    def _reset_timings(self) -> None:
        self.timings = dict.fromkeys(PHASES, 0.0)


def build_vocab(special_tokens: Iterable[str], merges: Iterable[Pair]) -> dict[int, bytes]:
    """Return the vocabulary: the 256 bytes, the special tokens, the merges in order."""
    tokens = [bytes([byte]) for byte in range(NUM_BYTES)]
    tokens.extend(token.encode() for token in special_tokens)
    tokens.extend(left + right for left, right in merges)
    return dict(enumerate(tokens))


def merge_pair(symbols: tuple[bytes, ...], pair: Pair) -> tuple[bytes, ...]:
    """Merge every occurrence of a pair in a word, from left to right.

    >>> merge_pair((b"a", b"a", b"a"), (b"a", b"a"))
    (b'aa', b'a')
    """
    merged: list[bytes] = []
    i = 0
    while i < len(symbols):
        if symbols[i : i + 2] == pair:
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return tuple(merged)


def split_bytes(word: bytes) -> tuple[bytes, ...]:
    """Return a word as a tuple of single bytes, the state in which training begins."""
    return tuple(bytes([byte]) for byte in word)


def _check_request(vocab_size: int, special_tokens: Iterable[str]) -> list[str]:
    tokens = check_special_tokens(special_tokens)
    for token in tokens:
        if len(token.encode()) == 1:
            raise ValueError(
                f"special token {token!r} is a single byte, which every vocabulary holds already: "
                "two ids would stand for the same bytes; choose a longer one"
            )
    if isinstance(vocab_size, bool) or not isinstance(vocab_size, int):
        raise TypeError(f"vocab_size is {vocab_size!r}: it must be an int")
    smallest = NUM_BYTES + len(tokens)
    if vocab_size < smallest:
        raise ValueError(
            f"vocab_size is {vocab_size}: it must be at least {smallest}, for {NUM_BYTES} bytes "
            f"and {len(tokens)} special tokens"
        )
    return tokens


def _check_counts(word_counts: Mapping[bytes, int]) -> tuple[list[bytes], list[int]]:
    """Return the words that can hold a pair, and their counts."""
    words: list[bytes] = []
    counts: list[int] = []
    total = 0
    for word, count in word_counts.items():
        if not isinstance(word, bytes):
            raise TypeError(f"word {word!r} is a {type(word).__name__}, not bytes")
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"the count of word {word!r} is {count!r}: it must be an int")
        if count < 0:
            raise ValueError(f"the count of word {word!r} is {count}: it must not be negative")
        total += count * len(word)
        if count and len(word) > 1:
            words.append(word)
            counts.append(count)
    if total > _INT64_MAX:
        raise ValueError(
            f"the words have {total:,} bytes, counted with repetition: more than 64 bits can hold; "
            "divide all counts by a common factor"
        )
    return words, counts
