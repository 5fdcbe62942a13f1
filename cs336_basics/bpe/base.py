"""BPE_Trainer: everything that the versions of the trainer share.

Byte-pair encoding (Sennrich et al. 2016; over bytes: Radford et al. 2019): begin with words as
sequences of single bytes; again and again find the most frequent pair of adjacent tokens, and merge
it everywhere into a new token. The tie rule of CS336: of equally frequent pairs the greatest one
wins, compared as `(bytes, bytes)`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, ClassVar

from cs336_basics._support.arguments import MAX_INT64, checked_integer, names_the_nearest
from cs336_basics._support.memory import holding
from cs336_basics._support.messages import short_repr
from cs336_basics._support.warnings import warn
from cs336_basics.bpe.options import TIE_BREAKS, apply_options
from cs336_basics.bpe.recorder import PHASES, Recorder
from cs336_basics.bpe.reference import Pair, Symbols
from cs336_basics.bpe.starting_vocabulary import StartingVocabulary
from cs336_basics.bpe.trace import Trace
from cs336_basics.pretokenization.counting.count_texts import count_texts
from cs336_basics.pretokenization.counting.count_words import check_backend, count_words
from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.counting.word_counts import WordCounts
from cs336_basics.pretokenization.patterns.named_patterns import resolve_pattern
from cs336_basics.pretokenization.reading.corpus import Corpus, PathsLike
from cs336_basics.pretokenization.splitter import Splitter, check_special_tokens


class BPE_Trainer:
    """Learns a byte-level BPE vocabulary from text.

    This class checks the arguments, counts the words and builds the vocabulary. A version in Python
    has `learn`, the algorithm, in three steps, `count_pairs`, `find_best` and `merge`, which are
    measured from outside (`recorder.py`). A compiled version replaces `learn_merges`.

    Args:
        pattern: split pattern, a name in PATTERNS or a regular expression.
        counting: How `train` counts the words of files, a name in BACKENDS of `count_words`. All
            give the same counts. Defaults to the fastest that is built and knows the pattern.
        num_workers: Number of threads or processes that count words (and, in the native version,
            set them up for merging). Defaults to one for each core.
        progress: show progress bars on a terminal.
        min_frequency: pairs with a smaller count are not merged; training stops before the first.
        max_token_length: in bytes; a pair is not merged if the token would be longer. None: no
            limit. (Hugging Face's limit of n gives tokens of at most max(2, n - 1) bytes.)
        tie_break: which of equally frequent pairs is merged first. `"lexicographic"`: the greatest
            `(bytes, bytes)`, the rule of CS336; `"huggingface"`: the one that `tokenizers` takes.
        trace: Called with a MergeTrace for each merge, in order, once the next one is found or the
            training ends; see `trace_file`. Its time is in no phase.
        continue_from: `(vocab, merges)` of an existing vocabulary, trained or imported, from which
            training goes on: the words are first merged by these merges. The split pattern, and
            for the same result as one training the tie rule, must be those of that vocabulary.

    Raises:
        ValueError, TypeError: an option has none of these values; see also `StartingVocabulary`.

    Attributes:
        start: the `StartingVocabulary` of `continue_from`.
        timings: after training, phase -> seconds; the phases are PHASES.
    """

    name: ClassVar[str]
    """The key of the class in TRAINERS."""

    pairs: Callable[[Symbols], Iterable[Pair]] = staticmethod(pairwise)
    """Returns the adjacent pairs of a word, those that may be merged."""

    counts: list[int]
    """How often each word occurs."""

    @names_the_nearest
    def __init__(
        self,
        *,
        pattern: str = "gpt2",
        counting: str | None = None,
        num_workers: int | None = None,
        progress: bool = False,
        min_frequency: int = 1,
        max_token_length: int | None = None,
        tie_break: str = "lexicographic",
        trace: Trace | None = None,
        continue_from: tuple[Mapping[int, bytes], Iterable[Pair]] | None = None,
    ) -> None:
        if type(self) is BPE_Trainer:
            raise TypeError("BPE_Trainer has no algorithm; use a class in TRAINERS, such as heap")
        resolve_pattern(pattern)
        check_backend(counting, "counting")
        resolve_num_workers(num_workers)
        if trace is not None and not callable(trace):
            raise TypeError(f"trace must be callable or None, got {short_repr(trace)}")
        checked_integer("min_frequency", min_frequency, 0)
        if max_token_length is not None:
            checked_integer("max_token_length", max_token_length, 1)
        if tie_break not in TIE_BREAKS:
            raise ValueError(
                f"tie_break must be one of {', '.join(TIE_BREAKS)}, got {short_repr(tie_break)}"
            )
        self.pattern = pattern
        self.counting = counting
        self.num_workers = num_workers
        self.progress = progress
        self.min_frequency = min_frequency
        self.max_token_length = max_token_length
        self.tie_break = tie_break
        self.trace = trace
        self.start = StartingVocabulary(continue_from)
        self.timings = dict.fromkeys(PHASES, 0.0)

    def train(
        self, input_path: Corpus | PathsLike, vocab_size: int, special_tokens: Iterable[str]
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
        count = functools.partial(self.count_words, input_path)
        return self._train(count, vocab_size, special_tokens)

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
        count = functools.partial(count_texts, texts, errors=errors, field=field)
        return self._train(count, vocab_size, special_tokens)

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
            TypeError, OverflowError: as `WordCounts.from_mapping`.
        """
        checked = _checked_counts(word_counts)
        return self._train(lambda splitter: checked, vocab_size, special_tokens)

    def count_words(self, corpus: Corpus | PathsLike, splitter: Splitter) -> Mapping[bytes, int]:
        """Count the words of files as `counting` says; see `count_words`."""
        workers, progress = self.num_workers, self.progress
        return count_words(
            corpus, splitter, backend=self.counting, num_workers=workers, progress=progress
        )

    def check_request(
        self, vocab_size: int, special_tokens: Iterable[str]
    ) -> tuple[list[str], int]:
        """Return the special tokens and the room for merges; raises as `train` if there is none."""
        tokens = check_special_tokens(special_tokens)
        return tokens, self.start.num_merges(vocab_size, tokens)

    def _train(
        self,
        count: Callable[[Splitter], Mapping[bytes, int]],
        vocab_size: int,
        special_tokens: Iterable[str],
    ) -> tuple[dict[int, bytes], list[Pair]]:
        tokens, num_merges = self.check_request(vocab_size, special_tokens)
        self.start.warn_of_unmade_tokens(tokens)
        recorder = Recorder(self.trace, len(self.start.merges))
        self.timings = recorder.timings
        word_counts = WordCounts.from_mapping(count(Splitter(self.pattern, tokens)))
        recorder.lap("reading and counting")
        word_counts.check_made_with(self.pattern, tokens)
        with holding(word_counts.sizes), recorder.progress_bar(self.progress, num_merges):
            merges = self.learn_merges(word_counts, num_merges, recorder)
        vocab, all_merges = self.start.extended(tokens, merges)
        recorder.finish()
        if len(merges) < num_merges:
            warn(
                f"no pair was left after {len(merges):,} of {num_merges:,} merges (distinct words="
                f"{len(word_counts):,}, pattern={short_repr(self.pattern)}, min_frequency="
                f"{short_repr(self.min_frequency)}, max_token_length="
                f"{short_repr(self.max_token_length)}): the vocabulary has {max(vocab) + 1:,} "
                f"tokens instead of {vocab_size:,}; a larger text would fill it"
            )
        return vocab, all_merges

    # --- the part of a version -------------------------------------------------------------------

    def learn_merges(
        self, word_counts: WordCounts, num_merges: int, recorder: Recorder
    ) -> list[Pair]:
        """Return up to `num_merges` merges, fewer only if no pair is left.

        A compiled version replaces this. It then ends its phases by `recorder.lap`, calls
        `recorder.advance(n)` after every n merges and, if `recorder.trace` is not None,
        `recorder.traced` for each of them, and obeys `min_frequency`, `max_token_length` and
        `tie_break`.
        """
        loop: Any = copy.copy(self)  # its steps are changed; what it keeps is freed with it
        loop.counts = word_counts.counts.tolist()
        apply_options(loop)
        recorder.measure(loop)
        words = [self.start.split(word) for word in word_counts.words()]
        recorder.lap("setting up words")
        merges: list[Pair] = loop.learn(words, num_merges)
        return merges

    def tie(self, pair: Pair) -> Any:
        """Return the key of a pair among equally frequent ones: the greatest is merged first."""
        return pair


def _checked_counts(word_counts: Mapping[bytes, int]) -> WordCounts:
    """Return the word counts of a caller, checked; see `BPE_Trainer.train_from_counts`."""
    if not isinstance(word_counts, Mapping):
        raise TypeError(
            f"word_counts is {short_repr(word_counts)}: pass a dict of bytes -> int, or WordCounts"
        )
    checked = WordCounts.from_mapping(word_counts)
    if checked.num_bytes > MAX_INT64:
        raise ValueError(
            f"the words have {checked.num_bytes:,} bytes, counted with repetition: more than "
            "64 bits can hold; divide all counts by a common factor"
        )
    return checked
