"""A vocabulary as llama.cpp's GGUF files store it, without importing the `gguf` library.

llama.cpp knows a fixed list of split patterns, each written in its source (`llama-vocab.cpp`), and
applies them with its own tables of Unicode (`unicode-data.cpp`). What it would encode to different
ids is refused here. Checked against the llama.cpp of llama-cpp-python 0.3.36.

Two differences are llama.cpp's own and remain; docs/gguf.md describes them. Its tables are those
of Unicode 15.1, so newer letters and digits are neither for it; and in contractions of patterns
other than `gpt2`, U+017F (long s) is not an s for it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from cs336_basics._support.messages import short_repr
from cs336_basics.formats.byte_strings import strings_of_vocab, token_to_string
from cs336_basics.pretokenization.patterns.named_patterns import pattern_name
from cs336_basics.tokenizer.vocabulary import Pair, TokenizerParts

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


def gguf_vocab(parts: TokenizerParts, size: int) -> GgufVocab:
    """Return a vocabulary as llama.cpp reads it, with the same ids.

    Args:
        parts: the tokenizer.
        size: number of ids; those that the vocabulary lacks are marked as unused.

    Raises:
        ValueError: llama.cpp would give different ids; says why. The pattern is not one of its own;
            all merges are missing; a special token contains U+0000 or overlaps with another one; or
            see `strings_of_vocab`.
    """
    _check_special_tokens(parts.special_tokens)
    if not parts.merges:
        raise ValueError("the vocabulary has no merges: llama.cpp does not load a file without any")
    tokens = [f"[PAD{token_id}]" for token_id in range(size)]
    types = [UNUSED] * size
    for string, token_id in strings_of_vocab(parts).items():
        tokens[token_id] = string
        types[token_id] = CONTROL if string in parts.special_tokens else NORMAL
    if len(set(tokens)) < size:
        raise ValueError("a token is written like an id without a token, such as [PAD300]")
    merges = [f"{token_to_string(left)} {token_to_string(right)}" for left, right in parts.merges]
    return GgufVocab(_pre_tokenizer(parts.pattern, parts.merges), tokens, types, merges)


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
    for first, second in itertools.permutations(special_tokens, 2):
        head, tail = first.encode(), second.encode()
        if len(head) <= len(tail) and any(tail.startswith(head[-n:]) for n in range(1, len(head))):
            raise ValueError(
                f"special tokens {short_repr(first)} and {short_repr(second)} can overlap in a "
                "text, and llama.cpp would find the other one: they cannot be exported to GGUF"
            )
