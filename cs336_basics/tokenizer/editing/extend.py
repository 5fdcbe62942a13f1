"""extend: special tokens and whole words added to a vocabulary, whose ids stay as they are.

A word becomes one token by merges, like every other token. Its present encoding is t1, t2, ..., tk,
and no merge joins any two of them. `extend` appends the merge (t1, t2), encodes the word again, and
so on until it is a single token. The intermediate tokens, such as t1 t2, are tokens, too: a word of
k tokens needs up to k - 1 new ids. There is no way with fewer: a merge joins two tokens. (Words
that are cut out of the text before it is split, as other libraries have them, would need one id,
but would also be cut out of longer words, and change how the text around them is split.)

With `ignore_merges`, a pre-token that is a token becomes it: a word is one new token, without a
merge.

The new merges come last in rank. So every pre-token is first merged as before, and the new merges
apply to what that gives: a text whose encoding holds none of their pairs keeps its ids.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from cs336_basics._support.messages import short_repr
from cs336_basics.pretokenization.splitter import split_special_tokens
from cs336_basics.tokenizer.encoders.encoder import AbsentByteError
from cs336_basics.tokenizer.encoders.python_encoder import PythonEncoder
from cs336_basics.tokenizer.text_input import absent_in_word, check_is_iterable
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer
from cs336_basics.tokenizer.vocabulary import Pair

MAX_WORD_LENGTH = 1024
"""Bytes of the longest word: its merges are found one by one, in quadratic time."""


def extend(
    tokenizer: Tokenizer, words: Iterable[str] = (), special_tokens: Iterable[str] = ()
) -> Tokenizer:
    """Return a tokenizer that also has these words and special tokens; ids of tokens never change.

    New special tokens get the next ids, in the order given; then come the tokens of the words. What
    the vocabulary has already keeps its id. A word with a space before it, as within a sentence, is
    another word: `" protein"`. `tokenizer` itself is not changed; with special tokens only,
    `Tokenizer.add_special_tokens` does the same in place.

    Args:
        tokenizer: trained or imported.
        words: texts that the split pattern keeps together, in the order in which they get ids.
        special_tokens: as `Tokenizer.add_special_tokens`.

    Raises:
        TypeError: `tokenizer` is not a Tokenizer, another argument is not a list of str.
        ValueError: a word is empty, holds a special token, is longer than MAX_WORD_LENGTH bytes, or
            is split by the pattern, so that no merge could join it; the vocabulary lacks one of its
            bytes; what `add_special_tokens` raises. Names the word.

    A model needs a row for each new id: see `token_parts` and `model.resize_embeddings`.
    """
    check_is_tokenizer(tokenizer)
    check_is_iterable("words", words, "words")
    extended = copy.copy(tokenizer)
    extended.add_special_tokens(special_tokens)
    vocab, merges = dict(extended.vocab), list(extended.merges)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    known = set(vocab.values())
    next_id = extended.vocab_size
    for word in words:
        data = _checked_word(extended, word)
        pairs = [] if extended.ignore_merges else _new_merges(data, ranks)
        merges.extend(pairs)
        for token in [left + right for left, right in pairs] or [data]:
            if token not in known:
                vocab[next_id] = token
                known.add(token)
                next_id += 1
    return Tokenizer(
        vocab,
        merges,
        extended.special_tokens,
        pattern=tokenizer.pattern,
        cache_size=tokenizer.cache_size,
        backend=tokenizer.backend,
        ignore_merges=tokenizer.ignore_merges,
    )


def token_parts(old: Tokenizer, new: Tokenizer) -> dict[int, list[int]]:
    """Return for each id that `new` has in addition the ids of `old` of which its token is made.

    For `resize_embeddings`. The parts are what `old` makes of the bytes of the token; special
    tokens, and tokens of which `old` lacks a byte, have none.

    Args:
        old: a tokenizer.
        new: the same, extended, or with a vocabulary that was trained further.

    Raises:
        TypeError: `old` or `new` is not a Tokenizer.
        ValueError: an id of `old` is another token in `new`.
    """
    check_is_tokenizer(old, "old")
    check_is_tokenizer(new, "new")
    for token_id, token in old.vocab.items():
        if new.vocab.get(token_id) != token:
            raise ValueError(
                f"id {token_id} is {short_repr(token)} in the old vocabulary, but "
                f"{short_repr(new.vocab.get(token_id))} in the new one: it does not extend the old"
            )
    encoder = PythonEncoder(old.encoder.vocabulary, old.pattern, 0)
    special = {token.encode() for token in new.special_tokens}
    parts: dict[int, list[int]] = {}
    for token_id in sorted(set(new.vocab) - set(old.vocab)):
        token = new.vocab[token_id]
        try:
            parts[token_id] = [] if token in special else encoder.encode_bytes(token)
        except AbsentByteError:
            parts[token_id] = []
    return parts


def _new_merges(word: bytes, ranks: dict[Pair, int]) -> list[Pair]:
    """Return the merges that make a word one token; they are added to `ranks`."""
    # (The trainers, which come with it, need not be loaded with the tokenizer.)
    from cs336_basics.bpe.reference import merge_by_rank, split_bytes

    added: list[Pair] = []
    tokens = merge_by_rank(split_bytes(word), ranks)
    while len(tokens) > 1:
        pair = tokens[0], tokens[1]
        ranks[pair] = len(ranks)
        added.append(pair)
        # (What it makes may be a token that older merges join.)
        tokens = merge_by_rank(tokens, ranks)
    return added


def _checked_word(tokenizer: Tokenizer, word: str) -> bytes:
    """Return the bytes of a word that one token can stand for."""
    if not isinstance(word, str):
        raise TypeError(f"word {short_repr(word)} is of type {type(word).__name__}, not a str")
    if not word:
        raise ValueError("word '' is empty: leave it out")
    try:
        data = word.encode()
    except UnicodeEncodeError:
        raise ValueError(f"word {short_repr(word)} holds a lone surrogate: remove it") from None
    if len(data) > MAX_WORD_LENGTH:
        raise ValueError(
            f"word {short_repr(word)} has {len(data):,} bytes: it must have at most "
            f"{MAX_WORD_LENGTH:,}"
        )
    for segment, is_special in split_special_tokens(word, tokenizer.special_tokens):
        if is_special:
            raise ValueError(
                f"word {short_repr(word)} holds the special token {short_repr(segment)}, which is "
                "cut out of every text: add it with special_tokens, or leave it out"
            )
    pretokens = list(tokenizer.splitter.pretokenize(word))
    if pretokens != [word]:
        raise ValueError(
            f"word {short_repr(word)} is split into {short_repr(pretokens)} by the pattern "
            f"{short_repr(tokenizer.pattern)}, and no merge joins pre-tokens: add these one by one"
        )
    try:
        tokenizer.encoder.encode_word(word)
    except AbsentByteError as error:
        raise absent_in_word(error, word) from None
    return data
