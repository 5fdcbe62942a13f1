"""The merges that turn each pre-token of a short text into tokens, one step at a time."""

from __future__ import annotations

from typing import NamedTuple

from cs336_basics._support.errors import InputError
from cs336_basics.bpe.reference import Symbols, split_bytes, steps_by_rank
from cs336_basics.splitting.splitter import check_is_str
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer

MOST_BYTES = 1000
"""Maximum length of the text in bytes. Running time is quadratic in the length of a pre-token."""


class MergeStep(NamedTuple):
    """One merge within a pre-token.

    Attributes:
        rank: Rank of the merged pair.
        position: Index of the pair's left token in the list of tokens before the merge.
        tokens: Tokens after the merge.
    """

    rank: int
    position: int
    tokens: Symbols


class MergedWord(NamedTuple):
    """A pre-token or special token, with its merges and ids.

    Attributes:
        word: UTF-8 of the pre-token or special token.
        kind: "special" for a special token, "whole" for a pre-token that `ignore_merges` turns into
            a token without merges, or "merged" for any other pre-token.
        steps: Merges in the order they are applied. Empty unless the kind is "merged".
        ids: Ids of the tokens.
    """

    word: bytes
    kind: str
    steps: list[MergeStep]
    ids: list[int]


def merge_steps(tokenizer: Tokenizer, text: str) -> list[MergedWord]:
    """Return the pre-tokens and special tokens in a short text, each with all its merges.

    Args:
        tokenizer: Tokenizer whose merges are applied.
        text: Text of at most `MOST_BYTES` bytes, such as a word.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer or `text` is not a str.
        ValueError: If the text is too long. Also see `Tokenizer.encode`.
    """
    check_is_tokenizer(tokenizer)
    check_is_str(text)
    if (size := len(text.encode("utf-8", "replace"))) > MOST_BYTES:
        raise InputError(f"must have at most {MOST_BYTES:,} bytes, got {size:,}", argument="text")
    tokenizer.encode(text)  # rejects lone surrogates and absent bytes
    encoder = tokenizer.encoder
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    words = []
    for word in encoder.located_words(text, encoder.all_added):
        data = word.text.encode()
        if word.token_id is not None:
            words.append(MergedWord(data, "special", [], [word.token_id]))
        elif data in encoder.definition.whole_words:
            words.append(MergedWord(data, "whole", [], encoder.encode_word(word.text)))
        else:
            steps = [MergeStep(*step) for step in steps_by_rank(split_bytes(data), ranks)]
            words.append(MergedWord(data, "merged", steps, encoder.encode_word(word.text)))
    return words
