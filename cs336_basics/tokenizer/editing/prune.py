"""prune: make a vocabulary smaller while keeping every remaining token reachable.

Tokens are removed one by one. Each step removes the least frequent leaf of the merge tree: a token
that no remaining merge uses as a part. The remaining merges can therefore still produce every
remaining token. Single bytes and special tokens stay. The text around each occurrence of a removed
token is encoded again with the remaining merges, so all counts are exact at every step.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import short_repr
from cs336_basics.counting import WordCounts, count_words
from cs336_basics.counting.word_counter import WordCounter, choose_splitting
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.splitting import Splitter
from cs336_basics.text import Corpus
from cs336_basics.text.paths import PathsLike
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders.python_encoder import RankMerger
from cs336_basics.tokenizer.id_gaps import check_gaps
from cs336_basics.tokenizer.stages import Stages
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer
from cs336_basics.tokenizer.words import Pair

IdPair = tuple[int, int]

_CONTEXT = 16
"""Number of bytes before and after a removed token that are encoded again at first. Most words are
shorter, so they are encoded again as a whole."""


class Pruned(NamedTuple):
    """A pruned vocabulary."""

    tokenizer: Tokenizer
    """Tokenizer with the remaining tokens in their old order and the ids 0, 1, 2, ..."""
    id_map: npt.NDArray[np.int64]
    """New id of each old id, or -1 if the token was removed; shape (old vocab_size,)."""


def prune(
    tokenizer: Tokenizer,
    vocab_size: int,
    counts: Mapping[bytes, int] | Corpus | PathsLike,
    *,
    num_workers: int | None = None,
) -> Pruned:
    """Return a tokenizer with only the most frequent tokens.

    The remaining merges keep their order and can still produce every remaining token. Text is
    encoded as if the removed tokens had never existed, and decodes to the same text.

    Args:
        tokenizer: Tokenizer to prune. It is not changed.
        vocab_size: Number of tokens to keep, including bytes and special tokens.
        counts: Word counts, as a `WordCounts` or a dict of word -> count, or text whose words are
            counted: a Corpus, a file, a glob, or a list of files and globs. All distinct words must
            fit in memory.
        num_workers: Number of workers that count the words. Defaults to all cores.

    Returns:
        The pruned tokenizer and the mapping from old to new ids. Pass the mapping to
        `model.select_embeddings` to adapt a model; use `translate_token_file` to adapt a token
        file.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `vocab_size` exceeds the size of the vocabulary, or is too small for the
            bytes, the special tokens and their parts; if the highest id is far above the number of
            tokens; if a count is negative; or if the words were counted with a different pattern,
            different special tokens or a different normalizer. `count_words` may also raise
            ValueError.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import prune
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> smaller, id_map = prune(tokenizer, 270, "stories.txt")
        >>> smaller.vocab_size, id_map.shape
        (270, (280,))
    """
    check_is_tokenizer(tokenizer)
    vocab_size = checked_integer("vocab_size", vocab_size, 1)
    if vocab_size > len(tokenizer):
        raise InputError(
            f"must be at most {len(tokenizer):,}, the number of tokens, got {vocab_size:,}",
            argument="vocab_size",
        )
    num_workers = resolve_num_workers(num_workers)
    check_gaps(tokenizer.vocab)
    words = counted_words(tokenizer, counts, num_workers)
    tree = MergeTree(tokenizer.definition)
    _remove_rarest(tree, WordUsage(tokenizer, tree, words), len(tokenizer) - vocab_size)
    id_map = np.full(tokenizer.vocab_size, -1, np.int64)
    kept = sorted(tree.tokens)
    id_map[kept] = np.arange(len(kept))
    old = tokenizer.definition
    merges = [
        pair
        for pair, token_id in zip(old.merges, old.merged_ids, strict=True)
        if id_map[token_id] >= 0
    ]
    return Pruned(renumbered(tokenizer, id_map, merges), id_map)


def counted_words(
    tokenizer: Tokenizer, counts: Mapping[bytes, int] | Corpus | PathsLike, num_workers: int
) -> Mapping[bytes, int]:
    """Return the word counts that `prune` was given, or the counts of the text."""
    if isinstance(counts, WordCounts):
        counts.check_made_with(tokenizer.splitter)
        return counts
    if isinstance(counts, Mapping):
        return counts
    return _count_words(tokenizer, Corpus.of(counts), num_workers)


def _count_words(tokenizer: Tokenizer, corpus: Corpus, num_workers: int) -> WordCounts:
    """Return the counts of the pre-tokens that the tokenizer splits a corpus into."""
    stages = Stages.needed_by(tokenizer.definition)
    if stages is None or stages.splitter is not None:
        return count_words(corpus, tokenizer.splitter, num_workers=num_workers)
    splitter = Splitter(tokenizer.definition.split_pattern, sorted(stages.rest))
    counter, reading = WordCounter(splitter, choose_splitting(None, splitter)), ReadingRecord()
    for source in corpus.sources:
        for block in source.texts(stages.safe_cuts):
            for part in stages.parts(reading.utf8_of_block(block, corpus.errors)):
                if isinstance(part, bytes):
                    counter.count(part)
    reading.warn()
    return counter.counts()


class MergeTree:
    """The tokens and merges that remain while tokens are removed one by one.

    Attributes:
        tokens: Remaining ids.
        merges: Mapping of id -> pairs of ids that produce the token, in the order of their ranks.
        ranks: Mapping of (left id, right id) -> rank, for the remaining merges.
        num_uses: Mapping of id -> number of remaining merges that use the token as a part.
    """

    def __init__(self, definition: TokenizerDefinition) -> None:
        self._vocab = definition.vocab
        # `remove` deletes tokens from the two mappings that the merger uses.
        self.ranks = dict(definition.pair_ranks)
        self._whole_words = dict(definition.whole_words)
        self._merger = RankMerger(definition, self.ranks, self._whole_words)
        self._part_merger = RankMerger(definition, self.ranks, {})
        self.tokens = set(definition.vocab)
        self.merges: defaultdict[int, list[IdPair]] = defaultdict(list)
        self.num_uses = dict.fromkeys(definition.vocab, 0)
        for pair, merged in zip(self.ranks, definition.merged_ids, strict=True):
            self.merges[merged].append(pair)
            for part in pair:
                self.num_uses[part] += 1
        absent = definition.absent_bytes
        self._stays = definition.ids_in_use
        self._stays.update(
            token_id
            for token, token_id in definition.token_ids.items()
            if len(token) == 1 or (token in definition.whole_words and not absent.isdisjoint(token))
        )

    def is_leaf(self, token_id: int) -> bool:
        """Return whether a token remains, may be removed, and is not part of a remaining merge."""
        return (
            token_id in self.tokens and not self.num_uses[token_id] and token_id not in self._stays
        )

    def age(self, token_id: int) -> int:
        """Return the rank of the first merge that produces a token, or 2^62 if there is none."""
        pairs = self.merges.get(token_id)
        return self.ranks[pairs[0]] if pairs else 1 << 62

    def remove(self, token_id: int) -> list[IdPair]:
        """Remove a leaf and return the pairs that produced it."""
        self.tokens.remove(token_id)
        self._whole_words.pop(self._vocab[token_id], None)
        pairs = self.merges.pop(token_id, [])
        for pair in pairs:
            del self.ranks[pair]
            for part in pair:
                self.num_uses[part] -= 1
        return pairs

    def encode(self, word: bytes) -> list[int]:
        """Encode a word with the remaining merges.

        Raises:
            AbsentByteError: If the vocabulary does not contain a byte of the word.
        """
        return self._merger.encode(word)

    def merge(self, part: bytes) -> list[int]:
        """Encode a part of a word with the remaining merges."""
        return self._part_merger.encode(part)

    def stay_apart(self, left: int, right: int) -> bool:
        """Return whether encoding the bytes of two tokens gives these two tokens."""
        return self.merge(self._vocab[left] + self._vocab[right]) == [left, right]


class WordUsage:
    """Counts of the tokens in a set of words, updated when a token is removed.

    Tokens are the encoding of a word if and only if each two neighbors are the encoding of their
    bytes: until the first merge across the boundary between two tokens, both sides are merged as
    they are alone, so this merge would also occur if there were only the two tokens. Therefore, not
    the whole word but only a part of it must be encoded again when a token is removed.

    Attributes:
        counts: Count of each id.
    """

    def __init__(
        self, tokenizer: Tokenizer, tree: MergeTree, word_counts: Mapping[bytes, int]
    ) -> None:
        self._tree = tree
        self._sizes = {token_id: len(token) for token_id, token in tokenizer.vocab.items()}
        self.counts = [0] * tokenizer.vocab_size
        self._text = bytearray()  # the words, without separators
        self._ids = array("q")  # id of the token that starts at each byte, or -1 within a token
        self._ends = array("q")  # offset of the end of each word
        self._word_counts: list[int] = []
        # Mapping of id -> offsets where the token starts or once started.
        self._offsets: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        for word, count in word_counts.items():
            if not isinstance(word, bytes):
                raise InputTypeError(
                    f"must be bytes, got {short_repr(word)} ({type(word).__name__})",
                    argument="words",
                )
            if type(count) is not int or count < 0:
                count = checked_integer("counts", count, 0, place=f"word {short_repr(word)}")
            if word and count:
                start = len(self._text)
                self._text += word
                self._ids.extend([-1] * len(word))
                self._ends.append(len(self._text))
                self._word_counts.append(count)
                self._place(start, self._first_ids(tokenizer, word), count, {})

    def removed(self, token_id: int) -> set[int]:
        """Update the counts after a token is removed; return the ids whose counts may change."""
        changed: set[int] = set()
        for start in self._offsets.pop(token_id, ()):
            if self._ids[start] == token_id:  # else it was encoded again with an earlier occurrence
                changed.update(self._encode_around(start, start + self._sizes[token_id]))
        return changed

    def _encode_around(self, start: int, end: int) -> list[int]:
        """Encode a removed token and the text around it again; return the old and the new ids.

        Args:
            start: Offset of the start of the token.
            end: Offset of its end.
        """
        word = bisect_right(self._ends, start)
        first, last = self._ends[word - 1] if word else 0, self._ends[word]
        context = _CONTEXT
        while True:
            low = self._token_start(max(first, start - context))
            high = min(last, end + context)
            while high < last and self._ids[high] < 0:
                high += 1
            part = bytes(self._text[low:high])
            if (low, high) == (first, last):
                new = self._tree.encode(part)
                break
            new = self._tree.merge(part)
            if (
                low == first or self._tree.stay_apart(self._ids[self._token_start(low - 1)], new[0])
            ) and (high == last or self._tree.stay_apart(new[-1], self._ids[high])):
                break
            context *= 4
        count = self._word_counts[word]
        old = {offset: i for offset, i in enumerate(self._ids[low:high], low) if i >= 0}
        for offset, token_id in old.items():
            self.counts[token_id] -= count
            self._ids[offset] = -1
        self._place(low, new, count, old)
        return [*old.values(), *new]

    def _token_start(self, offset: int) -> int:
        """Return the start of the token that contains the byte at an offset."""
        while self._ids[offset] < 0:
            offset -= 1
        return offset

    def _place(self, offset: int, ids: list[int], count: int, old: Mapping[int, int]) -> None:
        """Store the tokens that start at an offset. `old` maps the offsets of the previous ones."""
        for token_id in ids:
            self.counts[token_id] += count
            self._ids[offset] = token_id
            if old.get(offset) != token_id:
                self._offsets[token_id].append(offset)
            offset += self._sizes[token_id]

    def _first_ids(self, tokenizer: Tokenizer, word: bytes) -> list[int]:
        try:
            return tokenizer.encoder.encode_word(word.decode())  # compiled, if built
        except UnicodeDecodeError:
            return self._tree.encode(word)


def _remove_rarest(tree: MergeTree, usage: WordUsage, number: int) -> None:
    """Remove the least frequent leaf `number` times. If counts are equal, remove the newest."""
    # Entries with outdated counts are skipped, because a leaf whose count changes gets a new entry.
    heap = [_entry(tree, usage, leaf) for leaf in tree.tokens if tree.is_leaf(leaf)]
    heapq.heapify(heap)
    for done in range(number):
        while heap and (not tree.is_leaf(heap[0][2]) or heap[0][0] != usage.counts[heap[0][2]]):
            heapq.heappop(heap)
        if not heap:
            raise InputError(
                f"must be at least {len(tree.tokens):,}, the number of single bytes, special "
                f"tokens and their parts, got {len(tree.tokens) - number + done:,}",
                argument="vocab_size",
            )
        token_id = heapq.heappop(heap)[2]
        pairs = tree.remove(token_id)
        changed = usage.removed(token_id)
        changed.update(part for pair in pairs for part in pair)
        for leaf in changed:
            if tree.is_leaf(leaf):
                heapq.heappush(heap, _entry(tree, usage, leaf))


def _entry(tree: MergeTree, usage: WordUsage, token_id: int) -> tuple[int, int, int]:
    return usage.counts[token_id], -tree.age(token_id), token_id


def renumbered(
    tokenizer: Tokenizer, id_map: npt.NDArray[np.int64], merges: Sequence[Pair]
) -> Tokenizer:
    """Return a tokenizer with the remaining tokens and their new ids.

    Args:
        tokenizer: The old tokenizer.
        id_map: New id of each old id, or -1.
        merges: Remaining merges.
    """
    old = tokenizer.definition
    new_ids = dict(enumerate(id_map.tolist()))
    post_processor = old.post_processor and old.post_processor.renumbered(new_ids)
    definition = old.replaced(
        vocab={
            new_ids[token_id]: token
            for token_id, token in sorted(tokenizer.vocab.items())
            if new_ids[token_id] >= 0
        },
        merges=list(merges),
        added_ids={content: new_ids[token_id] for content, token_id in old.added_ids.items()},
        post_processor=post_processor,
        length_settings=old.length_settings and old.length_settings.renumbered(new_ids),
    )
    return tokenizer.with_definition(definition)
