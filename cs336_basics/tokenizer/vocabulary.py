"""Vocabulary: tokens, merges and special tokens, checked once and indexed for encoders."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from cs336_basics._support.arguments import checked_bool
from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.vocabularies import (
    MAX_ID,
    checked_merge_ids,
    checked_token_ids,
    explain_bad_id,
)

try:
    from cs336_basics.tokenizer._vocabulary import index_merges
except ImportError:  # the extension is not built
    index_merges = None  # type: ignore[assignment]

Pair = tuple[bytes, bytes]
MergeIds: TypeAlias = "npt.NDArray[np.uint32]"

ABSENT = -1
"""Placeholder for the id of a byte without a token."""

TOKENIZER_FILE = "tokenizer.json"
"""File name of a saved tokenizer."""


class TokenizerParts(NamedTuple):
    """The arguments of `Tokenizer` that a tokenizer file contains."""

    vocab: dict[int, bytes]
    merges: list[Pair]
    special_tokens: list[str]
    pattern: str
    ignore_merges: bool = False


class Vocabulary:
    """Everything that determines the ids of a pre-token, and the ids of the special tokens.

    Args:
        tokens: Mapping of id -> token.
        merges: Pairs of tokens in the order in which they were learned.
        special_tokens: Special tokens of a Splitter. Those that are not in `tokens` get ids after
            the highest id.
        ignore_merges: See `Tokenizer`.

    Attributes:
        tokens: Mapping of id -> token, including special tokens; a copy of the argument.
        merges: The merges, as a list of pairs.
        ignore_merges: The argument.
        special_ids: Mapping of special token -> id, in the order of `special_tokens`.
        size: Highest id plus one.
        byte_ids: Id of each of the 256 bytes, or ABSENT if it has no token.
        absent_bytes: The bytes without a token.
        merge_ids: Ids of the left, right and joined tokens of each merge, shape (num_merges, 3).
    """

    def __init__(
        self,
        tokens: Mapping[int, bytes],
        merges: Iterable[Pair],
        special_tokens: Iterable[str] = (),
        ignore_merges: bool = False,
    ) -> None:
        self.ignore_merges = checked_bool("ignore_merges", ignore_merges)
        self.tokens = dict(tokens)
        self.merges = list(merges)
        token_ids = checked_token_ids(self.tokens)
        self._indexed_merges = _index_merges(self.merges, token_ids)
        if set(map(type, self.merges)) - {tuple}:  # lists cannot be dict keys
            self.merges = [(left, right) for left, right in self.merges]
        self.special_ids: dict[str, int] = {}
        next_id = max(self.tokens, default=-1) + 1
        for special_token in special_tokens:
            token = special_token.encode()
            if token not in token_ids:
                if next_id > MAX_ID:
                    raise InputError(f"vocab: {explain_bad_id(next_id, token)}")
                token_ids[token] = next_id
                self.tokens[next_id] = token
                next_id += 1
            self.special_ids[special_token] = token_ids[token]
        self.size = next_id
        self.byte_ids = [token_ids.get(bytes([byte]), ABSENT) for byte in range(256)]
        self.absent_bytes = frozenset(
            byte for byte, token_id in enumerate(self.byte_ids) if token_id == ABSENT
        )

    def hash(self, expression: str) -> str:
        """Return the SHA-256, in hexadecimal digits, of the vocabulary and a split pattern."""
        ids = sorted(self.tokens)
        tokens = [self.tokens[token_id] for token_id in ids]
        pattern = expression.encode("utf-8", "surrogatepass")
        special_ids = sorted(self.special_ids.values())
        digest = hashlib.sha256()
        for numbers in (
            [len(pattern), len(ids), len(self.merges), len(special_ids), self.ignore_merges],
            ids,
            special_ids,
            list(map(len, tokens)),
            self.merge_ids[:, :2].ravel(),
        ):
            digest.update(np.asarray(numbers, "<u4").tobytes())
        digest.update(pattern)
        digest.update(b"".join(tokens))
        return digest.hexdigest()

    # The native encoder does not need the following mappings, so they are built on first use.

    @functools.cached_property
    def token_ids(self) -> dict[bytes, int]:
        """Mapping of token -> id."""
        return {token: token_id for token_id, token in self.tokens.items()}

    @functools.cached_property
    def pair_ranks(self) -> dict[tuple[int, int], int]:
        """Mapping of (left id, right id) -> rank, in the order of the ranks."""
        return {(left, right): rank for rank, (left, right, _) in enumerate(self._merge_rows())}

    @functools.cached_property
    def merged_ids(self) -> list[int]:
        """Id of the token that each merge produces, by rank."""
        return [joined for _, _, joined in self._merge_rows()]

    @functools.cached_property
    def merge_ids(self) -> MergeIds:
        """Ids of the left, right and joined tokens of each merge, shape (num_merges, 3)."""
        return np.asarray(self._indexed_merges, np.uint32).reshape(-1, 3)

    def _merge_rows(self) -> list[tuple[int, int, int]]:
        """Return `merge_ids` as a list. Without the extensions, this does not need NumPy."""
        indexed = self._indexed_merges
        return indexed if isinstance(indexed, list) else indexed.tolist()

    @functools.cached_property
    def whole_words(self) -> dict[bytes, int]:
        """Mapping of token -> id, for the tokens that `ignore_merges` applies to."""
        if not self.ignore_merges:
            return {}
        special = {token.encode() for token in self.special_ids}
        return {
            token: token_id for token, token_id in self.token_ids.items() if token not in special
        }

    # A pickle contains the tokens, sorted by id, and the merges as pairs of ids, so that equal
    # vocabularies have equal pickles.

    def __getstate__(self) -> dict[str, Any]:
        return {
            "tokens": dict(sorted(self.tokens.items())),
            "merges": self.merge_ids[:, :2].astype("<u4").tobytes(),
            "special_tokens": list(self.special_ids),
            "ignore_merges": self.ignore_merges,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        tokens = state["tokens"]
        pairs = np.frombuffer(state["merges"], "<u4").reshape(-1, 2).tolist()
        merges = [(tokens[left], tokens[right]) for left, right in pairs]
        self.__init__(  # type: ignore[misc]
            tokens, merges, state["special_tokens"], state["ignore_merges"]
        )


def longest_tokens(tokens: Mapping[int, bytes], special_tokens: Iterable[str] = ()) -> list[bytes]:
    """Return the tokens with the most bytes, ordered by id. Special tokens are left out."""
    special = {special_token.encode() for special_token in special_tokens}
    learned = [tokens[token_id] for token_id in sorted(tokens) if tokens[token_id] not in special]
    most = max(map(len, learned), default=0)
    return [token for token in learned if len(token) == most]


def max_array_size(num_tokens: int) -> int:
    """Return the maximum length of an array with one item per id, including gaps."""
    return 8 * num_tokens + (1 << 20)


def check_gaps(tokens: Mapping[int, bytes]) -> None:
    """Check that an array with one item per id would not consist mostly of gaps.

    Raises:
        ValueError: If the highest id is far above the number of tokens.
    """
    highest = max(tokens, default=-1)
    if highest >= max_array_size(len(tokens)):
        raise InputError(
            f"the highest id is {highest:,}, but the vocabulary has only {len(tokens):,} tokens; "
            "use smaller ids, because this operation needs an array with one item per id"
        )


def _index_merges(
    merges: list[Pair], token_ids: dict[bytes, int]
) -> MergeIds | list[tuple[int, int, int]]:
    """Check every merge and return the ids of its left, right and joined tokens."""
    if index_merges is not None:
        ids = index_merges(merges, token_ids)  # None if a merge is invalid
        if ids is not None and not _has_repeated_pairs(ids):
            return ids
    return checked_merge_ids(merges, token_ids)


def _has_repeated_pairs(ids: MergeIds) -> bool:
    pairs = np.sort(ids[:, 0].astype(np.uint64) << np.uint64(32) | ids[:, 1])
    return bool(np.any(pairs[1:] == pairs[:-1]))
