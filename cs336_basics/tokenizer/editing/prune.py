"""prune: a vocabulary made smaller, without a token that others are made of.

Tokens are removed one by one: of those that no merge joins any more, the leaves of the merge tree,
the one that occurs least often. So every token that remains is still made by its merges. Single
bytes and special tokens stay. The words that held a removed token are encoded again by the
remaining merges, so that the count of every token is exact at every step.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.messages import short_repr
from cs336_basics.pretokenization import Corpus, WordCounts, count_words
from cs336_basics.pretokenization.counting.parallel import resolve_num_workers
from cs336_basics.pretokenization.reading.corpus import PathsLike
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError
from cs336_basics.tokenizer.encoders.python_encoder import PythonEncoder
from cs336_basics.tokenizer.text_input import absent_in_word
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer
from cs336_basics.tokenizer.vocabulary import ABSENT, Vocabulary, check_gaps

IdPair = tuple[int, int]


class Pruned(NamedTuple):
    """A pruned vocabulary."""

    tokenizer: Tokenizer
    """The remaining tokens in their old order, with the ids 0, 1, 2, ..."""
    id_map: npt.NDArray[np.int64]
    """Old id -> new id, -1 for a token that was removed; shape (old vocab_size,)."""


def prune(
    tokenizer: Tokenizer,
    vocab_size: int,
    counts: Mapping[bytes, int] | Corpus | PathsLike,
    *,
    num_workers: int | None = None,
) -> Pruned:
    """Return a tokenizer with the most frequent tokens only; every one can still be reached.

    The remaining merges keep their order, so that text is encoded as they say: as a tokenizer that
    had never had the others. Decoding gives back the same text.

    Args:
        tokenizer: it is not changed.
        vocab_size: how many tokens remain, bytes and special tokens included.
        counts: decides which tokens are frequent: `WordCounts` (a dict of word -> count), or a
            Corpus, a file, a glob, or several of both, whose words are counted. It takes memory for
            all distinct words.
        num_workers: for counting words; None: one for each core.

    Returns:
        the tokenizer and the map of its ids. For a model, pass the map to
        `model.select_embeddings`; for token files there is `translate_token_file`.

    Raises:
        TypeError: `tokenizer` or `counts` is something else, or `vocab_size` or `num_workers` is
            not an integer.
        ValueError: `vocab_size` is more than the tokenizer has, or fewer than the bytes, the
            special tokens and the tokens of which those are made; the greatest id is far above the
            number of tokens; a count is negative; the words were counted with another pattern or
            other special tokens; what `count_words` raises.
    """
    check_is_tokenizer(tokenizer)
    vocab_size = checked_integer("vocab_size", vocab_size, 1)
    if vocab_size > len(tokenizer):
        raise ValueError(
            f"vocab_size is {vocab_size:,}, but the tokenizer has {len(tokenizer):,} tokens"
        )
    num_workers = resolve_num_workers(num_workers)
    check_gaps(tokenizer.vocab)
    if isinstance(counts, WordCounts):
        counts.check_made_with(tokenizer.pattern, tokenizer.special_tokens)
    elif not isinstance(counts, Mapping):
        counts = count_words(counts, tokenizer.splitter, num_workers=num_workers)
    tree = MergeTree(tokenizer)
    _remove_rarest(tree, WordUsage(tokenizer, tree, counts), len(tokenizer) - vocab_size)
    return _renumbered(tokenizer, tree)


class MergeTree:
    """Which tokens are made of which, while tokens are removed.

    Attributes:
        tokens: the ids that remain.
        merges: id -> the pairs of ids that make it, the first in rank first.
        ranks: (left id, right id) -> rank, of the merges that remain.
        num_uses: id -> the number of remaining merges that join it.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        vocabulary = Vocabulary(
            tokenizer.vocab, tokenizer.merges, tokenizer.special_tokens, tokenizer.ignore_merges
        )
        # The encoder looks up the ranks and whole words, from which removed tokens are deleted.
        self._encoder = PythonEncoder(vocabulary, tokenizer.pattern, 0)
        self._vocabulary = vocabulary
        self.ranks = vocabulary.pair_ranks
        self.tokens = set(tokenizer.vocab)
        self.merges: defaultdict[int, list[IdPair]] = defaultdict(list)
        self.num_uses = dict.fromkeys(tokenizer.vocab, 0)
        for pair, merged in zip(self.ranks, vocabulary.merged_ids, strict=True):
            self.merges[merged].append(pair)
            for part in pair:
                self.num_uses[part] += 1
        stays = {token.encode() for token in tokenizer.special_tokens}
        stays.update(token for token in vocabulary.whole_words if not self._is_encodable(token))
        self._stays = {
            token_id
            for token_id, token in tokenizer.vocab.items()
            if len(token) == 1 or token in stays
        }

    def is_leaf(self, token_id: int) -> bool:
        """Return whether a token can be removed: it is there, and nothing is made of it."""
        return (
            token_id in self.tokens and not self.num_uses[token_id] and token_id not in self._stays
        )

    def age(self, token_id: int) -> int:
        """Return the rank of the first merge that makes a token; great for one that none makes."""
        pairs = self.merges.get(token_id)
        return self.ranks[pairs[0]] if pairs else 1 << 62

    def remove(self, token_id: int) -> list[IdPair]:
        """Remove a leaf; return the pairs that made it."""
        self.tokens.remove(token_id)
        self._vocabulary.whole_words.pop(self._vocabulary.tokens[token_id], None)
        pairs = self.merges.pop(token_id, [])
        for pair in pairs:
            del self.ranks[pair]
            for part in pair:
                self.num_uses[part] -= 1
        return pairs

    def _is_encodable(self, token: bytes) -> bool:
        """Return whether the vocabulary has the bytes of a token."""
        return all(self._vocabulary.byte_ids[byte] != ABSENT for byte in token)

    def encode(self, word: bytes) -> list[int]:
        """Return the ids of a word by the merges that remain.

        Raises:
            AbsentByteError: the vocabulary lacks a byte of the word.
        """
        return self._encoder.encode_bytes(word)


