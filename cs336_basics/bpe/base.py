"""BPE_Trainer: everything that the versions of the trainer share, as a template.

Byte-pair encoding (Sennrich et al. 2016; over bytes: Radford et al. 2019): begin with words as
sequences of single bytes; again and again find the most frequent pair of adjacent tokens, and merge
it everywhere into a new token. The tie rule of CS336: of equally frequent pairs the greatest one
wins, compared as `(bytes, bytes)`.

The merged tokens are unique: a merge is applied wherever its pair occurs, so equal bytes between
the same two boundaries are always split into the same tokens. Two pairs can therefore never make
the same bytes, whichever pairs are chosen, so also with `min_frequency`, `max_token_length` or
another tie rule.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from cs336_basics._support.arguments import MAX_INT64, checked_integer
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_repr
from cs336_basics._support.progress import HiddenBar, progress_bar
from cs336_basics._support.warnings import warn
from cs336_basics.bpe.starting_vocabulary import StartingVocabulary
from cs336_basics.bpe.symbols import NUM_BYTES, Pair
from cs336_basics.bpe.trace import MergeTrace, Trace, Work
from cs336_basics.pretokenization.counting.count_texts import count_texts
from cs336_basics.pretokenization.counting.count_words import count_words
from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.counting.word_counts import WordCounts
from cs336_basics.pretokenization.patterns.named_patterns import PATTERNS, resolve_pattern
from cs336_basics.pretokenization.reading.corpus import Corpus, PathsLike
from cs336_basics.pretokenization.splitter import Splitter, check_special_tokens

if TYPE_CHECKING:
    import numpy as np
    from tqdm import tqdm
else:
    np = LazyModule("numpy")

TIE_BREAKS = ("lexicographic", "huggingface")

PHASES = ("reading and counting", "counting pairs", "finding the maximum", "updating", "total")
"""The keys of `BPE_Trainer.timings`, in seconds of wall time."""


class BPE_Trainer:
    """Learns a byte-level BPE vocabulary from text.

    This class reads, splits and counts the text, checks arguments, runs the merge loop with its
    clocks, and builds the vocabulary. A version in Python fills three hooks: `_index`, `_find_best`
    and `_apply`. A compiled version replaces the whole loop, `_learn_merges`. So there are two
    timings, of the merge loop alone and of the whole, and both compare like with like.

    Args:
        pattern: split pattern, a name in PATTERNS or a regular expression.
        num_workers: threads or processes that count words (and, in the native version, lay them out
            for merging); None: one for each core.
        progress: show progress bars on a terminal.
        min_frequency: pairs with a smaller count are not merged; training stops before the first.
        max_token_length: in bytes; a pair is not merged if the token would be longer. None: no
            limit. (Hugging Face's limit of n gives tokens of at most max(2, n - 1) bytes.)
        tie_break: which of equally frequent pairs is merged first. `"lexicographic"`: the greatest
            `(bytes, bytes)`, the rule of CS336; `"huggingface"`: the one that `tokenizers` takes.
        trace: called with a MergeTrace after each merge, or, by compiled versions, for several
            merges at a time; see `trace_file`. Not timed.
        continue_from: `(vocab, merges)` of an existing vocabulary, trained or imported, from which
            training goes on: the words are first merged by these merges. The split pattern, and
            for the same result as one training the tie rule, must be those of that vocabulary.

    Raises:
        ValueError, TypeError: an option has none of these values; see also `StartingVocabulary`.

    Attributes:
        start: the `StartingVocabulary` of `continue_from`, by default the 256 bytes.
        timings: after training, phase -> seconds; the phases are PHASES.
    """

    name: ClassVar[str]
    """The key of the class in TRAINERS."""

    # What the merge loop and its hooks share; see `_learn_merges`.
    _ties: TieBreak
    _pair_counts: dict[Pair, int]

    def __init__(
        self,
        *,
        pattern: str = "gpt2",
        num_workers: int | None = None,
        progress: bool = False,
        min_frequency: int = 1,
        max_token_length: int | None = None,
        tie_break: str = "lexicographic",
        trace: Trace | None = None,
        continue_from: tuple[Mapping[int, bytes], Iterable[Pair]] | None = None,
    ) -> None:
        resolve_pattern(pattern)
        resolve_num_workers(num_workers)
        if trace is not None and not callable(trace):
            raise TypeError(f"trace is {short_repr(trace)}: pass a function, or None")
        checked_integer("min_frequency", min_frequency, 0)
        if max_token_length is not None:
            checked_integer("max_token_length", max_token_length, 1)
        if tie_break not in TIE_BREAKS:
            raise ValueError(
                f"tie_break is {tie_break!r}: it must be one of {', '.join(TIE_BREAKS)}"
            )
        self.pattern = pattern
        self.num_workers = num_workers
        self.progress = progress
        self.min_frequency = min_frequency
        self.max_token_length = max_token_length
        self.tie_break = tie_break
        self.trace = trace
        self.start = StartingVocabulary.of(continue_from)
        self.timings: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self._bar: tqdm[Any] | HiddenBar = HiddenBar()
        # Returns the adjacent pairs of a word that may be merged.
        self._pairs: Callable[[tuple[bytes, ...]], Iterable[Pair]] = pairwise
        if max_token_length is not None:
            self._pairs = functools.partial(_short_pairs, max_token_length)

    def train(
        self,
        input_path: Corpus | PathsLike,
        vocab_size: int,
        special_tokens: Iterable[str],
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on one or several files.

        Args:
            input_path: a file, a glob such as `"data/*.txt"`, or several of both, or a Corpus:
                UTF-8 text, JSON lines, Parquet, compressed or not.
            vocab_size: size of the vocabulary: 256 bytes, the special tokens, the merges; where one
                is continued, the greatest id plus one.
            special_tokens: cut out of the text first, so that they add nothing to any count and no
                merge crosses them. Where a vocabulary is continued, name those that it has, too.

        Returns:
            vocab: id -> bytes. Ids 0-255 are the bytes, then come the special tokens in the order
                given, then the merged tokens in the order of the merges. No two are equal. Where a
                vocabulary is continued, its ids stay, and new tokens follow in this order.
            merges: the merged pairs, in order, with those that were continued. If no pair is
                left before `vocab_size` is reached, training stops early, with a warning.

        Raises:
            ValueError: `vocab_size` is too small for the bytes and special tokens; a special token
                is empty, repeated, or a single byte; what `count_words` raises.
            FileNotFoundError: there is no such file.
        """
        tokens = self._begin(vocab_size, special_tokens)
        self._reset_timings()
        start = time.perf_counter()
        word_counts = count_words(
            input_path,
            Splitter(self.pattern, tokens),
            num_workers=self.num_workers,
            progress=self.progress,
        )
        counted = time.perf_counter()
        self.timings["reading and counting"] = counted - start
        result = self._train_on(word_counts, vocab_size, tokens)
        self.timings["total"] = time.perf_counter() - start
        return result

    def train_from_iterator(
        self,
        texts: Any,
        vocab_size: int,
        special_tokens: Iterable[str],
        *,
        errors: str = "replace",
        field: str | None = None,
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on texts in memory, such as the rows of a dataset; see `train`.

        Args:
            texts: strings or UTF-8 bytes, each a separate document; read one by one. With `field`,
                rows: dicts, a Hugging Face `datasets.Dataset`, an Arrow table or stream.
            errors: what to do about bytes that are not UTF-8; see `Corpus`.
            field: the field or column of the rows that has the text.

        Raises:
            TypeError, ValueError: as `train` and `count_texts`.
        """
        tokens = self._begin(vocab_size, special_tokens)
        self._reset_timings()
        start = time.perf_counter()
        word_counts = count_texts(texts, Splitter(self.pattern, tokens), errors=errors, field=field)
        self.timings["reading and counting"] = time.perf_counter() - start
        result = self._train_on(word_counts, vocab_size, tokens)
        self.timings["total"] = time.perf_counter() - start
        return result

    def train_from_counts(
        self, word_counts: Mapping[bytes, int], vocab_size: int, special_tokens: Iterable[str] = ()
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on words that are counted already; see `train`.

        Args:
            word_counts: pre-token (bytes) -> number of occurrences, at least zero.

        Raises:
            ValueError: as `train`; the counts were made with another pattern or other special
                tokens (a WordCounts records them); a count is negative; the counts together exceed
                64 bits; a special token was not cut out of the words, and the merges make it again.
            TypeError: a word that is not bytes, a count that is not an int.
        """
        tokens = self._begin(vocab_size, special_tokens)
        if not isinstance(word_counts, Mapping):
            raise TypeError(
                f"word_counts is {short_repr(word_counts)}: pass a dict of bytes -> int, or "
                "WordCounts"
            )
        if isinstance(word_counts, WordCounts):
            word_counts.check_made_with(self.pattern, tokens)
        self._reset_timings()
        start = time.perf_counter()
        result = self._train_on(word_counts, vocab_size, tokens)
        self.timings["total"] = time.perf_counter() - start
        return result

    def _begin(self, vocab_size: int, special_tokens: Iterable[str]) -> list[str]:
        """Return the special tokens as a list, after checking and warning of what was asked for."""
        tokens = self.check_request(vocab_size, special_tokens)
        self.start.warn_of_unmade_tokens(tokens)
        return tokens

    def check_request(self, vocab_size: int, special_tokens: Iterable[str]) -> list[str]:
        """Return the special tokens as a list, after checking that there is room for them.

        Raises:
            ValueError, TypeError: see `train`.
        """
        tokens = check_special_tokens(special_tokens)
        for token in tokens:
            if len(token.encode()) == 1:
                raise ValueError(
                    f"special token {token!r} is a single byte, which every vocabulary has "
                    "already: two ids would have the same bytes; choose a longer one"
                )
        vocab_size = checked_integer("vocab_size", vocab_size, -MAX_INT64, MAX_INT64)
        num_new = self.start.num_new_ids(tokens)
        smallest = self.start.num_ids + num_new
        if vocab_size < smallest:
            continued = f"the {self.start.num_ids:,} ids of the vocabulary that is continued"
            raise ValueError(
                f"vocab_size is {vocab_size}: it must be at least {smallest} "
                f"({continued if self.start.merges else f'{NUM_BYTES} bytes'} and "
                f"{num_new} special token{'' if num_new == 1 else 's'})"
            )
        return tokens

    # --- the hooks of a version ------------------------------------------------------------------

    def _index(self, words: list[bytes], counts: list[int]) -> None:
        """Build what the merge loop needs; timed as "counting pairs".

        Args:
            words: distinct words of at least two bytes.
            counts: their numbers of occurrences, all positive; Σ count·length fits 63 bits.
        """
        raise NotImplementedError

    def _recount(self) -> None:
        """Count the pairs again before the next search; timed as "counting pairs".

        Only for a version whose `_apply` does not keep `self._pair_counts` up to date.
        """

    def _find_best(self) -> Pair | None:
        """Return the most frequent pair in `self._pair_counts`, None if it holds none.

        Of equally frequent pairs, the one with the greatest `self._ties.key`. Timed as "finding the
        maximum".
        """
        raise NotImplementedError

    def _apply(self, pair: Pair) -> None:
        """Merge a pair wherever it occurs; timed as "updating"."""
        raise NotImplementedError

    def _work(self, pair: Pair) -> Work:
        """Return what finding this pair took, and what `_apply(pair)` will read and change.

        Called between the two, where a trace is kept; not timed.
        """
        return Work()

    # --- the merge loop --------------------------------------------------------------------------

    def _learn_merges(self, words: list[bytes], counts: list[int], num_merges: int) -> list[Pair]:
        """Return up to `num_merges` merges, fewer only if no pair is left; see `_index`.

        A compiled version replaces this loop. It then adds its seconds to `self.timings` under the
        names in PHASES, calls `self._advance(n)` after every n merges and `self.trace`, if it is
        not None, for each of them, and obeys `min_frequency`, `max_token_length` (see `_pairs`)
        and `tie_break` (see `TieBreak`).
        """
        # The hooks build large attributes. They belong to a copy, which is freed with the loop.
        return copy.copy(self)._run_hooks(words, counts, num_merges)

    def _run_hooks(self, words: list[bytes], counts: list[int], num_merges: int) -> list[Pair]:
        # A late merge takes 20 microseconds, of which the clocks must not take a noticeable share.
        clock, timings, trace = time.perf_counter, self.timings, self.trace
        self._ties = TieBreak(self.tie_break, self.start.symbols)
        begun = clock()
        self._index(words, counts)
        end = clock()
        timings["counting pairs"] += end - begun
        merges: list[Pair] = []
        first_rank = len(self.start.merges)
        while len(merges) < num_merges:
            begun = end
            self._recount()
            counted = clock()
            best = self._find_best()
            found = clock()
            timings["counting pairs"] += counted - begun
            timings["finding the maximum"] += found - counted
            if best is None or self._pair_counts[best] < self.min_frequency:
                break
            if trace is not None:
                count, work, seconds = self._pair_counts[best], self._work(best), found - counted
                found = clock()
            self._ties.add(best)
            self._apply(best)
            merges.append(best)
            self._advance(1)
            end = clock()
            timings["updating"] += end - found
            if trace is not None:
                laps = counted - begun, seconds, end - found
                trace(MergeTrace(first_rank + len(merges) - 1, *best, count, *laps, work))
                end = clock()
        return merges

    def _learn_merges_from(self, word_counts: Mapping[bytes, int], num_merges: int) -> list[Pair]:
        """Check the counted words and learn merges.

        A version that can do without a list of words replaces this.
        """
        words, counts = _check_counts(word_counts)
        return self._learn_merges(words, counts, num_merges)

    def _train_on(
        self, word_counts: Mapping[bytes, int], vocab_size: int, special_tokens: list[str]
    ) -> tuple[dict[int, bytes], list[Pair]]:
        start = self.start
        num_merges = vocab_size - start.num_ids - start.num_new_ids(special_tokens)
        if not len(word_counts) and num_merges:
            warn(
                f"no pair was left after 0 of {num_merges:,} merges: the pattern {self.pattern!r} "
                f"found no word in the text (the named patterns are {', '.join(PATTERNS)})"
            )
            return start.extended(special_tokens, [])
        with progress_bar(
            self.progress, total=num_merges, unit=" merges", desc="learning merges"
        ) as bar:
            self._bar = bar
            merges = self._learn_merges_from(word_counts, num_merges)
        self._bar = HiddenBar()
        extended = start.extended(special_tokens, merges)
        if len(merges) < num_merges:
            warn(
                f"no pair was left after {len(merges):,} of {num_merges:,} merges (min_frequency="
                f"{short_repr(self.min_frequency)}, max_token_length="
                f"{short_repr(self.max_token_length)}): the vocabulary "
                f"has {max(extended[0]) + 1:,} tokens instead of {vocab_size:,}; "
                "a larger text would fill it"
            )
        return extended

    def _advance(self, num_merges: int) -> None:
        """Show that more merges were learned."""
        self._bar.update(num_merges)

    def _reset_timings(self) -> None:
        self.timings = dict.fromkeys(PHASES, 0.0)


class TieBreak:
    """Tells which of equally frequent pairs is merged first: the one with the greatest `key`.

    `"lexicographic"` takes the greatest (left bytes, right bytes). `"huggingface"` takes the
    smallest (left id, right id), ids as `tokenizers` numbers them when its ByteLevel alphabet is
    the initial one: first the bytes, in the order of `huggingface_byte_ranks`, then the merges.

    Args:
        name: one of TIE_BREAKS.
        symbols: the tokens before the first merge: the bytes, and those of merges that are
            continued, in order.
    """

    def __init__(self, name: str, symbols: list[bytes]) -> None:
        self._id: dict[bytes, int] | None = None
        self._next_id = len(symbols)
        if name == "huggingface":
            ranks = huggingface_byte_ranks()
            self._id = {symbol: id for id, symbol in enumerate(symbols)}
            self._id.update((bytes([byte]), id) for byte, id in enumerate(ranks))

    def key(self, pair: Pair) -> tuple[Any, Any]:
        """Return the key by which pairs are compared."""
        if self._id is None:
            return pair
        return -self._id[pair[0]], -self._id[pair[1]]

    def add(self, pair: Pair) -> None:
        """Give the token of a merge the next id, also where it was made before."""
        if self._id is not None:
            self._id[pair[0] + pair[1]] = self._next_id
            self._next_id += 1


def huggingface_byte_ranks() -> list[int]:
    """Return for each byte its rank in the sorted byte alphabet of GPT-2 (Radford et al. 2019).

    There, a printable character of Latin-1 represents its own byte, and the characters from U+0100
    on represent the other bytes, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(NUM_BYTES)) - set(printable))
    ranks = dict(zip(printable + others, range(NUM_BYTES), strict=True))
    return [ranks[byte] for byte in range(NUM_BYTES)]


def _short_pairs(limit: int, symbols: tuple[bytes, ...]) -> Iterator[Pair]:
    """Return the adjacent pairs of a word that make a token of at most `limit` bytes."""
    return (pair for pair in pairwise(symbols) if len(pair[0]) + len(pair[1]) <= limit)


def _check_counts(word_counts: Mapping[bytes, int]) -> tuple[list[bytes], list[int]]:
    """Return the words that can hold a pair, and their counts."""
    words: list[bytes] = []
    counts: list[int] = []
    total = 0
    for word, count in word_counts.items():
        if not isinstance(word, bytes):
            raise TypeError(f"word {short_repr(word)} is of type {type(word).__name__}, not bytes")
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
            raise TypeError(
                f"the count of word {short_repr(word)} is {short_repr(count)}: it must be an int"
            )
        count = int(count)  # a NumPy integer would overflow silently
        if count < 0:
            raise ValueError(
                f"the count of word {short_repr(word)} is {short_repr(count)}: it must not be "
                "negative"
            )
        total += count * len(word)
        if count and len(word) > 1:
            words.append(word)
            counts.append(count)
    check_total(total)
    return words, counts


def check_total(num_bytes: int) -> None:
    """Refuse words that have more bytes, counted with repetition, than 64 bits can hold."""
    if num_bytes > MAX_INT64:
        shown = f"{num_bytes:,}" if num_bytes < 1 << 200 else short_repr(num_bytes)
        raise ValueError(
            f"the words have {shown} bytes, counted with repetition: more than 64 "
            "bits can hold; divide all counts by a common factor"
        )
