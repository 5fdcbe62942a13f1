"""Convert a vocabulary to the fields of llama.cpp's GGUF files, without the `gguf` library.

llama.cpp has a fixed list of split patterns in its source (`llama-vocab.cpp`) and its own Unicode
tables (`unicode-data.cpp`). A tokenizer is rejected if llama.cpp would give different ids. The
fields were checked with the llama.cpp in llama-cpp-python 0.3.36.

Two differences remain (docs/gguf.md). llama.cpp uses Unicode 15.1, so it does not recognize newer
letters and digits. In the contractions of patterns other than `gpt2`, it does not treat U+017F
(long s) as an s.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.formats.byte_strings import strings_of_vocab, token_to_string
from cs336_basics.formats.unsaid_parts import check_only_plain_parts
from cs336_basics.splitting.patterns.named_patterns import pattern_name
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.words import Pair

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
"""Token types in GGUF."""

_PRE_TOKENIZERS = {"gpt2": "gpt-2", "cl100k": "dbrx", "llama3": "dbrx", "qwen2": "qwen2"}
"""Mapping from the name of a split pattern to llama.cpp's name. llama.cpp's "llama-bpe" splits like
"dbrx", but encodes a pre-token that is itself a token as that token, even if no merge produces
it."""


def gguf_vocab(definition: TokenizerDefinition, size: int) -> dict[str, Any]:
    """Return the fields with which llama.cpp gives the same ids as the tokenizer.

    Args:
        definition: Definition of the tokenizer.
        size: Number of ids. Ids missing from the vocabulary are marked as unused.

    Returns:
        Mapping of key -> value: llama.cpp's name of the split pattern; the token of each id, in
        GPT-2's byte alphabet or, for added tokens, as plain text; the type of each id (NORMAL,
        CONTROL for special tokens, USER_DEFINED for other added tokens, or UNUSED); and the merges
        as strings "A B".

    Raises:
        ValueError: If llama.cpp would fail or give different ids, because it does not have the
            split pattern, there are no merges, or an added token contains U+0000 or may overlap
            with another. Also see `check_only_plain_parts` and `strings_of_vocab`.
    """
    check_only_plain_parts(definition, "llama.cpp", ordinary_added_tokens=True)
    _check_added_tokens(list(definition.added_ids))
    if not definition.merges:
        raise InputError("the vocabulary has no merges; llama.cpp requires at least one")
    tokens = [f"[PAD{token_id}]" for token_id in range(size)]
    types = [UNUSED] * size
    added = {
        definition.added_ids[token.content]: CONTROL if token.special else USER_DEFINED
        for token in definition.added_tokens
    }
    for string, token_id in strings_of_vocab(definition).items():
        tokens[token_id] = string
        types[token_id] = added.get(token_id, NORMAL)
    if len(set(tokens)) < size:
        raise InputError("a token equals the placeholder for an unused id, such as [PAD300]")
    merges = [
        f"{token_to_string(left)} {token_to_string(right)}" for left, right in definition.merges
    ]
    return {
        "tokenizer.ggml.pre": _pre_tokenizer(definition.pattern, definition.merges),
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
    }


def _pre_tokenizer(pattern: str, merges: Sequence[Pair]) -> str:
    """Return llama.cpp's name for a split pattern. See `gguf_vocab` for the errors."""
    name = pattern_name(pattern)
    if name not in _PRE_TOKENIZERS:
        raise InputError(
            f"must be one of {', '.join(_PRE_TOKENIZERS)} for GGUF, got {short_repr(pattern)}; "
            "llama.cpp does not support this pattern",
            argument="pattern",
        )
    if name == "cl100k":
        # `\s+$` matches all whitespace at the end of a text. llama.cpp's pattern does not have
        # this part, so llama.cpp splits this whitespace after the last line ending. The ids are the
        # same unless a token spans that boundary, that is, continues after a line ending.
        for left, right in merges:
            if re.search(rb"[\r\n][^\r\n]+\Z", left + right):
                raise InputError(
                    "the pattern is cl100k and the vocabulary has the token "
                    f"{short_repr(left + right)}; llama.cpp would give different ids, because it "
                    "splits whitespace at the end of a text after the last line ending",
                    remedy="train with the pattern llama3, which splits it as llama.cpp does",
                )
    return _PRE_TOKENIZERS[name]


def _check_added_tokens(added_tokens: Sequence[str]) -> None:
    """Reject added tokens that llama.cpp would read or match differently.

    llama.cpp first finds all occurrences of the longest added token, but Tokenizer always finds the
    leftmost added token. The results differ where a shorter added token starts earlier and overlaps
    a longer one.
    """
    for token in added_tokens:
        if "\0" in token:
            raise InputError(
                f"added token {short_repr(token)} contains U+0000, so it cannot be exported to "
                "GGUF; llama.cpp would end the token there"
            )
    tokens = sorted(token.encode() for token in added_tokens)
    for head in tokens:
        for size in range(1, len(head)):
            for tail in _starting_with(head[-size:], tokens):
                if len(head) <= len(tail) and head != tail:
                    first, second = head.decode(), tail.decode()
                    raise InputError(
                        f"added tokens {short_repr(first)} and {short_repr(second)} may overlap "
                        "in a text, so they cannot be exported to GGUF; llama.cpp could match the "
                        "wrong one"
                    )


def _starting_with(prefix: bytes, tokens: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the sorted `tokens` that start with `prefix`."""
    indices = range(bisect.bisect_left(tokens, prefix), len(tokens))
    return itertools.takewhile(
        lambda token: token.startswith(prefix), map(tokens.__getitem__, indices)
    )
