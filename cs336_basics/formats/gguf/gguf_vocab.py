"""A vocabulary as llama.cpp's GGUF files store it, without importing the `gguf` library.

llama.cpp knows a fixed list of split patterns, each written in its source (`llama-vocab.cpp`), and
applies them with its own tables of Unicode (`unicode-data.cpp`). What it would encode to different
ids is refused here. Checked against the llama.cpp of llama-cpp-python 0.3.36.

Two differences are llama.cpp's own and remain; docs/formats.md describes them. Its tables are those
of Unicode 15.1, so newer letters and digits are neither for it; and in contractions of patterns
other than `gpt2`, U+017F (long s) is not an s for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cs336_basics._support.messages import short_repr
from cs336_basics.formats.byte_strings import check_has_all_bytes, token_to_string
from cs336_basics.pretokenization.patterns.named_patterns import pattern_name
from cs336_basics.tokenizer.vocabulary import Pair

NORMAL, CONTROL, UNUSED = 1, 3, 5
"""Types of tokens, as the format numbers them."""

_PRE_TOKENIZERS = {"gpt2": "gpt-2", "cl100k": "dbrx", "llama3": "dbrx", "qwen2": "qwen2"}
"""Name of a split pattern -> llama.cpp's name for it. Its "llama-bpe" splits as "dbrx", too, but
would take a word that is a token as a whole, whatever the merges say."""


class GgufVocab(NamedTuple):
    """The fields `tokenizer.ggml.*` of a GGUF file."""

    pre_tokenizer: str
    """`pre`: the name of the split pattern."""
    tokens: list[str]
    """`tokens`: the text of each id, in GPT-2's byte alphabet except for special tokens."""
    types: list[int]
    """`token_type`: NORMAL, CONTROL for special tokens, UNUSED for ids without a token."""
    merges: list[str]
    """`merges`: "A B", in the order of their ranks."""


def gguf_vocab(
    vocab: Mapping[int, bytes],
    merges: Sequence[Pair],
    special_tokens: Sequence[str],
    pattern: str,
    size: int,
) -> GgufVocab:
    """Return a vocabulary as llama.cpp reads it, with the same ids.

    Args:
        vocab: id -> token, special tokens included.
        merges: in the order of their ranks.
        special_tokens: which of the tokens are special.
        pattern: a name in PATTERNS or a regular expression.
        size: number of ids; those that `vocab` lacks are marked as unused.

    Raises:
        ValueError: llama.cpp would give different ids; says why. The pattern is not one of its own;
            a byte or all merges are missing; a special token contains U+0000, is written like
            another token, or overlaps with another special token.
    """
    _check_special_tokens(special_tokens)
    special_bytes = {token.encode(): token for token in special_tokens}
    ids: dict[str, int] = {}
    types = []
    for token_id in range(size):
        token = vocab.get(token_id)
        if token is None:
            string, kind = f"[PAD{token_id}]", UNUSED
        elif token in special_bytes:
            string, kind = special_bytes[token], CONTROL
        else:
            string, kind = token_to_string(token), NORMAL
        if string in ids:
            raise ValueError(
                f"ids {ids[string]} and {token_id} are both written as {short_repr(string)} in "
                "GGUF: a special token may not look like another token in GPT-2's byte alphabet"
            )
        ids[string] = token_id
        types.append(kind)
    # For llama.cpp, a special token is a byte only if it is written as that byte.
    check_has_all_bytes({i: t for i, t in vocab.items() if ids.get(token_to_string(t)) == i})
    if not merges:
        raise ValueError("the vocabulary has no merges: llama.cpp does not load a file without any")
    written = [f"{token_to_string(left)} {token_to_string(right)}" for left, right in merges]
    return GgufVocab(_pre_tokenizer(pattern, merges), list(ids), types, written)


def _pre_tokenizer(pattern: str, merges: Sequence[Pair]) -> str:
    """Return llama.cpp's name of a split pattern; see `gguf_vocab` for the errors."""
    name = pattern_name(pattern)
    if name not in _PRE_TOKENIZERS:
        raise ValueError(
            f"pattern is {short_repr(pattern)}: llama.cpp has no pre-tokenizer that splits the "
            f"same way; only {', '.join(_PRE_TOKENIZERS)} can be exported to GGUF"
        )
    if name == "cl100k":
        # `\s+$` takes white space at the end of a text as a whole. llama.cpp has the pattern
        # without it, so it splits that white space after the last line end. The ids are the same
        # unless a token spans this boundary, and such a token ends with what follows a line end.
        for left, right in merges:
            if re.search(rb"[\r\n][^\r\n]+\Z", left + right):
                raise ValueError(
                    f"pattern is 'cl100k', and the vocabulary has the token "
                    f"{short_repr(left + right)}: llama.cpp splits the white space at the end of "
                    "a text after its last line end, so it would give different ids; for "
                    "llama.cpp, train with the pattern llama3, which does so, too"
                )
    return _PRE_TOKENIZERS[name]


def _check_special_tokens(special_tokens: Sequence[str]) -> None:
    """Refuse special tokens that llama.cpp reads or finds differently.

    It looks for the longest one in the whole text first, and Tokenizer for the leftmost one: where
    a shorter one begins earlier and overlaps, the two differ.
    """
    for token in special_tokens:
        if "\0" in token:
            raise ValueError(
                f"special token {short_repr(token)} contains U+0000, where llama.cpp would end it: "
                "it cannot be exported to GGUF"
            )
    written = {token: token.encode() for token in special_tokens}
    for first, head in written.items():
        for second, tail in written.items():
            if first == second or len(head) > len(tail):
                continue
            if any(tail.startswith(head[-length:]) for length in range(1, len(head))):
                raise ValueError(
                    f"special tokens {short_repr(first)} and {short_repr(second)} can overlap in a "
                    "text, and llama.cpp would find the other one: they cannot be exported to GGUF"
                )
