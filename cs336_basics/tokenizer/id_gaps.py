"""Limits of arrays with one item per id, for vocabularies whose ids have gaps."""

from __future__ import annotations

from collections.abc import Mapping

from cs336_basics._support.errors import InputError


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
