"""Tokens that only `ignore_merges`, and not the merges, can produce."""

from __future__ import annotations

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import counted, short_repr
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.encoders.absent_bytes import AbsentByteError
from cs336_basics.tokenizer.encoders.backends import make_encoder


def unmerged_tokens(definition: TokenizerDefinition) -> list[bytes]:
    """Return the tokens that only `ignore_merges` can produce, in the order of their ids.

    Added tokens and tokens that are not valid UTF-8 are left out because they are never
    pre-tokens.
    """
    if not definition.ignore_merges:
        return []
    encoder = make_encoder(definition.replaced(ignore_merges=False), cache_size=0)
    added = definition.ids_of_added
    found = []
    for token_id, token in sorted(definition.vocab.items()):
        if len(token) == 1 or token_id in added:
            continue
        try:
            is_made = len(encoder.encode_word(token.decode())) == 1
        except UnicodeDecodeError:
            continue
        except AbsentByteError:
            is_made = False
        if not is_made:
            found.append(token)
    return found


def check_merges_suffice(definition: TokenizerDefinition, who: str) -> None:
    """Check that encoding with merges alone gives the same ids as `ignore_merges`.

    Raises:
        ValueError: If the ids differ. The message includes an example and `who`, the program that
            would use the merges.
    """
    tokens = unmerged_tokens(definition)
    if tokens:
        raise InputError(
            f"the tokenizer sets ignore_merges and has {counted(len(tokens), 'token')} that its "
            f"merges cannot produce, such as {short_repr(tokens[0])}; {who} would encode such text "
            "differently"
        )
