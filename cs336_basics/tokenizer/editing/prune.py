"""prune: make a vocabulary smaller while keeping every remaining token reachable.

Tokens are removed one by one. Each step removes the least frequent leaf of the merge tree: a token
that no remaining merge uses as a part. The remaining merges can therefore still produce every
remaining token. Single bytes and special tokens stay. Words that contained a removed token are
encoded again with the remaining merges, so all counts are exact at every step.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import short_repr
from cs336_basics.counting import WordCounts, count_words
from cs336_basics.execution.workers import resolve_num_workers
from cs336_basics.text import Corpus
from cs336_basics.text.paths import PathsLike
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders.python_encoder import RankMerger
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer
from cs336_basics.tokenizer.vocabulary import check_gaps

IdPair = tuple[int, int]


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
            tokens; if a count is negative; or if the words were counted with a different pattern
            or different special tokens. `count_words` may also raise ValueError.
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
    if isinstance(counts, WordCounts):
        counts.check_made_with(tokenizer.pattern, tokenizer.splitter.special_tokens)
    elif not isinstance(counts, Mapping):
        counts = count_words(counts, tokenizer.splitter, num_workers=num_workers)
    tree = MergeTree(tokenizer.definition)
    _remove_rarest(tree, WordUsage(tokenizer, tree, counts), len(tokenizer) - vocab_size)
    return _renumbered(tokenizer, tree)


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
        self.tokens = set(definition.vocab)
        self.merges: defaultdict[int, list[IdPair]] = defaultdict(list)
        self.num_uses = dict.fromkeys(definition.vocab, 0)
        for pair, merged in zip(self.ranks, definition.merged_ids, strict=True):
            self.merges[merged].append(pair)
            for part in pair:
                self.num_uses[part] += 1
        absent = definition.absent_bytes
        self._stays = set(definition.added_ids.values())
        if definition.post_processor:
            self._stays |= definition.post_processor.added_ids
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


class WordUsage:
    """Counts of the tokens in a set of words, updated when a token is removed.

    Attributes:
        counts: Count of each id.
    """

    def __init__(
        self, tokenizer: Tokenizer, tree: MergeTree, word_counts: Mapping[bytes, int]
    ) -> None:
        self._tree = tree
        self.counts = [0] * tokenizer.vocab_size
        self._words: list[tuple[bytes, int]] = []
        self._ids: list[list[int]] = []  # ids of each word
        # Mapping of id -> indices of the words whose encoding contains or once contained the id.
        self._holders: defaultdict[int, list[int]] = defaultdict(list)
        for word, count in word_counts.items():
            if not isinstance(word, bytes):
                raise InputTypeError(
                    f"must be bytes, got {short_repr(word)} ({type(word).__name__})",
                    argument="words",
                )
            if type(count) is not int or count < 0:
                count = checked_integer("counts", count, 0, place=f"word {short_repr(word)}")
            if word and count:
                self._words.append((word, count))
                self._ids.append([])
                self._change(len(self._words) - 1, self._first_ids(tokenizer, word))

    def removed(self, token_id: int) -> set[int]:
        """Re-encode words that contain a removed token; return the ids whose counts may change."""
        changed: set[int] = set()
        for index in self._holders.pop(token_id, ()):
            before = self._ids[index]
            if token_id in before:
                changed.update(before)
                changed.update(self._change(index, self._tree.encode(self._words[index][0])))
        return changed

    def _change(self, index: int, ids: list[int]) -> list[int]:
        before, count = self._ids[index], self._words[index][1]
        for token_id in before:
            self.counts[token_id] -= count
        for token_id in ids:
            self.counts[token_id] += count
        for token_id in set(ids).difference(before):
            self._holders[token_id].append(index)
        self._ids[index] = ids
        return ids

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


def _renumbered(tokenizer: Tokenizer, tree: MergeTree) -> Pruned:
    """Return a tokenizer with the remaining tokens, and the mapping to their new ids."""
    id_map = np.full(tokenizer.vocab_size, -1, np.int64)
    kept = sorted(tree.tokens)
    id_map[kept] = np.arange(len(kept))
    tokens = [tokenizer.vocab[token_id] for token_id in kept]
    old = tokenizer.definition
    merges = [
        pair
        for pair, token_id in zip(old.merges, old.merged_ids, strict=True)
        if id_map[token_id] >= 0
    ]
    new_ids = dict(enumerate(id_map.tolist()))
    post_processor = old.post_processor and old.post_processor.renumbered(new_ids)
    definition = old.replaced(
        vocab=dict(enumerate(tokens)),
        merges=merges,
        added_ids={content: new_ids[token_id] for content, token_id in old.added_ids.items()},
        post_processor=post_processor,
    )
    return Pruned(tokenizer.with_definition(definition), id_map)
