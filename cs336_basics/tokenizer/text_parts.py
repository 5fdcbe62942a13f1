"""Show what each part of a tokenizer does to a text, with positions in the text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cs336_basics.splitting.splitter import check_is_str
from cs336_basics.text.utf8 import joined_surrogates
from cs336_basics.tokenizer.offsets import starts_of_characters
from cs336_basics.tokenizer.post_processor import PostProcessor
from cs336_basics.tokenizer.stages import Stages
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer


class TextPart(NamedTuple):
    """What one part of a tokenizer does to a text at one place.

    Attributes:
        part: Name of the part:
            "added token": `text[start:stop]` is cut out and becomes one id.
            "normalizer": `text[start:stop]` becomes `result`.
            "split": `result` is a pre-token, which comes from `text[start:stop]`. The merges join
            its bytes to the tokens in `ids`.
            "post-processor": the id is added before or after the text, without a span of its own.
        start, stop: Span of the original text, in characters.
        result: The text after this part.
        ids: Ids, empty for the normalizer.
        num_merges: Number of merges that produce `ids`. It is 0 for a pre-token that
            `ignore_merges` turns into a token as a whole.
    """

    part: str
    start: int
    stop: int
    result: str
    ids: Sequence[int] = ()
    num_merges: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether a pre-token of several bytes is one token without merges."""
        return not self.num_merges and 0 < len(self.ids) < len(self.result.encode())


def parts_of(tokenizer: Tokenizer, text: str) -> list[TextPart]:
    """Return what each part of a tokenizer does to a text, from left to right.

    The ids of all parts together are `tokenizer(text)["input_ids"]`; without the ids of the
    post-processor, they are `tokenizer.encode(text)`. A change of the normalizer comes before the
    pre-token where it starts.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer or `text` is not a str.
        ValueError: See `Tokenizer.encode`.
    """
    check_is_tokenizer(tokenizer)
    check_is_str(text)
    tokenizer.encode(text)  # rejects lone surrogates and absent bytes
    joined = text
    if not text.isascii() and (joined := joined_surrogates(text)) != text:
        starts = starts_of_characters(text)
        return [
            part._replace(start=starts[part.start], stop=starts[part.stop])
            for part in parts_of(tokenizer, joined)
        ]
    definition = tokenizer.definition
    parts: list[TextPart] = []
    for item in (definition.post_processor or PostProcessor()).single:
        if isinstance(item, str):
            parts += _parts_of_text(tokenizer, text)
        else:
            position = len(text) if parts and parts[-1].stop else 0
            shown = definition.vocab[item].decode("utf-8", "replace")
            parts.append(TextPart("post-processor", position, position, shown, [item]))
    return parts


def _parts_of_text(tokenizer: Tokenizer, text: str) -> Iterator[TextPart]:
    encoder = tokenizer.encoder
    definition = encoder.definition
    changes = deque(
        TextPart("normalizer", start, stop, result)
        for start, stop, result in Stages(definition, encoder.all_added).changes(text)
    )
    for word in encoder.located_words(text, encoder.all_added):
        while changes and changes[0].start < word.stop:
            yield changes.popleft()
        if word.token_id is not None:
            yield TextPart("added token", word.start, word.stop, word.text, [word.token_id])
            continue
        data, ids = word.text.encode(), encoder.encode_word(word.text)
        num_merges = 0 if data in definition.whole_words else len(data) - len(ids)
        yield TextPart("split", word.start, word.stop, word.text, ids, num_merges)
