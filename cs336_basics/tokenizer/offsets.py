"""Offsets: the span of characters that each id covers in a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cs336_basics.tokenizer.encoders.absent_bytes import AbsentByteError
from cs336_basics.tokenizer.encoders.encoder import Encoder, LocatedWord
from cs336_basics.tokenizer.encoders.encoding_errors import explained, without_surrogates

Span = tuple[int, int]
"""Start and end of a span in characters: `text[start:end]`."""


def encode_with_offsets(
    encoder: Encoder, text: str, special: frozenset[str]
) -> tuple[list[int], list[Span]]:
    """Return the ids of a text and their spans; see `Tokenizer.encode_with_offsets`."""
    definition = encoder.definition
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = without_surrogates(text)
        ids, spans = encode_with_offsets(encoder, joined, special)
        # A character above U+FFFF may be two in `text`, so look up where each one starts.
        starts = starts_of_characters(text)
        return ids, [(starts[start], starts[end]) for start, end in spans]
    ids = []
    spans = []
    try:
        for word in encoder.located_words(text, special):
            if word.token_id is not None:
                ids.append(word.token_id)
                spans.append((word.start, word.stop))
            else:
                word_ids = encoder.encode_word(word.text)
                ids += word_ids
                lengths = (len(definition.vocab[token_id]) for token_id in word_ids)
                spans += _spans_in(word, lengths)
    except AbsentByteError:
        raise explained(encoder, text, special) from None
    return ids, spans


def starts_of_characters(text: str) -> list[int]:
    """Return where each character starts if surrogate pairs are characters, and the length."""
    starts = [
        i
        for i, character in enumerate(text)
        if not (i and "\udc00" <= character <= "\udfff" and "\ud800" <= text[i - 1] <= "\udbff")
    ]
    return [*starts, len(text)]


def _spans_in(word: LocatedWord, lengths: Iterable[int]) -> Iterator[Span]:
    """Yield the span of each token of a word.

    Args:
        word: Pre-token.
        lengths: Lengths of its tokens in bytes.
    """
    origins = range(word.start, word.stop) if word.origins is None else word.origins
    origin_of_byte = [
        origin
        for origin, character in zip(origins, word.text, strict=True)
        for _ in character.encode()
    ]
    end = 0
    for length in lengths:
        begin, end = end, end + length
        yield origin_of_byte[begin], origin_of_byte[end - 1] + 1
