"""Required words: tokens that a vocabulary must have, built by merges after the learned ones.

If a word is split into the tokens t1, t2, ..., tk, the merge (t1, t2) is appended, the word is
merged again, and this is repeated until the word is a single token. The added merges have the last
ranks, so they change the tokens of no text that does not contain their pairs. `extend` does the
same for a trained tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cs336_basics._support.arguments import utf8_of
from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.messages import short_repr
from cs336_basics.bpe.reference import Pair, merge_by_rank, split_bytes
from cs336_basics.splitting.splitter import Splitter, pretokenize
from cs336_basics.text.normalization import is_normalized, normalized

MAX_WORD_LENGTH = 1024
"""Maximum number of bytes in a word. Finding its merges takes quadratic time."""


def new_merges(word: bytes, ranks: dict[Pair, int]) -> list[Pair]:
    """Return the merges that turn a word into a single token, and add them to `ranks`."""
    added: list[Pair] = []
    tokens = merge_by_rank(split_bytes(word), ranks)
    while len(tokens) > 1:
        pair = tokens[0], tokens[1]
        ranks[pair] = len(ranks)
        added.append(pair)
        # Older merges may join the new token with its neighbors.
        tokens = merge_by_rank(tokens, ranks)
    return added


def required_merges(words: Iterable[bytes], merges: Sequence[Pair]) -> list[Pair]:
    """Return the merges to append to `merges`, so that every word is a single token."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    return [pair for word in words for pair in new_merges(word, ranks)]


def with_required(
    words: Sequence[bytes], before: Sequence[Pair], learned: Sequence[Pair], num_merges: int
) -> list[Pair]:
    """Return learned merges and the merges of required words, at most `num_merges` together.

    If they are too many, the last learned merges are dropped, as many as there are too many. Then,
    more merges may be necessary for the words, so this is repeated until they fit.

    Args:
        words: Required words.
        before: Merges before the learned ones.
        learned: Learned merges.
        num_merges: Maximum number of merges after `before`.

    Raises:
        ValueError: If the merges of the words alone are too many.
    """
    if not words:
        return [*learned]
    number = min(len(learned), num_merges)
    while True:
        added = required_merges(words, [*before, *learned[:number]])
        excess = number + len(added) - num_merges
        if excess <= 0:
            return [*learned[:number], *added]
        if excess > number:
            raise InputError(
                f"needs at least {excess - number:,} more tokens than there is room for",
                argument="require",
                remedy="choose a larger vocabulary or fewer words",
            )
        number -= excess


def checked_words(words: Iterable[str], splitter: Splitter, pattern: str) -> list[bytes]:
    """Check that words can become tokens, and return their bytes.

    Args:
        words: Words, each with its leading space if it has one.
        splitter: What happens to a text before the pattern is applied.
        pattern: Pattern that must not split the words.

    Raises:
        TypeError: If a word is not a str.
        ValueError: If a word is empty, contains a special token, is longer than MAX_WORD_LENGTH
            bytes, is not normalized or is split by the pattern; the message includes the word.
    """
    return [_checked(word, splitter, pattern) for word in words]


def _checked(word: str, splitter: Splitter, pattern: str) -> bytes:
    if not isinstance(word, str):
        raise InputTypeError(
            f"must be str, got {short_repr(word)} ({type(word).__name__})", argument="words"
        )
    if not word:
        raise InputError("must not be empty, got ''", argument="words")
    data = utf8_of("words", word)
    if len(data) > MAX_WORD_LENGTH:
        raise InputError(
            f"must have at most {MAX_WORD_LENGTH:,} bytes, got {len(data):,} in {short_repr(word)}",
            argument="words",
        )
    if not is_normalized(word, splitter.normalizer):
        raise InputError(
            f"must be in the normalization form {splitter.normalizer} of the tokenizer, got "
            f"{word!a}",
            argument="words",
            remedy=f"add {normalized(word, splitter.normalizer)!a}",
        )
    for segment, is_special in splitter.split_special_tokens(word):
        if is_special:
            raise InputError(
                f"must not contain special tokens, but {short_repr(word)} contains "
                f"{short_repr(segment)}",
                argument="words",
                remedy="pass it in special_tokens, or leave it out",
            )
    pretokens = list(pretokenize(word, pattern))
    if pretokens != [word]:
        raise InputError(
            f"must be single pre-tokens, but {short_repr(word)} is split into "
            f"{short_repr(pretokens)} by the pattern {short_repr(splitter.pattern)}, and merges "
            "cannot join pre-tokens",
            argument="words",
            remedy="add the pre-tokens instead",
        )
    return data
