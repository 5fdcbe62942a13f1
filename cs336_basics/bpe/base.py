"""BPE_Trainer: the code that all versions of the trainer share.

Byte-pair encoding (Sennrich et al. 2016; on bytes: Radford et al. 2019) starts with each word as a
sequence of single bytes. Each step finds the most frequent pair of adjacent tokens and merges it
into a new token wherever it occurs. If several pairs are equally frequent, CS336 merges the one
with the largest `(bytes, bytes)` tuple.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from cs336_basics import splitting
from cs336_basics._support.arguments import (
    MAX_INT64,
    check_choice,
    check_is_iterable,
    checked_integer,
)
from cs336_basics._support.errors import Argument, InputError, InputTypeError
from cs336_basics._support.messages import counted, short_repr
from cs336_basics._support.progress import checked_progress
from cs336_basics._support.warnings import warn
from cs336_basics.bpe.drawing import Moment, draw_pairs
from cs336_basics.bpe.limits import Limits, Veto
from cs336_basics.bpe.recorder import PHASES, Recorder, Step
from cs336_basics.bpe.reference import Pair, Symbols
from cs336_basics.bpe.required import checked_words, with_required
from cs336_basics.bpe.rules import TIE_BREAKS, Rules
from cs336_basics.bpe.starting_vocabulary import StartingVocabulary
from cs336_basics.bpe.trace import Merge, Trace
from cs336_basics.execution.executors import executor
from cs336_basics.splitting import check_splitting
from cs336_basics.splitting.patterns.named_patterns import resolve_pattern
from cs336_basics.text.normalization import check_normalizer

if TYPE_CHECKING:
    from cs336_basics.bpe.parity import Parity, ParityWords
    from cs336_basics.bpe.superwords import Superwords
    from cs336_basics.counting import Sample, WordCounts
    from cs336_basics.splitting import Splitter
    from cs336_basics.text.corpus import Corpus
    from cs336_basics.text.paths import PathsLike


class BPE_Trainer:
    """Learns a byte-level BPE vocabulary from text.

    This base class checks the arguments, counts the words and builds the vocabulary. A Python
    version implements the algorithm in `learn`, a generator of merges. A compiled version overrides
    `learn_merges`.

    Args:
        pattern: Split pattern: a name in PATTERNS or a regular expression.
        normalizer: Unicode normalization form of the text between special tokens before it is
            split: None, `"NFC"`, `"NFD"`, `"NFKC"` or `"NFKD"`. Pass the same to `Tokenizer`.
        splitting, execution: How to count the words in files; see `count_words`.
        num_workers: Number of threads or processes that count the words. The native version also
            uses this number of threads to set up the words. Defaults to all cores.
        progress: Whether to show progress bars on a terminal.
        min_frequency: Minimum count of a merged pair. Training stops when no pair reaches it.
        max_token_length: Maximum length of a new token in bytes. Defaults to no limit. Hugging
            Face's limit of n allows tokens of up to max(2, n - 1) bytes.
        max_words: Maximum number of words in a new token. Words are separated by whitespace. This
            matters for patterns whose pre-tokens contain several words.
        whole_characters: Whether a new token must consist of whole characters or be a part of one
            character, so that no token mixes a part of a character with another (Velayuthan and
            Sarveswaran 2025, arXiv 2505.24689).
        forbid: Regular expression that must not match any part of a new token. Bytes that are no
            complete character are U+FFFD.
        veto: Function of the left token, the right token and the count of a pair. It is called
            once for each pair that becomes the most frequent one. If it returns True, the pair is
            not merged.
        require: Words that must be tokens. Their merges have the last ranks, as `extend` adds them,
            and count toward the size of the vocabulary, so fewer merges are learned. Include the
            leading space of a word.
        tie_break: Order of equally frequent pairs. `"lexicographic"` merges the largest
            `(bytes, bytes)` first, as in CS336. `"huggingface"` breaks ties as `tokenizers` does.
        trace: Callback invoked with the MergeTrace of each merge, in order; see `trace_file`. The
            call follows the next merge, or the end of training. The timings exclude the callback.
        continue_from: Trained or imported vocabulary to continue, as `(vocab, merges)`. Its merges
            are applied to the words first. Use the same split pattern and normalizer. If
            `tie_break` is also the same, continuing on the same text gives the same result as a
            single training run.
        superwords_from: Size of the vocabulary from which on merges may join words, as in SuperBPE
            (Liu et al. 2025, arXiv 2503.13423). Defaults to none. The text is counted twice: with
            `pattern` up to this size, and then with `superwords_pattern`, while the merges so far
            are continued. Create the tokenizer with `tokenizer_pattern`.
        superwords_pattern: Split pattern that no superword crosses. Defaults to
            `pattern_of_superwords(pattern)`: lines, with numbers split as by `pattern`. A
            superword has at most `max_words` words, by default MAX_WORDS. To continue superwords,
            pass their pattern as `pattern` and their `max_words`.
        sample: Random part of the files to train on, such as `Sample(10**9)`. Defaults to all of
            their text.

    Raises:
        ValueError, TypeError: If an option has an invalid value; see also `StartingVocabulary`.

    Attributes:
        start: `StartingVocabulary` built from `continue_from`.
        superwords: How superwords are learned, or None.
        tokenizer_pattern: Split pattern of the trained tokenizer: `superwords_pattern` if there are
            superwords, otherwise `pattern`.
        timings: Seconds spent in each phase of PHASES, available after training.
        served: After parity-aware training, the index of the source that chose each merge, or None
            for a merge from the sum of all sources.

    Example:
        >>> from cs336_basics import TRAINERS
        >>> trainer = TRAINERS["heap"](min_frequency=2)
        >>> vocab, merges = trainer.train_from_counts({"low": 5, "lower": 2, "rare": 1}, 260)
        >>> merges
        [(b'o', b'w'), (b'l', b'ow'), (b'low', b'e'), (b'lowe', b'r')]
    """

    name: ClassVar[str]
    """Key of the class in TRAINERS."""

    is_built: ClassVar[bool] = True
    """Whether the class can be used: it needs no extension, or its extension is built."""

    work_units: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"counting pairs": "symbols", "finding the maximum": "pairs", "updating": "words"}
    )
    """Phase -> unit of the work that its time is proportional to, by which
    `benchmarks/stages/extrapolation.py` extrapolates the time of a run that it stopped. A phase
    that ends before the first merge has no unit. By default, every merge reads all words and pairs.
    Empty in compiled versions, which cannot be stopped."""

    read_unit: ClassVar[str] = "symbol"
    """What `Work.positions` counts: each "symbol" of the words that a merge reads, or each
    "occurrence" in the pair's list of occurrences."""

    def __init__(
        self,
        *,
        pattern: str = "gpt2",
        normalizer: str | None = None,
        splitting: str | None = None,
        execution: str | None = None,
        num_workers: int | None = None,
        progress: bool = False,
        min_frequency: int = 1,
        max_token_length: int | None = None,
        max_words: int | None = None,
        whole_characters: bool = False,
        forbid: str | None = None,
        veto: Veto | None = None,
        require: Iterable[str] = (),
        tie_break: str = "lexicographic",
        trace: Trace | None = None,
        continue_from: tuple[Mapping[int, bytes], Iterable[Pair]] | None = None,
        superwords_from: int | None = None,
        superwords_pattern: str | None = None,
        sample: Sample | None = None,
    ) -> None:
        if type(self) is BPE_Trainer:
            raise InputTypeError("BPE_Trainer is abstract", remedy="use a class in TRAINERS")
        resolve_pattern(pattern)
        check_splitting(splitting)
        executor("threads" if execution is None else execution, num_workers)  # checks both
        if trace is not None and not callable(trace):
            raise InputTypeError(
                f"must be callable or None, got {short_repr(trace)}", argument="trace"
            )
        min_frequency = checked_integer("min_frequency", min_frequency, 0, MAX_INT64)
        check_choice("tie_break", tie_break, TIE_BREAKS)
        self.pattern = pattern
        self.normalizer = check_normalizer(normalizer)
        self.splitting = splitting
        self.execution = execution
        self.num_workers = num_workers
        self.progress = checked_progress(progress)
        self.min_frequency = min_frequency
        self.limits = Limits(max_token_length, max_words, whole_characters, forbid, veto)
        check_is_iterable("require", require, "words")
        self.require = list(require)
        self.tie_break = tie_break
        self.trace = trace
        self.start = StartingVocabulary(continue_from)
        self.superwords: Superwords | None = None
        self.tokenizer_pattern = pattern
        if superwords_from is not None:
            from cs336_basics.bpe import superwords

            max_words = self.limits.max_words or superwords.MAX_WORDS
            self.superwords = superwords.Superwords(superwords_from, pattern, max_words)
            self.tokenizer_pattern = self.superwords.pattern(superwords_pattern)
        elif superwords_pattern is not None:
            raise InputError(
                f"is {short_repr(superwords_pattern)}, but there are no superwords",
                argument="superwords_pattern",
                remedy=("give ", Argument("superwords_from")),
            )
        self.sample = sample
        if sample is not None:
            from cs336_basics.counting.sample import check_sample

            check_sample(sample)
        self.timings = dict.fromkeys(PHASES, 0.0)
        self.served: list[int | None] = []

    def train(
        self, input_path: Corpus | PathsLike, vocab_size: int, special_tokens: Iterable[str] = ()
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on one or more files.

        Args:
            input_path: File, glob such as `"data/*.txt"`, list of files and globs, or Corpus. Files
                may be UTF-8 text, JSON Lines or CSV, compressed or not, or Parquet or Arrow.
            vocab_size: Size of the vocabulary: 256 bytes, the special tokens, and one token per
                merge. For a continued vocabulary, it is the highest id after training plus one.
            special_tokens: Tokens to cut out of the text. They are not counted, and no merge
                crosses them. Defaults to none. Include the special tokens of a continued
                vocabulary.

        Returns:
            vocab: Mapping from ids to tokens. Ids 0-255 are the single bytes. The special tokens
                follow in the given order, then the merged tokens in the order of the merges. All
                tokens are distinct. A continued vocabulary keeps its ids. Its new special tokens
                follow, and then its new merged tokens.
            merges: Merged pairs in order, preceded by the merges of a continued vocabulary. If no
                pair is left to merge, training stops early with a warning.

        Raises:
            ValueError: If `vocab_size` is too small, or a special token is empty, repeated or a
                single byte; see also `count_words`.
            FileNotFoundError: If an input file does not exist.
        """
        count = functools.partial(self.count_words, input_path)
        return self.train_counted(count, vocab_size, special_tokens)

    def train_from_iterator(
        self,
        texts: Any,
        vocab_size: int,
        special_tokens: Iterable[str] = (),
        *,
        errors: str = "replace",
        field: str | None = None,
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on texts in memory, such as the rows of a dataset; see `train`.

        Args:
            texts: Documents (strings or UTF-8 bytes) or batches of documents, read one at a time.
                If `field` is given, rows instead: dicts, a Hugging Face `datasets.Dataset`, or an
                Arrow table or stream.
            errors: How to handle invalid UTF-8; see `Corpus`.
            field: Field or column that contains the text.

        Raises:
            TypeError, ValueError: See `train` and `count_texts`. Also if `texts` is an iterator
                without words, for example because it was read before.
        """
        from cs336_basics.counting import count_texts

        self._check_has_no_sample("pass files, or draw the texts")
        if self.superwords is not None and isinstance(texts, Iterator):
            raise InputTypeError(
                f"must be readable twice to learn superwords, got {short_repr(texts)}",
                argument="texts",
                remedy="pass a list, a dataset or an object whose __iter__ starts again",
            )

        def count(splitter: Splitter) -> WordCounts:
            counts = count_texts(texts, splitter, errors=errors, field=field)
            if not counts and isinstance(texts, Iterator):
                raise InputError(
                    f"must contain words, got none from {short_repr(texts)}",
                    argument="texts",
                    remedy="create a generator again if it was read before",
                )
            return counts

        return self.train_counted(count, vocab_size, special_tokens)

    def train_from_counts(
        self,
        word_counts: Mapping[bytes, int] | Mapping[str, int],
        vocab_size: int,
        special_tokens: Iterable[str] = (),
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on word counts; see `train`.

        Args:
            word_counts: Mapping from pre-tokens to counts. Pre-tokens are UTF-8 bytes or str.

        Raises:
            ValueError: If a count is out of range, the counted bytes exceed 2^63 - 1, `word_counts`
                is a WordCounts created with a different pattern, different special tokens or a
                different normalizer, or the merges produce a special token that is part of a word;
                see also `train`.
            TypeError: See `WordCounts.from_mapping`.

        Warns:
            UserWarning: If some of the most frequent words are not pre-tokens of the pattern. Words
                that this library counted are not checked.
        """
        from cs336_basics.counting import WordCounts

        self._check_has_no_sample("count a sample with count_sample")
        if not isinstance(word_counts, Mapping):
            raise InputTypeError(
                f"must be a dict, got {short_repr(word_counts)}", argument="word_counts"
            )
        if self.superwords is not None:
            raise self.superwords.need_text("train on the text")
        counts = WordCounts.from_mapping(word_counts)
        counts.check_num_bytes()
        return self.train_counted(lambda splitter: counts, vocab_size, special_tokens)

    def train_parity(
        self,
        sources: Sequence[Corpus | PathsLike],
        vocab_size: int,
        special_tokens: Iterable[str] = (),
        *,
        dev: Sequence[Corpus | PathsLike],
        parity: Parity | None = None,
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on several sources so that all are compressed equally well; see `parity.py`.

        Args:
            sources: Text of each source, such as a language; see `train`.
            vocab_size, special_tokens: See `train`.
            dev: Held-out text of each source, in the same order. Training measures compression on
                it.
            parity: How to choose the source of the next merge. Defaults to `Parity()`.

        Raises:
            ValueError: If there are fewer than two sources, a source or a held-out text has no
                words, or there is an option that parity-aware training does not have: superwords or
                a trace. See also `train`.
        """
        from cs336_basics.bpe.parity import ParityWords

        for name, texts in (("sources", sources), ("dev", dev)):
            check_is_iterable(name, texts, "texts")
        count = self.count_words

        def count_all(splitter: Splitter) -> ParityWords:
            return ParityWords(
                [count(source, splitter) for source in sources],
                [count(held_out, splitter) for held_out in dev],
            )

        return self.train_parity_counted(count_all, vocab_size, special_tokens, parity=parity)

    def train_parity_from_counts(
        self,
        sources: Sequence[Mapping[bytes, int]],
        vocab_size: int,
        special_tokens: Iterable[str] = (),
        *,
        dev: Sequence[Mapping[bytes, int]],
        parity: Parity | None = None,
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on the word counts of several sources; see `train_parity`."""
        from cs336_basics.bpe.parity import ParityWords
        from cs336_basics.counting import WordCounts

        words = ParityWords(
            [*map(WordCounts.from_mapping, sources)], [*map(WordCounts.from_mapping, dev)]
        )
        return self.train_parity_counted(
            lambda splitter: words, vocab_size, special_tokens, parity=parity
        )

    def train_parity_counted(
        self,
        count: Callable[[Splitter], ParityWords],
        vocab_size: int,
        special_tokens: Iterable[str],
        *,
        parity: Parity | None = None,
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on the words that `count` returns for a splitter; see `train_parity`."""
        from cs336_basics.bpe.parity import Parity

        parity = Parity() if parity is None else parity
        if not isinstance(parity, Parity):
            raise InputTypeError(f"must be a Parity, got {short_repr(parity)}", argument="parity")
        if self.superwords is not None:
            raise InputError(
                "cannot be given with parity-aware training, which measures words",
                argument="superwords_from",
                remedy="train the words with parity, and continue them with the pattern of "
                "the superwords on all texts together",
            )
        for name, value in (("sample", self.sample), ("trace", self.trace)):
            if value is not None:
                raise InputError("cannot be given with parity-aware training", argument=name)
        tokens, num_merges = self.check_request(vocab_size, special_tokens)
        self.start.warn_of_unmade_tokens(tokens)
        recorder = Recorder()
        self.timings = recorder.timings
        splitter = self.splitter(tokens)
        words = count(splitter)
        recorder.lap("reading and counting")
        for counts in (*words.train, *words.dev):
            counts.check_made_with(splitter)
        words.check()
        rules = self.rules(num_merges)
        with recorder.progress_bar(self.progress, num_merges):
            merges, self.served = self.learn_parity(words, rules, parity, recorder)
        learned = rules.start.extended(tokens, self._with_required(rules, merges, tokens))
        if len(merges) < num_merges:
            num_words = sum(map(len, words.train))
            self._warn_of_few_merges(
                splitter, rules, len(merges), num_words, learned[0], vocab_size
            )
        recorder.finish()
        return learned

    def learn_parity(
        self, words: ParityWords, rules: Rules, parity: Parity, recorder: Recorder
    ) -> tuple[list[Pair], list[int | None]]:
        """Return the merges of parity-aware training, and the source that chose each of them.

        A compiled version overrides this method. By default, `specified_parity` learns the merges.
        """
        from cs336_basics.bpe.parity import specified_parity

        train, dev = (
            [{rules.start.split(word): n for word, n in counts.items()} for counts in group]
            for group in words
        )
        recorder.lap("setting up words")
        sizes = words.sizes(parity.unit)
        merges: list[Pair] = []
        served: list[int | None] = []
        if rules.num_merges:
            learned = specified_parity(train, dev, sizes, rules, parity)
            for pair, _, source in islice(learned, rules.num_merges):
                merges.append(pair)
                served.append(source)
                recorder.advance(1)
        recorder.lap("updating")
        return merges, served

    def count_words(
        self,
        corpus: Corpus | PathsLike,
        splitter: Splitter,
        *,
        ray_address: str | None = None,
        partial_counts: str | os.PathLike[str] | None = None,
        sample: Sample | None = None,
    ) -> WordCounts:
        """Call `count_words` or, if there is a sample, `count_sample` with the trainer's options.

        Args:
            corpus, splitter, partial_counts: See `count_words`.
            ray_address: Ray cluster to count with instead of the trainer's `execution`.
            sample: Sample to count instead of the trainer's.

        Raises:
            ValueError: If there are both a sample and `partial_counts`; see also `count_words`.
        """
        from cs336_basics.counting import count_sample, count_words

        sample = self.sample if sample is None else sample
        options: dict[str, Any] = {
            "splitting": self.splitting,
            "execution": self.execution if ray_address is None else "ray",
            "num_workers": self.num_workers,
            "progress": self.progress,
            "ray_address": ray_address,
        }
        if sample is None:
            return count_words(corpus, splitter, partial_counts=partial_counts, **options)
        if partial_counts is not None:
            raise InputError("cannot be given with a sample", argument="partial_counts")
        return count_sample(corpus, sample, splitter, **options)

    def _check_has_no_sample(self, remedy: str) -> None:
        if self.sample is not None:
            raise InputError(
                "is drawn from files, but there are none", argument="sample", remedy=remedy
            )

    def splitter(self, special_tokens: Iterable[str]) -> Splitter:
        """Return the splitter with the trainer's options."""
        return splitting.Splitter(self.pattern, [*special_tokens], self.normalizer)

    def check_request(
        self, vocab_size: int, special_tokens: Iterable[str]
    ) -> tuple[list[str], int]:
        """Return the checked special tokens and the number of merges to learn."""
        tokens = splitting.check_special_tokens(special_tokens)
        num_merges = self.start.num_merges(vocab_size, tokens)
        self._required(tokens)
        if self.superwords is not None:
            size = self.superwords.superwords_from
            if size >= vocab_size:
                raise InputError(
                    f"must be less than the size of the vocabulary, {vocab_size:,}, got {size:,}",
                    argument="superwords_from",
                )
            try:
                self.start.num_merges(size, tokens)
            except InputError as error:
                raise error.renamed(lambda name: "superwords_from") from None
        return tokens, num_merges

    def train_counted(
        self,
        count: Callable[[Splitter], WordCounts],
        vocab_size: int,
        special_tokens: Iterable[str],
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Train on the words that `count` returns for a splitter; see `train`.

        If there are superwords, `count` is called twice: with the trainer's splitter, and then with
        a splitter for `tokenizer_pattern`.
        """
        tokens, num_merges = self.check_request(vocab_size, special_tokens)
        self.start.warn_of_unmade_tokens(tokens)
        recorder = Recorder(self.trace, len(self.start.merges))
        self.timings = recorder.timings
        splitter = self.splitter(tokens)
        if self.superwords is None:
            rules = self.rules(num_merges)
            learned = self._learn(count, splitter, rules, vocab_size, tokens, recorder, True)
        else:
            size = self.superwords.superwords_from
            rules = self.rules(self.start.num_merges(size, tokens))
            words = self._learn(count, splitter, rules, size, tokens, recorder)
            start = StartingVocabulary(words)
            rules = replace(
                self.rules(start.num_merges(vocab_size, tokens)),
                start=start,
                limits=replace(self.limits, max_words=self.superwords.max_words),
            )
            splitter = splitting.Splitter(
                self.tokenizer_pattern, splitter.special_tokens, splitter.normalizer
            )
            learned = self._learn(count, splitter, rules, vocab_size, tokens, recorder, True)
        recorder.finish()
        return learned

    def _learn(
        self,
        count: Callable[[Splitter], WordCounts],
        splitter: Splitter,
        rules: Rules,
        vocab_size: int,
        special_tokens: list[str],
        recorder: Recorder,
        is_last: bool = False,
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Count the words, and return the vocabulary and merges after learning from them.

        If `is_last`, the merges of the required words are added.
        """
        word_counts = count(splitter)
        recorder.lap("reading and counting")
        word_counts.check_made_with(splitter)
        with recorder.progress_bar(self.progress, rules.num_merges):
            merges, made = self.learn_merges(word_counts, rules, recorder)
        if is_last and self.require:
            all_merges = self._with_required(rules, merges, special_tokens)
            learned = rules.start.extended(special_tokens, all_merges)
        else:
            learned = rules.start.extended(special_tokens, merges, made)
        if len(merges) < rules.num_merges:
            self._warn_of_few_merges(
                splitter, rules, len(merges), len(word_counts), learned[0], vocab_size
            )
        return learned

    def _required(self, special_tokens: Iterable[str]) -> list[bytes]:
        """Return the bytes of the required words, after checking them."""
        if not self.require:
            return []
        try:
            return checked_words(
                self.require, self.splitter(special_tokens), self.tokenizer_pattern
            )
        except InputError as error:
            raise error.renamed(lambda name: "require") from None

    def _with_required(
        self, rules: Rules, learned: list[Pair], special_tokens: Iterable[str]
    ) -> list[Pair]:
        """Return the learned and the required merges, together no more than the rules allow."""
        words = self._required(special_tokens)
        return with_required(words, rules.start.merges, learned, rules.num_merges)

    def _warn_of_few_merges(
        self,
        splitter: Splitter,
        rules: Rules,
        num_merges: int,
        num_words: int,
        vocab: Mapping[int, bytes],
        vocab_size: int,
    ) -> None:
        shown = {"pattern": splitter.pattern, "min_frequency": self.min_frequency}
        shown |= rules.limits.given()
        options = ", ".join(f"{name}={short_repr(value)}" for name, value in shown.items())
        warn(
            f"no pair was left after {num_merges:,} of {counted(rules.num_merges, 'merge')} "
            f"({counted(num_words, 'distinct word')}, {options}), so the vocabulary has "
            f"{max(vocab) + 1:,} tokens instead of {vocab_size:,}; use more text or other options"
        )

    def rules(self, num_merges: int) -> Rules:
        """Return the rules of a training run with the trainer's options."""
        return Rules(num_merges, self.min_frequency, self.limits, self.tie_break, self.start)

    def learn_merges(
        self, word_counts: WordCounts, rules: Rules, recorder: Recorder
    ) -> tuple[list[Pair], list[bytes]]:
        """Return the merges, fewer than `rules.num_merges` if no pair is left, and their tokens.

        A compiled version overrides this method. It must follow the rules, and call the recorder's
        `lap`, `advance` and `traced` methods.
        """
        counts = word_counts.as_dict()
        words = [rules.start.split(word) for word in counts]
        recorder.lap("setting up words")
        merges: list[Pair] = []
        learned = self.learn(words, list(counts.values()), rules, recorder.step)
        for pair, count, work in islice(learned, rules.num_merges):
            merges.append(pair)
            recorder.merged(pair, count, work)
        return merges, list(map(b"".join, merges))

    def learn(
        self, words: list[Symbols], counts: list[int], rules: Rules, step: Step
    ) -> Iterator[Merge]:
        """Yield the merges until no pair is left. The caller stops after `rules.num_merges`.

        A Python version implements this method.

        Args:
            words: Symbols of the distinct words before the first merge. `learn` may change the
                list.
            counts: Number of occurrences of each word.
            rules: Which pairs may merge, which of them wins a tie, and when training ends. Ask
                `rules.refuse` about the most frequent pair before it is merged.
            step: Times the body of `with step(phase):`. The phases are "counting pairs", "finding
                the maximum" and "updating".
        """
        raise NotImplementedError

    def draw(self, moment: Moment) -> str:
        """Return a text drawing of the trainer's data before a merge, for `explain`.

        By default, the words, the pairs and the most frequent pair.
        """
        return draw_pairs(moment)
