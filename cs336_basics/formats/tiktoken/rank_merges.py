"""The merges of tiktoken's ranks, which it does not list, and the tokenizer that they make.

tiktoken always joins the adjacent pair whose joined bytes have the lowest rank.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from cs336_basics._support.errors import Argument, InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.formats.byte_strings import add_token, check_has_all_bytes
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.words import Pair

try:
    from cs336_basics.tokenizer._vocabulary import rank_splits
except ImportError:  # the extension is not built
    rank_splits = None  # type: ignore[assignment]

MAX_BYTES = 1 << 18
MAX_BYTES_PER_TOKEN = 32
"""n tokens may have at most MAX_BYTES + n * MAX_BYTES_PER_TOKEN bytes in total, because finding
the merges takes microseconds per byte. GPT-2's 50,257 tokens have 6.4 bytes on average."""


NO_RANK = (1 << 32) - 1
"""tiktoken never joins a pair with this rank (`Rank::MAX` in its `src/lib.rs`)."""


def merges_of_ranks(ranks: Mapping[bytes, int]) -> list[Pair]:
    """Return merges that, with `ignore_merges`, give the same ids as tiktoken.

    Each merge produces a different token. A token that no merge produces is used only for a
    pre-token that equals it.

    Raises:
        ValueError: If a byte is missing, a rank is NO_RANK, or the tokens have too many bytes in
            total.
    """
    check_has_all_bytes(ranks)
    for token, rank in ranks.items():
        if rank == NO_RANK:
            raise InputError(
                f"ranks must be below {NO_RANK}, which tiktoken uses for pairs that are not "
                f"tokens, got it for {short_repr(token)}"
            )
    num_bytes, most = sum(map(len, ranks)), MAX_BYTES + MAX_BYTES_PER_TOKEN * len(ranks)
    if num_bytes > most:
        raise InputError(
            f"{len(ranks):,} tokens must have at most {most:,} bytes in total, got {num_bytes:,}; "
            f"the longest has {max(map(len, ranks)):,}",
            remedy=("train with a smaller ", Argument("max_token_length")),
        )
    tokens = sorted(ranks, key=ranks.__getitem__)
    splits = (
        [_split_of(token, ranks) for token in tokens]
        if rank_splits is None
        else rank_splits(tokens)
    )
    return [
        (token[:middle], token[middle:])
        for token, middle in zip(tokens, splits, strict=True)
        if middle
    ]


def definition_of_ranks(
    ranks: Mapping[bytes, int], special_ids: Mapping[str, int], pattern: str
) -> TokenizerDefinition:
    """Return the definition of a tokenizer of tiktoken.

    Args:
        ranks: Mapping of token -> rank, which is its id.
        special_ids: Mapping of special token -> id.
        pattern: Split pattern.

    Raises:
        ValueError: See `merges_of_ranks` and `TokenizerDefinition`.
    """
    merges = merges_of_ranks(ranks)
    vocab = {rank: token for token, rank in ranks.items()}
    for token, token_id in special_ids.items():
        add_token(vocab, token_id, token.encode())
    ignore_merges = len(merges) < sum(len(token) > 1 for token in ranks)
    return TokenizerDefinition(
        vocab, merges, list(special_ids), pattern, ignore_merges, added_ids=special_ids
    )


def _split_of(token: bytes, ranks: Mapping[bytes, int]) -> int:
    """Return the length of the first part of a token if it has two, else 0."""
    parts = parts_of(token, ranks)
    return len(parts[0]) if len(parts) == 2 else 0


def parts_of(token: bytes, ranks: Mapping[bytes, int]) -> list[bytes]:
    """Return the tokens that tiktoken would produce from a token's bytes if it lacked the token.

    tiktoken joins these bytes in the same way inside any text, unless a merge crosses their ends.
    So if two tokens are returned, they are the only pair that produces the token. If more are
    returned, tiktoken produces the token only for a pre-token that equals it.

    A file may contain tokens of any length, so this function takes only O(n log n) time for n
    bytes. `rank_splits` is the compiled version.
    """
    size = len(token)
    # ends[i]: end of the token that starts at offset i, or 0 if no token starts there.
    ends = list(range(1, size + 1))
    before = list(range(-1, size))  # before[i]: start of the token that ends at i
    heap: list[tuple[int, int, int]] = []  # (rank, start, end) of adjacent tokens

    def push(start: int) -> None:
        middle = ends[start]
        if middle < size and (start or ends[middle] < size):
            rank = ranks.get(token[start : ends[middle]])
            if rank is not None:
                heapq.heappush(heap, (rank, start, ends[middle]))

    for start in range(size):
        push(start)
    while heap:
        _, start, end = heapq.heappop(heap)
        middle = ends[start]
        if not 0 < middle < size or ends[middle] != end:
            continue  # one of the two tokens has been merged since
        ends[start], ends[middle] = end, 0
        before[end] = start
        push(start)
        if start:
            push(before[start])
    return [token[start:end] for start, end in enumerate(ends) if end]
