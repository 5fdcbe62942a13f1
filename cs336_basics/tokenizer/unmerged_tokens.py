"""Tokens that only `ignore_merges`, and not a tokenizer's merges, can produce."""

from __future__ import annotations

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import counted, short_repr
from cs336_basics.tokenizer.encoders.absent_bytes import AbsentByteError
from cs336_basics.tokenizer.tokenizer import Tokenizer


def unmerged_tokens(tokenizer: Tokenizer) -> list[bytes]:
    """Return the tokens that only `ignore_merges` can produce, in the order of their ids.

    Special tokens and tokens that are not valid UTF-8 are left out because they are never
    pre-tokens.
    """
    if not tokenizer.ignore_merges:
        return []
    vocab, merges, special_tokens, pattern, _ = tokenizer.parts()
    merging = Tokenizer(vocab, merges, special_tokens, pattern=pattern, backend=tokenizer.backend)
    special = {token.encode() for token in special_tokens}
    found = []
    for _, token in sorted(vocab.items()):
        if len(token) == 1 or token in special:
            continue
        try:
            is_made = len(merging.encoder.encode_word(token.decode())) == 1
        except UnicodeDecodeError:
            continue
        except AbsentByteError:
            is_made = False
        if not is_made:
            found.append(token)
    return found


def check_merges_suffice(tokenizer: Tokenizer, who: str) -> None:
    """Check that encoding with merges alone gives the same ids as `ignore_merges`.

    Raises:
        ValueError: If the ids differ. The message includes an example and `who`, the program that
            would use the merges.
    """
    tokens = unmerged_tokens(tokenizer)
    if tokens:
        raise InputError(
            f"the tokenizer sets ignore_merges and has {counted(len(tokens), 'token')} that its "
            f"merges cannot produce, such as {short_repr(tokens[0])}; {who} would encode such text "
            "differently"
        )
