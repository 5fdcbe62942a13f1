"""Reject tokenizers with parts that a format cannot express, instead of losing them."""

from __future__ import annotations

from collections.abc import Iterable

from cs336_basics._support.errors import InputError
from cs336_basics._support.messages import short_repr
from cs336_basics._support.warnings import warn
from cs336_basics.splitting.patterns.split_sequences import changes_text
from cs336_basics.splitting.token_finder import TokenFinder
from cs336_basics.tokenizer.definition import TokenizerDefinition

_REMEDY = "export to huggingface, which can"

_MAX_WORK = 10_000_000
"""Maximum number of characters in all starts and ends of added tokens, which are compared."""


def check_only_plain_parts(
    definition: TokenizerDefinition, library: str, *, ordinary_added_tokens: bool = False
) -> None:
    """Check that a library without Hugging Face's parts can give the same ids.

    Args:
        definition: Definition to export.
        library: Name of the library, for messages.
        ordinary_added_tokens: Whether the library has added tokens that are not special.

    Raises:
        ValueError: If the definition has a normalizer, a split pattern that changes text, an added
            token with a flag that the library does not have, or `normalized` and other added tokens
            that may overlap, so that the order of the search matters.
    """
    if definition.normalizer is not None:
        raise InputError(
            f"the tokenizer normalizes text to {definition.normalizer}, and {library} cannot "
            "normalize text",
            remedy=_REMEDY,
        )
    if changes_text(definition.pattern):
        raise InputError(
            f"the tokenizer adds spaces to text or drops parts of it, which {library} cannot do",
            remedy=_REMEDY,
        )
    for token in definition.added_tokens:
        flags = [flag for flag in ("lstrip", "rstrip", "single_word") if getattr(token, flag)]
        if flags:
            raise InputError(
                f"added token {short_repr(token.content)} has {flags[0]}, which {library} does not "
                "have",
                remedy=_REMEDY,
            )
        if not token.special and not ordinary_added_tokens:
            raise InputError(
                f"added token {short_repr(token.content)} is not special, and {library} has no "
                "other added tokens",
                remedy=_REMEDY,
            )
    first = [token.content for token in definition.added_tokens if not token.normalized]
    later = [token.content for token in definition.added_tokens if token.normalized]
    if overlap := _overlap(first, later):
        raise InputError(
            f"added tokens {short_repr(overlap[0])} and {short_repr(overlap[1])} may overlap, and "
            f"only the second is 'normalized', so it is found later; {library} finds both at once",
            remedy=_REMEDY,
        )


def warn_of_post_processor(definition: TokenizerDefinition, library: str) -> None:
    """Warn if a definition adds ids that the export does not contain."""
    post_processor = definition.post_processor
    if post_processor is not None and post_processor.added_ids:
        ids = ", ".join(map(str, sorted(post_processor.added_ids)[:5]))
        warn(
            f"{library} cannot add ids to a text, so the export does not contain the "
            f"post-processor, which adds {ids}; add them yourself"
        )


def _overlap(first: Iterable[str], later: Iterable[str]) -> tuple[str, str] | None:
    """Return two strings, one from each list, whose occurrences can overlap."""
    first, later = list(first), list(later)
    if not first or not later:
        return None
    if sum(len(text) ** 2 for text in (*first, *later)) > _MAX_WORK:
        raise InputError(
            f"{len(first):,} added tokens are not 'normalized' and {len(later):,} are, which is "
            "too many to compare",
            remedy=_REMEDY,
        )
    starts: dict[str, str] = {}
    ends: dict[str, str] = {}
    for text in later:
        for size in range(1, len(text) + 1):
            starts[text[:size]] = ends[text[-size:]] = text
    for text in first:
        for size in range(1, len(text) + 1):
            other = starts.get(text[-size:]) or ends.get(text[:size])
            if other is not None:
                return text, other
    for inner, outer in ((first, later), (later, first)):
        finder = TokenFinder(tuple(inner))
        for text in outer:
            if found := finder.search(text, 0):
                part = text[slice(*found)]
                return (part, text) if inner is first else (text, part)
    return None
