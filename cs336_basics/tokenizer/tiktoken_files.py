"""tiktoken's vocabulary files, in and out.

A file holds a line `base64(token) rank` for each token, and neither special tokens nor the split
pattern. tiktoken has no list of merges: of all adjacent pairs it joins the one whose joined bytes
have the lowest rank, and that rank is the id. Format checked against tiktoken 0.14.0.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from cs336_basics._files import atomic_writer
from cs336_basics.tokenizer.vocab_files import Pair


def tiktoken_ranks(
    vocab: Mapping[int, bytes], merges: Sequence[Pair], special_tokens: Iterable[str]
) -> dict[bytes, int]:
    """Return the mergeable ranks with which tiktoken gives the same ids.

    Args:
        vocab: id -> token, special tokens included.
        merges: in the order of their ranks.
        special_tokens: which of the tokens are special.

    Raises:
        ValueError: ranks cannot represent the vocabulary; names the byte, token or merge. tiktoken
            would give other ids, without an error.
    """
    special = {token.encode() for token in special_tokens}
    _check_prefixes(special)
    ranks = {token: token_id for token_id, token in sorted(vocab.items()) if token not in special}
    for byte in range(256):
        if bytes([byte]) not in ranks:
            raise ValueError(f"the vocabulary has no token for byte {byte:#04x}: tiktoken needs it")
    merged = {left + right for left, right in merges}
    for token in ranks:
        if len(token) > 1 and token not in merged:
            raise ValueError(
                f"token {token!r} is made by no merge, but tiktoken would produce it: remove it"
            )
    before = -1
    for number, (left, right) in enumerate(merges):
        name = f"merge {number} of {left!r} and {right!r}"
        if left + right in special:
            raise ValueError(f"{name} makes a special token, which tiktoken does not merge")
        rank = ranks[left + right]
        if rank <= before:
            raise ValueError(f"{name} has id {rank}, and the merge before it {before}: in tiktoken "
                             "ids rise in the order of the merges")  # fmt: skip
        before = rank
        found = _merge_below(left + right, ranks, rank)
        if found != [left, right]:
            raise ValueError(f"{name} cannot be represented by ranks: tiktoken would join {found}")
    return ranks


def _check_prefixes(special: set[bytes]) -> None:
    """Refuse special tokens of which tiktoken would take either one."""
    for first, second in pairwise(sorted(special)):
        if second.startswith(first):
            raise ValueError(
                f"special token {first!r} begins {second!r}: tiktoken may take either one"
            )


def _merge_below(token: bytes, ranks: Mapping[bytes, int], limit: int) -> list[bytes]:
    """Return the tokens that tiktoken makes of these bytes with the ranks below a limit.

    In time n log n for n bytes, since a file may hold a token of any length.
    """
    size = len(token)
    # ends[i]: where the token that begins at offset i ends; 0 if none begins there.
    ends = list(range(1, size + 1))
    before = list(range(-1, size))  # before[i]: where the token that ends at i begins
    heap: list[tuple[int, int, int]] = []  # (rank, start, end) of two adjacent tokens

    def push(start: int) -> None:
        middle = ends[start]
        if middle < size:
            rank = ranks.get(token[start : ends[middle]], limit)
            if rank < limit:
                heapq.heappush(heap, (rank, start, ends[middle]))

    for start in range(size):
        push(start)
    while heap:
        _, start, end = heapq.heappop(heap)
        middle = ends[start]
        if not 0 < middle < size or ends[middle] != end:
            continue  # one of the two was merged since
        ends[start], ends[middle] = end, 0
        before[end] = start
        push(start)
        if start:
            push(before[start])
    return [token[start:end] for start, end in enumerate(ends) if end]


def save_tiktoken(ranks: Mapping[bytes, int], path: str | os.PathLike[str]) -> None:
    """Write mergeable ranks, in their order, atomically."""
    lines = [
        b"%b %d\n" % (base64.b64encode(token), rank)
        for token, rank in sorted(ranks.items(), key=lambda item: item[1])
    ]
    with atomic_writer(path) as file:
        file.write(b"".join(lines))


def load_tiktoken(path: str | os.PathLike[str]) -> dict[bytes, int]:
    """Read mergeable ranks.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line is not `base64 rank`, or repeats a token or a rank; names it.
    """
    path = Path(path)
    ranks: dict[bytes, int] = {}
    seen: set[int] = set()
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        fields = line.split()
        try:
            token, rank = base64.b64decode(fields[0], validate=True), int(fields[1])
            if len(fields) != 2 or len(fields[1]) > 10 or rank < 0 or not token:
                raise ValueError
        except (ValueError, IndexError, binascii.Error):
            raise ValueError(
                f"{path}, line {number}: {line[:60]!r} is not a token in base64 and its rank"
            ) from None
        if token in ranks or rank in seen:
            raise ValueError(f"{path}, line {number}: token {token[:60]!r} or rank {rank} repeats")
        ranks[token] = rank
        seen.add(rank)
    return ranks


def merges_of_ranks(ranks: Mapping[bytes, int]) -> list[Pair]:
    """Return the merges that give the ids of tiktoken's ranks.

    Raises:
        ValueError: a byte is missing, or a token is not made of exactly two tokens of lower rank,
            so that there is no such merge; names it.
    """
    for byte in range(256):
        if bytes([byte]) not in ranks:
            raise ValueError(f"the ranks have no token for byte {byte:#04x}")
    merges: list[Pair] = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = _merge_below(token, ranks, rank)
        if len(parts) != 2:
            raise ValueError(
                f"token {token[:60]!r} of rank {rank} is made of {len(parts)} tokens of lower rank "
                "instead of two: no merge makes it"
            )
        merges.append((parts[0], parts[1]))
    return merges
