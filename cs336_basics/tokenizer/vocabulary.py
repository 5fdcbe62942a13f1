"""Helpers for vocabularies given as a mapping of id -> token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cs336_basics._support.errors import InputError


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
            f"the highest id is {highest:,}, but the vocabulary has only {len(tokens):,} tokens",
            remedy="use smaller ids, because this operation needs an array with one item per id",
        )
