"""Checks of a vocabulary and its merges, for tokenizers and for training that continues them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr

MAX_ID = (1 << 32) - 1
"""The highest valid id. Arrays of ids cannot store larger values. In addition, Python does not
randomize the hashes of integers, so without this limit a file could use ids whose hashes all
collide."""


def explain_bad_id(token_id: int, token: object) -> str:
    """Return what is wrong with a vocabulary that has an id that is negative or above MAX_ID."""
    return (
        f"must have ids between 0 and {MAX_ID}, got {short_repr(token_id)} for {short_repr(token)}"
    )


def checked_token_ids(tokens: Mapping[int, bytes]) -> dict[bytes, int]:
    """Check every item and return a mapping of token -> id."""
    # Checking item by item takes four times as long, so it is done only to explain an error.
    if set(map(type, tokens)) <= {int} and set(map(type, tokens.values())) <= {bytes}:
        token_ids = dict(zip(tokens.values(), tokens, strict=True))
        in_range = not tokens or (min(tokens) >= 0 and max(tokens) <= MAX_ID)
        if in_range and len(token_ids) == len(tokens) and b"" not in token_ids:
            return token_ids
    token_ids = {}
    for token_id, token in tokens.items():
        if type(token_id) is not int:
            raise InputTypeError(
                f"must have ints as ids, got {short_repr(token_id)} "
                f"({type(token_id).__name__}) for {short_repr(token)}",
                argument="vocab",
            )
        if not 0 <= token_id <= MAX_ID:
            raise InputError(explain_bad_id(token_id, token), argument="vocab")
        if not isinstance(token, bytes):
            raise InputTypeError(
                f"must have bytes as tokens, got {short_repr(token)} ({type(token).__name__}) "
                f"for id {short_repr(token_id)}",
                argument="vocab",
            )
        if not token:
            raise InputError(
                f"must not have an empty token, got one with id {short_repr(token_id)}",
                argument="vocab",
                remedy="remove it",
            )
        if token in token_ids:
            raise InputError(
                f"must have different tokens, but ids {short_repr(token_ids[token])} and "
                f"{short_repr(token_id)} are both {short_repr(token)}",
                argument="vocab",
                remedy="remove one",
            )
        token_ids[token] = token_id
    return token_ids


def checked_merge_ids(
    merges: Sequence[Any], token_ids: Mapping[bytes, int]
) -> list[tuple[int, int, int]]:
    """Check every merge and return the ids of its left, right and joined tokens."""
    rows: list[tuple[int, int, int]] = []
    ranks: dict[tuple[int | None, ...], int] = {}
    for rank, merge in enumerate(merges):
        if (
            not isinstance(merge, (tuple, list))
            or len(merge) != 2
            or not isinstance(merge[0], bytes)
            or not isinstance(merge[1], bytes)
        ):
            raise InputTypeError(
                f"must be pairs of bytes, got {short_repr(merge)} as merge {rank}",
                argument="merges",
            )
        left, right = merge
        joined = left + right
        row = token_ids.get(left), token_ids.get(right), token_ids.get(joined)
        if row[0] is None or row[1] is None or row[2] is None:
            missing = next(token for token in (left, right, joined) if token not in token_ids)
            raise InputError(
                f"must make tokens of the vocabulary, but merge {rank} joins {short_repr(left)} "
                f"and {short_repr(right)}, and there is no token {short_repr(missing)}",
                argument="merges",
                remedy="add it, or remove the merge",
            )
        if (first := ranks.setdefault(row[:2], rank)) != rank:
            raise InputError(
                f"must be different, but merge {rank} of {short_repr(left)} and "
                f"{short_repr(right)} repeats merge {first}",
                argument="merges",
                remedy="remove one",
            )
        rows.append((row[0], row[1], row[2]))
    return rows
