"""tiktoken's files of ranks, in and out.

A file holds a line `base64(token) rank` for each token, and neither special tokens nor the split
pattern. tiktoken has no list of merges: of all adjacent pairs it joins the one whose joined bytes
have the lowest rank, and that rank is the id. Format checked against tiktoken 0.14.0.

Our exports have an `encoding.json` beside it with the pattern and the special tokens.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import os
import runpy
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from cs336_basics._support.files import json_text
from cs336_basics._support.messages import short_reason, short_repr
from cs336_basics._support.reading import open_regular, parse_json, unique_keys
from cs336_basics.formats.byte_strings import add_token, check_has_all_bytes
from cs336_basics.formats.foreign_patterns import (
    from_fancy_regex,
    from_given_fancy_regex,
    to_fancy_regex,
)
from cs336_basics.pretokenization.patterns.named_patterns import resolve_pattern
from cs336_basics.pretokenization.splitter import check_special_tokens
from cs336_basics.tokenizer.vocabulary import MAX_ID, Pair, TokenizerParts

RANKS_FILE = "ranks.tiktoken"
ENCODING_FILE = "encoding.json"
SNIPPET_FILE = "encoding.py"


# --------------------------------------------------------------------- out


SNIPPET = '''\
"""Loads the tokenizer of this directory with tiktoken: `encoding = load()`."""

import base64
import json
from pathlib import Path

import tiktoken


def load(directory=Path(__file__).parent):
    # (tiktoken's own load_tiktoken_bpe caches files by their path, even if they change.)
    lines = Path(directory, "ranks.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    settings = json.loads(Path(directory, "encoding.json").read_text(encoding="utf-8"))
    return tiktoken.Encoding(mergeable_ranks=ranks, **settings)


if __name__ == "__main__":
    encoding = load()
    ids = encoding.encode("Hello, world", allowed_special="all")
    print(ids, encoding.decode(ids))
'''


def contents(parts: TokenizerParts) -> dict[str, str | bytes]:
    """Return name -> content of ranks.tiktoken, encoding.json and encoding.py.

    Raises:
        ValueError: tiktoken would give other ids; see `tiktoken_ranks` and `to_fancy_regex`.
    """
    ranks = tiktoken_ranks(parts)
    lines = (b"%b %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    ids = {token: token_id for token_id, token in parts.vocab.items()}
    settings = {
        "name": "cs336_basics",
        "pat_str": to_fancy_regex(parts.pattern),
        "special_tokens": {token: ids[token.encode()] for token in parts.special_tokens},
    }
    return {
        SNIPPET_FILE: SNIPPET,
        ENCODING_FILE: json_text(settings),
        RANKS_FILE: b"".join(lines),
    }


def runtime(directory: Path, special_tokens: list[str]) -> tuple[str, Callable[[str], list[int]]]:
    """Run the Python that was written; return the name of tiktoken and what encodes."""
    import tiktoken

    encoding = runpy.run_path(str(directory / SNIPPET_FILE))["load"](directory)
    return (
        f"tiktoken {tiktoken.__version__}",
        lambda text: encoding.encode(text, allowed_special="all"),
    )


def tiktoken_ranks(parts: TokenizerParts) -> dict[bytes, int]:
    """Return the mergeable ranks, in ascending order, with which tiktoken gives the same ids.

    Raises:
        ValueError: ranks cannot represent the vocabulary; names the byte, token or merge. tiktoken
            would give different ids, without an error.
    """
    vocab, merges, special_tokens, _, ignore_merges = parts
    special = {token.encode() for token in special_tokens}
    for first, second in pairwise(sorted(special)):
        if second.startswith(first):
            raise ValueError(
                f"special token {short_repr(second)} begins with {short_repr(first)}, another one: "
                "tiktoken may take either"
            )
    ranks = {token: token_id for token_id, token in sorted(vocab.items())}
    merged = {left + right for left, right in merges}
    for token in special:
        if len(token) == 1 or token in merged:
            raise ValueError(
                f"special token {short_repr(token)} is also a token of ordinary text, which "
                "tiktoken keeps apart"
            )
        del ranks[token]
    number_of = {pair: number for number, pair in enumerate(merges)}
    made = merges_of_ranks(ranks)
    before = -1
    for pair in made:
        number = number_of.get(pair, -1)
        if number <= before:  # tiktoken merges in the order of the ids, so the merges must, too
            token = b"".join(pair)
            raise ValueError(
                f"the merges that make {short_repr(token)}, id {ranks[token]}, cannot be "
                f"represented by ranks: tiktoken would join {short_repr(list(pair))} there"
            )
        before = number
    unmade = ranks.keys() - set(map(b"".join, made))
    for token in sorted(unmade, key=ranks.__getitem__):
        if len(token) > 1 and not ignore_merges:
            raise ValueError(
                f"token {short_repr(token)} is made by no merge, but tiktoken would produce it: "
                "remove it"
            )
    return ranks


def _parts_of(token: bytes, ranks: Mapping[bytes, int]) -> list[bytes]:
    """Return the tokens that tiktoken makes of the bytes of a token, as if it were not there.

    Within any text it does the same with these bytes, as long as no merge reaches across their
    ends. So if there are two, they are the only pair that makes the token; if there are more, it is
    made only of a pre-token that equals it, which tiktoken takes whole.

    In time n log n for n bytes, since a file may hold a token of any length.
    """
    size = len(token)
    # ends[i]: where the token that begins at offset i ends; 0 if none begins there.
    ends = list(range(1, size + 1))
    before = list(range(-1, size))  # before[i]: where the token that ends at i begins
    heap: list[tuple[int, int, int]] = []  # (rank, start, end) of two adjacent tokens

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
            continue  # one of the two was merged since
        ends[start], ends[middle] = end, 0
        before[end] = start
        push(start)
        if start:
            push(before[start])
    return [token[start:end] for start, end in enumerate(ends) if end]


# --------------------------------------------------------------------- in


def load_tiktoken(
    source: str | os.PathLike[str],
    special_tokens: Mapping[str, int] | None = None,
    pattern: str | None = None,
) -> TokenizerParts:
    """Read a tokenizer of tiktoken.

    Args:
        source: a file of ranks; a directory that our export wrote; or the name of an encoding, such
            as `cl100k_base`, which tiktoken loads, from its cache or the network.
        special_tokens: special token -> id; None = those that come with the encoding.
        pattern: the split pattern, which a file of ranks lacks: a name, or a regular expression as
            in tiktoken. None: that of the encoding.

    Raises:
        TypeError: special_tokens is not a mapping, or a key of it is not a str.
        FileNotFoundError: there is no such file, and no such encoding.
        ValueError: a file is malformed, or lacks a byte; or it has no pattern and none is given.
            Names the line or token.
        ImportError: a name is given, and tiktoken is not installed.
        OSError: tiktoken cannot load the encoding.

    Warns:
        UserWarning: `pattern` has syntax that may mean something else in tiktoken.
    """
    path = Path(source)
    if special_tokens is not None and not isinstance(special_tokens, Mapping):
        raise TypeError(
            f"special_tokens is {short_repr(special_tokens)}: pass a dict of special token -> id"
        )
    check_special_tokens(list(special_tokens or ()))
    if path.is_dir():
        ranks, found = _read_export(path)
    elif path.exists() or not isinstance(source, str) or not source.isidentifier():
        ranks, found = load_ranks(path), {}
    else:
        encoding = registered_encoding(source)
        # What `Encoding` is made of; tiktoken's documentation extends encodings by these three.
        ranks, found = (
            dict(encoding._mergeable_ranks),
            {
                "pat_str": encoding._pat_str,
                "special_tokens": dict(encoding._special_tokens),
            },
        )
    special = found.get("special_tokens", {}) if special_tokens is None else dict(special_tokens)
    if pattern is None and "pat_str" not in found:
        raise ValueError(
            f"{path} has no split pattern, which a file of ranks cannot hold: give pattern, such "
            "as 'gpt2' or 'cl100k'"
        )
    if pattern is not None:
        pattern = from_given_fancy_regex(resolve_pattern(pattern))  # its errors name the argument
    try:
        pattern = pattern or from_fancy_regex(found["pat_str"])
        merges = merges_of_ranks(ranks)
        vocab = {rank: token for token, rank in ranks.items()}
        for token, token_id in special.items():
            add_token(vocab, token_id, token.encode())
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    ignore_merges = len(merges) < sum(len(token) > 1 for token in ranks)
    return TokenizerParts(vocab, merges, list(special), pattern, ignore_merges)


def _read_export(directory: Path) -> tuple[dict[bytes, int], dict[str, Any]]:
    """Return the ranks and the description in a directory of our export."""
    path = directory / ENCODING_FILE
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist: name the file of ranks itself, or a directory that "
            "`export --to tiktoken` wrote"
        )
    with open_regular(path) as file:
        found = parse_json(file.read(), path, unique_keys)
    special = found.get("special_tokens") if isinstance(found, dict) else None
    if not isinstance(special, dict) or not isinstance(found.get("pat_str"), str):
        raise ValueError(f"{path} lacks 'pat_str', a string, or 'special_tokens', an object")
    return load_ranks(directory / RANKS_FILE), found


def registered_encoding(name: str) -> Any:
    """Return the `Encoding` that tiktoken has by a name, from its cache or the network.

    Raises:
        ImportError: tiktoken is not installed.
        FileNotFoundError: it has no encoding of that name.
        OSError: it cannot load the encoding.
    """
    try:
        import tiktoken
    except ImportError:
        raise ImportError(
            f"there is no file {name} here; to load the encoding of that name, install tiktoken: "
            "pip install tiktoken"
        ) from None
    known = sorted(tiktoken.list_encoding_names())
    if name not in known:
        raise FileNotFoundError(
            f"{name} is neither a file or directory nor an encoding of tiktoken, which has "
            f"{', '.join(known)}"
        )
    try:
        return tiktoken.get_encoding(name)
    except MemoryError:
        raise
    except Exception as error:  # of its downloads: those of requests, and its own
        raise OSError(
            f"tiktoken cannot load the encoding {name}, which it downloads: {short_reason(error)}"
        ) from error


def load_ranks(path: str | os.PathLike[str]) -> dict[bytes, int]:
    """Read a file of ranks.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line is not `base64 rank`, or repeats a token or a rank; names it.
    """
    with open_regular(path) as file:
        content = file.read()
    ranks: dict[bytes, int] = {}
    seen: set[int] = set()
    for number, line in enumerate(content.split(b"\n"), start=1):
        fields = line.split()
        if not fields:
            continue
        try:
            if len(fields) != 2 or len(fields[1]) > 10 or not fields[1].isdigit():
                raise ValueError
            token, rank = base64.b64decode(fields[0], validate=True), int(fields[1])
            if not token or rank > MAX_ID:
                raise ValueError
        except (ValueError, binascii.Error):
            raise ValueError(
                f"{path}, line {number}: {short_repr(line)} is not a token in base64 and its rank"
            ) from None
        if token in ranks or rank in seen:
            raise ValueError(
                f"{path}, line {number}: token {short_repr(token)} or rank {rank} occurs twice"
            )
        ranks[token] = rank
        seen.add(rank)
    return ranks


_MOST_BYTES = 1 << 18
_MOST_BYTES_PER_TOKEN = 32
"""Bytes of all tokens together that are accepted, in all and for each token besides: finding the
merges takes microseconds for each byte. (GPT-2 has 50,257 tokens of 6.4 bytes on average.)"""


def merges_of_ranks(ranks: Mapping[bytes, int]) -> list[Pair]:
    """Return the merges that give the ids of tiktoken's ranks, with `ignore_merges`.

    Each makes one token. A token for which there is none is made only of a pre-token that equals
    it.

    Raises:
        ValueError: a byte is missing; names it. Or the tokens are too long in all.
    """
    check_has_all_bytes(ranks)
    num_bytes, most = sum(map(len, ranks)), _MOST_BYTES + _MOST_BYTES_PER_TOKEN * len(ranks)
    if num_bytes > most:
        raise ValueError(
            f"its {len(ranks):,} tokens have {num_bytes:,} bytes, of which the longest has "
            f"{max(map(len, ranks)):,}: at most {most:,} are accepted; train with a "
            "max_token_length (--max-token-length)"
        )
    merges: list[Pair] = []
    for token in sorted(ranks, key=ranks.__getitem__):
        parts = _parts_of(token, ranks)
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
    return merges
