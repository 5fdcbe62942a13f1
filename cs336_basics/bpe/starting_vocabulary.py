"""StartingVocabulary: the vocabulary before training, either the bytes or an existing vocabulary.

To continue a vocabulary, the trainer first applies the existing merges to the words of the new
text, as a tokenizer would. The merge loop then counts the pairs of the resulting symbols. If you
continue on the same text, the two training runs together learn the same merges as a single run,
because the second run starts with the pair counts at which the first one stopped. If the existing
merges were edited, the result may differ, for example if two merges produce the same token or a
merge comes before the merges that produce its parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from cs336_basics._support.arguments import MAX_INT64, checked_integer
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import counted, short_repr
from cs336_basics._support.vocabularies import checked_merge_ids, checked_token_ids
from cs336_basics._support.warnings import warn
from cs336_basics.bpe.reference import NUM_BYTES, Pair, Symbols, merge_by_rank, split_bytes

BYTES = [bytes([byte]) for byte in range(NUM_BYTES)]


class StartingVocabulary:
    """A vocabulary and its merges, prepared for a trainer.

    Args:
        continued: `(vocab, merges)`. The vocabulary maps ids to tokens and must contain all 256
            single bytes. Ids may be in any order and may have gaps. Merges are pairs of tokens,
            ordered by rank. Defaults to the 256 bytes without merges.

    Attributes:
        tokens: Mapping from ids to tokens.
        merges: List of pairs, ordered by rank.
        symbols: Distinct tokens that words can consist of: the 256 bytes in order, then the tokens
            of the merges in order.
        num_ids: Highest id plus one. The first new token gets this id.

    Raises:
        TypeError: If `continued` is not `(vocab, merges)`, an id is not an int, a token is not
            bytes, or a merge is not a pair of bytes.
        ValueError: If an id is out of range, a token is empty or repeated, a byte is missing, a
            merge is repeated, or a part or the result of a merge is not in the vocabulary.
    """

    def __init__(self, continued: tuple[Mapping[int, bytes], Iterable[Pair]] | None = None) -> None:
        self.tokens: dict[int, bytes] = dict(enumerate(BYTES))
        self.merges: list[Pair] = []
        if continued is not None:
            self.tokens, self.merges = _checked(continued)
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.symbols = list(dict.fromkeys([*BYTES, *map(b"".join, self.merges)]))
        self.num_ids = max(self.tokens) + 1

    def split(self, word: bytes) -> Symbols:
        """Return the symbols of a word before the first new merge."""
        symbols = split_bytes(word)
        return merge_by_rank(symbols, self._ranks) if self._ranks else symbols

    def merge_ids(self) -> list[int]:
        """Return the merges for compiled code, ordered by rank, as one list.

        Returns:
            For each merge, the left token, right token and merged token, as indices into `symbols`.
            A merge is omitted if one of its parts is not in `symbols`.
        """
        index = {symbol: i for i, symbol in enumerate(self.symbols)}
        return [
            index[token]
            for left, right in self.merges
            if left in index and right in index
            for token in (left, right, left + right)
        ]

    def warn_of_unmade_tokens(self, special_tokens: Iterable[str]) -> None:
        """Warn about tokens that are neither special nor produced by a merge."""
        made = {*self.symbols, *map(str.encode, special_tokens)}
        unmade = [token for token in self.tokens.values() if token not in made]
        if unmade:
            warn(
                f"no merge produces {counted(len(unmade), 'token')} in the continued vocabulary, "
                f"such as {short_repr(unmade[0])}, so such text is split like any other text; add "
                "special tokens to special_tokens"
            )

    def num_merges(self, vocab_size: int, special_tokens: Iterable[str]) -> int:
        """Return the number of new merges in a vocabulary of `vocab_size` tokens.

        Raises:
            TypeError: If `vocab_size` is not an int.
            ValueError: If `vocab_size` is too small, or a special token is a single byte.
        """
        vocab_size = checked_integer("vocab_size", vocab_size, -MAX_INT64, MAX_INT64)
        known = set(self.tokens.values())
        num_new = 0
        for token in special_tokens:
            if len(token.encode()) == 1:
                raise InputError(
                    f"must not contain {token!r}, a single byte, which every vocabulary already "
                    "contains",
                    argument="special_tokens",
                    remedy="choose a longer token",
                )
            num_new += token.encode() not in known
        smallest = self.num_ids + num_new
        if vocab_size < smallest:
            kind = "byte" if self.num_ids == NUM_BYTES else "existing id"
            parts = f"{counted(self.num_ids, kind)} and {counted(num_new, 'special token')}"
            raise InputError(
                f"must be at least {smallest} ({parts}), got {vocab_size}",
                argument="vocab_size",
            )
        return vocab_size - smallest

    def extended(
        self,
        special_tokens: Iterable[str],
        merges: list[Pair],
        made: list[bytes] | None = None,
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Return the vocabulary and merges after training.

        New special tokens get the next ids, followed by the tokens of the new merges. The new
        tokens are distinct: a merge is applied wherever its pair occurs, so the same sequence of
        bytes between two token boundaries is always split in the same way, and two pairs never
        produce the same token. An existing merge that could not be applied to the words at first
        may be learned again. It then keeps its rank.

        Args:
            special_tokens: Special tokens of the training run.
            merges: New merges, ordered by rank. The result may be this list.
            made: Tokens of the new merges, if they are known already.

        Raises:
            ValueError: If a merge produces a special token.

        Warns:
            UserWarning: If a new merge produces a token that the vocabulary already contains. The
                token keeps its id.
        """
        special = {token.encode(): token for token in special_tokens}
        known = set(self.tokens.values())
        made = list(map(b"".join, merges)) if made is None else made
        new: Iterable[bytes] = [token for token in special if token not in known]
        if known.union(special).isdisjoint(made):
            new = itertools.chain(new, made)
        else:
            for token in filter(special.__contains__, made):
                # This happens only if the special tokens were not cut out of the counted text.
                raise InputError(
                    f"the merges produce the special token {special[token]!r}, which is part of a "
                    "word",
                    remedy="count the words with the same special_tokens",
                )
            again = list(filter(known.__contains__, made))
            warn(
                "the vocabulary already contains the tokens of "
                f"{counted(len(again), 'new merge')}, such as {short_repr(again[0])}; these tokens "
                "keep their ids, so there are fewer new tokens"
            )
            new = itertools.chain(new, itertools.filterfalse(known.__contains__, made))
        if self._ranks:
            merges = [merge for merge in merges if merge not in self._ranks]
        tokens = dict(self.tokens)
        tokens.update(zip(itertools.count(self.num_ids), new, strict=False))
        return tokens, [*self.merges, *merges] if self.merges else merges


def _checked(continued: Any) -> tuple[dict[int, bytes], list[Pair]]:
    """Return checked copies of a vocabulary and its merges; see `StartingVocabulary`."""
    try:
        vocab, merges = continued
        tokens, merges = dict(vocab), list(merges)
    except (TypeError, ValueError):
        raise InputTypeError(
            "must be (vocab, merges), such as (tokenizer.vocab, tokenizer.merges), got "
            f"{short_repr(continued)}",
            argument="continue_from",
        ) from None
    token_ids = checked_token_ids(tokens)
    for byte in BYTES:
        if byte not in token_ids:
            raise InputError(
                f"must contain all 256 bytes, but {byte!r} is missing", argument="vocab"
            )
    checked_merge_ids(merges, token_ids)
    return tokens, [(left, right) for left, right in merges]
