"""StartingVocabulary: what training begins with, the bytes alone or a vocabulary that is continued.

A vocabulary is continued as follows. The words of the new text are merged by its merges, as its
tokenizer would encode them; then the merge loop counts the pairs of these symbols and goes on.
Where the text is the one of the first training, the result is that of one training: the merges are
chosen by the counts alone, and the counts are those that the first training had when it stopped.
(That holds for merges that a trainer learned from the bytes. With edited ones, of which several may
make one token or one may precede those that make its parts, two steps may differ from one.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cs336_basics._support.arguments import MAX_INT64, checked_integer
from cs336_basics._support.lazy import LazyModule
from cs336_basics._support.messages import short_repr
from cs336_basics._support.warnings import warn
from cs336_basics.bpe.reference import NUM_BYTES, Pair, Symbols, merge_by_rank, split_bytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = LazyModule("numpy")

BYTES = [bytes([byte]) for byte in range(NUM_BYTES)]


class StartingVocabulary:
    """A vocabulary and its merges, made ready for a trainer.

    Args:
        continued: `(vocab, merges)`. The vocabulary, id -> token, must hold all 256 single bytes;
            ids may come in any order and have gaps. The merges are pairs of tokens in the order in
            which they were learned. None: the bytes alone.

    Attributes:
        tokens: id -> token (a copy).
        merges: list of pairs, as given.
        symbols: the distinct tokens of which words can consist: the 256 bytes in order, then the
            tokens of the merges in order.
        num_ids: the greatest id plus one; new tokens get the ids from there on.

    Raises:
        TypeError: `continued` is something else, an id is not an int, a token is not bytes.
        ValueError: a negative id, an empty token, two ids with the same bytes, an absent byte, a
            merge that is given twice or whose tokens or result the vocabulary lacks.
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
        made = {*self.symbols, *map(str.encode, special_tokens)}
        unmade = [token for token in self.tokens.values() if token not in made]
        if unmade:
            warn(
                f"no merge makes {len(unmade):,} of the tokens that are continued, such as "
                f"{short_repr(unmade[0])}, and special_tokens lacks them: their text is split and "
                "trained on as any other; pass those that are special"
            )

    def num_merges(self, vocab_size: int, special_tokens: Iterable[str]) -> int:
        """Return for how many new merges a vocabulary of this size has room.

        Raises:
            TypeError: the size is not an int.
            ValueError: it is too small; or a special token is a single byte.
        """
        vocab_size = checked_integer("vocab_size", vocab_size, -MAX_INT64, MAX_INT64)
        known = set(self.tokens.values())
        num_new = 0
        for token in special_tokens:
            if len(token.encode()) == 1:
                raise ValueError(
                    f"special token {token!r} is a single byte, which every vocabulary has "
                    "already: two ids would have the same bytes; choose a longer one"
                )
            num_new += token.encode() not in known
        smallest = self.num_ids + num_new
        if vocab_size < smallest:
            raise ValueError(
                f"vocab_size must be at least {smallest} ({self.num_ids:,} existing ids and "
                f"{num_new} special tokens), got {vocab_size}"
            )
        return vocab_size - smallest

    def extended(
        self, special_tokens: Iterable[str], merges: Sequence[Pair]
    ) -> tuple[dict[int, bytes], list[Pair]]:
        """Return the vocabulary and merges that training has made of these.

        New special tokens get the next ids, then the tokens of the new merges. These are distinct:
        a merge is applied wherever its pair occurs, so equal bytes between the same two boundaries
        are always split into the same tokens, and two pairs never make the same bytes, whatever
        the options. A merge that the vocabulary has already, and that only now can be reached,
        keeps its rank.

        Raises:
            ValueError: a merge makes a special token.

        Warns:
            UserWarning: a merge makes a token that the vocabulary has, but that its own merges do
                not make of these bytes. The token keeps its id.
        """
        special = {token.encode(): token for token in special_tokens}
        known = set(self.tokens.values())
        made = list(map(b"".join, merges))
        for token in special.keys() & set(made):
            # This cannot happen where the special tokens were cut out of the counted text.
            raise ValueError(
                f"the words hold the special token {special[token]!r}, and the merges made it "
                "again: count the words with the same special_tokens"
            )
        again = [token for token in made if token in known]
        if again:
            warn(
                f"{len(again):,} of the new merges make tokens that the vocabulary had already, "
                f"such as {short_repr(again[0])}; they keep their ids, and the vocabulary has that "
                "many fewer tokens"
            )
        if self._ranks:
            merges = [merge for merge in merges if merge not in self._ranks]
        tokens = dict(self.tokens)
        new = [token for token in (*special, *made) if token not in known]
        tokens.update(enumerate(new, self.num_ids))
        return tokens, [*self.merges, *merges]


def _checked(continued: Any) -> tuple[dict[int, bytes], list[Pair]]:
    """Return copies of a vocabulary and its merges; see `StartingVocabulary` for what is raised."""
    try:
        vocab, merges = continued
        tokens, merges = dict(vocab), list(merges)
    except (TypeError, ValueError):
        raise TypeError(
            f"continue_from is {short_repr(continued)}: pass (vocab, merges), such as "
            "(tokenizer.vocab, tokenizer.merges)"
        ) from None
    known: set[bytes] = set()
    for token_id, token in tokens.items():
        if type(token_id) is not int or not isinstance(token, bytes):
            raise TypeError(
                f"vocab: {short_repr(token_id)} -> {short_repr(token)} is not an int -> bytes"
            )
        if token_id < 0 or not token or token in known:
            raise ValueError(
                f"vocab: {short_repr(token_id)} -> {short_repr(token)}: the id is negative, or the "
                "token is empty or repeated"
            )
        known.add(token)
    for byte in BYTES:
        if byte not in known:
            raise ValueError(f"vocab: the byte {byte!r} has no id: training needs all 256; add it")
    seen: set[Pair] = set()
    for rank, merge in enumerate(merges):
        if not isinstance(merge, tuple) or list(map(type, merge)) != [bytes, bytes]:
            raise TypeError(f"merge {rank} is {short_repr(merge)}, not a pair of bytes")
        for token in (*merge, b"".join(merge)):
            if token not in known:
                raise ValueError(
                    f"merge {rank} is {short_repr(merge)}, but the vocabulary has no token "
                    f"{short_repr(token)}"
                )
        if merge in seen:
            raise ValueError(f"merge {rank} is {short_repr(merge)}, which is repeated: remove one")
        seen.add(merge)
    return tokens, merges