class WordUsage:
    """How often the tokens occur in words, which are encoded again when one is removed.

    Attributes:
        counts: of each id.
    """

    def __init__(
        self, tokenizer: Tokenizer, tree: MergeTree, word_counts: Mapping[bytes, int]
    ) -> None:
        self._tree = tree
        self.counts = [0] * tokenizer.vocab_size
        self._words: list[tuple[bytes, int]] = []
        self._ids: list[list[int]] = []  # of each word
        # Id -> the words that held it at some time.
        self._holders: defaultdict[int, list[int]] = defaultdict(list)
        for word, count in word_counts.items():
            if not isinstance(word, bytes):
                raise TypeError(
                    f"word {short_repr(word)} is of type {type(word).__name__}, not bytes"
                )
            if type(count) is not int or count < 0:
                count = checked_integer(f"the count of word {short_repr(word)}", count, 0)
            if word and count:
                self._words.append((word, count))
                self._ids.append([])
                self._change(len(self._words) - 1, self._first_ids(tokenizer, word))

    def removed(self, token_id: int) -> set[int]:
        """Encode the words that held a token again; return the tokens whose counts changed."""
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
            try:
                return tokenizer.encoder.encode_word(word.decode())  # compiled, where it is built
            except UnicodeDecodeError:
                return self._tree.encode(word)
        except AbsentByteError as error:
            raise absent_in_word(error, word) from None


def _remove_rarest(tree: MergeTree, usage: WordUsage, number: int) -> None:
    """Remove leaves, always the one with the smallest count; of equal counts the youngest."""
    # Entries whose count is out of date are skipped: there is a newer one.
    heap = [_entry(tree, usage, leaf) for leaf in tree.tokens if tree.is_leaf(leaf)]
    heapq.heapify(heap)
    for done in range(number):
        while heap and (not tree.is_leaf(heap[0][2]) or heap[0][0] != usage.counts[heap[0][2]]):
            heapq.heappop(heap)
        if not heap:
            raise ValueError(
                f"vocab_size is {len(tree.tokens) - number + done:,}: it must be at least "
                f"{len(tree.tokens):,}, the number of single bytes, special tokens, and tokens of "
                "which special tokens are made"
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
    """Return the tokenizer of the tokens that remain."""
    id_map = np.full(tokenizer.vocab_size, -1, np.int64)
    kept = sorted(tree.tokens)
    id_map[kept] = np.arange(len(kept))
    tokens = [tokenizer.vocab[token_id] for token_id in kept]
    remaining = set(tokens)
    merges = [pair for pair in tokenizer.merges if pair[0] + pair[1] in remaining]
    pruned = Tokenizer(
        dict(enumerate(tokens)),
        merges,
        tokenizer.special_tokens,
        pattern=tokenizer.pattern,
        cache_size=tokenizer.cache_size,
        backend=tokenizer.backend,
        ignore_merges=tokenizer.ignore_merges,
    )
    return Pruned(pruned, id_map)
