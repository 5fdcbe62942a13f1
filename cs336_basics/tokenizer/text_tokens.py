"""The tokens of a text for display, with their bytes and the starts of pre-tokens."""

from __future__ import annotations

import html
from typing import NamedTuple

from cs336_basics._support.messages import counted
from cs336_basics._support.visible import visible_parts
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer

MOST_SHOWN = 5_000
"""Maximum number of tokens that a notebook shows."""

# The text color and the background are always set together, so that tokens are readable in light
# and dark notebooks. The contrast is at least 4.5:1, as in `style.css` of the playground.
_BACKGROUNDS = ("#cfe3ff", "#ffe3a8", "#c9f2c9", "#ffd3d3", "#e6d8ff")
_INK, _BLANK, _ODD = "#1c1c22", "#55555f", "#8a1620"
_SPECIAL = "background:#4a1a78;color:#ffffff;font-weight:600"
_TEXT = "font-family:monospace;line-height:1.9;overflow-wrap:anywhere;white-space:pre-wrap"


class TextToken(NamedTuple):
    """A token of a text.

    Attributes:
        id: Id of the token.
        data: Bytes of the token.
        is_special: Whether it is a special token.
        starts_word: Whether it is a special token or the first token of a pre-token.
    """

    id: int
    data: bytes
    is_special: bool
    starts_word: bool


class TextTokens(list[TextToken]):
    """The tokens of a text. A notebook shows them on alternating backgrounds."""

    def _repr_html_(self) -> str:
        size = sum(len(token.data) for token in self)
        counts = f"{counted(len(self), 'token')}, {counted(size, 'byte')}"
        if len(self) > MOST_SHOWN:
            counts += f"; the first {MOST_SHOWN:,} are shown"
        shown = "".join(
            _token_html(token, _BACKGROUNDS[index % len(_BACKGROUNDS)])
            for index, token in enumerate(self[:MOST_SHOWN])
        )
        return f'<div style="{_TEXT}">{shown}</div><div>{counts}</div>'


def tokens_of(tokenizer: Tokenizer, text: str) -> TextTokens:
    """Return the tokens of a text, for display in a notebook.

    Whitespace is shown as in `visible`, a bar marks the start of a pre-token, special tokens are
    purple, and pointing at a token shows its id and bytes.

    Raises:
        TypeError: If `tokenizer` is not a Tokenizer or `text` is not a str.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import tokens_of
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> [token.data for token in tokens_of(tokenizer, "the end")]
        [b't', b'he', b' ', b'e', b'nd']
    """
    check_is_tokenizer(tokenizer)
    ids, spans = tokenizer.encode_with_offsets(text)
    encoder = tokenizer.encoder
    starts = {word.start for word in encoder.located_words(text, encoder.all_added)}
    special = tokenizer.definition.ids_of_special
    tokens = TextTokens()
    before = -1
    for token_id, (start, _) in zip(ids, spans, strict=True):
        # Several tokens start at the same character if they are parts of it.
        starts_word = start in starts and start != before
        data = tokenizer.vocab[token_id]
        tokens.append(TextToken(token_id, data, token_id in special, starts_word))
        before = start
    return tokens


def _token_html(token: TextToken, background: str) -> str:
    style = _SPECIAL if token.is_special else f"background:{background};color:{_INK}"
    if token.starts_word:
        style += ";border-left:2px solid"
    colors = {} if token.is_special else {"blank": _BLANK, "byte": _ODD, "code": _ODD}
    parts = []
    for text, kind in visible_parts(token.data):
        part = html.escape(text)
        if kind in colors:
            part = f'<span style="color:{colors[kind]}">{part}</span>'
        parts.append(part.replace("↵", "↵<br>") if kind == "blank" else part)
    title = f"id {token.id}, bytes {token.data.hex(' ')}"
    return f'<span style="{style}" title="{title}">{"".join(parts)}</span>'
