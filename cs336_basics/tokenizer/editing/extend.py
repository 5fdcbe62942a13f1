"""extend: add special tokens and whole words to a vocabulary without changing existing ids.

Like every other token, a word is produced by merges. If the word is currently encoded as t1, t2,
..., tk, `extend` appends the merge (t1, t2), encodes the word again, and repeats this until the
word is a single token. The intermediate tokens, such as t1 t2, need ids too, so a word of k tokens
adds up to k - 1 ids. (Other libraries cut added words out of the text before they split it. Each
word then needs only one id, but it is also cut out of longer words, and the surrounding text is
split differently.)

With `ignore_merges`, a word adds a single token and no merge.

The new merges have the last ranks. They are applied after all old merges, so a text keeps its ids
if its old encoding contains none of the new pairs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from cs336_basics._support.arguments import check_is_iterable
from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics.tokenizer.added_tokens import AddedToken
from cs336_basics.tokenizer.encoders.absent_bytes import AbsentByteError
from cs336_basics.tokenizer.encoders.python_encoder import RankMerger
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


def extend(
    tokenizer: Tokenizer, words: Iterable[str] = (), special_tokens: Iterable[str | AddedToken] = ()
) -> Tokenizer:
    """Return a copy of a tokenizer with additional words and special tokens.

    New special tokens get the next ids, in the order given, and the words' tokens get the ids after
    them. Existing tokens keep their ids. Include the leading space of a word: pass `" protein"` for
    a word within a sentence. To add only special tokens, in place, use
    `Tokenizer.add_special_tokens`.

    A model needs an embedding for each new id; see `token_parts` and `model.resize_embeddings`.

    Args:
        tokenizer: Tokenizer to extend.
        words: Words to add, in the order of their new ids. The split pattern must not split them.
        special_tokens: See `Tokenizer.add_special_tokens`.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer, or another argument is not a list of str.
        ValueError: If a word is empty, contains a special token, is longer than 1,024 bytes,
            is not normalized, is split by the pattern, or has a byte that is not in the
            vocabulary; the message includes the word. `add_special_tokens` may also raise
            ValueError.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import extend
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> larger = extend(tokenizer, words=[" protein"])
        >>> [larger.id_to_token(token_id) for token_id in larger.encode(" protein")]
        [b' protein']
    """
    # `cs336_basics.bpe` also loads the trainers, so it is imported only when words are added.
    from cs336_basics.bpe.required import checked_words, new_merges

    check_is_tokenizer(tokenizer)
    check_is_iterable("words", words, "words")
    definition = tokenizer.definition.with_special_tokens(special_tokens)
    vocab, merges = dict(definition.vocab), list(definition.merges)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    known = set(vocab.values())
    next_id = definition.size
    merger = RankMerger(definition)
    for data in checked_words(words, definition.splitter, definition.split_pattern):
        merger.encode(data)  # raises AbsentByteError
        pairs = [] if definition.ignore_merges else new_merges(data, ranks)
        merges.extend(pairs)
        for token in [left + right for left, right in pairs] or [data]:
            if token not in known:
                vocab[next_id] = token
                known.add(token)
                next_id += 1
    return tokenizer.with_definition(definition.replaced(vocab=vocab, merges=merges))


def token_parts(old: Tokenizer, new: Tokenizer) -> dict[int, list[int]]:
    """Return the old ids that make up each new token, for `resize_embeddings`.

    Args:
        old: Tokenizer before the change.
        new: The same tokenizer after it was extended or trained further.

    Returns:
        Mapping from each id that is only in `new` to the old ids of its bytes. The list is empty
        for special tokens and for tokens with a byte that is missing from `old`.

    Raises:
        TypeError: If `old` or `new` is not a Tokenizer.
        ValueError: If an id stands for different tokens in `old` and `new`.
    """
    check_is_tokenizer(old, "old")
    check_is_tokenizer(new, "new")
    for token_id, token in old.vocab.items():
        if new.vocab.get(token_id) != token:
            raise InputError(
                f"the new vocabulary must extend the old one, but id {token_id} is "
                f"{short_repr(token)} in the old one and {short_repr(new.vocab.get(token_id))} in "
                "the new one"
            )
    merger = RankMerger(old.definition)
    added = new.definition.ids_of_added
    parts: dict[int, list[int]] = {}
    for token_id in sorted(set(new.vocab) - set(old.vocab)):
        token = new.vocab[token_id]
        try:
            parts[token_id] = [] if token_id in added else merger.encode(token)
        except AbsentByteError:
            parts[token_id] = []
    return parts


def token_origins(old: Tokenizer, new: Tokenizer) -> list[list[int]]:
    """Return the old ids that each id of another tokenizer starts from, for `transfer_embeddings`.

    Unlike in `token_parts`, ids may be renumbered and tokens may be missing, as after `prune`.

    Returns:
        For each new id, a list: the old id of the same token; if there is none, the old ids of the
        token's bytes; and an empty list for other special tokens, for tokens with a byte that is
        missing from `old`, and for ids without a token.

    Raises:
        TypeError: If `old` or `new` is not a Tokenizer.
    """
    check_is_tokenizer(old, "old")
    check_is_tokenizer(new, "new")
    merger, known = RankMerger(old.definition), old.definition.token_ids
    origins: list[list[int]] = [[] for _ in range(new.vocab_size)]
    added = {token_id: content for content, token_id in new.definition.added_ids.items()}
    for token_id, token in new.vocab.items():
        if (content := added.get(token_id)) is not None:
            same = old.definition.added_ids.get(content)
            origins[token_id] = [] if same is None else [same]
        elif token in known:
            origins[token_id] = [known[token]]
        else:
            with contextlib.suppress(AbsentByteError):
                origins[token_id] = merger.encode(token)
    return origins
