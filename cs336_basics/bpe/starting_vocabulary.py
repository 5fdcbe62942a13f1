"""StartingVocabulary: what training begins with, the bytes alone or a vocabulary that is continued.

A vocabulary is continued as follows. The words of the new text are merged by its merges, as its
tokenizer would encode them; then the merge loop counts the pairs of these symbols and goes on.
Where the text is the one of the first training, the result is that of one training: the merges are
chosen by the counts alone, and the counts are those that the first training had when it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_repr
from cs336_basics._support.warnings import warn
from cs336_basics.bpe.symbols import NUM_BYTES, Pair, merge_by_rank, split_bytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = LazyModule("numpy")


class StartingVocabulary:
    """A vocabulary and its merges, checked and made ready for a trainer.

    Args:
        vocab: id -> token. It must hold all 256 single bytes; ids may come in any order and have
            gaps.
        merges: pairs of tokens in the order in which they were learned.

    Attributes:
        tokens: id -> token (a copy).
        merges: list of pairs, as given.
        symbols: the distinct tokens of which words can consist: the 256 bytes in order, then the
            tokens of the merges in order.
        num_ids: the greatest id plus one; new tokens get the ids from there on.

    Raises:
        TypeError: an id is not an int, a token is not bytes, a merge is not a pair of bytes.
        ValueError: a negative id, two ids with the same bytes, an absent byte, a merge that is
            given twice or whose tokens or result the vocabulary lacks.
    """

    def __init__(self, vocab: Mapping[int, bytes], merges: Iterable[Pair]) -> None:
        if not isinstance(vocab, Mapping):
            raise TypeError(f"vocab is {short_repr(vocab)}: pass a dict of id -> bytes")
        self.tokens = dict(vocab)
        self.merges = list(merges)
        known = _checked_tokens(self.tokens)
        self._ranks = _checked_ranks(self.merges, known)
        self.num_ids = max(self.tokens) + 1
        symbols = [bytes([byte]) for byte in range(NUM_BYTES)]
        symbols.extend(left + right for left, right in self.merges)
        self.symbols = list(dict.fromkeys(symbols))

    @classmethod
    def of(cls, continued: tuple[Mapping[int, bytes], Iterable[Pair]] | None) -> StartingVocabulary:
        """Return the vocabulary of `(vocab, merges)`, that of the 256 bytes for None.

        Raises:
            TypeError: it is neither; or as the constructor.
            ValueError: as the constructor.
        """
        if continued is None:
            return cls({byte: bytes([byte]) for byte in range(NUM_BYTES)}, [])
        if (
            not isinstance(continued, Sequence)
            or len(continued) != 2
            or not isinstance(continued[1], Iterable)
        ):
            raise TypeError(
                f"continue_from is {short_repr(continued)}: pass (vocab, merges), such as "
                "(tokenizer.vocab, tokenizer.merges)"
            )
        return cls(*continued)

    def split(self, word: bytes) -> tuple[bytes, ...]:
        """Return a word as the symbols of which it consists before the first new merge."""
        symbols = split_bytes(word)
        return merge_by_rank(symbols, self._ranks) if self._ranks else symbols

    def merge_ids(self) -> npt.NDArray[np.uint32]:
        """Return the merges for compiled code, by rank.

        Shape (num_merges, 3), uint32: left, right, merged, as indices into `symbols`. Merges of
        tokens that nothing makes are left out: they can never be applied.
        """
        index = {symbol: i for i, symbol in enumerate(self.symbols)}
        rows = [
            (index[left], index[right], index[left + right])
            for left, right in self.merges
            if left in index and right in index
        ]
        return np.array(rows, np.uint32).reshape(len(rows), 3)

    def symbol_bytes(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the bytes of all `symbols`, and the offsets where they begin, with their end."""
        offsets = np.zeros(len(self.symbols) + 1, np.int64)
        np.cumsum([len(symbol) for symbol in self.symbols], out=offsets[1:])
        return np.frombuffer(b"".join(self.symbols), np.uint8), offsets

    def warn_of_unmade_tokens(self, special_tokens: Iterable[str]) -> None:
        """Warn of tokens that no merge makes and that are not special: they are never learned."""
        made = {left + right for left, right in self.merges}
        made.update(token.encode() for token in special_tokens)
        unmade = [t for t in self.tokens.values() if len(t) > 1 and t not in made]
        if unmade:
            warn(
                f"no merge makes {len(unmade):,} of the tokens that are continued, such as "
                f"{short_repr(unmade[0])}, and special_tokens lacks them: their text is split and "
                "trained on as any other; pass those that are special"
            )

    def num_new_ids(self, special_tokens: Iterable[str]) -> int:
        """Return how many of the special tokens the vocabulary lacks."""
        known = set(self.tokens.values())
        return sum(token.encode() not in known for token in special_tokens)

    def extended(
        self, special_tokens: Iterable[str], merges: Sequence[Pair]
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Return the vocabulary and merges that training has made of these.

        New special tokens get the next ids, then the tokens of the new merges. A merge that the
        vocabulary has already, and that only now can be reached, keeps its rank.

        Raises:
            ValueError: a merge makes a special token.

        Warns:
            UserWarning: a merge makes a token that the vocabulary has, but that its own merges do
                not make of these bytes. The token keeps its id.
        """
        tokens = dict(self.tokens)
        special = {token.encode(): token for token in special_tokens}
        known = set(tokens.values())
        next_id = self.num_ids
        for token in special:
            if token not in known:
                tokens[next_id] = token
                next_id += 1
        made = [left + right for left, right in merges]
        new = dict.fromkeys(made)  # (distinct, in order)
        for token in special:
            if token in new:
                # This cannot happen where the special tokens were cut out of the counted text.
                raise ValueError(
                    f"the words hold the special token {special[token]!r}, and the merges made it "
                    "again: two ids would have the same bytes; count the words with the same "
                    "special_tokens"
                )
        for token in new.keys() & known:
            del new[token]
        tokens.update(enumerate(new, next_id))
        if len(new) < len(made):
            made_again = Counter(made) - Counter(new.keys())
            warn(
                f"{made_again.total():,} of the new merges make tokens that the vocabulary had "
                f"already, such as {short_repr(next(iter(made_again)))}; they keep their ids, and "
                "the vocabulary has that many fewer tokens"
            )
        old_merges = set(self.merges)
        new_merges = (
            [merge for merge in merges if merge not in old_merges] if old_merges else merges
        )
        return tokens, [*self.merges, *new_merges]


def _checked_tokens(tokens: dict[int, bytes]) -> set[bytes]:
    """Return the set of all tokens."""
    known: set[bytes] = set()
    for token_id, token in tokens.items():
        if type(token_id) is not int or not isinstance(token, bytes):
            raise TypeError(
                f"vocab: {short_repr(token_id)} -> {short_repr(token)} is not an int -> bytes"
            )
        if token_id < 0:
            raise ValueError(f"vocab: id {short_repr(token_id)} of {short_repr(token)} is negative")
        if not token:
            raise ValueError(f"vocab: the token of id {token_id} is empty: remove it")
        if token in known:
            raise ValueError(f"vocab: two ids are {short_repr(token)}: remove one")
        known.add(token)
    for byte in range(NUM_BYTES):
        if bytes([byte]) not in known:
            raise ValueError(
                f"vocab: the byte {byte:#04x} has no id: training needs all 256; add it"
            )
    return known


def _checked_ranks(merges: list[Pair], known: set[bytes]) -> dict[Pair, int]:
    """Return pair -> rank."""
    ranks: dict[Pair, int] = {}
    for rank, merge in enumerate(merges):
        if (
            not isinstance(merge, tuple)
            or len(merge) != 2
            or not all(isinstance(token, bytes) for token in merge)
        ):
            raise TypeError(f"merge {rank} is {short_repr(merge)}, not a pair of bytes")
        left, right = merge
        for token in (left, right, left + right):
            if token not in known:
                raise ValueError(
                    f"merge {rank} joins {short_repr(left)} and {short_repr(right)}, but the "
                    f"vocabulary has no token {short_repr(token)}"
                )
        if merge in ranks:
            raise ValueError(
                f"merge {rank} of {short_repr(left)} and {short_repr(right)} repeats merge "
                f"{ranks[merge]}: remove one"
            )
        ranks[merge] = rank
    return ranks
