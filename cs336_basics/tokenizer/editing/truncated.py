"""truncated: a vocabulary as it was when it had fewer tokens."""

from __future__ import annotations

from cs336_basics._support.arguments import checked_integer
from cs336_basics._support.errors import InputError
from cs336_basics.tokenizer.definition import TokenizerDefinition


def truncated(definition: TokenizerDefinition, vocab_size: int) -> TokenizerDefinition:
    """Return a definition with the first ids and the merges that make them.

    Each merge of a training run makes the next id, so this is the result of a shorter run.

    Args:
        definition: Definition whose merges make ascending ids.
        vocab_size: Number of ids to keep, 0 to vocab_size - 1.

    Raises:
        TypeError: If `vocab_size` is not an integer.
        ValueError: If `vocab_size` exceeds the size of the vocabulary, or leaves out a single byte
            or an added token; or if the merges do not make ascending ids.
    """
    vocab_size = checked_integer("vocab_size", vocab_size, 1)
    if vocab_size > definition.size:
        raise InputError(
            f"must be at most {definition.size:,}, the size of the vocabulary, got {vocab_size:,}",
            argument="vocab_size",
        )
    kept = {token_id for token_id, token in definition.vocab.items() if len(token) == 1}
    kept |= definition.ids_in_use
    if vocab_size <= max(kept):
        raise InputError(
            f"must be at least {max(kept) + 1:,} to keep all single bytes and added tokens, got "
            f"{vocab_size:,}",
            argument="vocab_size",
        )
    made = definition.merged_ids
    number = next((rank for rank, i in enumerate(made) if i >= vocab_size), len(made))
    if {i for i in made[number:] if i < vocab_size} - set(made[:number]):
        raise InputError(
            "the ids of the tokens are not in the order of the merges",
            remedy="use prune, which removes the rarest tokens",
        )
    return definition.replaced(
        vocab={i: token for i, token in definition.vocab.items() if i < vocab_size},
        merges=definition.merges[:number],
    )
